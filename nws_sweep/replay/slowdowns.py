"""What untried workers promise: their predicted time, unless what slows down larger trials slows them down less. Pure.

Storage, memory and locks serve some workers without any loss and slow down further ones. Two trials show how much from
one to the other, but not from which number on.
"""

import math

from nws_sweep.replay.factors import doublings, square_beyond_noise
from nws_sweep.replay.known import Known
from nws_sweep.replay.model import Model
from nws_sweep.replay.prediction import MOST_BATCHES
from nws_sweep.replay.queue import QueueSettings

_FEW = 300  # batches of similar costs that are replayed for each of many settings, while what is measured is paused


def promised_s(model: Model, settings: QueueSettings) -> float:
    """Expected seconds per batch of untried settings.

    Between two trials, the slowdown c of the larger one begins at any number of workers u with the same probability for
    each doubling, and grows in proportion to the doublings from there on. In shares of the doublings between them, the
    mean of c (s - u) / (1 - u) over all u up to that of the settings, s, is c s + c (1 - s) ln(1 - s). The first term
    interpolates between what both trials predict; the second one has only what noise does not explain of c. Beyond all
    trials, each doubling adds the mean slowdown of a doubling from the first trial with workers to the last.
    """
    most = MOST_BATCHES if model.records_for(settings.num_workers).varies else _FEW
    if (pair := _trials_around(model.known, settings.num_workers)) is None:
        return model.cost_s(settings, most=most)
    smaller, larger = pair
    as_smaller_s, as_larger_s = (model.cost_s(settings, most=most, like=one) for one in pair)
    slowdown = max(0.0, math.log(as_larger_s / as_smaller_s))
    beyond_noise = math.sqrt(square_beyond_noise(slowdown, smaller, larger))
    share = doublings(smaller, settings.num_workers) / doublings(smaller, larger.settings.num_workers)
    if share > 1:
        return as_larger_s * math.exp((share - 1) * beyond_noise)
    later = (1 - share) * math.log(1 - share)
    return math.exp((1 - share) * math.log(as_smaller_s) + share * math.log(as_larger_s) + later * beyond_noise)


def _trials_around(known: tuple[Known, ...], num_workers: int) -> tuple[Known, Known] | None:
    """The nearest trials with fewer and with more workers; else the first and the last with workers, if they differ."""
    fewer = [one for one in known if one.settings.num_workers < num_workers]
    more = [one for one in known if one.settings.num_workers > num_workers]
    if fewer and more:
        return fewer[-1], more[0]
    with_workers = [one for one in fewer if one.settings.num_workers]
    return (with_workers[0], with_workers[-1]) if len(with_workers) > 1 else None
