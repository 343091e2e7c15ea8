"""Searches settings other than num_workers, one after the other, each compared with the best so far. Pure."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nws_sweep import units
from nws_sweep.results import LoaderSettings, Verdict, shown
from nws_sweep.tuning.paired_comparison import (
    Decision,
    LogRatio,
    MeasureRound,
    Observation,
    PairedComparison,
    Stop,
    Strategy,
    with_workers,
)

ALSO = (
    "prefetch_factor", "pin_memory", "persistent_workers", "multiprocessing_context", "in_order", "threads_per_worker",
)  # fmt: skip
_PREFETCH_FACTORS, _DEFAULT_PREFETCH = (1, 2, 4, 8), 2
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSettingsSearch(Strategy):
    """Searches num_workers, and then the settings in ``rules.also``.

    A value is kept only if it is faster than the best so far and the interval of the ratio excludes 1, so a setting
    without effect stays unchanged.
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
        for name in self.rules.also:
            variants = self._variants(best, name)
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
        measured = [known[each] for each in (best, *variants) if each in known and known[each].cost_s is not None]
        comparison = PairedComparison(tuple(measured), self.rules.tolerance, self.measure.precision)
        return {o.settings: comparison.log_ratio(o, known[best]) for o in measured if o.settings != best}

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
        return tuple(n for n in _PREFETCH_FACTORS if settings.prefetch_factor is not None or n != _DEFAULT_PREFETCH)
    if name == "multiprocessing_context":
        return (None, *multiprocessing.get_all_start_methods()[1:])  # None is the default, the first one
    if name == "threads_per_worker":
        share = int(cores) // max(1, settings.num_workers)
        return (None, 2, share) if share > 1 else (None, 2)
    return (False, True)
