"""Predict, then verify: the recorded costs of batches predict every number of workers, and measurements verify.

The profile, a short measurement without workers, predicts the first candidate. All records together then predict all
candidates; the one that may be fastest by an optimistic prediction is measured next, beside the fastest so far, until
none may gain more than the tolerance. A candidate with far fewer workers is measured if it is predicted to be as fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.measurement.schedule import Conditions, whole_epochs
from nws_sweep.results import LoaderSettings
from nws_sweep.tuning.forecast import Forecast, apart, forecast_of
from nws_sweep.tuning.paired_comparison import (
    Decision,
    MeasureRound,
    Observation,
    PairedComparison,
    Stop,
    Strategy,
    cost_of,
    with_workers,
)  # fmt: skip

_SHORT_WINDOW_S, _SHORT_ROUNDS = 0.2, 3  # duration of the first windows, and the rounds that have it
_FEWEST_ROUNDS = 3  # of the recommended candidate: an interval needs three
MOST_PREDICTED = 5  # candidates started for their prediction, beside as many as the patience allows
_MOST_ROUNDS, _USUAL_PRECISION = 6, 0.05  # two candidates remain a tie after these rounds, at this precision
_LOSS = 0.2  # share of the precision that a choice may lose in expectation
_WORTH_SAVING = 0.75  # a candidate with fewer workers is started only if it has at most this share of them
_FIRST_STEP, _STEP = 8, 4  # most workers started at first, and most workers / those measured
_FAR_BEHIND = 1.4  # a candidate slower than the prediction of new ones by this factor is not measured beside them


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive(Strategy):
    """Compares the candidates that may be the best."""

    cores: float  # CPUs that a candidate may use
    guess: int | None = None  # the best num_workers of a similar configuration; one of the first candidates
    start_method: str = "fork"  # of workers: fork, spawn or forkserver

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next round, or the reason to stop."""
        profiled = self.rules.candidates[0]
        if all(o.num_workers != profiled for o in observations):  # a resumed search may have others
            return self._round([with_workers(self.base, profiled)])
        if unknown := [o.settings for o in observations if o.may_continue and o.cost_s is None]:
            return self._round(unknown)
        comparison, forecast = self.comparison(observations), forecast_of(observations, self.cores, self.start_method)
        if comparison is None or forecast is None:
            return self._after_failures(observations)
        new = self._new(observations, comparison, forecast)
        active = [o for o in comparison.observations if o.may_continue]
        dropped = [o for o in active if _is_eliminated(o, comparison)]
        staying = self._undecided(active, comparison)
        if new:
            limit_s = _FAR_BEHIND * min(forecast.cost_s(each) for each in new)
            staying += [o for o in active if o in (comparison.fastest, comparison.recommended)]
            staying = [o for o in active if o in staying and cost_of(o) <= limit_s]
        chosen = [o.settings for o in staying if o not in dropped]
        if not new and not chosen:
            return Stop(reason=self._reason(observations, comparison, forecast))
        return self._round([*new, *chosen], dropped, rounds=len(comparison.recommended.by_round))

    def _round(
        self, candidates: Iterable[LoaderSettings], dropped: Iterable[Observation] = (), *, rounds: int = 0
    ) -> MeasureRound:
        return MeasureRound(
            candidates=tuple(candidates),
            dropped=tuple(o.settings for o in dropped),
            window_s=min(self.measure.window_s, _SHORT_WINDOW_S * 2 ** max(0, rounds - _SHORT_ROUNDS + 1)),
        )

    def _after_failures(self, observations: Sequence[Observation]) -> Decision:
        """The next candidate after failures only, within the patience."""
        untried = self._untried(observations)
        if len(observations) > self.rules.patience or not untried:
            return Stop(reason=f"{units.counted(len(observations), 'candidate')} could not be measured")
        return self._round([with_workers(self.base, untried[0])])

    def _untried(self, observations: Iterable[Observation]) -> list[int]:
        tried = {o.num_workers for o in observations}
        return [n for n in self.rules.candidates if n not in tried]

    def _new(
        self, observations: Sequence[Observation], comparison: PairedComparison, forecast: Forecast
    ) -> list[LoaderSettings]:
        """The candidates to start."""
        measured = [o.num_workers for o in comparison.observations]
        limit = _most_started(self.cores, max(measured))
        fits = [n for n in self._fitting(observations) if n <= limit] or self._untried(observations)[:1]
        if all(o.num_workers == measured[0] for o in observations):
            wanted = {self._first(fits, comparison, forecast), self.guess, self.rules.reference}
            return [with_workers(self.base, n) for n in self._untried(observations) if n in wanted]
        if len(observations) >= MOST_PREDICTED + self.rules.patience:
            return []
        choices = [with_workers(self.base, n) for n in apart(fits, measured)]
        chosen = self._faster(choices, comparison, forecast) or self._cheaper(choices, comparison, forecast)
        return [chosen] if chosen else []

    def _first(self, fits: Sequence[int], comparison: PairedComparison, forecast: Forecast) -> int | None:
        """The fewest workers predicted to be about as fast as the fastest; None if workers cannot help."""
        if comparison.recommended.num_workers == 0 and cost_of(comparison.recommended) <= self._enough(
            forecast.floor_s
        ):
            return None
        choices = [with_workers(self.base, n) for n in fits]
        least_s = min((forecast.cost_s(each) for each in choices), default=0.0)
        return next(
            (c.num_workers for c in choices if forecast.cost_s(c) <= least_s * (1 + self.rules.tolerance / 2)), None
        )

    def _enough(self, cost_s: float) -> float:
        """The cost from which a gain is beyond the tolerance."""
        return cost_s * (1 + self.rules.tolerance)

    def _fitting(self, observations: Sequence[Observation]) -> list[int]:
        """The untried candidates well below the fewest workers that failed, unless more workers succeeded."""
        most = max((o.num_workers for o in observations if o.cost_s is not None), default=0)
        failed = [o.num_workers for o in observations if o.cost_s is None and o.num_workers > most]
        ceiling = max(_WORTH_SAVING * min(failed), math.sqrt(most * min(failed))) if failed else math.inf
        return [n for n in self._untried(observations) if n <= ceiling]

    def _faster(
        self, choices: Sequence[LoaderSettings], comparison: PairedComparison, forecast: Forecast
    ) -> LoaderSettings | None:
        """The candidate with the least optimistic prediction, if it gains more than the tolerance.

        Of an epoch so short that it is measured as a whole, a prediction is not taken optimistically: the measurement
        would cost more than it can show.
        """
        batches = comparison.fastest.batches

        def least_s(candidate: LoaderSettings) -> float:
            conditions = Conditions(settings=candidate, rules=self.measure, batches_per_epoch=batches)
            is_short = self.measure.mode != "epoch" and whole_epochs([], conditions)
            return forecast.cost_s(candidate) if is_short else forecast.least_s(candidate)

        best = _least(choices, least_s)
        is_faster = best and self._enough(least_s(best)) < cost_of(comparison.fastest)
        return best if is_faster else None

    def _cheaper(
        self, choices: Sequence[LoaderSettings], comparison: PairedComparison, forecast: Forecast
    ) -> LoaderSettings | None:
        """A candidate with far fewer workers predicted to be as good as the recommended one."""
        most = _WORTH_SAVING * comparison.recommended.num_workers
        limit_s = self._enough(cost_of(comparison.fastest))
        return next((each for each in choices if each.num_workers <= most and forecast.cost_s(each) <= limit_s), None)

    def _undecided(self, active: Sequence[Observation], comparison: PairedComparison) -> list[Observation]:
        """The candidates that need more rounds, with the fastest and the recommended one."""
        fewest = self.measure.epochs if self.measure.mode == "epoch" else _FEWEST_ROUNDS
        most = math.ceil(_MOST_ROUNDS * max(1.0, (_USUAL_PRECISION / self.measure.precision) ** 2))

        def is_decided(one: Observation) -> bool:
            if _is_eliminated(one, comparison) or comparison.deciding_ratio(one).n >= most:
                return True
            if comparison.is_eliminated(one):
                return False
            return comparison.expected_loss(one) <= _LOSS * self.measure.precision

        leaders = [o for o in active if o in (comparison.recommended, comparison.fastest)]
        undecided = [o for o in active if comparison.comparator(o).may_continue and not is_decided(o)]
        if not undecided and all(len(o.by_round) >= fewest or o.spent_s >= self._epoch_s(o) for o in leaders):
            return []
        return [o for o in active if o in undecided or o in leaders]

    def _epoch_s(self, one: Observation) -> float:
        """A candidate that has been measured for so long needs no more rounds for its interval alone."""
        return cost_of(one) if one.batches is not None and self.measure.mode != "epoch" else math.inf

    def _reason(self, observations: Sequence[Observation], comparison: PairedComparison, forecast: Forecast) -> str:
        recommended, fastest = comparison.recommended.num_workers, comparison.fastest.num_workers
        tolerance = units.share(self.rules.tolerance)
        reason = f"num_workers={fastest} is the fastest"
        if recommended != fastest:
            reason = f"num_workers={recommended} is within {tolerance} of the fastest, num_workers={fastest}"
        if cost_of(comparison.fastest) <= self._enough(forecast.floor_s):
            return f"{reason}; no candidate can be faster, since it keeps the training step busy all the time"
        if fastest == self.rules.candidates[-1]:
            return f"{reason}; it is the largest candidate"
        more = sorted(o.num_workers for o in observations if o.num_workers > fastest)
        if more:
            reason += f"; more workers ({', '.join(map(str, more))}) were not faster"
        return f"{reason}; no other candidate is predicted to gain more than {tolerance}"


def _is_eliminated(one: Observation, comparison: PairedComparison) -> bool:
    """True if further rounds cannot make it the best: two if it would be the fastest as replayed, otherwise one."""
    if one.known is not None and len(one.by_round) < 2 and one.may_continue:
        replayed_s = cost_of(one) / one.known.factor
        return comparison.is_eliminated(one) and replayed_s >= cost_of(comparison.fastest)
    return comparison.is_eliminated(one)


def _most_started(cores: float, measured: int) -> float:
    """The most workers to start when ``measured`` workers are the most that were measured."""
    return max(_FIRST_STEP, 2 * cores, _STEP * measured)


def _least(choices: Sequence[LoaderSettings], cost_s: Callable[[LoaderSettings], float]) -> LoaderSettings | None:
    """The choice with the least cost among doublings of the workers, then among those beside it."""
    coarse: list[LoaderSettings] = []
    for each in choices:
        if not coarse or each.num_workers >= 2 * coarse[-1].num_workers or each == choices[-1]:
            coarse.append(each)
    if not coarse:
        return None
    best = min(coarse, key=cost_s).num_workers
    near = [each for each in choices if best / 2 < each.num_workers < best * 2 or each.num_workers == best]
    return min(near, key=lambda each: (cost_s(each), each.num_workers))
