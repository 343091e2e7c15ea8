"""The physical limits of the time of a batch: no order of work, no queue and no luck goes below them. Pure."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from nws_sweep.records import BatchCost, LoopCosts


class Limit(NamedTuple):
    """The least seconds per batch that one part of the machine allows, and what takes them."""

    name: str  # a part of a sentence: "<name> takes at least 2 ms"
    batch_s: float


def physical_limits(costs: Sequence[BatchCost], loop: LoopCosts, num_workers: int) -> tuple[Limit, ...]:
    """Lists the limits that recorded costs set; the largest holds.

    What may run beside something else counts in no limit: a worker transfers a batch beside the making of its next
    batch, and a training step may compute in several threads.

    Args:
        costs: Of at least one batch: those whose time is limited.
        loop: Costs of the main process.
        num_workers: At least 0.
    """
    making_s, main_s = statistics.fmean(cost.making_s for cost in costs), loop.sampler_s + loop.step_s
    if not num_workers:
        return (Limit("drawing and making a batch and the training step", making_s + main_s),)
    return (
        Limit("making a batch, shared by the workers,", making_s / num_workers),
        Limit("drawing and receiving a batch and the training step", loop.receive_s + main_s),
    )
