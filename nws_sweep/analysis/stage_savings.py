"""What the epoch would be if a stage of the samples took no time. Pure.

A stage's share of a worker's time is not its share of the epoch: batches are made while
others are taken, and workers share CPUs. So the epoch is replayed without the stage
(``model.counterfactual``), with the workers in use and with those that are needed then;
the band holds both, twice the standard error of the stage's share, and the interval of
the measured time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nws_sweep import units
from nws_sweep.analysis.diagnosis import Diagnosis
from nws_sweep.model import choice
from nws_sweep.model.counterfactual import Counterfactual
from nws_sweep.model.stages import Stage, stage_costs
from nws_sweep.records import Estimate, Measurement, SearchRecord, Trial, TrialState

_MOST = 12  # stages that are taken away, the most expensive
_LEAST_SHARE = 0.01  # of a sample's time
_MISFIT = 0.03  # relative error of a replay beside that of its inputs
NO_TIME = 0.01  # share of the epoch below which a stage saves no time


def stages_of(
    result: SearchRecord, best: Trial, replayed: Counterfactual | None
) -> tuple[Stage, ...]:
    """Lists the stages of a configuration's samples, the most expensive first; empty if
    none were timed.

    The first of them have what is saved without them, with the workers in use.

    Args:
        result: The search.
        best: Its recommended trial.
        replayed: The epoch at the best setting; None if it is unknown.
    """
    trials = [
        trial
        for trial in result.trials
        if trial.state is TrialState.OK and trial.num_workers
    ]
    stages = stage_costs(
        trials, best.settings.batch_size or _measured_size(best), best.num_workers
    )
    if replayed is None:
        return stages
    dear = [
        stage for stage in stages if stage.share >= _LEAST_SHARE and stage.depth <= 1
    ][:_MOST]
    with_savings = []
    for stage in stages:
        saved = (
            1 - replayed.cost_s(replayed.best, stage) / replayed.now_s
            if stage in dear
            else None
        )
        with_savings.append(replace(stage, saved=saved))
    return tuple(with_savings)


def _measured_size(best: Trial) -> int:
    """Counts the samples of a batch that the dataset or a batch_sampler makes; 1 if it
    is unknown."""
    measured = best.measurement
    if measured and measured.samples_per_s and measured.batch_s:
        return round(measured.samples_per_s * measured.batch_s.value)
    return 1


def with_workers(stage: Stage, diagnosis: Diagnosis) -> Stage:
    """Adds the workers and the epoch without a stage, by many replays; nothing if its
    saving is unknown."""
    if stage.saved is None:
        return stage
    replayed = diagnosis.replayed
    tolerance = diagnosis.result.configuration.search.tolerance
    # as ``stages_of`` has taken it away: the model remembers the result
    removed = replace(stage, saved=None)
    fewer = [
        replace(replayed.best, num_workers=number)
        for number in range(replayed.best.num_workers + 1)
    ]
    near_s = choice.costs_near_the_best(
        fewer, lambda settings: replayed.cost_s(settings, removed), tolerance
    )
    enough = choice.choose(near_s, tolerance)
    costs_s = [near_s[replayed.best], near_s[enough]]
    costs_s += [
        replayed.cost_s(replayed.best, smaller_or_larger)
        for smaller_or_larger in _with_error(stage)
    ]
    epoch_s = _epoch(
        diagnosis.measured, [cost_s / replayed.now_s for cost_s in costs_s]
    )
    return replace(stage, workers_without=enough.num_workers, epoch_without_s=epoch_s)


def _with_error(stage: Stage) -> Iterator[Stage]:
    """Yields the stage with a share that is twice its standard error smaller, and
    larger."""
    for sign in (-2, 2):
        scale = max(0.0, 1 + sign * stage.spread / stage.share)
        yield replace(
            stage,
            cpu=scale * stage.cpu,
            wait=scale * stage.wait,
            copy=scale * stage.copy,
        )


def _epoch(measured: Measurement, ratios: Sequence[float]) -> Estimate | None:
    """Multiplies the epoch by the first of these ratios; the band holds all of them,
    and that of the measured time."""
    epoch_s = measured.epoch_s
    if not epoch_s:
        return None
    half = min(0.5, _MISFIT + (units.uncertainty(measured.batch_s) or 0.0))
    low = min(ratios) * epoch_s * (1 - half)
    high = max(ratios) * epoch_s * (1 + half)
    return Estimate(value=ratios[0] * epoch_s, low=low, high=high, n=len(ratios))
