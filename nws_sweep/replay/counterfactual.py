"""What limits an epoch: it is replayed with one thing taken away, and what saves most limits most. Pure.

Without one thing another number of workers may be the best, so each thing is taken away at several numbers. None of
them is predicted to be faster than the best setting as things are: the search has measured that it is not.
"""

from __future__ import annotations

import functools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from nws_sweep.replay.model import Known, Model
from nws_sweep.replay.prediction import times_of
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.results import BatchCost, LoopCosts

# So many batches are replayed with the best number of workers and with others, and at least so many times the queue.
_BATCHES, _FEW_BATCHES, _QUEUES = 1000, 250, 3


class Bottleneck(str, Enum):
    """What may limit an epoch."""

    NOISE = "noise"
    STARTUP = "start-up"
    ORDER = "head-of-line"
    MEMORY = "memory"
    COMPETITION = "competition"
    STEP = "step"
    TRANSFER = "transfer"
    CPU = "CPU"
    LATENCY = "latency"


REMOVABLE = [each for each in Bottleneck if each not in {Bottleneck.NOISE, Bottleneck.MEMORY}]


class _Epoch(NamedTuple):
    costs: Sequence[BatchCost]  # of batches in their order, which stand for all
    loop: LoopCosts
    settings: QueueSettings


class MeanCosts(NamedTuple):
    """Mean seconds per batch."""

    load_s: float  # in one process
    wait_s: float  # of ``load_s``: the process neither runs nor is ready to run
    hand_over_s: float  # in a worker and in the main process
    alone_s: float  # of the training step without workers, if that was measured
    beside_s: float  # of the training step beside the fewest workers


@dataclass(frozen=True)
class Counterfactual:
    """An epoch at the best setting of a configuration, compared with what it would be otherwise.

    Savings are shares of the epoch, at most 1, and negative if it takes longer.

    Attributes:
        model: Of the trials.
        best: The best setting.
        allowed: Numbers of workers that are possible, including the best's.
        is_slowed: Whether workers slow down the training step, which is as fast as without workers if CPUs are free.
    """

    model: Model
    best: QueueSettings
    allowed: Sequence[int]
    is_slowed: bool = False

    def without(self, *taken: Bottleneck, cpus: float = math.inf) -> float:
        """What is saved without these things; there are ``cpus`` CPUs without their limit."""
        now_s, times_s = self._now_s[self.best.num_workers], []
        for number, epoch in self._epochs.items():
            rest = functools.reduce(lambda left, each: self._removed(each, left, cpus), taken, epoch)
            times_s.append(self._seconds(rest) * max(1.0, now_s / self._now_s[number]))
        return 1 - min(times_s) / now_s

    def with_settings(self, settings: QueueSettings) -> float:
        """What is saved with other settings as predicted, whether the number of workers is allowed or not."""
        batches = max(_BATCHES, _QUEUES * settings.queued_batches)
        return 1 - self._seconds(self._epoch(settings, batches)) / self._seconds(self._epoch(self.best, batches))

    @property
    def free_loader(self) -> float:
        """Time of the epoch / its time with a loader that takes no time."""
        records = self.model.records_for(self.best.num_workers)
        loop = self._undisturbed(records.loop)
        least_s = records.batches * max(loop.step_s, loop.step_cpu_s / self.best.cpus)
        return self._now_s[self.best.num_workers] / least_s if least_s else math.inf

    @property
    def rise(self) -> float:
        """Cost of a batch in the last third of the epoch / in the first; 1 if costs do not depend on the position."""
        records = self.model.records_for(self.best.num_workers)
        costs_s = [max(1e-9, one.cost.cpu_s + one.cost.wait_s) for one in records.in_order]
        third = len(costs_s) // 3
        return 1.0 if records.reach == 1 else statistics.fmean(costs_s[-third:]) / statistics.fmean(costs_s[:third])

    @functools.cached_property
    def means(self) -> MeanCosts:
        """Costs at the best setting, or with the fewest workers if it has none."""
        alone, fewest = (known.records.loop for known in self._ends)
        records = self.model.records_for(self.best.num_workers or self._ends[1].settings.num_workers)
        costs, loop = [one.cost for one in records.made], records.loop
        cpu_s, wait_s = statistics.fmean(cost.cpu_s for cost in costs), statistics.fmean(cost.wait_s for cost in costs)
        copy_s = statistics.fmean(cost.copy_s for cost in costs) + (1 - self._making) * cpu_s
        hand_over_s = copy_s + loop.receive_s + loop.receive_wait_s
        load_s = self._making * cpu_s + wait_s
        return MeanCosts(load_s, wait_s, hand_over_s, alone.step_s, fewest.step_s)

    @functools.cached_property
    def _epochs(self) -> dict[int, _Epoch]:
        sizes = {number: _BATCHES if number == self.best.num_workers else _FEW_BATCHES for number in self.allowed}
        return {number: self._epoch(replace(self.best, num_workers=number), size) for number, size in sizes.items()}

    @functools.cached_property
    def _now_s(self) -> dict[int, float]:
        return {number: self._seconds(epoch) for number, epoch in self._epochs.items()}

    def _epoch(self, settings: QueueSettings, batches: int) -> _Epoch:
        records = self.model.records_for(settings.num_workers)
        costs = records.epoch(random.Random(0), max(batches, _QUEUES * settings.queued_batches))
        return _Epoch(costs, records.loop, settings)

    def _seconds(self, epoch: _Epoch) -> float:
        number = epoch.settings.num_workers
        return self.model.factor(number) * times_of(*epoch, self.model.records_for(number).batches)[0]

    def _removed(self, bottleneck: Bottleneck, epoch: _Epoch, cpus: float) -> _Epoch:
        costs, loop, settings = epoch
        match bottleneck:
            case Bottleneck.STARTUP:
                loop = replace(loop, fork_s=0.0, start_s=0.0, stop_s=0.0)
            case Bottleneck.ORDER:
                settings = replace(settings, in_order=False)
            case Bottleneck.STEP:
                loop = replace(loop, step_s=0.0, step_cpu_s=0.0)
            case Bottleneck.TRANSFER:
                making = self._making if settings.num_workers else 1.0
                costs = [BatchCost(making * cost.cpu_s, cost.wait_s) for cost in costs]
                loop = replace(loop, receive_s=0.0, receive_wait_s=0.0)
            case Bottleneck.LATENCY:
                costs = [replace(cost, wait_s=0.0) for cost in costs]
            case _:  # CPUs, or competition for them
                loop = self._undisturbed(loop)
                settings = replace(settings, cpus=cpus) if bottleneck is Bottleneck.CPU else settings
        return _Epoch(costs, loop, settings)

    def _undisturbed(self, loop: LoopCosts) -> LoopCosts:
        alone = self._ends[0].records.loop
        if not self.is_slowed or alone.step_s >= loop.step_s:
            return loop
        return replace(loop, step_s=alone.step_s, step_cpu_s=alone.step_cpu_s)

    @functools.cached_property
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
