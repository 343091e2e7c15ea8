"""What a trial consists of: which burst comes next. Pure.

In mode ``steady`` a trial throws away a warm-up that covers the whole queue (prefetch_factor x num_workers batches) and
then takes windows of whole clumps: n workers deliver in clumps of n, so only means over multiples of n batches mean
anything. A candidate is paused between its turns; what lay ready meanwhile, and one clump, are thrown away again when
it goes on. Windows keep away from the end of an epoch, where the workers have nothing left to make. An epoch too short
for that is measured whole, again and again, as mode ``epoch`` always does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nws_sweep.conditions import Conditions
from nws_sweep.records import Burst, BurstKind, BurstRequest


def next_request(bursts: Sequence[Burst], conditions: Conditions, *, rested: bool = False) -> BurstRequest:
    """The burst to take next, given those taken.

    Args:
        bursts: All bursts of the trial so far, in order.
        conditions: What is measured.
        rested: Whether the loader was paused after the last of them.
    """
    if whole_epochs(bursts, conditions):
        return BurstRequest(kind=BurstKind.EPOCH)
    if not bursts or bursts[-1].ended_epoch or _needs_new_epoch(bursts, conditions, rested):
        return BurstRequest(
            kind=BurstKind.WARM_UP, min_batches=conditions.warm_up, multiple_of=conditions.clump, fresh=True
        )
    if rested and conditions.queue:
        return BurstRequest(
            kind=BurstKind.WARM_UP,
            min_batches=_resume_batches(bursts, conditions),
            multiple_of=conditions.clump,
            cover_buffer=True,
        )
    return _window(bursts, conditions)


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
    room = _room(bursts, conditions)
    if room is None or conditions.last_position is None or bursts[-1].kind is BurstKind.WARM_UP:
        return False
    windows = [burst.batches for burst in bursts if burst.kind is BurstKind.STEADY]
    wanted = max(conditions.clump, windows[-1] if windows else 0)
    wanted = min(wanted, (conditions.last_position - conditions.warm_up) // conditions.clump * conditions.clump)
    discarded = _resume_batches(bursts, conditions) if rested else 0
    return room - discarded < wanted


def _room(bursts: Sequence[Burst], conditions: Conditions) -> int | None:
    """Batches that are left before the workers run out of work in this epoch; None if unknown."""
    if conditions.last_position is None:
        return None
    taken = 0
    for burst in reversed(bursts):
        taken += burst.batches
        if burst.startup_s is not None:
            break
    return conditions.last_position - taken


def steady_bursts(bursts: Iterable[Burst]) -> list[Burst]:
    """The windows that count: those not cut short by the end of an epoch, whose last batches come out of the queue."""
    return [burst for burst in bursts if burst.kind is BurstKind.STEADY and not burst.ended_epoch and burst.batches]
