"""Search strategies: given the observations so far, which candidate is measured next, or why the search stops.

Strategies are pure and know nothing of loaders, processes or files: ask and tell without a state of their own, so that
a search that was interrupted goes on by showing the strategy what was observed.
"""

from __future__ import annotations

from nws_sweep.errors import ConfigurationError
from nws_sweep.records import SearchRules
from nws_sweep.strategies.base import Decision, Measure, Observation, Stop, Strategy
from nws_sweep.strategies.exhaustive import Exhaustive
from nws_sweep.strategies.patience import Patience

__all__ = ["STRATEGIES", "Decision", "Exhaustive", "Measure", "Observation", "Patience", "Stop", "Strategy", "make"]

STRATEGIES = ("exhaustive", "patience")


def make(rules: SearchRules) -> Strategy:
    """The strategy that the rules name.

    Raises:
        ConfigurationError: If there is no strategy of that name.
    """
    if rules.strategy == "exhaustive":
        return Exhaustive(candidates=rules.candidates)
    if rules.strategy == "patience":
        return Patience(candidates=rules.candidates, maximum_patience=rules.maximum_patience)
    raise ConfigurationError(f"search.strategy={rules.strategy}: allowed are {', '.join(STRATEGIES)}")
