"""Search strategies: patience, exhaustive, other settings; makes the strategy that the rules name. Pure.

A strategy has no state: a search resumes by giving the strategy all observations so far.
"""

import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nws_sweep import units
from nws_sweep.replay import choice
from nws_sweep.replay.known import queue_settings
from nws_sweep.results import DEFAULT_PREFETCH, LoaderSettings, MeasureRules, SearchRules, shown
from nws_sweep.searching.adaptive import MOST_PREDICTED, Adaptive
from nws_sweep.searching.estimates import Estimates, estimates_of, undecided
from nws_sweep.searching.observations import Decision, Measure, MeasureRound, Observation, Stop, Strategy, model_from

_MOST_ROUNDS, _MOST_TIMED_S = 8, 8.0  # of a value: a round may be a whole epoch
_PREDICTED = ("prefetch_factor", "in_order")


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
                    candidates=tuple(self.base.with_workers(n) for n in wanted if n not in costs),
                    beside=() if best is None else (self.base.with_workers(best),),
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
    """Searches num_workers, and then other settings, one after the other.

    The values of a setting are compared in rounds with the best settings so far. Of settings that the replay predicts
    only the best value is measured, if it promises enough.
    """

    workers: Strategy  # searches num_workers
    cores: float  # CPUs that a candidate may use
    has_accelerator: bool = True  # without one, pin_memory has no effect

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The decision of the search of num_workers; after its end the next values."""
        others = [o for o in observations if o.settings != self.base.with_workers(o.num_workers)]
        # Rounds beside other settings do not reopen the search of num_workers: they have no other number.
        first = min((number for o in others for number in o.by_round), default=math.inf)
        of_workers = [_before(first, o) for o in observations if o not in others]
        decision = self.workers.decide(of_workers)
        found = estimates_of(of_workers, self.rules.tolerance)
        known = {o.settings: o for o in observations}
        # A finished trial of an earlier program does not show that the search of num_workers ended.
        has_begun = any(o.by_round or o.spent_s for o in others)
        if found is None or not (isinstance(decision, Stop) or has_begun):
            return decision
        # The best so far takes part in the first round with other settings, unless it has ended.
        beside = (o.settings for o in observations if o not in others and first in o.by_round)
        best = next(beside, found.answer)
        reason = f"num_workers={best.num_workers} was the fastest"
        if isinstance(decision, Stop) and best == found.answer:
            reason = decision.reason
        return self._compare(best, reason, of_workers, known)

    def _compare(
        self,
        best: LoaderSettings,
        reason: str,
        of_workers: Sequence[Observation],
        known: Mapping[LoaderSettings, Observation],
    ) -> Decision:
        """The next values of the settings after num_workers, which ended for this reason."""
        for name in self.rules.searched(self.base):
            if name == "pin_memory" and not self.has_accelerator:
                reason += "; pin_memory has no effect without an accelerator"
                continue
            values = self._values(best, name, of_workers, known)
            if new := [each for each in values if each not in known]:
                return self._round([*self._active([best], known), *new])
            compared = [known[each] for each in (best, *values)]
            if untimed := [o.settings for o in compared if o.may_continue and o.cost_s is None]:
                return self._round(untimed)
            found = estimates_of(compared, self.rules.tolerance)
            if found is None or len(compared) == 1:
                reason += f"; no other {name} is predicted to be faster" if name in _PREDICTED else ""
                continue
            if undecided := self._undecided(best, found, known):
                return self._round(undecided, self._active([o for o in values if o not in undecided], known))
            reason += _outcome(name, best, found)
            best = found.answer
        return Stop(reason=reason)

    def _values(
        self,
        best: LoaderSettings,
        name: str,
        of_workers: Sequence[Observation],
        known: Mapping[LoaderSettings, Observation],
    ) -> list[LoaderSettings]:
        """The settings with the other values of ``name`` to compare; empty if ``name`` has no meaning."""
        numbers = {best.num_workers}
        if name == "prefetch_factor":
            numbers.add(best.num_workers // 2 or 1)  # a longer queue may need fewer workers
            if any(o.cost_s is None for o in of_workers):  # a shorter one may have room for more
                numbers.add(2 * best.num_workers)
        bases = [replace(best, num_workers=number) for number in numbers if number in self.rules.candidates]
        values = _values(name, best)
        variants = [replace(each, **{name: value}).canonical() for each in bases for value in values]
        variants = [
            variant
            for variant in dict.fromkeys(variants)
            if variant not in (best, *bases)
            and (variant.num_workers <= best.num_workers or variant.queued_batches <= best.queued_batches)
        ]
        model = model_from(of_workers, "fork")
        if not model or name not in _PREDICTED or not variants:
            return variants
        if measured := [each for each in variants if each in known]:  # a later prediction does not replace them
            return measured
        costs_s = {each: model.cost_s(queue_settings(each, self.cores)) for each in (best, *variants)}
        promising = choice.promising({best: costs_s.pop(best)}, costs_s, self.rules.tolerance)
        return [promising] if promising else []

    def _undecided(
        self, best: LoaderSettings, found: Estimates, known: Mapping[LoaderSettings, Observation]
    ) -> list[LoaderSettings]:
        """The values that need more rounds, with the best so far."""
        unclear = undecided(found, found.observations, self.measure)
        left = [o.settings for o in unclear if len(o.by_round) < _MOST_ROUNDS and o.timed_s < _MOST_TIMED_S]
        return self._active(list(dict.fromkeys([best, *left])), known) if left else []

    def _active(
        self, candidates: Sequence[LoaderSettings], known: Mapping[LoaderSettings, Observation]
    ) -> list[LoaderSettings]:
        return [one for one in candidates if known[one].may_continue]

    def _round(self, candidates: Sequence[LoaderSettings], dropped: Sequence[LoaderSettings] = ()) -> MeasureRound:
        return MeasureRound(candidates=tuple(candidates), dropped=tuple(dropped), window_s=self.measure.window_s)


def _before(first: float, one: Observation) -> Observation:
    return replace(one, by_round={number: cost_s for number, cost_s in one.by_round.items() if number < first})


def _outcome(name: str, best: LoaderSettings, found: Estimates) -> str:
    if found.answer == best:
        return f"; no other {name} is faster"
    saved = units.share(1 - found.costs_s[found.answer] / found.costs_s[best])
    return f"; {name}={shown(getattr(found.answer, name))} takes {saved} less time"


def _values(name: str, settings: LoaderSettings) -> tuple[Any, ...]:
    if name == "prefetch_factor":
        is_default = settings.prefetch_factor is None
        return tuple(n for n in choice.PREFETCH_FACTORS if not is_default or n != DEFAULT_PREFETCH)
    if name == "multiprocessing_context":
        return (None, *multiprocessing.get_all_start_methods()[1:])  # None is the default, the first one
    return (False, True)


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
    workers: Strategy = Patience(rules=rules, base=base, measure=measure)
    if rules.strategy == "adaptive":
        method = base.multiprocessing_context or start_method
        workers = Adaptive(rules=rules, base=base, measure=measure, cores=cores, guess=guess, start_method=method)
    if not rules.searched(base):
        return workers
    return OtherSettingsSearch(workers=workers, rules=rules, base=base, measure=measure, cores=cores)


def most_candidates(rules: SearchRules) -> int:
    """Upper bound on the values of num_workers that a search measures."""
    most = MOST_PREDICTED + rules.patience if rules.strategy == "adaptive" else len(rules.candidates)
    return min(most, len(rules.candidates))
