"""The time limit of a search. Pure."""

import math

from nws_sweep.records import Configuration

_LIMIT_S = 60.0  # of an adaptive search for which no limit is set
_LIMIT_OF_SETTING_S = 30.0  # more for each setting besides num_workers


def longer_s(configuration: Configuration) -> float:
    """The time limit that is worth trying after a search that was too short."""
    return max(_LIMIT_S, 2 * limit_s(configuration))


def limit_s(configuration: Configuration) -> float:
    """Says after how many seconds of measuring a search ends; infinite if there is no
    limit.

    The default limit of an adaptive search does not grow with a search of
    prefetch_factor.
    """
    rules = configuration.search
    if rules.time_limit_s is not None:
        return rules.time_limit_s
    if rules.strategy != "adaptive" or configuration.measure.mode == "epoch":
        return math.inf
    longer_settings = set(rules.settings or ()) - {"prefetch_factor"}
    return _LIMIT_S + _LIMIT_OF_SETTING_S * len(longer_settings)
