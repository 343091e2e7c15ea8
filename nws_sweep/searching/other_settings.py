"""The search of settings besides num_workers, one after the other. Pure."""

import math
import multiprocessing
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nws_sweep import units
from nws_sweep.replay import choice
from nws_sweep.replay.known import queue_settings
from nws_sweep.results import DEFAULT_PREFETCH, DatasetFacts, LoaderSettings, shown
from nws_sweep.searching.estimates import Estimates, estimates_of, undecided
from nws_sweep.searching.observations import Decision, Observation, Round, Stop, Strategy, model_from

_MOST_TIMED_S = 4.0  # of a value
_PREDICTED = ("prefetch_factor", "in_order", "persistent_workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSettingsSearch(Strategy):
    """Searches num_workers, and then other settings, one after the other.

    The values of a setting are compared in rounds with the best settings so far. Of settings that the replay predicts
    only the best value is measured, if it promises enough.
    """

    workers: Strategy  # searches num_workers
    cores: float  # CPUs that a candidate may use
    start_method: str  # of workers: fork, spawn or forkserver

    def decide(self, observations: Sequence[Observation], facts: DatasetFacts | None = None) -> Decision:
        """The decision of the search of num_workers; after its end the next values."""
        others = [o for o in observations if o.settings != self.base.with_workers(o.num_workers)]
        # Rounds beside other settings do not reopen the search of num_workers: they have no other number.
        first = min((number for o in others for number in o.paces_s), default=math.inf)
        of_workers = [_before(first, o) for o in observations if o not in others]
        decision = self.workers.decide(of_workers, facts)
        found = estimates_of(of_workers, self.rules.tolerance)
        known = {o.settings: o for o in observations}
        # A finished trial of an earlier program does not show that the search of num_workers ended.
        has_begun = any(o.paces_s or o.spent_s for o in others)
        if found is None or not (isinstance(decision, Stop) or has_begun):
            return decision
        # The best so far takes part in the first round with other settings, unless it has ended.
        beside = (o.settings for o in observations if o not in others and first in o.paces_s)
        best = next(beside, found.answer)
        reason = f"num_workers={best.num_workers} was the fastest"
        if isinstance(decision, Stop) and best == found.answer:
            reason = decision.reason
        has_accelerator = facts is None or facts.accelerator is not None
        return self._compare(best, reason, of_workers, known, has_accelerator=has_accelerator)

    def _compare(
        self,
        best: LoaderSettings,
        reason: str,
        of_workers: Sequence[Observation],
        known: Mapping[LoaderSettings, Observation],
        *,
        has_accelerator: bool,
    ) -> Decision:
        """The next values of the settings after num_workers, which ended for this reason."""
        for name in self.rules.searched(self.base):
            if name == "pin_memory" and not has_accelerator:
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
            if undecided := self._undecided(name, best, found, known):
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
        elif name == "persistent_workers":  # workers that start once may be worth it where others are not
            numbers.update(o.num_workers for o in of_workers if o.cost_s is not None)
        like = best if best.num_workers else self.base  # without workers, other settings have no value
        bases = [replace(like, num_workers=number).canonical() for number in numbers if number in self.rules.candidates]
        values = _values(name, best)
        variants = [replace(each, **{name: value}).canonical() for each in bases for value in values]
        variants = [
            variant
            for variant in dict.fromkeys(variants)
            if variant not in (best, *bases) and (name != "prefetch_factor" or _is_no_larger(variant, best))
        ]
        model = model_from(of_workers, self.start_method)
        if not model or name not in _PREDICTED or not variants:
            return variants
        if measured := [each for each in variants if each in known]:  # a later prediction does not replace them
            return measured
        costs_s = {each: model.cost_s(queue_settings(each, self.cores)) for each in (best, *variants)}
        promising = choice.promising({best: costs_s.pop(best)}, costs_s, self.rules.tolerance)
        return [promising] if promising else []

    def _undecided(
        self, name: str, best: LoaderSettings, found: Estimates, known: Mapping[LoaderSettings, Observation]
    ) -> list[LoaderSettings]:
        """The values that need more rounds, within their time, with the best so far; empty if there are none.

        Where a round has confirmed what was predicted of a value, it needs no more, however short it was.
        """
        is_confirmed = name in _PREDICTED and len(found.observations) == 2 and found.answer != best
        if is_confirmed and self.measure.mode != "epoch" and found.loss(best) <= choice.CLOSE:
            return []
        unclear = undecided(found, found.observations, self.measure)
        left = [o.settings for o in unclear if o.timed_s < _MOST_TIMED_S]
        return self._active(list(dict.fromkeys([best, *left])), known) if left else []

    def _active(
        self, candidates: Sequence[LoaderSettings], known: Mapping[LoaderSettings, Observation]
    ) -> list[LoaderSettings]:
        return [one for one in candidates if known[one].may_continue]

    def _round(self, candidates: Sequence[LoaderSettings], ended: Sequence[LoaderSettings] = ()) -> Round:
        return Round(candidates=tuple(candidates), ended=tuple(ended), window_s=self.measure.window_s)


def _is_no_larger(variant: LoaderSettings, best: LoaderSettings) -> bool:
    return variant.num_workers <= best.num_workers or variant.queued_batches <= best.queued_batches


def _before(first: float, observation: Observation) -> Observation:
    """The observation without its rounds from the first with other settings on."""
    paces_s = {number: pace_s for number, pace_s in observation.paces_s.items() if number < first}
    if observation.cost_s is None or not paces_s or len(paces_s) == len(observation.paces_s):
        return replace(observation, paces_s=paces_s)
    slower = statistics.fmean(paces_s.values()) / statistics.fmean(observation.paces_s.values())
    cost_s = observation.cost_s * (1 + observation.paced_share * (slower - 1))
    return replace(observation, paces_s=paces_s, cost_s=cost_s)


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
