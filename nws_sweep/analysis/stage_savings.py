"""What the epoch would be if a stage of the samples took no time: replayed without it. Pure.

A stage's share of a worker's time is not its share of the epoch: batches are made while others are taken, and workers
share CPUs. So each batch is replayed without the stage, with the workers in use and with those that are needed then;
the band holds both, twice the standard error of the stage's share, and the interval of the measured time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nws_sweep import units
from nws_sweep.replay import choice
from nws_sweep.replay.counterfactual import Counterfactual
from nws_sweep.replay.model import MOST_EQUAL
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.replay.stages import Stage, stage_costs
from nws_sweep.results import Estimate, SearchRecord, Trial, TrialState

_MOST = 12  # stages that are taken away, the most expensive
_LEAST_SHARE = 0.01  # of a sample's time
_MISFIT = 0.03  # relative error of a replay beside that of its inputs
NO_TIME = 0.01  # share of the epoch below which a stage saves no time


def stages_of(
    result: SearchRecord, best: Trial, replayed: Counterfactual | None, *, with_workers: bool = True
) -> tuple[Stage, ...]:
    """The stages of a configuration's samples, the most expensive first; empty if none were timed.

    Args:
        result: The search.
        best: Its recommended trial.
        replayed: The epoch at the best setting; None if it is unknown.
        with_workers: Whether to find the workers and the epoch without each stage, which takes many more replays.
    """
    trials = [trial for trial in result.trials if trial.state is TrialState.OK and trial.num_workers]
    costs = stage_costs(trials, best.settings.batch_size or _measured_size(best), best.num_workers)
    dear = [cost for cost in costs if cost.share >= _LEAST_SHARE and cost.depth <= 1][:_MOST]
    if replayed is None:
        return costs
    saving = [*_with_savings(dear, replayed)]
    if with_workers:
        saving = [*_with_workers(saving, replayed, best, result)]
    known = dict(zip(dear, saving, strict=True))
    return tuple(known.get(cost, cost) for cost in costs)


def _with_savings(costs: Sequence[Stage], replayed: Counterfactual) -> Iterator[Stage]:
    """The stages with what is saved without them, with the workers in use."""
    model, settings = replayed.model, replayed.best
    now_s = model.cost_s(settings, most=MOST_EQUAL)
    for cost in costs:
        yield replace(cost, saved=1 - model.cost_s(settings, without=(cost,), most=MOST_EQUAL) / now_s)


def _measured_size(best: Trial) -> int:
    """Samples of a batch that the dataset or a batch_sampler makes; 1 if it is unknown."""
    found = best.measurement
    return round(found.samples_per_s * found.batch_s.value) if found and found.samples_per_s and found.batch_s else 1


def _with_workers(
    costs: Sequence[Stage], replayed: Counterfactual, best: Trial, result: SearchRecord
) -> Iterator[Stage]:
    """The stages with the workers and the epoch without them."""
    model, own = replayed.model, replayed.best
    tolerance, now_s = result.configuration.search.tolerance, model.cost_s(own, most=MOST_EQUAL)
    for cost in costs:
        bare = replace(cost, saved=None)  # as ``_with_savings`` has taken it away: the model remembers the result

        def costs_s(numbers: Sequence[int], taken: Stage = bare) -> Mapping[QueueSettings, float]:
            settings = (replace(own, num_workers=number) for number in numbers)
            return {one: model.cost_s(one, without=(taken,), most=MOST_EQUAL) for one in settings}

        near = choice.costs_near_the_best(range(own.num_workers + 1), costs_s, tolerance)
        ends = [model.cost_s(own, without=(one,), most=MOST_EQUAL) for one in _with_error(cost)]
        fewer = choice.choose(near, tolerance)
        ratios = [then_s / now_s for then_s in (near[own], near[fewer], *ends)]
        epoch_s = _epoch(best, ratios)
        yield replace(cost, workers_without=fewer.num_workers, epoch_without_s=epoch_s)


def _with_error(cost: Stage) -> Iterator[Stage]:
    """The stage with a share that is twice its standard error smaller, and larger."""
    for sign in (-2, 2):
        scale = max(0.0, 1 + sign * cost.spread / cost.share)
        yield replace(cost, cpu=scale * cost.cpu, wait=scale * cost.wait, copy=scale * cost.copy)


def _epoch(best: Trial, ratios: Sequence[float]) -> Estimate | None:
    """The epoch times the first of these ratios; the band holds all of them, and that of the measured time."""
    if best.measurement is None or not best.measurement.epoch_s:
        return None
    epoch_s = best.measurement.epoch_s
    half = min(0.5, _MISFIT + (units.uncertainty(best.measurement.batch_s) or 0.0))
    low, high = min(ratios) * epoch_s * (1 - half), max(ratios) * epoch_s * (1 + half)
    return Estimate(value=ratios[0] * epoch_s, low=low, high=high, n=len(ratios))
