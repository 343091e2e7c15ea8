"""Search strategies: given the observations so far, which candidate is measured next, or why the search stops.

Strategies are pure and know nothing of loaders, processes or files: ask and tell without a state of their own, so that
a search that was interrupted goes on by showing the strategy what was observed.
"""

from __future__ import annotations

from nws_sweep.records import LoaderSettings, MeasureRules, SearchRules
from nws_sweep.strategies.adaptive import Adaptive
from nws_sweep.strategies.also import ALSO, Also
from nws_sweep.strategies.base import Decision, Measure, Observation, Race, Stop, Strategy, with_workers
from nws_sweep.strategies.patience import Patience

__all__ = [
    "ALSO", "STRATEGIES", "Adaptive", "Also", "Decision", "Measure", "Observation", "Patience", "Race", "Stop",
    "Strategy", "make", "most_candidates", "with_workers",
]  # fmt: skip

STRATEGIES = ("adaptive", "patience", "exhaustive")


def make(
    rules: SearchRules,
    base: LoaderSettings,
    measure: MeasureRules,
    cores: float = 1.0,
    guess: int | None = None,
    start_method: str = "fork",
) -> Strategy:
    """The strategy that the rules name.

    Args:
        rules: What to search.
        base: The DataLoader's settings beside num_workers.
        measure: How precisely to measure.
        cores: CPUs that a candidate may use.
        guess: A value of num_workers that may be the best, from elsewhere.
        start_method: How workers are started where ``base`` does not say.
    """
    workers: Strategy
    if rules.strategy == "adaptive":
        start_method = base.multiprocessing_context or start_method
        workers = Adaptive(rules=rules, base=base, measure=measure, cores=cores, guess=guess, start_method=start_method)
    else:
        workers = Patience(rules=rules, base=base, measure=measure)
    return Also(workers=workers, rules=rules, base=base, measure=measure, cores=cores) if rules.also else workers


def most_candidates(rules: SearchRules) -> int:
    """How many values of num_workers a search may try."""
    most = Adaptive.most_candidates(rules) if rules.strategy == "adaptive" else len(rules.candidates)
    return min(most, len(rules.candidates))
