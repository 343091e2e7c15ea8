"""What a trial consists of: which burst comes next. Pure.

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
from dataclasses import replace

from nws_sweep.conditions import Conditions
from nws_sweep.records import Burst, BurstKind, BurstRequest

# A first start that takes longer is taken as it is: doing it again would cost more than it tells.
_QUICK_START_S = 2.0
# Shares of an epoch from which on the first start is taken once more: before any window, since nobody could be compared
# without that, or when the candidate has its second turn. What remains of the error is a part of such a share.
_MATTERS_AT_ONCE, _MATTERS = 0.1, 0.03


def next_request(bursts: Sequence[Burst], conditions: Conditions, *, rested: bool = False) -> BurstRequest:
    """The burst to take next, given those taken.

    Args:
        bursts: All bursts of the trial so far, in order.
        conditions: What is measured.
        rested: Whether the loader was paused after the last of them.
    """
    if whole_epochs(bursts, conditions):
        return BurstRequest(kind=BurstKind.EPOCH)
    return _warm_up(bursts, conditions, rested) or _window(bursts, conditions)


def last_request(bursts: Sequence[Burst], conditions: Conditions, *, rested: bool = False) -> BurstRequest:
    """As ``next_request``; of whole epochs only the first batch of another one."""
    if whole_epochs(bursts, conditions):
        return BurstRequest(kind=BurstKind.STEADY, fresh=True)
    return next_request(bursts, conditions, rested=rested)


def _warm_up(bursts: Sequence[Burst], conditions: Conditions, rested: bool) -> BurstRequest | None:
    """What is thrown away before the next window; None for nothing more."""
    if _is_over(bursts, conditions, rested):
        return _fresh_warm_up(bursts, conditions)
    if (missing := conditions.warm_up - _taken_in_epoch(bursts)) > 0:
        return BurstRequest(kind=BurstKind.WARM_UP, min_batches=missing, multiple_of=conditions.clump)
    if (missing_s := _missing_warm_up_s(bursts, conditions)) > 0:
        return replace(_window(bursts, conditions), kind=BurstKind.WARM_UP, min_seconds=missing_s)
    if _starts_again(bursts, conditions, rested):
        return _fresh_warm_up(bursts, conditions)
    return _resumed_warm_up(bursts, conditions) if rested and conditions.queue else None


def _is_over(bursts: Sequence[Burst], conditions: Conditions, rested: bool) -> bool:
    """Whether a fresh epoch is needed."""
    if not bursts or bursts[-1].ended_epoch:
        return True
    return _needs_new_epoch(bursts, conditions, rested)


def _fresh_warm_up(bursts: Sequence[Burst], conditions: Conditions) -> BurstRequest:
    """A new epoch; of the very first no more than its start is asked for at once, to see what a start alone takes."""
    only_start = not bursts and not conditions.settings.persistent_workers
    least = 1 if only_start else conditions.warm_up
    return BurstRequest(kind=BurstKind.WARM_UP, min_batches=least, multiple_of=conditions.clump, fresh=True)


def _starts_again(bursts: Sequence[Burst], conditions: Conditions, rested: bool) -> bool:
    """Whether the loader, started once so far, is to be started once more for a start that counts.

    A process does many things for the first time then, which later epochs are spared. Workers that persist are started
    only once; and where epochs have no length a start does not count.
    """
    begun = [burst for burst in bursts if burst.startup_s is not None]
    if len(begun) > 1 or conditions.settings.persistent_workers or conditions.batches_per_epoch is None:
        return False
    first = begun[0]
    if first.elapsed_s >= _QUICK_START_S:
        return False
    later = steady_bursts(bursts) or [burst for burst in bursts if burst is not first and burst.batches]
    if not later:
        return True
    pace_s = sum(burst.elapsed_s for burst in later) / sum(burst.batches for burst in later)
    matters = _MATTERS if rested else _MATTERS_AT_ONCE
    return (first.startup_s or 0.0) > matters * pace_s * conditions.batches_per_epoch


def _missing_warm_up_s(bursts: Sequence[Burst], conditions: Conditions) -> float:
    """What the first warm-up lacks to a window's length, as far as its epoch has room for that."""
    room = _room(bursts, conditions)
    if steady_bursts(bursts) or (room is not None and room < 2 * conditions.clump):
        return 0.0
    return conditions.rules.window_s - sum(burst.elapsed_s for burst in bursts)


def _resumed_warm_up(bursts: Sequence[Burst], conditions: Conditions) -> BurstRequest:
    return BurstRequest(
        kind=BurstKind.WARM_UP,
        min_batches=_resume_batches(bursts, conditions),
        multiple_of=conditions.clump,
        cover_buffer=True,
    )


def _window(bursts: Sequence[Burst], conditions: Conditions) -> BurstRequest:
    room = _room(bursts, conditions)
    return BurstRequest(
        kind=BurstKind.STEADY,
        min_batches=conditions.clump,
        min_seconds=conditions.rules.window_s,
        multiple_of=conditions.clump,
        max_batches=None if room is None else max(1, room // conditions.clump) * conditions.clump,
    )


def _resume_batches(bursts: Iterable[Burst], conditions: Conditions) -> int:
    """What is thrown away after a pause, beside all that is known to lie ready.

    The request that each worker waited for was answered during the pause, so its first sample came for nothing: one
    clump. Where the workers' samples are not counted the whole queue may have been full.
    """
    return conditions.clump if counted(bursts) else conditions.queue


def counted(bursts: Iterable[Burst]) -> bool:
    """Whether the samples that the workers make are counted."""
    return all(burst.produced is not None for burst in bursts)


def whole_epochs(bursts: Sequence[Burst], conditions: Conditions) -> bool:
    """Whether whole epochs are the unit: asked for, or an epoch has no room for warm-up, a window and the end."""
    if conditions.rules.mode == "epoch":
        return True
    if conditions.last_position is not None:
        window = max(2 * conditions.clump, conditions.queue)
        if conditions.last_position < conditions.warm_up + window:
            return True
    return any(burst.ended_epoch for burst in bursts) and not steady_bursts(bursts)


def _needs_new_epoch(bursts: Sequence[Burst], conditions: Conditions, rested: bool) -> bool:
    """Whether what is left of the epoch is shorter than the window that a new epoch has room for."""
    room, latest = _room(bursts, conditions), bursts[-1]
    if room is None or conditions.last_position is None:
        return False
    long_as_a_window = latest.startup_s is None and not steady_bursts(bursts)
    if latest.kind is BurstKind.WARM_UP and not long_as_a_window:
        return False
    wanted = max(conditions.clump, latest.batches)
    wanted = min(wanted, (conditions.last_position - conditions.warm_up) // conditions.clump * conditions.clump)
    discarded = _resume_batches(bursts, conditions) if rested else 0
    return room - discarded < wanted


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
