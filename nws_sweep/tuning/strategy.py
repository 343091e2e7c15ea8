"""Search strategies: patience, exhaustive, other settings; makes the strategy that the rules name. Pure.

A strategy has no state: a search resumes by giving the strategy all observations so far.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nws_sweep import units
from nws_sweep.results import DEFAULT_PREFETCH, LoaderSettings, MeasureRules, SearchRules, Verdict, shown
from nws_sweep.tuning.adaptive import MOST_PREDICTED, Adaptive
from nws_sweep.tuning.forecast import forecast_of
from nws_sweep.tuning.paired_comparison import (
    Decision,
    LogRatio,
    Measure,
    MeasureRound,
    Observation,
    Stop,
    Strategy,
    with_workers,
)

SEARCHABLE = (
    "prefetch_factor", "pin_memory", "persistent_workers", "multiprocessing_context", "in_order", "threads_per_worker",
)  # fmt: skip
_PREFETCH_FACTORS = (1, 2, 4, 8)
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 8
_PREDICTED = ("prefetch_factor", "in_order")
_WORTH_A_TRIAL = 0.01  # predicted gain


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience(Strategy):
    """Measures candidates in ascending order until more than ``patience`` in a row have not improved the best.

    An improvement of any size resets the count; a failed candidate is no improvement. All candidates that are certain
    to be measured, whatever the results, are decided together. Observations out of order, such as that of the
    reference, count when the order reaches them. The reference is measured with the first candidates.
    """

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidates; stops if the patience is exceeded or no candidate is left."""
        candidates, reference = self.rules.candidates, self.rules.reference
        costs = {observation.num_workers: observation.cost_s for observation in observations}
        most = len(candidates) if self.rules.strategy == "exhaustive" else self.rules.patience
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
                return Stop(reason=f"{count} {of_best} (patience {most})")
        within = "" if self.rules.strategy == "exhaustive" else f" within patience {most}"
        return Stop(reason=f"all {len(candidates)} candidates were measured{within}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSettingsSearch(Strategy):
    """Searches num_workers, and then the settings in ``rules.settings``.

    A value is kept only if it is faster than the best so far and the interval of the ratio excludes 1, so a setting
    without effect stays unchanged. Of settings that the replay predicts only the best value is measured, if any.
    """

    workers: Strategy  # searches num_workers
    cores: float  # CPUs that a candidate may use

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The decision of the search of num_workers; after its end the next variants."""
        return self._walk(observations)[0]

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """The verdict on num_workers, with the better values of other settings."""
        return self._walk(observations)[1]

    def _walk(self, observations: Sequence[Observation]) -> tuple[Decision, Verdict | None]:
        """The decision on the first undecided setting, and the verdict so far."""
        of_workers = [o for o in observations if o.settings == with_workers(self.base, o.num_workers)]
        decision, verdict = self.workers.decide(of_workers), self.workers.verdict(of_workers)
        if not isinstance(decision, Stop) or verdict is None:
            return decision, verdict
        known = {o.settings: o for o in observations}
        best, reason = verdict.recommended, decision.reason
        forecast = forecast_of(of_workers, self.cores, "fork")
        for name in self.rules.settings:
            variants = self._variants(best, name)
            if forecast and name in _PREDICTED and variants:
                # A later prediction does not replace the value that is being measured.
                variants = [each for each in variants if each in known] or [min(variants, key=forecast.cost_s)]
                worth_s = forecast.cost_s(best) / (1 + _WORTH_A_TRIAL)
                if variants[0] not in known and forecast.cost_s(variants[0]) > worth_s:
                    reason += f"; no other {name} is predicted to be faster"
                    continue
            ratios = self._ratios(best, variants, known)
            if next_round := self._round(best, variants, ratios, known):
                return next_round, replace(verdict, recommended=best)
            faster = {one: ratio for one, ratio in ratios.items() if ratio.n >= _FEWEST_ROUNDS and ratio.high < 0}
            if faster:
                best = min(faster, key=lambda variant: faster[variant].value)
                gain = units.share(-math.expm1(faster[best].value))
                reason += f"; {name}={shown(getattr(best, name))} takes {gain} less time"
            elif variants:
                reason += f"; no other {name} is faster beyond noise"
        return Stop(reason=reason), replace(verdict, recommended=best)

    def _variants(self, best: LoaderSettings, name: str) -> list[LoaderSettings]:
        """The settings with every other value of ``name``; empty if ``name`` has no meaning."""
        variants = [replace(best, **{name: value}).canonical() for value in _values(name, best, self.cores)]
        return [variant for variant in dict.fromkeys(variants) if variant != best]

    def _ratios(
        self, best: LoaderSettings, variants: Sequence[LoaderSettings], known: Mapping[LoaderSettings, Observation]
    ) -> Mapping[LoaderSettings, LogRatio]:
        """The log ratio of each measured variant to the best so far."""
        comparison = self.comparison([known[each] for each in (best, *variants) if each in known])
        if comparison is None:
            return {}
        others = (o for o in comparison.observations if o.settings != best)
        return {o.settings: comparison.log_ratio(o, known[best]) for o in others}

    def _round(
        self,
        best: LoaderSettings,
        variants: Sequence[LoaderSettings],
        ratios: Mapping[LoaderSettings, LogRatio],
        known: Mapping[LoaderSettings, Observation],
    ) -> MeasureRound | None:
        """The next round; None if the setting is decided. Faster variants continue until all others are decided."""
        chosen, dropped = [variant for variant in variants if variant not in known], []
        if not chosen and known[best].may_continue:
            active = [variant for variant in variants if known[variant].may_continue]
            margin = math.log1p(self.rules.tolerance)
            dropped = [variant for variant in active if variant in ratios and ratios[variant].low > -margin]
            chosen = [variant for variant in active if variant not in dropped]
            if all(variant in ratios and self._is_decided(ratios[variant]) for variant in chosen):
                return None
        if not chosen:
            return None
        beside = (best,) if known[best].may_continue else ()
        return MeasureRound(candidates=(*beside, *chosen), dropped=tuple(dropped), window_s=self.measure.window_s)

    def _is_decided(self, ratio: LogRatio) -> bool:
        converged = ratio.high < 0 or ratio.half_width <= math.log1p(self.measure.precision)
        return ratio.n >= _MOST_ROUNDS or (ratio.n >= _FEWEST_ROUNDS and converged)


def _values(name: str, settings: LoaderSettings, cores: float) -> tuple[Any, ...]:
    if name == "prefetch_factor":
        return tuple(n for n in _PREFETCH_FACTORS if settings.prefetch_factor is not None or n != DEFAULT_PREFETCH)
    if name == "multiprocessing_context":
        return (None, *multiprocessing.get_all_start_methods()[1:])  # None is the default, the first one
    if name == "threads_per_worker":
        share = int(cores) // max(1, settings.num_workers)
        return (None, 2, share) if share > 1 else (None, 2)
    return (False, True)


STRATEGIES: Mapping[str, Callable[..., Strategy]] = {
    "adaptive": Adaptive, "patience": Patience, "exhaustive": Patience,
}  # fmt: skip


def make(
    rules: SearchRules,
    base: LoaderSettings,
    measure: MeasureRules,
    cores: float = 1.0,
    guess: int | None = None,
    start_method: str = "fork",
) -> Strategy:
    """The strategy that the rules name; ``cores`` and ``guess`` are those of ``Adaptive``.

    Workers are started by the start method of ``base``, or by ``start_method`` if it has none.
    """
    workers: Strategy
    if rules.strategy == "adaptive":
        method = base.multiprocessing_context or start_method
        workers = Adaptive(rules=rules, base=base, measure=measure, cores=cores, guess=guess, start_method=method)
    else:
        workers = STRATEGIES[rules.strategy](rules=rules, base=base, measure=measure)
    if not rules.settings:
        return workers
    return OtherSettingsSearch(workers=workers, rules=rules, base=base, measure=measure, cores=cores)


def most_candidates(rules: SearchRules) -> int:
    """Upper bound on the values of num_workers that a search measures."""
    adaptive = MOST_PREDICTED + 2 * rules.patience  # those beyond the best are limited by the patience
    most = adaptive if rules.strategy == "adaptive" else len(rules.candidates)
    return min(most, len(rules.candidates))
