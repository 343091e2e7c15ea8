"""Other settings than num_workers, one after the other, each beside the best so far."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nws_sweep import units
from nws_sweep.results import LoaderSettings, MeasureRules, SearchRules, Verdict, shown
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
class OtherSettingsSearch:
    """Searches num_workers, and then the settings that are named.

    A value is kept only if it is faster than the best so far beyond noise: its interval leaves out 1. So what has no
    effect stays as it was.

    Attributes:
        workers: Searches num_workers.
        rules: The settings in the order of searching, and what is too small a gain.
        base: The settings to begin with.
        measure: What is precise enough, and the length of a window.
        cores: CPUs that a candidate may use.
    """

    workers: Strategy
    rules: SearchRules
    base: LoaderSettings
    measure: MeasureRules
    cores: float

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """What the search of num_workers says; after its end the next variants."""
        return self._walk(observations)[0]

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """The verdict on num_workers, with the settings that were found to be better."""
        return self._walk(observations)[1]

    def _walk(self, observations: Sequence[Observation]) -> tuple[Decision, Verdict | None]:
        """Goes through what was observed up to the first setting that is not decided yet."""
        of_workers = [o for o in observations if o.settings == with_workers(self.base, o.num_workers)]
        decision, verdict = self.workers.decide(of_workers), self.workers.verdict(of_workers)
        if not isinstance(decision, Stop) or verdict is None:
            return decision, verdict
        known = {o.settings: o for o in observations}
        best, reason = verdict.recommended, decision.reason
        for name in self.rules.also:
            variants = self._variants(best, name)
            log_ratios = self._log_ratios_of(best, variants, known)
            if compare_in_round := self._compare(best, variants, log_ratios, known):
                return compare_in_round, replace(verdict, recommended=best)
            faster = {
                variant: log_ratio
                for variant, log_ratio in log_ratios.items()
                if log_ratio.n >= _FEWEST_ROUNDS and log_ratio.high < 0
            }
            if faster:
                best = min(faster, key=lambda variant: faster[variant].value)
                gain = units.share(-math.expm1(faster[best].value))
                reason += f"; {name}={shown(getattr(best, name))} takes {gain} less time"
            elif variants:
                reason += f"; no other {name} is faster beyond noise"
        return Stop(reason=reason), replace(verdict, recommended=best)

    def _variants(self, best: LoaderSettings, name: str) -> list[LoaderSettings]:
        """The settings with every other value of one of them; none where it has no meaning."""
        variants = [replace(best, **{name: value}).canonical() for value in _values(name, best, self.cores)]
        return [variant for variant in dict.fromkeys(variants) if variant != best]

    def _log_ratios_of(
        self, best: LoaderSettings, variants: Sequence[LoaderSettings], known: Mapping[LoaderSettings, Observation]
    ) -> dict[LoaderSettings, LogRatio]:
        """By how much each variant that was measured is slower than the best so far."""
        measured = [known[each] for each in (best, *variants) if each in known and known[each].cost_s is not None]
        comparison = PairedComparison(tuple(measured), self.rules.tolerance, self.measure.precision)
        return {o.settings: comparison.log_ratio(o, known[best]) for o in measured if o.settings != best}

    def _compare(
        self,
        best: LoaderSettings,
        variants: Sequence[LoaderSettings],
        log_ratios: Mapping[LoaderSettings, LogRatio],
        known: Mapping[LoaderSettings, Observation],
    ) -> MeasureRound | None:
        """The next round; None if enough is known. What may still be kept goes on until no process is in doubt."""
        chosen, dropped = [variant for variant in variants if variant not in known], []
        if not chosen and known[best].may_continue:
            able = [variant for variant in variants if known[variant].may_continue]
            margin = math.log1p(self.rules.tolerance)
            dropped = [variant for variant in able if variant in log_ratios and log_ratios[variant].low > -margin]
            chosen = [variant for variant in able if variant not in dropped]
            if all(variant in log_ratios and self._is_settled(log_ratios[variant]) for variant in chosen):
                return None
        if not chosen:
            return None
        beside = (best,) if known[best].may_continue else ()
        return MeasureRound(candidates=(*beside, *chosen), dropped=tuple(dropped), window_s=self.measure.window_s)

    def _is_settled(self, log_ratio: LogRatio) -> bool:
        """Whether a variant that may be faster has been looked at long enough."""
        enough = log_ratio.high < 0 or log_ratio.half_width <= math.log1p(self.measure.precision)
        return log_ratio.n >= _MOST_ROUNDS or (log_ratio.n >= _FEWEST_ROUNDS and enough)


def _values(name: str, settings: LoaderSettings, cores: float) -> tuple[Any, ...]:
    """The values of a setting that are tried."""
    if name == "prefetch_factor":
        return tuple(n for n in _PREFETCH_FACTORS if settings.prefetch_factor is not None or n != _DEFAULT_PREFETCH)
    if name == "multiprocessing_context":
        # The first is the platform's own, which None stands for.
        return (None, *multiprocessing.get_all_start_methods()[1:])
    if name == "threads_per_worker":
        share = int(cores) // max(1, settings.num_workers)
        return (None, 2, share) if share > 1 else (None, 2)
    return (False, True)
