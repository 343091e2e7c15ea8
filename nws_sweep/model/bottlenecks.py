"""What may limit an epoch: the part of its time that this is a cause of, and the epoch
without it. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from nws_sweep.model.queue import QueueSettings
from nws_sweep.model.stages import Stage
from nws_sweep.records import BatchCost, LoopCosts, Part


class Bottleneck(str, Enum):
    """What may limit an epoch."""

    NOISE = "noise"
    STARTUP = "start-up"
    ORDER = "head-of-line"
    MEMORY = "memory"
    COMPETITION = "competition"
    STEP = "step"
    SAMPLER = "sampler"
    TRANSFER = "transfer"
    CPU = "CPU"
    LATENCY = "latency"

    @property
    def part(self) -> Part:
        """The part of an epoch's time that it is a cause of."""
        return _PARTS.get(self, Part.MAKING)


_PARTS = {
    Bottleneck.NOISE: Part.UNSEEN,
    Bottleneck.STARTUP: Part.STARTING,
    Bottleneck.STEP: Part.STEP,
    Bottleneck.SAMPLER: Part.SAMPLER,
    Bottleneck.TRANSFER: Part.MAIN,
}
# Costs of the loop that are 0 without each bottleneck.
_COSTS_OF_LOOP = {
    Bottleneck.STARTUP: ("fork_s", "start_s", "start_wait_s", "stop_s"),
    Bottleneck.STEP: ("step_s", "step_cpu_s"),
    Bottleneck.SAMPLER: ("sampler_s",),
    Bottleneck.TRANSFER: ("receive_s", "receive_wait_s"),
}
# Factors of the CPU time, the wait and the copying of a batch without each bottleneck.
_COSTS_OF_BATCH = {
    Bottleneck.TRANSFER: (1.0, 1.0, 0.0),
    Bottleneck.LATENCY: (1.0, 0.0, 1.0),
}


class Epoch(NamedTuple):
    """What is replayed."""

    costs: Sequence[BatchCost]  # of batches in their order, which stand for all
    loop: LoopCosts
    settings: QueueSettings

    def without(self, removed: Bottleneck | Stage, alone: LoopCosts) -> "Epoch":
        """Takes a cost away.

        Args:
            removed: A stage, or a bottleneck that is a cost: not noise, memory or
                order.
            alone: A loop with the training step as on free CPUs.
        """
        if isinstance(removed, Stage):
            return self._replace(
                costs=[removed.taken_from(cost) for cost in self.costs]
            )
        costs, loop, settings = self
        if removed in _COSTS_OF_BATCH:
            costs = [cost.scaled(_COSTS_OF_BATCH[removed]) for cost in costs]
        if (
            removed in {Bottleneck.CPU, Bottleneck.COMPETITION}
            and alone.step_s < loop.step_s
        ):
            loop = replace(loop, step_s=alone.step_s, step_cpu_s=alone.step_cpu_s)
        if removed is Bottleneck.CPU:
            settings = replace(settings, cpus=math.inf)
        nothing_s = dict.fromkeys(_COSTS_OF_LOOP.get(removed, ()), 0.0)
        return Epoch(costs, replace(loop, **nothing_s), settings)
