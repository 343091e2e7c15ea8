"""Makes the strategy that the rules name: by default the search of num_workers, then of prefetch_factor. Pure.

``Patience`` and the exhaustive search are here.

A strategy has no state: a search resumes by giving the strategy all observations so far.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.results import Configuration, DatasetFacts, LoaderSettings, SearchRules
from nws_sweep.searching.adaptive import MOST_PREDICTED, Adaptive
from nws_sweep.searching.estimates import Estimates, estimates_of, is_precise
from nws_sweep.searching.observations import Decision, Observation, Round, Stop, Strategy
from nws_sweep.searching.other_settings import OtherSettingsSearch


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience(Strategy):
    """Measures candidates in ascending order until more than ``patience`` in a row have not improved the best.

    An improvement of any size resets the count; a failed candidate is no improvement. All candidates that are certain
    to be measured, whatever the results, are measured together, each until it is precise. Observations out of order,
    such as the observation of the reference, count when the order reaches them. The reference is measured with the
    first candidates.
    """

    def decide(self, observations: Sequence[Observation], facts: DatasetFacts | None = None) -> Decision:
        """The next candidates; stops if the patience is exceeded or no candidate is left."""
        estimates = estimates_of(observations, self.rules.tolerance)
        known = {observation.num_workers: observation for observation in observations}
        finished = [n for n, observation in known.items() if self._is_finished(observation, estimates)]
        best, best_s, without_improvement = None, math.inf, 0
        for number, candidate in enumerate(self.rules.candidates):
            if candidate not in finished:
                wanted = self._certain(number, without_improvement)
                return self._round([n for n in wanted if n not in finished], best, finished, known)
            cost_s = estimates.costs_s.get(known[candidate].settings) if estimates else None
            if cost_s is not None and cost_s < best_s:
                best, best_s, without_improvement = candidate, cost_s, 0
            else:
                without_improvement += 1
            if without_improvement > self._patience:
                return Stop(reason=self._exceeded(best, without_improvement))
        within = "" if self.rules.strategy == "exhaustive" else f" within patience {self._patience}"
        return Stop(reason=f"all {len(self.rules.candidates)} candidates were measured{within}")

    @property
    def _patience(self) -> int:
        return len(self.rules.candidates) if self.rules.strategy == "exhaustive" else self.rules.patience

    def _certain(self, number: int, without_improvement: int) -> list[int]:
        """The candidates from a place in their order on that are measured whatever the results; and the reference."""
        certain = list(self.rules.candidates[number : number + self._patience + 1 - without_improvement])
        reference = self.rules.reference
        return certain if reference is None or reference in certain else [*certain, reference]

    def _is_finished(self, observation: Observation, estimates: Estimates | None) -> bool:
        if not observation.may_continue:
            return True
        if observation.cost_s is None or estimates is None:
            return False
        return is_precise(observation, estimates, self.measure)

    def _round(
        self, wanted: Sequence[int], best: int | None, finished: Sequence[int], known: Mapping[int, Observation]
    ) -> Round:
        """Candidates that are not precise, beside the best so far in their first rounds; the others are ended."""
        candidates = [self.base.with_workers(n) for n in wanted]
        started = [min(known[n].paces_s) for n in wanted if n in known and known[n].paces_s]
        beside: list[LoaderSettings] = []
        if best is not None and known[best].may_continue:
            rounds_beside = sum(number >= min(started) for number in known[best].paces_s) if started else 0
            if rounds_beside < self.measure.windows:
                beside.append(known[best].settings)
        # The best may be compared further, unless its process was closed for another.
        final = [known[n] for n in finished if n != best or not known[n].may_continue]
        ended = [observation.settings for observation in final if observation.paces_s]
        return Round(
            candidates=tuple(candidates),
            beside=tuple(beside),
            ended=tuple(ended),
            window_s=math.inf,
            waits=True,
            are_worse=False,
        )

    def _exceeded(self, best: int | None, without_improvement: int) -> str:
        count = units.counted(without_improvement, "candidate")
        of_best = "could not be measured" if best is None else f"after num_workers={best} did not improve on it"
        return f"{count} {of_best} (patience {self._patience})"


def make(
    configuration: Configuration, cores: float = 1.0, guess: int | None = None, start_method: str = "fork"
) -> Strategy:
    """The strategy that the rules of a configuration name; ``cores`` and ``guess`` are those of ``Adaptive``.

    Workers are started by the start method of the loader, or by ``start_method`` if it has none.
    """
    rules, base, measure = configuration.search, configuration.loader, configuration.measure
    workers: Strategy = Patience(rules=rules, base=base, measure=measure)
    method = base.multiprocessing_context or start_method
    if rules.strategy == "adaptive":
        workers = Adaptive(rules=rules, base=base, measure=measure, cores=cores, guess=guess, start_method=method)
    if not rules.searched(base):
        return workers
    return OtherSettingsSearch(
        workers=workers, rules=rules, base=base, measure=measure, cores=cores, start_method=method
    )


def most_candidates(rules: SearchRules) -> int:
    """Upper bound on the values of num_workers that a search measures."""
    most = MOST_PREDICTED + rules.patience if rules.strategy == "adaptive" else len(rules.candidates)
    return min(most, len(rules.candidates))
