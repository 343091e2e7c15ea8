"""The conditions of a trial, and which window it takes next. Pure.

In mode ``steady`` a trial discards a warm-up of the whole queue (prefetch_factor x
num_workers batches), then takes windows of whole multiples of the workers: n workers
deliver in multiples of n batches. The first warm-up is at least as long as a window,
because a process is slower at first. After a pause, the batches that were ready or
partly made are discarded, and at least one of each worker. Windows end before the last
batches of an epoch, for which the workers have no further work. If an epoch is too
short for that, and in mode ``epoch``, whole epochs are measured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nws_sweep.records import (
    LoaderSettings,
    MeasureRules,
    Window,
    WindowKind,
    WindowRequest,
)

_SHORT_EPOCH_S = 0.5  # an epoch before it costs less than what it shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What determines the next window and what the windows mean.

    Attributes:
        settings: Of the DataLoader; canonical.
        rules: Of measuring.
        batches_per_epoch: The length of an epoch; None if unknown.
        seen_batches: Batches of an epoch of a stream without a length, once an epoch
            has ended.
        cores: CPUs that the processes of the trial may use together.
    """

    settings: LoaderSettings
    rules: MeasureRules
    batches_per_epoch: int | None
    seen_batches: int | None = None
    cores: float = 1.0

    @property
    def batch_length(self) -> int:
        """Samples of a batch; 1 where the DataLoader does not set the batch size."""
        return self.settings.batch_size or 1

    @property
    def length(self) -> int | None:
        """Batches by which an epoch is computed; None if unknown."""
        return (
            self.seen_batches
            if self.batches_per_epoch is None
            else self.batches_per_epoch
        )

    @property
    def worker_multiple(self) -> int:
        """Batches that arrive together: one of each worker, at least 1."""
        return max(1, self.settings.num_workers)

    @property
    def warm_up(self) -> int:
        """Batches discarded at the start of an epoch: as many as the queue holds, at
        least 1."""
        return max(1, self.settings.queued_batches)

    @property
    def last_position(self) -> int | None:
        """Batches of an epoch after which the workers have no further work; None if
        unknown."""
        return (
            None
            if self.batches_per_epoch is None
            else self.batches_per_epoch - self.settings.queued_batches
        )


def next_request(
    windows: Sequence[Window], conditions: Conditions, *, was_paused: bool = False
) -> WindowRequest:
    """Asks for the window after those taken; ``was_paused`` if the loader was paused
    after the last of them."""
    if whole_epochs(windows, conditions):
        return WindowRequest(kind=WindowKind.EPOCH)
    warm_up = WindowRequest(
        kind=WindowKind.WARM_UP,
        min_batches=conditions.warm_up,
        multiple_of=conditions.worker_multiple,
    )
    if (
        not windows
        or windows[-1].ended_epoch
        or _needs_new_epoch(windows, conditions, was_paused)
    ):
        return replace(warm_up, fresh=True)
    missing = conditions.warm_up - taken_in_epoch(windows)
    if missing > 0:
        return replace(warm_up, min_batches=missing)
    steady = _steady(windows, conditions)
    missing_s = _missing_warm_up_s(windows, conditions)
    if missing_s > 0:
        return replace(steady, kind=WindowKind.WARM_UP, min_seconds=missing_s)
    if was_paused and conditions.settings.queued_batches:
        return replace(
            warm_up,
            min_batches=_discarded_after_pause(windows, conditions),
            cover_buffer=True,
        )
    return steady


def _steady(windows: Sequence[Window], conditions: Conditions) -> WindowRequest:
    """Asks for a window that counts, which ends before the last batches of the
    epoch."""
    multiple, left = conditions.worker_multiple, _batches_left(windows, conditions)
    return WindowRequest(
        kind=WindowKind.STEADY,
        min_batches=multiple,
        min_seconds=conditions.rules.window_s,
        multiple_of=multiple,
        max_batches=None if left is None else max(1, left // multiple) * multiple,
    )


def _needs_new_epoch(
    windows: Sequence[Window], conditions: Conditions, was_paused: bool
) -> bool:
    """Whether the rest of the epoch is shorter than the window that a new epoch has
    room for."""
    left, latest = _batches_left(windows, conditions), windows[-1]
    if left is None or conditions.last_position is None:
        return False
    # as long as a window
    is_long_warm_up = latest.startup_s is None and not steady_windows(windows)
    if latest.kind is WindowKind.WARM_UP and not is_long_warm_up:
        return False
    multiple = conditions.worker_multiple
    room_in_epoch = (
        (conditions.last_position - conditions.warm_up) // multiple * multiple
    )
    wanted = min(max(multiple, latest.batches), room_in_epoch)
    discarded = _discarded_after_pause(windows, conditions) if was_paused else 0
    return left - discarded < wanted


def _missing_warm_up_s(windows: Sequence[Window], conditions: Conditions) -> float:
    """Computes the seconds that the first warm-up lacks of a window; 0 or less if
    nothing, or few batches are left.

    Warm-up begins with the first batch: workers that have just started are slower, the
    longer the more of them there are.
    """
    left = _batches_left(windows, conditions)
    if steady_windows(windows) or (
        left is not None and left < 2 * conditions.worker_multiple
    ):
        return 0.0
    missing_s = conditions.rules.window_s - seconds_in(windows)
    starts_s = [window.startup_s for window in windows if window.startup_s is not None]
    if len(starts_s) == 1:  # a short epoch may end before its warm-up is long enough
        missing_s += starts_s[0]
    return missing_s


def _discarded_after_pause(windows: Iterable[Window], conditions: Conditions) -> int:
    """Counts the batches to discard: one of each worker; the whole queue if the samples
    are not counted."""
    return (
        conditions.worker_multiple
        if counted(windows)
        else conditions.settings.queued_batches
    )


def counted(windows: Iterable[Window]) -> bool:
    """Whether the samples that the workers make are counted."""
    return all(window.produced is not None for window in windows)


def produced(windows: Sequence[Window], conditions: Conditions) -> float | None:
    """Counts the batches that workers made during windows, fractions included; None if
    samples are not counted."""
    if not conditions.settings.num_workers or not counted(windows):
        return None
    return sum(window.produced or 0 for window in windows) / conditions.batch_length


def whole_epochs(windows: Sequence[Window], conditions: Conditions) -> bool:
    """Whether whole epochs are measured: by ``mode``, or because an epoch takes little
    time or few batches.

    An epoch has few batches if it has fewer than warm-up, window and end need.
    """
    if conditions.rules.mode == "epoch" or is_short_epoch(windows, conditions):
        return True
    fewest = conditions.warm_up + max(
        2 * conditions.worker_multiple, conditions.settings.queued_batches
    )
    if conditions.last_position is not None and conditions.last_position < fewest:
        return True
    return any(window.ended_epoch for window in windows) and not steady_windows(windows)


def is_short_epoch(windows: Sequence[Window], conditions: Conditions) -> bool:
    """Whether an epoch at the pace of these windows takes at most ``_SHORT_EPOCH_S``;
    not with persistent workers."""
    if conditions.rules.mode == "epoch" or conditions.settings.persistent_workers:
        return False
    taken, batches = batches_in(windows), conditions.batches_per_epoch
    if not taken or batches is None:
        return False
    return seconds_in(windows) * batches <= _SHORT_EPOCH_S * taken


def _batches_left(windows: Sequence[Window], conditions: Conditions) -> int | None:
    """Counts the batches before the workers have no further work in this epoch; None if
    unknown."""
    return (
        None
        if conditions.last_position is None
        else conditions.last_position - taken_in_epoch(windows)
    )


def taken_in_epoch(windows: Sequence[Window]) -> int:
    """Counts the batches of the latest epoch."""
    taken = 0
    for window in reversed(windows):
        taken += window.batches
        if window.startup_s is not None:
            break
    return taken


def batches_in(windows: Iterable[Window]) -> int:
    """Counts the batches of windows."""
    return sum(window.batches for window in windows)


def seconds_in(windows: Iterable[Window]) -> float:
    """Adds up the durations of windows."""
    return sum(window.elapsed_s for window in windows)


def steady_windows(windows: Iterable[Window]) -> list[Window]:
    """Selects the windows that count within epochs; not windows that the end of an
    epoch cut short.

    Their last batches come out of the queue.
    """
    steady = [window for window in windows if window.kind is WindowKind.STEADY]
    return [window for window in steady if window.batches and not window.ended_epoch]


def epoch_windows(windows: Iterable[Window]) -> list[Window]:
    """Selects the windows that are whole epochs."""
    return [window for window in windows if window.kind is WindowKind.EPOCH]


def epoch_batches(windows: Sequence[Window]) -> int | None:
    """Counts the batches of the latest epoch that has ended; None if no epoch has."""
    last = max(
        (place for place, window in enumerate(windows) if window.ended_epoch),
        default=None,
    )
    return None if last is None else taken_in_epoch(windows[: last + 1])
