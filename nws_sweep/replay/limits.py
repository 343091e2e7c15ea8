"""The physical limits of the time of a batch: no order of work, no queue and no luck goes below them. Pure."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from nws_sweep.results import BatchCost, LoopCosts


class Limit(NamedTuple):
    """The least seconds per batch that one part of the machine allows, and what takes them."""

    name: str  # a part of a sentence: "<name> takes at least 2 ms"
    batch_s: float


def physical_limits(costs: Sequence[BatchCost], loop: LoopCosts, num_workers: int, cpus: float) -> tuple[Limit, ...]:
    """Lists the limits; the largest holds.

    What may run beside something else counts in no limit but that of the CPUs: a worker transfers a batch beside the
    making of its next batch, and a training step may compute in several threads.

    Args:
        costs: Of at least one batch: those whose time is limited.
        loop: Costs of the main process.
        num_workers: At least 0.
        cpus: CPUs that the processes may use, more than 0.
    """
    limits = _with_workers if num_workers else _without_workers
    return limits(costs, loop, num_workers, cpus)


def _with_workers(costs: Sequence[BatchCost], loop: LoopCosts, workers: int, cpus: float) -> tuple[Limit, ...]:
    cpu_s = statistics.fmean(cost.cpu_s + cost.copy_s for cost in costs) + loop.receive_s + loop.step_cpu_s
    making_s = statistics.fmean(cost.making_s for cost in costs)
    main_s = loop.sampler_s + loop.receive_s + loop.step_s
    return (
        Limit("the training step", loop.step_s),
        Limit("the CPU time of a batch, shared by the CPUs,", cpu_s / cpus),
        Limit("making a batch, shared by the workers,", making_s / workers),
        Limit("drawing and receiving a batch and the training step", main_s),
    )


def _without_workers(costs: Sequence[BatchCost], loop: LoopCosts, _: int, cpus: float) -> tuple[Limit, ...]:
    cpu_s = statistics.fmean(cost.cpu_s for cost in costs)
    making_s = statistics.fmean(cost.cpu_s / min(cost.threads, cpus) + cost.wait_s for cost in costs)
    step_s = max(loop.step_s, loop.step_cpu_s / cpus)
    return (
        Limit("the training step", step_s),
        Limit("the CPU time of a batch, shared by the CPUs,", (cpu_s + loop.step_cpu_s) / cpus),
        Limit("drawing and making a batch and the training step", loop.sampler_s + making_s + step_s),
    )
