"""What the epoch would be if a stage of the samples took no time: replayed without it. Pure.

A stage's share of a worker's time is not its share of the epoch: batches are made while others are taken, and workers
share CPUs. So each batch is replayed without the stage, with the workers in use and with those that are needed then;
the band holds both, twice the standard error of the stage's share, and the interval of the measured time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from nws_sweep.replay import choice
from nws_sweep.replay.counterfactual import Counterfactual
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.replay.stages import StageCost, stage_costs
from nws_sweep.results import Estimate, SearchRecord, Trial, TrialState

_MOST = 8  # stages that are taken away, the most expensive
_LEAST_SHARE = 0.01  # of a sample's time
_BATCHES = 250  # that are replayed
_MISFIT = 0.03  # relative error of a replay beside that of its inputs
NO_TIME = 0.01  # share of the epoch below which a stage saves no time


@dataclass(frozen=True, kw_only=True)
class Stage(StageCost):
    """A stage of the samples, and the epoch without it.

    Attributes:
        name: As a program writes it: ``torchvision.transforms.v2.Resize``.
        file: Of its code; empty if it has no Python code.
        line: First line of its code; 0 without.
        share: Of a sample's time in the worker, 0 to 1, with everything that it calls. The rest belongs to
            the dataset's own function, which calls the others.
        cpu_share: CPU time of all threads of the worker / the stage's time, at most 1. The rest is waiting.
        seconds: Per sample, in the worker.
        calls: Per sample.
        within: The stage that calls it.
        epoch_without_s: Predicted seconds of an epoch in which it takes no time, with the workers in use; None if the
            length of an epoch is unknown, or its share is small.
        saved: Predicted share of the epoch that would be saved; None if its share is small.
        workers_without: Workers that the epoch would need then; None likewise.
    """

    epoch_without_s: Estimate | None = None
    saved: float | None = None
    workers_without: int | None = None

    @property
    def place(self) -> str:
        """The name of the file and the line, such as ``data.py:40``; empty without a file, as in a notebook."""
        return f"{PurePath(self.file).name}:{self.line}" if self.file and not self.file.startswith("<") else ""


def stages_of(result: SearchRecord, best: Trial, replayed: Counterfactual | None) -> tuple[Stage, ...]:
    """The stages of a configuration's samples, the most expensive first; empty if none were timed.

    Args:
        result: The search.
        best: Its recommended trial.
        replayed: The epoch at the best setting; None if it is unknown.
    """
    trials = [trial for trial in result.trials if trial.state is TrialState.OK and trial.num_workers]
    costs = stage_costs(trials, best.settings.batch_size or _measured_size(best), best.num_workers)
    dear = [cost for cost in costs if cost.share >= _LEAST_SHARE][:_MOST]
    found = {stage.name: stage for stage in _without(dear, replayed, best, result)} if replayed else {}
    return tuple(found.get(cost.name) or Stage(**vars(cost)) for cost in costs)


def _measured_size(best: Trial) -> int:
    """Samples of a batch that the dataset or a batch_sampler makes; 1 if it is unknown."""
    found = best.measurement
    return round(found.samples_per_s * found.batch_s.value) if found and found.samples_per_s and found.batch_s else 1


def _without(
    costs: Sequence[StageCost], replayed: Counterfactual, best: Trial, result: SearchRecord
) -> Iterator[Stage]:
    model, own = replayed.model, replayed.best
    tolerance = result.configuration.search.tolerance
    epoch_s = best.measurement.epoch_s if best.measurement else None
    now_s = model.cost_s(own, most=_BATCHES)
    half = _half_width(best)

    for cost in costs:

        def costs_s(numbers: Sequence[int], taken: StageCost = cost) -> Mapping[QueueSettings, float]:
            settings = (replace(own, num_workers=number) for number in numbers)
            return {one: model.cost_s(one, without=(taken,), most=_BATCHES) for one in settings}

        near = choice.costs_near_the_best(range(own.num_workers + 1), costs_s, tolerance)
        ends = [model.cost_s(own, without=(one,), most=_BATCHES) for one in _with_error(cost)]
        fewer = choice.choose(near, tolerance)
        ratios = [near[own] / now_s, near[fewer] / now_s, *(one / now_s for one in ends)]
        yield Stage(
            **vars(cost),
            saved=1 - ratios[0],
            workers_without=fewer.num_workers,
            epoch_without_s=_epoch(epoch_s, ratios, half) if epoch_s else None,
        )


def _with_error(cost: StageCost) -> Iterator[StageCost]:
    """The stage with a share that is twice its standard error smaller, and larger."""
    for sign in (-2, 2):
        scale = max(0.0, 1 + sign * cost.spread / cost.share)
        yield replace(cost, cpu=scale * cost.cpu, wait=scale * cost.wait, copy=scale * cost.copy)


def _half_width(best: Trial) -> float:
    """Relative half-width of the measured time, with the misfit of a replay."""
    batch = best.measurement.batch_s if best.measurement else None
    low, high = batch.ends if batch else (1.0, 1.0)
    return min(0.5, _MISFIT + (high - low) / (high + low))


def _epoch(epoch_s: float, ratios: Sequence[float], half: float) -> Estimate:
    low, high = min(ratios) * epoch_s * (1 - half), max(ratios) * epoch_s * (1 + half)
    return Estimate(value=ratios[0] * epoch_s, low=low, high=high, n=len(ratios))
