"""Makes the search strategy that the rules name; patience and exhaustive search. Pure.

A strategy has no state: a search resumes by giving the strategy all observations so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.results import LoaderSettings, MeasureRules, SearchRules
from nws_sweep.tuning.adaptive import MOST_PREDICTED, Adaptive
from nws_sweep.tuning.other_settings import OtherSettingsSearch
from nws_sweep.tuning.paired_comparison import Decision, Measure, Observation, Stop, Strategy, with_workers

STRATEGIES = ("adaptive", "patience", "exhaustive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience(Strategy):
    """Measures candidates in ascending order until more than ``maximum_patience`` in a row have not improved the best.

    An improvement of any size resets the count; a failed candidate is no improvement. All candidates that are certain
    to be measured, whatever the results, are decided together. Observations out of order, such as that of the
    reference, count when the order reaches them. The reference is measured with the first candidates.
    """

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidates; stops if the patience is exceeded or no candidate is left."""
        candidates, reference = self.rules.candidates, self.rules.reference
        costs = {observation.num_workers: observation.cost_s for observation in observations}
        most = len(candidates) if self.rules.strategy == "exhaustive" else self.rules.maximum_patience
        best, best_s, without_improvement = None, math.inf, 0
        for number, candidate in enumerate(candidates):
            if candidate not in costs:
                wanted = dict.fromkeys(candidates[number : number + most + 1 - without_improvement])
                wanted |= {} if reference is None else {reference: None}
                return Measure(
                    candidates=tuple(with_workers(self.base, n) for n in wanted if n not in costs),
                    beside=() if best is None else (with_workers(self.base, best),),
                )
            cost_s = costs[candidate]
            if cost_s is not None and cost_s < best_s:
                best, best_s, without_improvement = candidate, cost_s, 0
            else:
                without_improvement += 1
            if without_improvement > most:
                count = units.counted(without_improvement, "candidate")
                of_best = "could not be measured" if best is None else f"after num_workers={best} did not improve on it"
                return Stop(reason=f"{count} {of_best} (patience {most}){self._about_reference(costs, best_s)}")
        within = "" if self.rules.strategy == "exhaustive" else f" within patience {most}"
        return Stop(reason=f"all {len(candidates)} candidates were measured{within}")

    def _about_reference(self, costs: Mapping[int, float | None], best_s: float) -> str:
        """A hint if the search stopped below the reference and the reference is faster."""
        reference, untried = self.rules.reference, [n for n in self.rules.candidates if n not in costs]
        reference_s = None if reference is None else costs.get(reference)
        if reference is None or reference_s is None or math.isinf(best_s) or reference_s >= best_s:
            return ""
        if min(untried, default=reference) >= reference:
            return ""
        return (
            f"; but the reference num_workers={reference} was faster, and {len(untried)} other candidates were not "
            "tried: more patience may find a better one"
        )


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
        rules: The strategy, its candidates and limits.
        base: The DataLoader's settings beside num_workers.
        measure: Precision and duration of the measurements.
        cores: CPUs that a candidate may use.
        guess: The best num_workers of a similar configuration; None for none.
        start_method: How workers are started if ``base`` has no start method.
    """
    workers: Strategy
    if rules.strategy == "adaptive":
        method = base.multiprocessing_context or start_method
        workers = Adaptive(rules=rules, base=base, measure=measure, cores=cores, guess=guess, start_method=method)
    else:
        workers = Patience(rules=rules, base=base, measure=measure)
    if not rules.also:
        return workers
    return OtherSettingsSearch(workers=workers, rules=rules, base=base, measure=measure, cores=cores)


def most_candidates(rules: SearchRules) -> int:
    """Upper bound on the values of num_workers that a search measures."""
    adaptive = MOST_PREDICTED + 2 * rules.maximum_patience  # those beyond the best are limited by the patience
    most = adaptive if rules.strategy == "adaptive" else len(rules.candidates)
    return min(most, len(rules.candidates))
