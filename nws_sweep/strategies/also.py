"""Other settings than num_workers, one after the other, each beside the best so far."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nws_sweep import units
from nws_sweep.records import LoaderSettings, Verdict, shown
from nws_sweep.strategies.base import Decision, Observation, Race, Stop, Strategy, with_workers
from nws_sweep.strategies.contest import Gap, contest_of

ALSO = (
    "prefetch_factor", "pin_memory", "persistent_workers", "multiprocessing_context", "in_order", "threads_per_worker",
)  # fmt: skip
_PREFETCH_FACTORS, _DEFAULT_PREFETCH = (1, 2, 4, 8), 2
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 8

Known = Mapping[LoaderSettings, Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """Searches num_workers, and then the settings that are named.

    A value is kept only if it is faster than the best so far beyond noise: its interval leaves out 1. So what has no
    effect stays as it was.

    Attributes:
        workers: Searches num_workers.
        names: The settings, in the order of searching.
        base: The settings to begin with.
        tolerance: What may be gained by less than this share is not worth more time.
        precision: Half-width of the interval that is narrow enough, as a share.
        window_s: Length of a window, s.
        cores: CPUs that a candidate may use.
    """

    workers: Strategy
    names: tuple[str, ...]
    base: LoaderSettings
    tolerance: float
    precision: float
    window_s: float
    cores: float

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """What the search of num_workers says; after its end the next variants."""
        decision = self.workers.decide(self._of_workers(observations))
        best = self.workers.verdict(self._of_workers(observations))
        if not isinstance(decision, Stop) or best is None:
            return decision
        return self._walk(observations, best, decision.reason)[0]

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """The verdict on num_workers, with the settings that were found to be better."""
        best = self.workers.verdict(self._of_workers(observations))
        if best is None or not isinstance(self.workers.decide(self._of_workers(observations)), Stop):
            return best
        return replace(best, recommended=self._walk(observations, best, "")[1])

    def _of_workers(self, observations: Sequence[Observation]) -> list[Observation]:
        return [o for o in observations if o.settings == with_workers(self.base, o.num_workers)]

    def _walk(self, observations: Sequence[Observation], best: Verdict, reason: str) -> tuple[Decision, LoaderSettings]:
        """Goes through what was observed up to the first setting that is not decided yet."""
        known = {o.settings: o for o in observations}
        settings = best.recommended
        for name in self.names:
            variants = self._variants(settings, name)
            if decision := self._undecided(settings, variants, known):
                return decision, settings
            if better := self._better(settings, variants, known):
                settings, gain = better
                reason += f"; {name}={shown(getattr(settings, name))} takes {units.share(gain)} less time"
            elif variants:
                reason += f"; no other {name} is faster beyond noise"
        return Stop(reason=reason), settings

    def _variants(self, settings: LoaderSettings, name: str) -> list[LoaderSettings]:
        """The settings with every other value of one of them; none where it has no meaning."""
        variants = [replace(settings, **{name: value}).canonical() for value in _values(name, settings, self.cores)]
        return [variant for variant in dict.fromkeys(variants) if variant != settings]

    def _undecided(self, settings: LoaderSettings, variants: Sequence[LoaderSettings], known: Known) -> Race | None:
        """The next round; None if enough is known. Whoever may still be kept goes on until nobody is in doubt."""
        new = [variant for variant in variants if variant not in known]
        if new:
            return self._race([settings, *new], known)
        gaps = self._gaps(settings, variants, known)
        able = [variant for variant in variants if known[variant].open and known[settings].open]
        out = [variant for variant in able if variant in gaps and gaps[variant].low > -math.log1p(self.tolerance)]
        left = [variant for variant in able if variant not in out]
        if all(variant in gaps and self._is_settled(gaps[variant]) for variant in left):
            return None
        return self._race([settings, *left], known, out)

    def _race(self, chosen: Sequence[LoaderSettings], known: Known, dropped: Sequence[LoaderSettings] = ()) -> Race:
        able = [settings for settings in chosen if settings not in known or known[settings].open]
        return Race(candidates=tuple(able), dropped=tuple(dropped), window_s=self.window_s)

    def _gaps(
        self, settings: LoaderSettings, variants: Sequence[LoaderSettings], known: Known
    ) -> dict[LoaderSettings, Gap]:
        """By how much each variant that was measured is slower than the best so far."""
        everyone = [known[each] for each in (settings, *variants)]
        contest = contest_of(everyone, self.tolerance, self.precision)
        if contest is None or known[settings].cost_s is None:
            return {}
        measured = [variant for variant in variants if known[variant].cost_s is not None]
        return {variant: contest.gap(known[variant], known[settings]) for variant in measured}

    def _is_settled(self, gap: Gap) -> bool:
        """Whether a variant that may be faster has been looked at long enough."""
        enough = gap.high < 0 or gap.half_width <= math.log1p(self.precision)
        return gap.n >= _MOST_ROUNDS or (gap.n >= _FEWEST_ROUNDS and enough)

    def _better(
        self, settings: LoaderSettings, variants: Sequence[LoaderSettings], known: Known
    ) -> tuple[LoaderSettings, float] | None:
        """The variant that is faster beyond noise by the most, and by which share; None if there is none."""
        gaps = self._gaps(settings, variants, known)
        winners = [variant for variant, gap in gaps.items() if gap.n >= _FEWEST_ROUNDS and gap.high < 0]
        if not winners:
            return None
        best = min(winners, key=lambda variant: gaps[variant].value)
        return best, -math.expm1(gaps[best].value)


def _values(name: str, settings: LoaderSettings, cores: float) -> tuple[Any, ...]:
    """The values of a setting that are tried."""
    if name == "prefetch_factor":
        return tuple(n for n in _PREFETCH_FACTORS if settings.prefetch_factor is not None or n != _DEFAULT_PREFETCH)
    if name == "multiprocessing_context":
        # The first is the platform's own, which None stands for.
        return (None, *multiprocessing.get_all_start_methods()[1:])
    if name == "threads_per_worker":
        share = max(1, int(cores) // max(1, settings.num_workers))
        return tuple(dict.fromkeys((None, 2, share))) if share > 1 else (None, 2)
    return (False, True)
