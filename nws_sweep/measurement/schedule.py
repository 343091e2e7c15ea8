"""What a trial is measured under, and what it consists of: which burst comes next. Pure.

In mode ``steady`` a trial throws away a warm-up that covers the whole queue (prefetch_factor x num_workers batches) and
then takes windows of whole clumps: n workers deliver in clumps of n, so only means over multiples of n batches mean
anything. The first warm-up is no shorter than a window: processes are slower at first. A candidate is paused between
its turns; what lay ready meanwhile, and one clump, are thrown away again when it goes on. Windows keep away from the
end of an epoch, where the workers have nothing left to make. An epoch too short for that is measured whole, again and
again, as mode ``epoch`` always does. The first start in a process is slower than others; where that matters to the
epoch it is taken once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nws_sweep.results import Burst, BurstKind, BurstRequest, LoaderSettings, MeasureRules

# A first start that takes longer is taken as it is: doing it again would cost more than it tells.
_QUICK_START_S = 2.0
# Shares of an epoch from which on the first start is taken once more: before any window, since nobody could be compared
# without that, or when the candidate has its second turn. What remains of the error is a part of such a share.
_MATTERS_AT_ONCE, _MATTERS = 0.1, 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a trial is measured under: all that decides which burst is next and what the bursts mean.

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
    def clump(self) -> int:
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


def next_request(bursts: Sequence[Burst], conditions: Conditions, *, rested: bool = False) -> BurstRequest:
    """The burst to take next, given all those taken; the loader may have ``rested`` after the last of them."""
    if whole_epochs(bursts, conditions):
        return BurstRequest(kind=BurstKind.EPOCH)
    # Of the very first epoch no more than its start is asked for at once, to see what a start alone takes.
    only_start = not bursts and not conditions.settings.persistent_workers
    warm_up = BurstRequest(
        kind=BurstKind.WARM_UP, min_batches=1 if only_start else conditions.warm_up, multiple_of=conditions.clump
    )
    if not bursts or bursts[-1].ended_epoch or _needs_new_epoch(bursts, conditions, rested):
        return replace(warm_up, fresh=True)
    if (missing := conditions.warm_up - _taken_in_epoch(bursts)) > 0:
        return replace(warm_up, min_batches=missing)
    window = _window(bursts, conditions)
    if (missing_s := _missing_warm_up_s(bursts, conditions)) > 0:
        return replace(window, kind=BurstKind.WARM_UP, min_seconds=missing_s)
    if _starts_again(bursts, conditions, rested):
        return replace(warm_up, fresh=True)
    resumed = replace(warm_up, min_batches=_resume_batches(bursts, conditions), cover_buffer=True)
    return resumed if rested and conditions.queue else window


def _window(bursts: Sequence[Burst], conditions: Conditions) -> BurstRequest:
    clump, room = conditions.clump, _room(bursts, conditions)
    return BurstRequest(
        kind=BurstKind.STEADY,
        min_batches=clump,
        min_seconds=conditions.rules.window_s,
        multiple_of=clump,
        max_batches=None if room is None else max(1, room // clump) * clump,
    )


def _needs_new_epoch(bursts: Sequence[Burst], conditions: Conditions, rested: bool) -> bool:
    """Whether what is left of the epoch is shorter than the window that a new epoch has room for."""
    room, latest, clump = _room(bursts, conditions), bursts[-1], conditions.clump
    if room is None or conditions.last_position is None:
        return False
    long_as_a_window = latest.startup_s is None and not steady_bursts(bursts)
    if latest.kind is BurstKind.WARM_UP and not long_as_a_window:
        return False
    wanted = min(max(clump, latest.batches), (conditions.last_position - conditions.warm_up) // clump * clump)
    discarded = _resume_batches(bursts, conditions) if rested else 0
    return room - discarded < wanted


def _missing_warm_up_s(bursts: Sequence[Burst], conditions: Conditions) -> float:
    """What the first warm-up lacks to a window's length, as far as its epoch has room for that."""
    room = _room(bursts, conditions)
    if steady_bursts(bursts) or (room is not None and room < 2 * conditions.clump):
        return 0.0
    return conditions.rules.window_s - sum(burst.elapsed_s for burst in bursts)


def _starts_again(bursts: Sequence[Burst], conditions: Conditions, rested: bool) -> bool:
    """Whether the loader is to be started once more: a process does many things for the first time at its first."""
    first, *more = (burst for burst in bursts if burst.startup_s is not None)
    if more or conditions.settings.persistent_workers or conditions.batches_per_epoch is None:
        return False
    if first.elapsed_s >= _QUICK_START_S:
        return False
    later = steady_bursts(bursts) or [burst for burst in bursts if burst is not first and burst.batches]
    if not later:
        return True
    pace_s = sum(burst.elapsed_s for burst in later) / sum(burst.batches for burst in later)
    matters = _MATTERS if rested else _MATTERS_AT_ONCE
    return (first.startup_s or 0.0) > matters * pace_s * conditions.batches_per_epoch


def _resume_batches(bursts: Iterable[Burst], conditions: Conditions) -> int:
    """What is thrown away after a pause: a clump whose requests were answered meanwhile, uncounted the whole queue."""
    return conditions.clump if counted(bursts) else conditions.queue


def counted(bursts: Iterable[Burst]) -> bool:
    """Whether the samples that the workers make are counted."""
    return all(burst.produced is not None for burst in bursts)


def whole_epochs(bursts: Sequence[Burst], conditions: Conditions) -> bool:
    """Whether whole epochs are the unit: asked for, or an epoch has no room for warm-up, a window and the end."""
    if conditions.rules.mode == "epoch":
        return True
    window = max(2 * conditions.clump, conditions.queue)
    if conditions.last_position is not None and conditions.last_position < conditions.warm_up + window:
        return True
    return any(burst.ended_epoch for burst in bursts) and not steady_bursts(bursts)


def _room(bursts: Sequence[Burst], conditions: Conditions) -> int | None:
    """Batches that are left before the workers run out of work in this epoch; None if unknown."""
    return None if conditions.last_position is None else conditions.last_position - _taken_in_epoch(bursts)


def _taken_in_epoch(bursts: Sequence[Burst]) -> int:
    taken = 0
    for burst in reversed(bursts):
        taken += burst.batches
        if burst.startup_s is not None:
            break
    return taken


def steady_bursts(bursts: Iterable[Burst]) -> list[Burst]:
    """The windows that count: those not cut short by the end of an epoch, whose last batches come out of the queue."""
    return [burst for burst in bursts if burst.kind is BurstKind.STEADY and not burst.ended_epoch and burst.batches]


def epoch_bursts(bursts: Iterable[Burst]) -> list[Burst]:
    """The epochs that were taken whole."""
    return [burst for burst in bursts if burst.kind is BurstKind.EPOCH]


def beginnings(bursts: Iterable[Burst], conditions: Conditions) -> list[Burst]:
    """The bursts that began epochs; without the very first where there are others, and workers do not persist."""
    begun = [burst for burst in bursts if burst.startup_s is not None and burst.kind is not BurstKind.LOADING]
    if conditions.rules.mode == "epoch" or conditions.settings.persistent_workers:
        return begun
    return begun[1:] or begun


def ended_epoch_batches(bursts: Sequence[Burst]) -> int | None:
    """Batches of the latest epoch that was seen to its end; None if none was."""
    ended = [index for index, burst in enumerate(bursts) if burst.ended_epoch]
    return _taken_in_epoch(bursts[: ended[-1] + 1]) if ended else None
