"""What limits an epoch: it is replayed with one thing taken away, and what saves most limits most. Pure.

Without one thing another number of workers may be the best, so each thing is taken away at several numbers. None of
them is predicted to be faster than the best setting as things are: the search has measured that it is not.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from nws_sweep.replay.model import Known, Model
from nws_sweep.replay.prediction import Records, steady_pace
from nws_sweep.replay.queue import QueueSettings, replay
from nws_sweep.results import BatchCost, LoopCosts

# So many batches are replayed with the best number of workers and with others, and at least so many times the queue.
_BATCHES, _FEW_BATCHES, _QUEUES = 1000, 250, 3
# Beside workers a step counts as slowed down if it takes this multiple of a whole batch without workers. A step on an
# accelerator seems shorter without workers, since it continues while the main process loads.
_SLOWED = 1.1


class Bottleneck(str, Enum):
    """What may limit an epoch."""

    NOISE = "noise"
    STARTUP = "start-up"
    ORDER = "head-of-line"
    MEMORY = "memory"
    COMPETITION = "competition"
    CONSUMER = "consumer"
    TRANSFER = "transfer"
    CPU = "CPU"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class Saving:
    """The share of an epoch that a change saves, at most 1 (negative if it takes longer), and the workers it takes."""

    share: float
    num_workers: int


@dataclass(frozen=True)
class Epoch:
    """Costs of an epoch's batches in their order, or of as many that stand for them, and its settings."""

    costs: Sequence[BatchCost]
    loop: LoopCosts
    settings: QueueSettings
    reach: float = 1.0  # share of the epoch within which its batches may change places
    making: float = 1.0  # CPU time of making a batch in the main process / in a worker
    alone: LoopCosts | None = None  # the costs without workers beside the consumer, if they are known


@dataclass(frozen=True)
class Counterfactual:
    """An epoch at the best setting of a configuration, compared with what it would be otherwise.

    Attributes:
        model: Of the trials.
        best: The best setting.
        allowed: Numbers of workers that are possible, including the best's.
    """

    model: Model
    best: QueueSettings
    allowed: Sequence[int]

    @property
    def removable(self) -> tuple[Bottleneck, ...]:
        """What can be taken away."""
        alone, fewest = self._ends
        slowed_s = _SLOWED * self.model.batch_s(alone.settings)
        is_slowed = self.best.num_workers == 0 and fewest.records.loop.consumer_s > slowed_s
        excluded = [
            *([Bottleneck.STARTUP] if self.best.persistent_workers else []),
            *([] if is_slowed else [Bottleneck.COMPETITION]),
        ]
        return tuple(bottleneck for bottleneck in REMOVED if bottleneck not in excluded)

    def without(self, *taken: Bottleneck) -> Saving:
        """What is saved without these things, with the best of the allowed numbers of workers."""

        def change(epoch: Epoch) -> Epoch:
            for bottleneck in taken:
                epoch = REMOVED[bottleneck](epoch)
            return epoch

        return self._saving(change)

    def with_cpus(self, cpus: float) -> Saving:
        """What is saved with so many CPUs, with the best of the allowed numbers of workers."""
        return self._saving(lambda epoch: _with_cpus(epoch, cpus))

    def with_settings(self, settings: QueueSettings) -> Saving:
        """What is saved with other settings as predicted, whether the number of workers is allowed or not."""
        count = max(_BATCHES, _QUEUES * settings.queued_batches, _QUEUES * self.best.queued_batches)
        ratio = self._seconds(self._epoch(settings, count)) / self._seconds(self._epoch(self.best, count))
        return Saving(1 - ratio, settings.num_workers)

    @cached_property
    def free_loader(self) -> float:
        """Time of the epoch / its time with a loader that takes no time."""
        records = self._records(self.best.num_workers)
        loop, batches = records.loop, records.batches
        least_s = batches * max(loop.consumer_s, loop.consumer_cpu_s / self.best.cpus)
        now_s = self._now_s[self.best.num_workers]
        return now_s / least_s if least_s else math.inf

    @cached_property
    def rise(self) -> float:
        """Cost of a batch in the last third of the epoch / in the first; 1 if costs do not depend on the position."""
        records = self._records(self.best.num_workers)
        if records.reach == 1:
            return 1.0
        thirds: tuple[list[float], ...] = ([], [], [])
        for one in records.made:
            thirds[min(2, int(3 * one.position))].append(one.cost.cpu_s + one.cost.wait_s)
        first, _, last = thirds
        return statistics.fmean(last) / statistics.fmean(first) if first and last and any(first) else 1.0

    @property
    def load_s(self) -> float:
        """Seconds to load a batch in one process."""
        mean, making = _mean(self._handed_over.costs), self._handed_over.making
        return making * mean.cpu_s + mean.wait_s

    @property
    def hand_over_s(self) -> float:
        """Seconds to hand a batch over, in a worker and in the main process."""
        mean, making, loop = _mean(self._handed_over.costs), self._handed_over.making, self._handed_over.loop
        return (1 - making) * mean.cpu_s + mean.copy_s + loop.receive_s + loop.receive_wait_s

    @property
    def waiting(self) -> float:
        """Share of ``load_s`` in which the process neither runs nor is ready to run."""
        return _mean(self._handed_over.costs).wait_s / self.load_s if self.load_s else 0.0

    @property
    def consumer_s(self) -> tuple[float, float]:
        """Seconds of the consumer per batch in the trials with the fewest workers: possibly none, and at least one."""
        alone, fewest = self._ends
        return alone.records.loop.consumer_s, fewest.records.loop.consumer_s

    @cached_property
    def _handed_over(self) -> Epoch:
        """The epoch at the best setting, or with the fewest workers if it has none."""
        number = self.best.num_workers or self._ends[1].settings.num_workers
        return self._epoch(replace(self.best, num_workers=number), _BATCHES)

    def _saving(self, change: Callable[[Epoch], Epoch]) -> Saving:
        now_s = self._now_s[self.best.num_workers]
        times = [
            (self._seconds(change(epoch)) * max(1.0, now_s / self._now_s[number]), number)
            for number, epoch in self._epochs.items()
        ]
        least_s, number = min(times)
        return Saving(1 - least_s / now_s, number)

    @cached_property
    def _epochs(self) -> dict[int, Epoch]:
        found = {}
        for number in self.allowed:
            settings = replace(self.best, num_workers=number)
            count = _BATCHES if settings == self.best else _FEW_BATCHES
            found[number] = self._epoch(settings, max(count, _QUEUES * settings.queued_batches))
        return found

    @cached_property
    def _now_s(self) -> dict[int, float]:
        return {number: self._seconds(epoch) for number, epoch in self._epochs.items()}

    def _seconds(self, epoch: Epoch) -> float:
        number = epoch.settings.num_workers
        found = replay(epoch.costs, epoch.loop, epoch.settings)
        others = self._records(number).batches - len(epoch.costs)
        whole_s = found.epoch_s + others * steady_pace(found, epoch.settings, epoch.loop.consumer_s)
        return whole_s * self.model.factor(number)

    def _epoch(self, settings: QueueSettings, count: int) -> Epoch:
        records, (alone, _) = self._records(settings.num_workers), self._ends
        return Epoch(
            costs=records.epoch(random.Random(0), count),
            loop=records.loop,
            settings=settings,
            reach=records.reach,
            making=self._making if settings.num_workers else 1.0,
            alone=None if alone.settings.num_workers else alone.records.loop,
        )

    def _records(self, num_workers: int) -> Records:
        return self.model.records_for(num_workers)

    @cached_property
    def _making(self) -> float:
        """CPU time of making a batch without workers / with the fewest: the median of batches that both have made.

        A worker makes each batch in new shared memory, which costs more than memory that is used again.
        """
        alone, fewest = self._ends
        theirs = {(one.epoch, one.number): one.cost.cpu_s for one in fewest.records.made}
        pairs = [(one.cost.cpu_s, theirs.get((one.epoch, one.number))) for one in alone.records.made]
        ratios = [own_s / their_s for own_s, their_s in pairs if their_s]
        return min(1.0, statistics.median(ratios)) if ratios else 1.0

    @property
    def _ends(self) -> tuple[Known, Known]:
        """The trials with the fewest workers: with none if possible, and with at least one; or the same trial twice."""
        known = self.model.known
        return known[0], next((one for one in known if one.settings.num_workers), known[0])


def _without_start(epoch: Epoch) -> Epoch:
    return replace(epoch, loop=replace(epoch.loop, fork_s=0.0, start_s=0.0, stop_s=0.0))


def _without_variation(epoch: Epoch) -> Epoch:
    """All batches as expensive as the mean one, as far as they may change places."""
    size = max(1, math.ceil(epoch.reach * len(epoch.costs)))
    chunks = [epoch.costs[begin : begin + size] for begin in range(0, len(epoch.costs), size)]
    return replace(epoch, costs=[mean for chunk in chunks for mean in [_mean(chunk)] * len(chunk)])


def _mean(costs: Sequence[BatchCost]) -> BatchCost:
    return BatchCost(
        cpu_s=statistics.fmean(cost.cpu_s for cost in costs),
        wait_s=statistics.fmean(cost.wait_s for cost in costs),
        copy_s=statistics.fmean(cost.copy_s for cost in costs),
    )


def _without_competition(epoch: Epoch) -> Epoch:
    """With a consumer that takes no longer than without workers."""
    if epoch.alone is None or epoch.alone.consumer_s >= epoch.loop.consumer_s:
        return epoch
    consumer_s, cpu_s = epoch.alone.consumer_s, epoch.alone.consumer_cpu_s
    return replace(epoch, loop=replace(epoch.loop, consumer_s=consumer_s, consumer_cpu_s=cpu_s))


def _without_consumer(epoch: Epoch) -> Epoch:
    return replace(epoch, loop=replace(epoch.loop, consumer_s=0.0, consumer_cpu_s=0.0))


def _without_hand_over(epoch: Epoch) -> Epoch:
    costs = [replace(cost, cpu_s=epoch.making * cost.cpu_s, copy_s=0.0) for cost in epoch.costs]
    return replace(epoch, costs=costs, loop=replace(epoch.loop, receive_s=0.0, receive_wait_s=0.0))


def _with_cpus(epoch: Epoch, cpus: float = math.inf) -> Epoch:
    return _without_competition(replace(epoch, settings=replace(epoch.settings, cpus=cpus)))


def _without_waiting(epoch: Epoch) -> Epoch:
    return replace(epoch, costs=[replace(cost, wait_s=0.0) for cost in epoch.costs])


REMOVED: dict[Bottleneck, Callable[[Epoch], Epoch]] = {
    Bottleneck.STARTUP: _without_start,
    Bottleneck.ORDER: _without_variation,
    Bottleneck.COMPETITION: _without_competition,
    Bottleneck.CONSUMER: _without_consumer,
    Bottleneck.TRANSFER: _without_hand_over,
    Bottleneck.CPU: _with_cpus,
    Bottleneck.LATENCY: _without_waiting,
}
