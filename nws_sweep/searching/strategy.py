"""Makes the strategy that the rules name: by default the search of num_workers, then of
prefetch_factor. Pure.

``Patience`` and the exhaustive search are here.

A strategy has no state: a search resumes by giving the strategy all observations so
far.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.model.time_limit import limit_s
from nws_sweep.records import Configuration, DatasetFacts, LoaderSettings, SearchRules
from nws_sweep.searching.adaptive import MOST_PREDICTED, Adaptive
from nws_sweep.searching.estimates import Estimates, estimates_of, is_precise
from nws_sweep.searching.observations import (
    Decision,
    Observation,
    Round,
    Stop,
    Strategy,
)
from nws_sweep.searching.other_settings import OtherSettingsSearch


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience(Strategy):
    """Measures candidates in ascending order until more than ``patience`` in a row have
    not improved the best.

    An improvement of any size resets the count; a failed candidate is no improvement.
    All candidates that are certain to be measured, whatever the results, are measured
    together, each until it is precise. Observations out of order, such as the
    observation of the reference, count when the order reaches them. The reference is
    measured with the first candidates.
    """

    def decide(
        self, observations: Sequence[Observation], facts: DatasetFacts | None = None
    ) -> Decision:
        """Decides which candidates to measure next; stops if the patience is exceeded
        or no candidate is left."""
        costs_s = self._finished_costs_s(observations)
        best, best_s, without_improvement = None, math.inf, 0
        for place, num_workers in enumerate(self.rules.candidates):
            if num_workers not in costs_s:
                certain = self._certain(place, without_improvement)
                wanted = [n for n in certain if n not in costs_s]
                return self._round(wanted, best, costs_s, observations)
            cost_s = costs_s[num_workers]
            if cost_s < best_s:
                best, best_s, without_improvement = num_workers, cost_s, 0
            else:
                without_improvement += 1
            if without_improvement > self._patience:
                return Stop(reason=self._exceeded(best, without_improvement))
        reason = f"all {len(self.rules.candidates)} candidates were measured"
        if self.rules.strategy != "exhaustive":
            reason += f" within patience {self._patience}"
        return Stop(reason=reason)

    @property
    def _patience(self) -> int:
        if self.rules.strategy == "exhaustive":
            return len(self.rules.candidates)
        return self.rules.patience

    def _finished_costs_s(
        self, observations: Sequence[Observation]
    ) -> dict[int, float]:
        """The costs of the candidates that need no more rounds, s, by num_workers;
        infinite if a candidate could not be measured."""
        estimates = estimates_of(observations, self.rules.tolerance)
        measured_s = estimates.costs_s if estimates else {}
        costs_s = {}
        for observation in observations:
            if self._is_finished(observation, estimates):
                cost_s = measured_s.get(observation.settings, math.inf)
                costs_s[observation.num_workers] = cost_s
        return costs_s

    def _is_finished(
        self, observation: Observation, estimates: Estimates | None
    ) -> bool:
        if not observation.may_continue:
            return True
        if observation.cost_s is None or estimates is None:
            return False
        return is_precise(observation, estimates, self.measure)

    def _certain(self, place: int, without_improvement: int) -> list[int]:
        """Lists the candidates from a place in the order on that are measured whatever
        the results; and the reference.

        They are as many as the patience allows after ``without_improvement``
        candidates.
        """
        certain = list(
            self.rules.candidates[
                place : place + self._patience + 1 - without_improvement
            ]
        )
        reference = self.rules.reference
        if reference is not None and reference not in certain:
            certain.append(reference)
        return certain

    def _round(
        self,
        wanted: Sequence[int],
        best: int | None,
        finished: Collection[int],
        observations: Sequence[Observation],
    ) -> Round:
        """Measures candidates that are not precise, beside the best so far in their
        first rounds; ends the others."""
        observed = {
            observation.num_workers: observation for observation in observations
        }
        beside: list[LoaderSettings] = []
        if best is not None and self._is_compared(
            observed[best], [observed[n] for n in wanted if n in observed]
        ):
            beside.append(observed[best].settings)
        ended: list[LoaderSettings] = []
        for num_workers in finished:
            observation = observed[num_workers]
            # The best may be compared further, unless its process was closed for
            # another candidate.
            is_final = num_workers != best or not observation.may_continue
            if is_final and observation.paces_s:
                ended.append(observation.settings)
        return Round(
            candidates=tuple(self.base.with_workers(n) for n in wanted),
            beside=tuple(beside),
            ended=tuple(ended),
            window_s=math.inf,
            are_rivals=False,
        )

    def _is_compared(self, best: Observation, wanted: Sequence[Observation]) -> bool:
        """Whether the best so far takes part in a round: beside these candidates it had
        fewer than ``windows``."""
        first_round = min(
            (number for observation in wanted for number in observation.paces_s),
            default=math.inf,
        )
        rounds_beside = sum(number >= first_round for number in best.paces_s)
        return best.may_continue and rounds_beside < self.measure.windows

    def _exceeded(self, best: int | None, without_improvement: int) -> str:
        count = units.counted(without_improvement, "candidate")
        outcome = (
            "could not be measured"
            if best is None
            else f"after num_workers={best} did not improve on it"
        )
        return f"{count} {outcome} (patience {self._patience})"


# Strategies that need no predictions, by name; ``STRATEGIES`` in records/ranges.py
# has all names.
_WITHOUT_MODEL: Mapping[str, type[Strategy]] = {
    "patience": Patience,
    "exhaustive": Patience,
}


def make(
    configuration: Configuration,
    cores: float = 1.0,
    guess: int | None = None,
    start_method: str = "fork",
) -> Strategy:
    """Makes the strategy that the rules of a configuration name.

    Args:
        configuration: Its loader is the program's.
        cores: CPUs that a candidate may use.
        guess: The best num_workers of a similar configuration; None for no guess.
        start_method: Starts workers if the loader has no start method.
    """
    rules, base, measure = (
        configuration.search,
        configuration.loader,
        configuration.measure,
    )
    method = base.multiprocessing_context or start_method
    workers: Strategy
    if rules.strategy == "adaptive":
        workers = Adaptive(
            rules=rules,
            base=base,
            measure=measure,
            cores=cores,
            guess=guess,
            start_method=method,
        )
    else:
        workers = _WITHOUT_MODEL[rules.strategy](
            rules=rules, base=base, measure=measure
        )
    if not rules.searched(base):
        return workers
    return OtherSettingsSearch(
        workers=workers,
        rules=rules,
        base=base,
        measure=measure,
        cores=cores,
        start_method=method,
        limit_s=limit_s(configuration),
    )


def most_candidates(rules: SearchRules) -> int:
    """Computes an upper bound on the values of num_workers that a search measures."""
    most = (
        MOST_PREDICTED + rules.patience
        if rules.strategy == "adaptive"
        else len(rules.candidates)
    )
    return min(most, len(rules.candidates))
