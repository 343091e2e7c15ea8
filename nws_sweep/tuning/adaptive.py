"""Predict, then verify: a short look at the loader without workers says where the best number of workers should lie.

Candidates round the prediction race in short turns; what is certainly not the best is dropped. What the race shows
corrects the prediction, and a candidate is started only if, by the corrected prediction, it may be faster than the best
or as fast and cheaper. Beyond the best, workers are doubled as long as the CPUs and the consumer leave room: the
further the best is from what they allow, the more candidates that are no better are allowed, up to the patience.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.results import LoaderSettings, SearchRules
from nws_sweep.tuning.bottleneck import Forecast, Measured, Profile
from nws_sweep.tuning.paired_comparison import (
    Decision,
    MeasureRound,
    Observation,
    PairedComparison,
    Stop,
    WorkerSearch,
    cost_of,
    with_workers,
)

# The first windows are short: most candidates lose by more than those can miss.
_SHORT_WINDOW_S = 0.2
_SHORT_ROUNDS = 3
# Windows behind the recommendation at least: fewer have no interval.
_FEWEST_ROUNDS = 3
# So many candidates, and as many more as patience bears, are tried for what is hoped of them.
_MANY = 5
# With the usual precision, two candidates that these rounds do not tell apart are told apart by no affordable number.
_MOST_ROUNDS, _USUAL_PRECISION = 6, 0.05
# A candidate that is hoped to be so much faster is started at once, others when the best is known a little better.
_AT_ONCE = 0.9
# A candidate is tried for being cheaper only if it saves at least a quarter of the workers.
_WORTH_SAVING = 0.75
# Where nothing but the profile is known no process starts dozens of workers at once; nor many times more than are known.
_FIRST_STEP, _STEP = 8, 4
# Measured time / model's time up to which the model is believed.
_TRUSTED = 1.15
# Numbers of workers that are nearer than this factor are not told apart: 8 and 9.
_APART = 1.1
# One that is slower by this factor than what is hoped of the new ones does not go along with them.
_HOPELESS = 1.4
# CPU seconds to start a worker and to end it: seen 8 to 20 ms where it is forked, and 1.5 to 3 s where a new process
# imports torch.
_FORKED_S, _SPAWNED_S = 0.01, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive(WorkerSearch):
    """Races the candidates that may be the best.

    Attributes:
        cores: CPUs that a candidate may use.
        guess: A value of num_workers that was the best in a similar case; it is tried among the first.
        start_method: How workers are started: fork, spawn or forkserver.
    """

    cores: float
    guess: int | None = None
    start_method: str = "fork"

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next turns, or the reason to stop."""
        profiled = self.rules.candidates[0]
        if all(o.num_workers != profiled for o in observations):  # of a search that goes on others may be known
            return self._compare([with_workers(self.base, profiled)])
        if unknown := [o.settings for o in observations if o.may_continue and o.cost_s is None]:
            return self._compare(unknown)
        comparison = self.comparison(observations)
        if comparison is None:
            return self._after_failures(observations)
        forecast = self._forecast(comparison)
        new = self._new(observations, comparison, forecast)
        dropped = [o for o in comparison.observations if o.may_continue and comparison.is_eliminated(o)]
        staying = self._doubtful(comparison)
        if new:
            # Those who are far behind what is hoped of the new ones do not go along with them.
            limit_s = _HOPELESS * min(forecast.cost_s(n) for n in new)
            leaders = [
                o
                for o in comparison.observations
                if o.may_continue and o in (comparison.fastest, comparison.recommended)
            ]
            going_along = [o for o in comparison.observations if o in staying or o in leaders]
            staying = [o for o in going_along if cost_of(o) <= limit_s]
        chosen = [o.settings for o in staying if o not in dropped]
        if not new and not chosen:
            return Stop(reason=self._reason(observations, comparison, forecast))
        starting = [with_workers(self.base, n) for n in new]
        return self._compare([*starting, *chosen], dropped, rounds=len(comparison.recommended.by_round))

    @staticmethod
    def most_candidates(rules: SearchRules) -> int:
        """How many candidates are tried at most: for what is hoped of them, and beyond the best."""
        return _MANY + 2 * rules.maximum_patience

    def _compare(
        self, candidates: Iterable[LoaderSettings], dropped: Iterable[Observation] = (), *, rounds: int = 0
    ) -> MeasureRound:
        return MeasureRound(
            candidates=tuple(candidates),
            dropped=tuple(o.settings for o in dropped),
            window_s=min(self.measure.window_s, _SHORT_WINDOW_S * 2 ** max(0, rounds - _SHORT_ROUNDS + 1)),
        )

    def _after_failures(self, observations: Sequence[Observation]) -> Decision:
        """None could be measured so far: the next in order, as long as patience bears it."""
        untried = self._untried(observations)
        if len(observations) > self.rules.maximum_patience or not untried:
            return Stop(reason=f"{units.counted(len(observations), 'candidate')} could not be measured")
        return self._compare([with_workers(self.base, untried[0])])

    def _untried(self, observations: Iterable[Observation]) -> list[int]:
        tried = {o.num_workers for o in observations}
        return [n for n in self.rules.candidates if n not in tried]

    # Which candidates are started.

    def _new(self, observations: Sequence[Observation], comparison: PairedComparison, forecast: Forecast) -> list[int]:
        """Values of num_workers to start now."""
        if all(o.num_workers == comparison.observations[0].num_workers for o in observations):
            return self._first_field(observations, forecast)
        fits = self._fitting(observations) if len(observations) < _MANY + self.rules.maximum_patience else []
        for chosen in (
            self._faster(fits, comparison, forecast),
            self._beyond(observations, comparison, forecast),
            self._cheaper(fits, comparison, forecast),
        ):
            if chosen is not None:
                return [chosen]
        return []

    def _forecast(self, comparison: PairedComparison) -> Forecast:
        """What is expected of candidates, from all that was measured."""
        seen = {
            o.num_workers: Measured(batch_s=_batch_s(o), startup_s=o.startup_s or 0.0) for o in comparison.observations
        }
        fewest = min(comparison.observations, key=lambda o: o.num_workers)
        consume_s, cpu_s = (
            fewest.consume_s or 0.0,
            min((o.cpu_s for o in comparison.observations if o.cpu_s), default=0.0),
        )
        alone_s = _batch_s(fewest) * fewest.num_workers if fewest.num_workers else _batch_s(fewest) - consume_s
        # Without workers torch may use several threads for a sample; a worker has one.
        loading_s = max(alone_s, cpu_s - consume_s, 1e-9)
        profile = Profile(loading_s=loading_s, cpu_s=cpu_s, consume_s=consume_s, cores=self.cores)
        start_s = _FORKED_S if self.start_method == "fork" else _SPAWNED_S / self.cores
        return Forecast(profile=profile, batches=fewest.batches, seen=seen, worker_start_s=start_s)

    def _first_field(self, observations: Sequence[Observation], forecast: Forecast) -> list[int]:
        """The predicted best, as far as a first step goes, and what is wanted in any case."""
        untried = self._untried(observations)
        step = [n for n in untried if n <= self._reach(0)] or untried[:1]
        goal = _predicted_best(step, forecast, self.rules.tolerance)
        wanted = (goal, self._check(goal, forecast), self.guess, self.rules.reference)
        return [n for n in untried if n in wanted]

    def _check(self, goal: int | None, forecast: Forecast) -> int | None:
        """The candidate beyond the predicted best that is wanted in any case where the CPUs are the limit.

        They are never used without a gap, so the prediction cannot be met; a consumer's can.
        """
        profile = forecast.profile
        if not goal or self.rules.maximum_patience == 0 or profile.consume_s >= profile.cpu_s / profile.cores:
            return None
        further = (n for n in self.rules.candidates if n >= 2 * goal and forecast.may_beat(forecast.cost_s(0), n))
        return min(further, default=None)

    def _fitting(self, observations: Sequence[Observation]) -> list[int]:
        """The untried ones well below the fewest workers that failed, if none beyond those went well."""
        most = max((o.num_workers for o in observations if o.cost_s is not None), default=0)
        failed = [o.num_workers for o in observations if o.cost_s is None and o.num_workers > most]
        ceiling = max(_WORTH_SAVING * min(failed), math.sqrt(most * min(failed))) if failed else math.inf
        return [n for n in self._untried(observations) if n <= ceiling]

    def _faster(self, untried: Sequence[int], comparison: PairedComparison, forecast: Forecast) -> int | None:
        """One that is hoped to be faster than the fastest by more than the tolerance."""
        known = len(comparison.fastest.by_round) >= 2
        wanted_s = cost_of(comparison.fastest) * (1 / (1 + self.rules.tolerance) if known else _AT_ONCE)
        hopeful = [n for n in untried if forecast.cost_s(n) <= wanted_s and _is_apart(n, forecast.seen)]
        hoped = _predicted_best(hopeful, forecast, self.rules.tolerance)
        if hoped is None:
            return None
        below = max((n for n in forecast.seen if n < hoped), default=0)
        above = min((n for n in forecast.seen if n > hoped), default=None)
        if above is None:
            return max(n for n in hopeful if n <= max(hopeful[0], min(hoped, self._reach(below))))
        if forecast.departure(above) <= _TRUSTED:
            return hoped
        # The model is wrong up there; where it begins to be is found by halving.
        middle = math.sqrt(max(1, below) * above)
        return min((n for n in hopeful if below < n < above), key=lambda n: abs(math.log(n / middle)))

    def _reach(self, tried: int) -> float:
        """How many workers may be started after so many were."""
        return max(_FIRST_STEP, 2 * self.cores, _STEP * tried)

    def _cheaper(self, untried: Sequence[int], comparison: PairedComparison, forecast: Forecast) -> int | None:
        """One with far fewer workers that is hoped to be as good as the recommended one."""
        most = _WORTH_SAVING * comparison.recommended.num_workers
        enough_s = cost_of(comparison.fastest) * (1 + self.rules.tolerance)
        hopeful = [n for n in untried if n <= most and forecast.cost_s(n) <= enough_s and _is_apart(n, forecast.seen)]
        return min(hopeful, default=None)

    def _beyond(
        self, observations: Sequence[Observation], comparison: PairedComparison, forecast: Forecast
    ) -> int | None:
        """The next one beyond the best, twice as many workers, four times, ..., as far as there is room."""
        best, most, room = comparison.recommended.num_workers, self.rules.candidates[-1], _room(comparison, forecast)
        extra_candidates = self.rules.maximum_patience
        if not math.isinf(room):
            extra_candidates = (
                0 if room <= 1 + self.rules.tolerance else min(extra_candidates, 1 + int(math.log2(room)))
            )
        for doubling in (max(1, 2 * best) * 2**step for step in range(extra_candidates)):
            if doubling >= 2 * most:
                break
            near = min(most, doubling)
            if not any(near / 1.5 < o.num_workers < near * 1.5 for o in observations if o.num_workers > best):
                least_s = cost_of(comparison.fastest)
                allowed = [n for n in self._untried(observations) if n > best and forecast.may_beat(least_s, n)]
                return min(allowed, key=lambda n: (abs(math.log(n / near)), n), default=None)
        return None

    # Who takes part, and for how long.

    def _doubtful(self, comparison: PairedComparison) -> list[Observation]:
        """Those of whom more must be known, and whom they are compared with."""
        fewest = self.measure.epochs if self.measure.mode == "epoch" else _FEWEST_ROUNDS
        # Two that are still not told apart then are left so; more where more precision is asked for.
        most = math.ceil(_MOST_ROUNDS * max(1.0, (_USUAL_PRECISION / self.measure.precision) ** 2))

        def is_idle(one: Observation) -> bool:
            return comparison.is_eliminated(one) or (len(one.by_round) >= fewest and comparison.is_negligible(one))

        able = [o for o in comparison.observations if o.may_continue]
        leaders = [o for o in able if o in (comparison.recommended, comparison.fastest)]
        doubtful = [
            o
            for o in able
            if comparison.comparator(o).may_continue and not is_idle(o) and comparison.deciding_ratio(o).n < most
        ]
        if not doubtful and all(len(o.by_round) >= fewest for o in leaders):
            return []
        return [o for o in able if o in doubtful or o in leaders]

    # Why it ends.

    def _reason(self, observations: Sequence[Observation], comparison: PairedComparison, forecast: Forecast) -> str:
        recommended, fastest = comparison.recommended.num_workers, comparison.fastest.num_workers
        reason = f"num_workers={fastest} is the fastest"
        if recommended != fastest:
            tolerance = units.share(self.rules.tolerance)
            reason = f"num_workers={recommended} is within {tolerance} of the fastest, num_workers={fastest}"
        more = sorted(o.num_workers for o in observations if o.num_workers > fastest)
        if _room(comparison, forecast) <= 1 + self.rules.tolerance:
            profile, cpus = forecast.profile, units.counted(self.cores, "CPU")
            busy = "the consumer" if profile.consume_s >= profile.cpu_s / profile.cores else cpus
            return f"{reason}; nothing can be faster: it keeps {busy} busy all the time"
        if fastest == self.rules.candidates[-1]:
            return f"{reason}; it is the largest candidate"
        return f"{reason}; more workers ({', '.join(map(str, more))}) were not faster" if more else reason


def _predicted_best(candidates: Sequence[int], forecast: Forecast, tolerance: float) -> int | None:
    """The fewest workers that are hoped to be about as fast as any."""
    least_s = min((forecast.cost_s(n) for n in candidates), default=0.0)
    return min((n for n in candidates if forecast.cost_s(n) <= least_s * (1 + tolerance / 2)), default=None)


def _is_apart(num_workers: int, tried: Iterable[int]) -> bool:
    """Whether none that was tried is so near that it says the same."""
    return all(max(n, num_workers) >= _APART * min(n, num_workers) for n in tried)


def _room(comparison: PairedComparison, forecast: Forecast) -> float:
    """By which factor the fastest could be faster before the CPUs or the consumer set the limit."""
    return cost_of(comparison.fastest) / forecast.floor_s if forecast.floor_s > 0 else math.inf


def _batch_s(observation: Observation) -> float:
    """Its pace; where an epoch has no steady state, its share of the epoch."""
    if observation.batch_s is not None:
        return observation.batch_s
    return cost_of(observation) / (observation.batches or 1)
