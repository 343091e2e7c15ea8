"""Windows of a loop that a program runs by itself, from the times of its requests and batches. Pure.

The windows are cut out of the recorded times. Of each epoch the first batches, as many as the queue holds, are
discarded; windows of whole multiples of the workers follow; the last batches, for which the workers have no further
work, are discarded. If the program pauses to iterate over another loader, such as a validation pass, the queue fills
during the pause: the pause is excluded from the training's time, and as many batches are discarded after it. Epochs too
short for that are taken whole if they ended.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from nws_sweep.measurement.schedule import Conditions, part_of, whole_epochs
from nws_sweep.results import DatasetFacts, LoaderSettings, MeasureRules, Window, WindowKind

# Pauses between a larger share of the batches are a part of the training step.
_RARELY = 0.1
# A loader used for a smaller share of the longest loader's time is a validation loader.
_LEAST_SHARE = 1 / 3


@dataclass(slots=True, kw_only=True)
class Epoch:
    """One iteration over a loader, complete or not. All moments are of one clock, s."""

    began_s: float  # call of ``iter()``
    iter_s: float  # duration of that call
    asked_s: list[float] = field(default_factory=list)  # request of each batch
    given_s: list[float] = field(default_factory=list)  # arrival of each batch
    over_s: tuple[float, float] | None = None  # request and return of the end of the epoch; None if it was not reached
    batch_length: int | None = None  # samples in the first batch; None if unknown

    @property
    def batches(self) -> int:
        """Batches taken."""
        return len(self.given_s)

    @property
    def last_s(self) -> float:
        """The last recorded moment."""
        return max(self.began_s + self.iter_s, *self.given_s[-1:], *(self.over_s or ()), self.began_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All epochs of one loader in order; ``length`` is the batches of an epoch, None if the loader has no length."""

    settings: LoaderSettings
    facts: DatasetFacts
    length: int | None = None
    epochs: list[Epoch] = field(default_factory=list)

    @property
    def elapsed_s(self) -> float:
        """Seconds of all epochs, training steps included."""
        return sum(epoch.last_s - epoch.began_s for epoch in self.epochs)

    @property
    def batches(self) -> int:
        """Batches taken."""
        return sum(epoch.batches for epoch in self.epochs)

    @property
    def batches_per_epoch(self) -> int | None:
        """Batches of the latest epoch that ended, else the loader's length; None if unknown."""
        ended = (epoch.batches for epoch in reversed(self.epochs) if epoch.over_s is not None)
        return next(ended, self.length)


def merged(timelines: Iterable[Timeline]) -> list[Timeline]:
    """Merges loaders with equal settings, dataset and length: many programs make a new loader for each epoch."""
    found: dict[tuple[LoaderSettings, DatasetFacts, int | None], Timeline] = {}
    for each in timelines:
        one = found.setdefault((each.settings, each.facts, each.length), replace(each, epochs=[]))
        one.epochs[:] = sorted([*one.epochs, *each.epochs], key=lambda epoch: epoch.began_s)
    return list(found.values())


def training(timelines: Sequence[Timeline], num_workers: int) -> Timeline | None:
    """The training's loader: of those with ``num_workers`` workers the one that took the most time.

    Loaders with less than a third of the longest time do not count; if none with ``num_workers`` is left, the longest
    loader is the training's. None without any batch.
    """
    able = [timeline for timeline in timelines if timeline.batches]
    most_s = max((timeline.elapsed_s for timeline in able), default=0.0)
    long = [timeline for timeline in able if timeline.elapsed_s >= _LEAST_SHARE * most_s]
    chosen = [timeline for timeline in long if timeline.settings.num_workers == num_workers]
    return max(chosen or long, key=lambda timeline: timeline.elapsed_s, default=None)


def windows(timeline: Timeline, others: Iterable[Timeline]) -> tuple[Window, ...]:
    """The windows of the training's loader; iterations over ``others`` may lie between two of its batches."""
    length = timeline.batches_per_epoch
    conditions = Conditions(settings=timeline.settings, rules=MeasureRules(), batches_per_epoch=length)
    passes = [epoch for other in others for epoch in other.epochs if epoch.batches > 1 or epoch.over_s is not None]
    found: list[Window] = []
    for epoch in timeline.epochs:
        if epoch.batches:
            found += _of_epoch(epoch, pauses(epoch, passes), conditions, is_first=not found)
    return tuple(found)


def pauses(epoch: Epoch, passes: Iterable[Epoch]) -> dict[int, float]:
    """Indices of the batches after which the program iterated over other loaders, and the seconds of that.

    Empty if that happens after more than a tenth of the batches: then it is a part of the training step.
    """
    ends = [*epoch.asked_s[1:], epoch.over_s[0] if epoch.over_s else math.inf]
    found: dict[int, float] = {}
    for other in passes:
        index = bisect_right(epoch.given_s, other.began_s) - 1
        if index >= 0 and other.last_s <= ends[index]:
            found[index] = found.get(index, 0.0) + other.last_s - other.began_s
    return found if len(found) <= max(1.0, _RARELY * epoch.batches) else {}


def _of_epoch(epoch: Epoch, paused: Mapping[int, float], conditions: Conditions, *, is_first: bool) -> list[Window]:
    whole = _as_one(epoch, paused, conditions)
    if whole_epochs([], conditions):
        return [replace(whole, kind=WindowKind.EPOCH) if whole.ended_epoch else whole]
    steady = _steady(whole, paused, conditions, is_first=is_first)
    edges = sorted({0, whole.batches, *(edge for window in steady for edge in window)})
    return [
        replace(
            part_of(whole, begin, end),
            kind=WindowKind.STEADY if (begin, end) in steady else WindowKind.WARM_UP,
            end_s=whole.end_s if end == whole.batches and (begin, end) not in steady else None,
        )
        for begin, end in pairwise(edges)
    ]


def _as_one(epoch: Epoch, paused: Mapping[int, float], conditions: Conditions) -> Window:
    """The whole epoch as one window; without its last batch if the time of its training step is unknown."""
    waits = [given - asked for asked, given in zip(epoch.asked_s, epoch.given_s, strict=True)]
    waits[0] += epoch.iter_s
    ends = [*epoch.asked_s[1:], *(epoch.over_s[:1] if epoch.over_s else ())]
    used = [end - given - paused.get(i, 0.0) for i, (given, end) in enumerate(zip(epoch.given_s, ends, strict=False))]
    batches = max(1, len(used))
    return Window(
        kind=WindowKind.WARM_UP,
        startup_s=waits[0],
        wait_s=tuple(waits[:batches]),
        step_s=tuple(used) or (0.0,),
        samples=batches * (epoch.batch_length or conditions.batch_length),
        end_s=epoch.over_s[1] - epoch.over_s[0] if epoch.over_s else None,
    )


def _steady(
    whole: Window, paused: Mapping[int, float], conditions: Conditions, *, is_first: bool
) -> list[tuple[int, int]]:
    """Index of the first batch of each window and after its last one; whole multiples of the workers, >= ``window_s``.

    A program is slower at first: the first epoch's warm-up is as long as a window, up to half of the epoch. Only the
    first window may be shorter, if there are too few batches.
    """
    worker_multiple, window_s = conditions.worker_multiple, conditions.rules.window_s
    limit = whole.batches if conditions.last_position is None else conditions.last_position
    last = whole.batches - conditions.settings.queued_batches if whole.ended_epoch else min(whole.batches, limit)
    at = [0.0, *accumulate(wait_s + use_s for wait_s, use_s in zip(whole.wait_s, whole.step_s, strict=True))]
    begin = math.ceil(conditions.warm_up / worker_multiple) * worker_multiple
    while is_first and begin + worker_multiple <= last / 2 and at[begin] < window_s:
        begin += worker_multiple
    found: list[tuple[int, int]] = []
    while begin < last:
        end, pause = begin, None
        while pause is None and at[end] - at[begin] < window_s and end + worker_multiple <= last:
            end += worker_multiple
            pause = next((index for index in range(end - 1, end - worker_multiple - 1, -1) if index in paused), None)
        if pause is not None:  # batches that became ready in the pause do not count
            begin = pause + 1 + conditions.warm_up
        elif end == begin or (found and at[end] - at[begin] < window_s):
            break
        else:
            found.append((begin, end))
            begin = end
    return found
