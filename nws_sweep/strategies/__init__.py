"""Search strategies: given the observations so far, which candidate is measured next, or why the search stops.

Strategies are pure and know nothing of loaders, processes or files: ask and tell without a state of their own, so that
a search that was interrupted goes on by showing the strategy what was observed.
"""

from __future__ import annotations

from nws_sweep.errors import ConfigurationError
from nws_sweep.records import LoaderSettings, MeasureRules, SearchRules
from nws_sweep.strategies.adaptive import Adaptive
from nws_sweep.strategies.also import ALSO, Also
from nws_sweep.strategies.base import Decision, Measure, Observation, Race, Stop, Strategy, with_workers
from nws_sweep.strategies.exhaustive import Exhaustive
from nws_sweep.strategies.patience import Patience

__all__ = [
    "ALSO", "STRATEGIES", "Adaptive", "Also", "Decision", "Exhaustive", "Measure", "Observation", "Patience", "Race",
    "Stop", "Strategy", "make", "most_candidates", "with_workers",
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
        guess: A value of num_workers that may be the best, from elsewhere; None for none.
        start_method: How workers are started where ``base`` does not say: fork, spawn or forkserver.

    Raises:
        ConfigurationError: If there is no strategy of that name.
    """
    adaptive = Adaptive(
        rules=rules, base=base, measure=measure, cores=cores, guess=guess,
        start_method=base.multiprocessing_context or start_method,
    )  # fmt: skip
    workers = adaptive if rules.strategy == "adaptive" else _ascending(rules, base, measure)
    if not rules.also:
        return workers
    return Also(
        workers=workers,
        names=rules.also,
        base=base,
        tolerance=rules.tolerance,
        precision=measure.precision,
        window_s=measure.window_s,
        cores=cores,
    )


def most_candidates(rules: SearchRules) -> int:
    """How many values of num_workers a search may try."""
    most = Adaptive.most_candidates(rules) if rules.strategy == "adaptive" else len(rules.candidates)
    return min(most, len(rules.candidates))


def _ascending(rules: SearchRules, base: LoaderSettings, measure: MeasureRules) -> Strategy:
    if rules.strategy == "exhaustive":
        return Exhaustive(
            candidates=rules.candidates, base=base, tolerance=rules.tolerance, precision=measure.precision
        )
    if rules.strategy == "patience":
        return Patience(
            candidates=rules.candidates,
            maximum_patience=rules.maximum_patience,
            base=base,
            tolerance=rules.tolerance,
            precision=measure.precision,
        )
    raise ConfigurationError(f"search.strategy={rules.strategy}: allowed are {', '.join(STRATEGIES)}")
