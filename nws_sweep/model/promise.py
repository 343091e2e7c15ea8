"""What settings that were not measured promise, from what the trials around them show.
Pure."""

import math
import statistics

from nws_sweep.model.known import Known, doublings, square_beyond_noise
from nws_sweep.model.model import Model
from nws_sweep.model.queue import QueueSettings

_PLACES = 10  # at which a slowdown may begin, between two trials


def promised_s(
    model: Model, settings: QueueSettings, most_s: float = math.inf
) -> float:
    """Predicts the expected seconds per batch if the settings are used only where they
    take less than ``most_s``.

    Storage, memory and locks serve some workers without any loss and slow down further
    workers. Two trials show how much from the smaller to the larger, but not from which
    number of workers on. Between the two trials, the slowdown of the larger one begins
    at any number of workers with the same probability for each doubling, and grows in
    proportion to the doublings from there on. So the time has a distribution, and what
    it may save counts (expected improvement: Jones, Schonlau and Welch, Journal of
    Global Optimization 13, 1998). Beyond all trials, each doubling adds the mean
    slowdown of a doubling from the first trial with workers to the last.
    """
    pair = _trials_around(model.trials, settings.num_workers)
    if pair is None:
        return min(most_s, model.cost_s(settings))
    smaller, larger = pair
    as_smaller_s = model.cost_s(settings, like=smaller)
    as_larger_s = model.cost_s(settings, like=larger)
    measured = max(0.0, math.log(as_larger_s / as_smaller_s))
    slowdown = math.sqrt(square_beyond_noise(measured, smaller, larger))
    share = doublings(smaller, settings.num_workers) / doublings(
        smaller, larger.num_workers
    )
    if share > 1:
        return min(most_s, as_larger_s * math.exp((share - 1) * slowdown))
    # what both trials predict
    between_s = as_smaller_s ** (1 - share) * as_larger_s**share
    times_s = []
    for place in range(_PLACES):
        # as a share of the doublings between the trials
        begin = (place + 0.5) / _PLACES
        later = slowdown * (share - begin) / (1 - begin) if share > begin else 0.0
        times_s.append(min(most_s, between_s * math.exp(later - share * slowdown)))
    return statistics.fmean(times_s)


def _trials_around(
    trials: tuple[Known, ...], num_workers: int
) -> tuple[Known, Known] | None:
    """Finds the nearest trials with fewer and more workers; else the first and last
    with workers, if they differ."""
    fewer = [trial for trial in trials if trial.num_workers < num_workers]
    more = [trial for trial in trials if trial.num_workers > num_workers]
    if fewer and more:
        return fewer[-1], more[0]
    with_workers = [trial for trial in fewer if trial.num_workers]
    if len(with_workers) > 1:
        return with_workers[0], with_workers[-1]
    return None
