"""The search of settings besides num_workers, one after the other. Pure."""

import math
import multiprocessing
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nws_sweep import units
from nws_sweep.model import choice
from nws_sweep.model.known import queue_settings
from nws_sweep.records import (
    DEFAULT_PREFETCH,
    DatasetFacts,
    LoaderSettings,
    SearchRules,
    shown,
)
from nws_sweep.searching.estimates import Estimates, estimates_of, undecided
from nws_sweep.searching.observations import (
    Decision,
    Observation,
    Round,
    Stop,
    Strategy,
    model_from,
    most_fed,
)

_MOST_TIMED_S = 4.0  # of a value
_LATE = 0.7  # share of the time limit after which the search of num_workers may wait
_PREDICTED = ("prefetch_factor", "in_order", "persistent_workers", "num_workers")
_NOT_PREDICTED = {
    name: f"; no other {name} is predicted to be faster"
    for name in ("prefetch_factor", "in_order", "persistent_workers")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSettingsSearch(Strategy):
    """Searches num_workers, and then other settings, one after the other.

    The values of a setting are compared in rounds with the best settings so far. Of
    settings that the replay predicts only the best value is measured, if it promises
    enough. Where num_workers takes many rounds to decide, a setting that promises to
    save does not wait for it until the time limit.

    Attributes:
        workers: Searches num_workers.
        limit_s: Time limit of the search; infinite without one.
        cores: CPUs that a candidate may use.
        start_method: How workers start: fork, spawn or forkserver.
    """

    workers: Strategy
    cores: float
    start_method: str
    limit_s: float = math.inf

    def decide(
        self, observations: Sequence[Observation], facts: DatasetFacts | None = None
    ) -> Decision:
        """Decides as the search of num_workers; after its end on the next values of
        other settings."""
        variants = [
            o
            for o in observations
            if o.settings != self.base.with_workers(o.num_workers)
        ]
        # Rounds beside other settings do not reopen the search of num_workers: they
        # have no other number.
        first_round = min(
            (number for variant in variants for number in variant.paces_s),
            default=math.inf,
        )
        of_workers = [
            _before(first_round, observation)
            for observation in observations
            if observation not in variants
        ]
        decision = self.workers.decide(of_workers, facts)
        estimates = estimates_of(of_workers, self.rules.tolerance)
        # A finished trial of an earlier program does not show that the search of
        # num_workers ended.
        has_begun = any(variant.paces_s or variant.spent_s for variant in variants)
        may_begin = isinstance(decision, Stop) or self._may_wait(decision, observations)
        if estimates is None or not (may_begin or has_begun):
            return decision
        # The best so far takes part in the first round with other settings, unless it
        # has ended.
        beside = (
            o.settings
            for o in observations
            if o not in variants and first_round in o.paces_s
        )
        best = next(beside, estimates.answer)
        reason = f"num_workers={best.num_workers} was the fastest"
        if isinstance(decision, Stop) and best == estimates.answer:
            reason = decision.reason
        observed = {observation.settings: observation for observation in observations}
        has_accelerator = facts is None or facts.accelerator is not None
        compared = self._compare(
            best, reason, of_workers, observed, has_accelerator=has_accelerator
        )
        has_nothing_to_compare = isinstance(compared, Stop) and not has_begun
        if has_nothing_to_compare and isinstance(decision, Round):
            return decision
        return compared

    def _may_wait(self, decision: Round, observations: Sequence[Observation]) -> bool:
        """Whether a round of num_workers may wait: it has no new candidate, and most of
        the time limit has been spent."""
        known = {observation.settings for observation in observations}
        spent_s = sum(observation.spent_s for observation in observations)
        return known.issuperset(decision.candidates) and spent_s >= _LATE * self.limit_s

    def _compare(
        self,
        best: LoaderSettings,
        reason: str,
        of_workers: Sequence[Observation],
        observed: Mapping[LoaderSettings, Observation],
        *,
        has_accelerator: bool,
    ) -> Decision:
        """Decides on the next values of the settings after num_workers, which ended for
        this reason."""
        all_variants = Variants(
            rules=self.rules,
            base=self.base,
            cores=self.cores,
            start_method=self.start_method,
            of_workers=of_workers,
        )
        for name in self._names():
            if name == "pin_memory" and not has_accelerator:
                reason += "; pin_memory has no effect without an accelerator"
                continue
            variants = all_variants.of(name, best)
            if name in _PREDICTED:
                variants = all_variants.promising(name, best, variants, observed)
            new = [variant for variant in variants if variant not in observed]
            if new:
                return self._round([*_active([best], observed), *new])
            compared = [observed[settings] for settings in (best, *variants)]
            untimed = [
                o.settings for o in compared if o.may_continue and o.cost_s is None
            ]
            if untimed:
                return self._round(untimed)
            estimates = estimates_of(compared, self.rules.tolerance)
            if estimates is None or not variants:
                reason += _NOT_PREDICTED.get(name, "")
                continue
            unclear = self._undecided(name, best, estimates, observed)
            if unclear:
                return self._round(
                    unclear,
                    _active([v for v in variants if v not in unclear], observed),
                )
            reason += _outcome(name, best, estimates)
            best = estimates.answer
        return Stop(reason=reason)

    def _names(self) -> list[str]:
        """Lists the settings to search, one after the other."""
        names = [*self.rules.searched(self.base)]
        if "persistent_workers" in names:
            # More workers may be worth their start if it is shared by all epochs.
            names.insert(names.index("persistent_workers") + 1, "num_workers")
        return names

    def _undecided(
        self,
        name: str,
        best: LoaderSettings,
        estimates: Estimates,
        observed: Mapping[LoaderSettings, Observation],
    ) -> list[LoaderSettings]:
        """Lists the values that need more rounds, within their time, with the best so
        far; empty if there are none.

        Where a round has confirmed what was predicted of a value, it needs no more,
        however short it was.
        """
        is_confirmed = (
            name in _PREDICTED
            and len(estimates.observations) == 2
            and estimates.answer != best
        )
        if (
            is_confirmed
            and self.measure.mode != "epoch"
            and estimates.loss(best) <= choice.CLOSE
        ):
            return []
        unclear = undecided(
            estimates, list(estimates.observations.values()), self.measure
        )
        left = [
            observation.settings
            for observation in unclear
            if observation.timed_s < _MOST_TIMED_S
        ]
        return _active(list(dict.fromkeys([best, *left])), observed) if left else []

    def _round(
        self, candidates: Sequence[LoaderSettings], ended: Sequence[LoaderSettings] = ()
    ) -> Round:
        return Round(
            candidates=tuple(candidates),
            ended=tuple(ended),
            window_s=self.measure.window_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """The settings that are compared with the best so far, setting by setting.

    Attributes:
        rules: The candidates and what is searched.
        base: All settings but num_workers, of the program.
        cores: CPUs that a candidate may use.
        start_method: How workers start: fork, spawn or forkserver.
        of_workers: The candidates of the search of num_workers.
    """

    rules: SearchRules
    base: LoaderSettings
    cores: float
    start_method: str
    of_workers: Sequence[Observation]

    def of(self, name: str, best: LoaderSettings) -> list[LoaderSettings]:
        """Lists the settings with other values of ``name`` to compare; empty if
        ``name`` has no meaning."""
        if name == "num_workers":
            if not best.persistent_workers:
                return []
            numbers = self._numbers(name, best) - {0, best.num_workers}
            return [best.with_workers(number) for number in sorted(numbers)]
        # without workers, other settings have no value
        with_values = best if best.num_workers else self.base
        bases = [
            replace(with_values, num_workers=n).canonical()
            for n in self._numbers(name, best)
            if n in self.rules.candidates
        ]
        variants: list[LoaderSettings] = []
        for settings in bases:
            for value in _values(name, best):
                variant = replace(settings, **{name: value}).canonical()
                has_more = (
                    variant.num_workers > best.num_workers
                    and variant.queued_batches > best.queued_batches
                )
                is_too_large = name == "prefetch_factor" and has_more
                if variant not in (best, *bases, *variants) and not is_too_large:
                    variants.append(variant)
        return variants

    def _numbers(self, name: str, best: LoaderSettings) -> set[int]:
        """Lists the numbers of workers for which other values of ``name`` are
        compared."""
        numbers = {best.num_workers}
        failed = [o.num_workers for o in self.of_workers if o.cost_s is None]
        costs_s = {
            o.settings: o.cost_s for o in self.of_workers if o.cost_s is not None
        }
        if name == "prefetch_factor":
            # a longer queue may need fewer workers
            numbers.add(best.num_workers // 2 or 1)
            # a shorter one may have room for more
            if failed:
                numbers.add(2 * best.num_workers)
        elif name == "persistent_workers":
            # workers that start once may be worth it where others are not
            numbers.update(settings.num_workers for settings in costs_s)
        elif name == "num_workers":
            most = min([*(number - 1 for number in failed), most_fed(self.of_workers)])
            if self.rules.max_workers is None:
                most = min(most, choice.most_workers(self.cores, costs_s))
            fitting = [n for n in self.rules.candidates if n <= most]
            numbers.update(choice.ladder(fitting))
        return numbers

    def promising(
        self,
        name: str,
        best: LoaderSettings,
        variants: list[LoaderSettings],
        observed: Mapping[LoaderSettings, Observation],
    ) -> list[LoaderSettings]:
        """Selects the variant that is predicted to save enough, if any; all variants if
        none can be predicted, but of num_workers none."""
        model = model_from(self.of_workers, self.start_method)
        if model is None or not variants:
            return [] if name == "num_workers" else variants
        measured = [variant for variant in variants if variant in observed]
        if measured:  # a later prediction does not replace them
            return measured
        best_s = model.cost_s(queue_settings(best, self.cores))
        costs_s = {
            variant: model.cost_s(queue_settings(variant, self.cores))
            for variant in variants
        }
        promising = choice.promising({best: best_s}, costs_s, self.rules.tolerance)
        return [promising] if promising else []


def _active(
    candidates: Sequence[LoaderSettings], observed: Mapping[LoaderSettings, Observation]
) -> list[LoaderSettings]:
    return [settings for settings in candidates if observed[settings].may_continue]


def _before(first_round: float, observation: Observation) -> Observation:
    """Returns the observation as it was before the first round with other settings."""
    paces_s = {
        number: pace_s
        for number, pace_s in observation.paces_s.items()
        if number < first_round
    }
    if (
        observation.cost_s is None
        or not paces_s
        or len(paces_s) == len(observation.paces_s)
    ):
        return replace(observation, paces_s=paces_s)
    slower = statistics.fmean(paces_s.values()) / statistics.fmean(
        observation.paces_s.values()
    )
    cost_s = observation.cost_s * (1 + observation.paced_share * (slower - 1))
    return replace(observation, paces_s=paces_s, cost_s=cost_s)


def _outcome(name: str, best: LoaderSettings, estimates: Estimates) -> str:
    answer = estimates.answer
    if answer == best:
        return f"; no other {name} is faster"
    saved = units.share(1 - estimates.costs_s[answer] / estimates.costs_s[best])
    other = f"{name}={shown(getattr(answer, name))}"
    if name != "num_workers" and answer.num_workers != best.num_workers:
        other = f"num_workers={answer.num_workers} {other}"
    return f"; {other} takes {saved} less time"


def _values(name: str, settings: LoaderSettings) -> tuple[Any, ...]:
    """Lists the values of a setting to compare."""
    if name == "prefetch_factor":
        is_default = settings.prefetch_factor is None
        return tuple(
            n
            for n in choice.PREFETCH_FACTORS
            if not is_default or n != DEFAULT_PREFETCH
        )
    if name == "multiprocessing_context":
        # None is the default, the first one
        return (None, *multiprocessing.get_all_start_methods()[1:])
    return (False, True)
