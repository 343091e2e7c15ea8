"""What a program's own iteration over a DataLoader says: when it asked for each batch, and when it had it. Pure.

Here no process is asked for windows; they are cut out of what happened. The first batches of an epoch, as many as the queue
holds, are thrown away, windows of whole multiples of the workers follow, and the last ones, when the workers run out of work, are thrown
away again. Where the program does something else for a while, such as a validation pass over another loader, the queue
fills meanwhile: that time is not the training's, and as many batches are thrown away after it. Epochs too short for all
this are taken whole, if the program saw their end.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from nws_sweep.measurement.schedule import Conditions, whole_epochs
from nws_sweep.results import DatasetFacts, LoaderSettings, MeasureRules, Window, WindowKind

# What happens in a larger share of the gaps between batches is a part of the training step.
_RARELY = 0.1
# A loader with a smaller share of the longest time of any is a validation's, though it has the number of workers.
_LEAST_SHARE = 1 / 3


@dataclass(slots=True, kw_only=True)
class Epoch:
    """One iteration over a loader, to its end or as far as the program took it. All moments are of one clock, s.

    Attributes:
        began_s: When ``iter()`` was called.
        iter_s: How long that took.
        asked_s: When each batch was asked for.
        given_s: When it was there.
        over_s: When a batch was asked for that there was not, and when that was known; None if it did not come to that.
        batch_length: Samples in the first batch; None if they cannot be told.
    """

    began_s: float
    iter_s: float
    asked_s: list[float] = field(default_factory=list)
    given_s: list[float] = field(default_factory=list)
    over_s: tuple[float, float] | None = None
    batch_length: int | None = None

    @property
    def batches(self) -> int:
        """Batches taken."""
        return len(self.given_s)

    @property
    def last_s(self) -> float:
        """The last moment that is known of it."""
        return max(self.began_s + self.iter_s, *self.given_s[-1:], *(self.over_s or ()), self.began_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All epochs of one loader, in their order; ``length`` is that of an epoch, None if only its end can tell."""

    settings: LoaderSettings
    facts: DatasetFacts
    length: int | None = None
    epochs: list[Epoch] = field(default_factory=list)

    @property
    def elapsed_s(self) -> float:
        """Seconds that the program spent on it, batches' use included."""
        return sum(epoch.last_s - epoch.began_s for epoch in self.epochs)

    @property
    def batches(self) -> int:
        """Batches taken."""
        return sum(epoch.batches for epoch in self.epochs)

    @property
    def batches_per_epoch(self) -> int | None:
        """Length of an epoch, as the latest one that ended had it, else as the loader says; None if unknown."""
        ended = (epoch.batches for epoch in reversed(self.epochs) if epoch.over_s is not None)
        return next(ended, self.length)


def merged(timelines: Iterable[Timeline]) -> list[Timeline]:
    """Loaders that say the same of themselves count as one: many programs make theirs again for each epoch."""
    found: dict[tuple[LoaderSettings, DatasetFacts, int | None], Timeline] = {}
    for each in timelines:
        one = found.setdefault((each.settings, each.facts, each.length), replace(each, epochs=[]))
        one.epochs[:] = sorted([*one.epochs, *each.epochs], key=lambda epoch: epoch.began_s)
    return list(found.values())


def training(timelines: Sequence[Timeline], num_workers: int) -> Timeline | None:
    """The training's loader: the one that took the most time, if possible of those with so many workers.

    Those that took less than a third of the most time do not count: the training has another number of workers then.
    None if there is no loader that gave a batch.
    """
    able = [timeline for timeline in timelines if timeline.batches]
    most_s = max((timeline.elapsed_s for timeline in able), default=0.0)
    long = [timeline for timeline in able if timeline.elapsed_s >= _LEAST_SHARE * most_s]
    chosen = [timeline for timeline in long if timeline.settings.num_workers == num_workers]
    return max(chosen or long, key=lambda timeline: timeline.elapsed_s, default=None)


def windows(timeline: Timeline, others: Iterable[Timeline]) -> tuple[Window, ...]:
    """The windows of the epochs of the training's loader; passes over others may lie between two of its batches."""
    length = timeline.batches_per_epoch
    conditions = Conditions(settings=timeline.settings, rules=MeasureRules(), batches_per_epoch=length)
    passes = [epoch for other in others for epoch in other.epochs if epoch.batches > 1 or epoch.over_s is not None]
    found: list[Window] = []
    for epoch in timeline.epochs:
        if epoch.batches:
            found += _of_epoch(epoch, pauses(epoch, passes), conditions, is_first=not found)
    return tuple(found)


def pauses(epoch: Epoch, passes: Iterable[Epoch]) -> dict[int, float]:
    """Numbers of the batches after which the program went over other loaders, and how long that took, s.

    A single batch of another loader is a part of the training step, and so is what happens again and again.
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
            whole,
            kind=WindowKind.STEADY if (begin, end) in steady else WindowKind.WARM_UP,
            startup_s=whole.startup_s if begin == 0 else None,
            wait_s=whole.wait_s[begin:end],
            consume_s=whole.consume_s[begin:end],
            samples=whole.samples // whole.batches * (end - begin),
            end_s=whole.end_s if end == whole.batches and (begin, end) not in steady else None,
        )
        for begin, end in pairwise(edges)
    ]


def _as_one(epoch: Epoch, paused: Mapping[int, float], conditions: Conditions) -> Window:
    """The whole epoch as one window; without its last batch if no process knows how long that was used."""
    waits = [given - asked for asked, given in zip(epoch.asked_s, epoch.given_s, strict=True)]
    waits[0] += epoch.iter_s
    ends = [*epoch.asked_s[1:], *(epoch.over_s[:1] if epoch.over_s else ())]
    used = [end - given - paused.get(i, 0.0) for i, (given, end) in enumerate(zip(epoch.given_s, ends, strict=False))]
    batches = max(1, len(used))
    return Window(
        kind=WindowKind.WARM_UP,
        startup_s=waits[0],
        wait_s=tuple(waits[:batches]),
        consume_s=tuple(used) or (0.0,),
        samples=batches * (epoch.batch_length or conditions.batch_length),
        end_s=epoch.over_s[1] - epoch.over_s[0] if epoch.over_s else None,
    )


def _steady(
    whole: Window, paused: Mapping[int, float], conditions: Conditions, *, is_first: bool
) -> list[tuple[int, int]]:
    """First batch of each window, and the one after its last: whole multiples of the workers, and at least as long as the rules say.

    A program is slower at first: the first epoch's warm-up is as long as a window, but no more than half of what there
    is. Only a first window may be shorter, for want of more batches.
    """
    worker_multiple, window_s = conditions.worker_multiple, conditions.rules.window_s
    room = whole.batches if conditions.last_position is None else conditions.last_position
    last = whole.batches - conditions.queue if whole.ended_epoch else min(whole.batches, room)
    at = [0.0, *accumulate(wait_s + use_s for wait_s, use_s in zip(whole.wait_s, whole.consume_s, strict=True))]
    begin = math.ceil(conditions.warm_up / worker_multiple) * worker_multiple
    while is_first and begin + worker_multiple <= last / 2 and at[begin] < window_s:
        begin += worker_multiple
    found: list[tuple[int, int]] = []
    while begin < last:
        end, pause = begin, None
        while pause is None and at[end] - at[begin] < window_s and end + worker_multiple <= last:
            end += worker_multiple
            pause = next((index for index in range(end - 1, end - worker_multiple - 1, -1) if index in paused), None)
        if pause is not None:  # what lay ready after it comes for nothing
            begin = pause + 1 + conditions.warm_up
        elif end == begin or (found and at[end] - at[begin] < window_s):
            break
        else:
            found.append((begin, end))
            begin = end
    return found
