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
    TRANSFER = "transfer"
    CPU = "CPU"
    LATENCY = "latency"


Taken = Bottleneck | Stage  # what may be taken away
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
        match taken:
            case Stage():
                costs = [taken.taken_from(cost) for cost in costs]
            case Bottleneck.STARTUP:
                loop = replace(loop, fork_s=0.0, start_s=0.0, stop_s=0.0)
            case Bottleneck.ORDER:
                settings = replace(settings, in_order=False)
            case Bottleneck.STEP:
                loop = replace(loop, step_s=0.0, step_cpu_s=0.0)
            case Bottleneck.TRANSFER:
                costs = [cost.scaled([1.0, 1.0, 0.0]) for cost in costs]
                loop = replace(loop, receive_s=0.0, receive_wait_s=0.0)
            case Bottleneck.LATENCY:
                costs = [cost.scaled([1.0, 0.0, 1.0]) for cost in costs]
            case Bottleneck.CPU:
                loop, settings = undisturbed, replace(settings, cpus=math.inf)
            case _:
                loop = undisturbed
        return Epoch(costs, loop, settings)
