"""What the epoch would be if a stage of the samples took no time: replayed without it. Pure.

A stage's share of a worker's time is not its share of the epoch: batches are made while others are taken, and workers
share CPUs. So each batch is replayed without the stage, with the workers in use and with those that are needed then;
the band holds both, twice the standard error of the stage's share, and the interval of the measured time.

Workers whose samples are alike compute at the same time and wait at the same time: so far as an epoch takes longer than
replayed, this is taken for the reason. It ends without the waiting; with less computing it costs a larger share.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nws_sweep import units
from nws_sweep.replay import choice
from nws_sweep.replay.counterfactual import Counterfactual
from nws_sweep.replay.model import MOST_EQUAL, Model
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
    epochs = _Epochs(replayed.model, replayed.best)
    saving = [*_with_savings(dear, epochs)]
    if with_workers:
        saving = [*_with_workers(saving, epochs, best, result)]
    known = dict(zip(dear, saving, strict=True))
    return tuple(known.get(cost, cost) for cost in costs)


@dataclass(frozen=True)
class _Epochs:
    """Epochs with the workers in use, and with others."""

    model: Model
    settings: QueueSettings

    def cost_s(self, settings: QueueSettings, *without: Stage) -> float:
        """Seconds per batch without these stages."""
        free_s, in_step_s = self._ends_s(settings, without)
        return free_s * math.pow(in_step_s / free_s, self._in_step) if free_s else 0.0

    @cached_property
    def _in_step(self) -> float:
        """How far workers compute at the same time, 0 to 1: then the epoch takes longer than replayed."""
        free_s, in_step_s = self._ends_s(self.settings)
        if in_step_s <= (1 + choice.CLOSE) * free_s:
            return 0.0
        factor = self.model.factors.at(self.settings.num_workers)
        return min(1.0, max(0.0, math.log(factor) / math.log(in_step_s / free_s)))

    def _ends_s(self, settings: QueueSettings, without: Sequence[Stage] = ()) -> tuple[float, float]:
        """Seconds per batch if each worker waits when it may, and if all wait at the same time."""
        free_s = self.model.cost_s(settings, without=without, most=MOST_EQUAL)
        return free_s, self.model.cost_s(replace(settings, in_step=True), without=without, most=MOST_EQUAL)


def _with_savings(costs: Sequence[Stage], epochs: _Epochs) -> Iterator[Stage]:
    """The stages with what is saved without them, with the workers in use."""
    now_s = epochs.cost_s(epochs.settings)
    for cost in costs:
        yield replace(cost, saved=1 - epochs.cost_s(epochs.settings, cost) / now_s)


def _measured_size(best: Trial) -> int:
    """Samples of a batch that the dataset or a batch_sampler makes; 1 if it is unknown."""
    found = best.measurement
    return round(found.samples_per_s * found.batch_s.value) if found and found.samples_per_s and found.batch_s else 1


def _with_workers(costs: Sequence[Stage], epochs: _Epochs, best: Trial, result: SearchRecord) -> Iterator[Stage]:
    """The stages with the workers and the epoch without them."""
    own, tolerance = epochs.settings, result.configuration.search.tolerance
    now_s = epochs.cost_s(own)
    for cost in costs:
        bare = replace(cost, saved=None)  # as ``_with_savings`` has taken it away: the model remembers the result

        def costs_s(numbers: Sequence[int], taken: Stage = bare) -> Mapping[QueueSettings, float]:
            settings = (replace(own, num_workers=number) for number in numbers)
            return {setting: epochs.cost_s(setting, taken) for setting in settings}

        near = choice.costs_near_the_best(range(own.num_workers + 1), costs_s, tolerance)
        ends = [epochs.cost_s(own, other) for other in _with_error(cost)]
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
