"""What a trial is measured under, and what it consists of: which window comes next. Pure.

In mode ``steady`` a trial throws away a warm-up that covers the whole queue (prefetch_factor x num_workers batches) and
then takes windows of whole multiples of the workers: n workers deliver in multiples of n, so only means over multiples of n batches mean
anything. The first warm-up is no shorter than a window: processes are slower at first. A candidate is paused between
its turns; what lay ready meanwhile, and one batch of each worker, are thrown away again when it goes on. Windows keep away from the
end of an epoch, where the workers have nothing left to make. An epoch too short for that is measured whole, again and
again, as mode ``epoch`` always does. The first start in a process is slower than others; where that matters to the
epoch it is taken once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nws_sweep.results import LoaderSettings, MeasureRules, Window, WindowKind, WindowRequest

# A first start that takes longer is taken as it is: doing it again would cost more than it tells.
_QUICK_START_S = 2.0
# Shares of an epoch from which on the first start is taken once more: before any window, since no process could be compared
# without that, or when the candidate has its second turn. What remains of the error is a part of such a share.
_MATTERS_AT_ONCE, _MATTERS = 0.1, 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a trial is measured under: all that decides which window is next and what the windows mean.

    Attributes:
        settings: What the DataLoader was given.
        rules: How long to measure.
        batches_per_epoch: Length of an epoch; None if unknown.
        cores: CPUs that the processes of the trial may use together.
        ranks: Loaders that go in lockstep; a batch is one of each then.
    """

    settings: LoaderSettings
    rules: MeasureRules
    batches_per_epoch: int | None
    cores: float = 1.0
    ranks: int = 1

    @property
    def batch_length(self) -> int:
        """Samples of a batch; a batch counts as one where its length is not the DataLoader's to decide."""
        return (self.settings.batch_size or 1) * self.ranks

    @property
    def worker_multiple(self) -> int:
        """Batches that arrive together: one of each worker."""
        return max(1, self.settings.num_workers)

    @property
    def queue(self) -> int:
        """Batches that may lie ready or be in the making."""
        return self.settings.queued_batches

    @property
    def warm_up(self) -> int:
        """Batches that a fresh epoch throws away: all that the queue holds, at least one."""
        return max(1, self.queue)

    @property
    def last_position(self) -> int | None:
        """Batches of an epoch after which the workers have nothing left to make; None if unknown."""
        return None if self.batches_per_epoch is None else self.batches_per_epoch - self.queue


def next_request(windows: Sequence[Window], conditions: Conditions, *, was_paused: bool = False) -> WindowRequest:
    """The window to take next, given all those taken; the loader may have ``was_paused`` after the last of them."""
    if whole_epochs(windows, conditions):
        return WindowRequest(kind=WindowKind.EPOCH)
    # Of the very first epoch no more than its start is asked for at once, to see what a start alone takes.
    only_start = not windows and not conditions.settings.persistent_workers
    warm_up = WindowRequest(
        kind=WindowKind.WARM_UP,
        min_batches=1 if only_start else conditions.warm_up,
        multiple_of=conditions.worker_multiple,
    )
    if not windows or windows[-1].ended_epoch or _needs_new_epoch(windows, conditions, was_paused):
        return replace(warm_up, fresh=True)
    if (missing := conditions.warm_up - _taken_in_epoch(windows)) > 0:
        return replace(warm_up, min_batches=missing)
    steady = _window(windows, conditions)
    if (missing_s := _missing_warm_up_s(windows, conditions)) > 0:
        return replace(steady, kind=WindowKind.WARM_UP, min_seconds=missing_s)
    if _starts_again(windows, conditions, was_paused):
        return replace(warm_up, fresh=True)
    resumed = replace(warm_up, min_batches=_resume_batches(windows, conditions), cover_buffer=True)
    return resumed if was_paused and conditions.queue else steady


def _window(windows: Sequence[Window], conditions: Conditions) -> WindowRequest:
    worker_multiple, left = conditions.worker_multiple, _batches_left(windows, conditions)
    return WindowRequest(
        kind=WindowKind.STEADY,
        min_batches=worker_multiple,
        min_seconds=conditions.rules.window_s,
        multiple_of=worker_multiple,
        max_batches=None if left is None else max(1, left // worker_multiple) * worker_multiple,
    )


def _needs_new_epoch(windows: Sequence[Window], conditions: Conditions, was_paused: bool) -> bool:
    """Whether what is left of the epoch is shorter than the window that a new epoch has left for."""
    left, latest, worker_multiple = _batches_left(windows, conditions), windows[-1], conditions.worker_multiple
    if left is None or conditions.last_position is None:
        return False
    long_as_a_window = latest.startup_s is None and not steady_windows(windows)
    if latest.kind is WindowKind.WARM_UP and not long_as_a_window:
        return False
    wanted = min(
        max(worker_multiple, latest.batches),
        (conditions.last_position - conditions.warm_up) // worker_multiple * worker_multiple,
    )
    discarded = _resume_batches(windows, conditions) if was_paused else 0
    return left - discarded < wanted


def _missing_warm_up_s(windows: Sequence[Window], conditions: Conditions) -> float:
    """What the first warm-up lacks to a window's length, as far as its epoch has left for that."""
    left = _batches_left(windows, conditions)
    if steady_windows(windows) or (left is not None and left < 2 * conditions.worker_multiple):
        return 0.0
    return conditions.rules.window_s - sum(window.elapsed_s for window in windows)


def _starts_again(windows: Sequence[Window], conditions: Conditions, was_paused: bool) -> bool:
    """Whether the loader is to be started once more: a process does many things for the first time at its first."""
    first, *more = (window for window in windows if window.startup_s is not None)
    if more or conditions.settings.persistent_workers or conditions.batches_per_epoch is None:
        return False
    if first.elapsed_s >= _QUICK_START_S:
        return False
    later = steady_windows(windows) or [window for window in windows if window is not first and window.batches]
    if not later:
        return True
    pace_s = sum(window.elapsed_s for window in later) / sum(window.batches for window in later)
    matters = _MATTERS if was_paused else _MATTERS_AT_ONCE
    return (first.startup_s or 0.0) > matters * pace_s * conditions.batches_per_epoch


def _resume_batches(windows: Iterable[Window], conditions: Conditions) -> int:
    """What is thrown away after a pause: one batch of each worker whose requests were answered meanwhile, uncounted the whole queue."""
    return conditions.worker_multiple if counted(windows) else conditions.queue


def counted(windows: Iterable[Window]) -> bool:
    """Whether the samples that the workers make are counted."""
    return all(window.produced is not None for window in windows)


def whole_epochs(windows: Sequence[Window], conditions: Conditions) -> bool:
    """Whether whole epochs are the unit: asked for, or an epoch has no left for warm-up, a window and the end."""
    if conditions.rules.mode == "epoch":
        return True
    least = max(2 * conditions.worker_multiple, conditions.queue)
    if conditions.last_position is not None and conditions.last_position < conditions.warm_up + least:
        return True
    return any(window.ended_epoch for window in windows) and not steady_windows(windows)


def _batches_left(windows: Sequence[Window], conditions: Conditions) -> int | None:
    """Batches that are left before the workers run out of work in this epoch; None if unknown."""
    return None if conditions.last_position is None else conditions.last_position - _taken_in_epoch(windows)


def _taken_in_epoch(windows: Sequence[Window]) -> int:
    taken = 0
    for window in reversed(windows):
        taken += window.batches
        if window.startup_s is not None:
            break
    return taken


def steady_windows(windows: Iterable[Window]) -> list[Window]:
    """The windows that count: those not cut short by the end of an epoch, whose last batches come out of the queue."""
    return [
        window for window in windows if window.kind is WindowKind.STEADY and not window.ended_epoch and window.batches
    ]


def epoch_windows(windows: Iterable[Window]) -> list[Window]:
    """The epochs that were taken whole."""
    return [window for window in windows if window.kind is WindowKind.EPOCH]


def epoch_starts(windows: Iterable[Window], conditions: Conditions) -> list[Window]:
    """The windows that began epochs; without the very first where there are others, and workers do not persist."""
    begun = [window for window in windows if window.startup_s is not None and window.kind is not WindowKind.LOADING]
    if conditions.rules.mode == "epoch" or conditions.settings.persistent_workers:
        return begun
    return begun[1:] or begun


def ended_epoch_batches(windows: Sequence[Window]) -> int | None:
    """Batches of the latest epoch that was seen to its end; None if none was."""
    ended = [index for index, window in enumerate(windows) if window.ended_epoch]
    return _taken_in_epoch(windows[: ended[-1] + 1]) if ended else None
