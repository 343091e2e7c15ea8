"""What may limit an epoch, and an epoch without it. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from nws_sweep.replay.queue import QueueSettings
from nws_sweep.replay.stages import Stage
from nws_sweep.results import BatchCost, LoopCosts


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


Taken = Bottleneck | Stage  # what may be taken away
# Costs of the loop that are 0 without each bottleneck.
_OF_LOOP = {
    Bottleneck.STARTUP: ("fork_s", "start_s", "start_wait_s", "stop_s"),
    Bottleneck.STEP: ("step_s", "step_cpu_s"),
    Bottleneck.SAMPLER: ("sampler_s",),
    Bottleneck.TRANSFER: ("receive_s", "receive_wait_s"),
}
REMOVABLE = [each for each in Bottleneck if each not in {Bottleneck.NOISE, Bottleneck.MEMORY}]


class Epoch(NamedTuple):
    """What is replayed."""

    costs: Sequence[BatchCost]  # of batches in their order, which stand for all
    loop: LoopCosts
    settings: QueueSettings

    def without(self, taken: Taken, undisturbed: LoopCosts) -> "Epoch":
        """The epoch with one thing taken away.

        Args:
            taken: One of ``REMOVABLE``, or a stage.
            undisturbed: The loop with the training step as on free CPUs.
        """
        costs, loop, settings = self
        if isinstance(taken, Stage):
            return Epoch([taken.taken_from(cost) for cost in costs], loop, settings)
        loop = replace(loop, **dict.fromkeys(_OF_LOOP.get(taken, ()), 0.0))
        match taken:
            case Bottleneck.ORDER:
                settings = replace(settings, in_order=False)
            case Bottleneck.TRANSFER:
                costs = [cost.scaled([1.0, 1.0, 0.0]) for cost in costs]
            case Bottleneck.LATENCY:
                costs = [cost.scaled([1.0, 0.0, 1.0]) for cost in costs]
            case Bottleneck.CPU:
                loop, settings = undisturbed, replace(settings, cpus=math.inf)
            case Bottleneck.COMPETITION:
                loop = undisturbed
        return Epoch(costs, loop, settings)
