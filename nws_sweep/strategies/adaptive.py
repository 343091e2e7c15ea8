"""Predict, then verify: a short look at the loader without workers says where the best number of workers should lie.

Candidates round the prediction race in short turns; whoever is certainly not the best is dropped. What the race shows
corrects the prediction, and a candidate is started only if, by the corrected prediction, it may be faster than the best
or as fast and cheaper. Beyond the best, workers are doubled as long as the CPUs and the consumer leave room: the
further the best is from what they allow, the more candidates that are no better are borne, up to the patience.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nws_sweep import units
from nws_sweep.bottleneck import Forecast, Profile, Seen
from nws_sweep.records import LoaderSettings, MeasureRules, SearchRules, Verdict
from nws_sweep.strategies.base import Decision, Observation, Race, Stop, with_workers
from nws_sweep.strategies.contest import Contest, contest_of, verdict_of

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
# Where nothing but the profile is known nobody starts dozens of workers at once; nor many times more than are known.
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
class Adaptive:
    """Races the candidates that may be the best.

    Attributes:
        rules: Candidates, patience and tolerance.
        base: The settings beside num_workers.
        measure: What is precise enough.
        cores: CPUs that a candidate may use.
        guess: A value of num_workers that was the best in a similar case; it is tried among the first.
        start_method: How workers are started: fork, spawn or forkserver.
    """

    rules: SearchRules
    base: LoaderSettings
    measure: MeasureRules
    cores: float
    guess: int | None = None
    start_method: str = "fork"

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next turns, or the reason to stop."""
        profiled = self.rules.candidates[0]
        if all(o.num_workers != profiled for o in observations):  # of a search that goes on others may be known
            return self._race([self._candidate(profiled)], None)
        if unknown := [o.settings for o in observations if o.open and o.cost_s is None]:
            return self._race(unknown, None)
        contest = contest_of(observations, self.rules.tolerance, self.measure.precision)
        if contest is None:
            return self._after_failures(observations)
        new = self._new(observations, contest)
        dropped = [o for o in contest.observations if o.open and contest.is_out(o)]
        staying = self._companions(observations, contest, new) if new else self._doubtful(contest)
        chosen = [o.settings for o in staying if o not in dropped]
        if new or chosen:
            return self._race([*map(self._candidate, new), *chosen], contest, dropped)
        return Stop(reason=self._reason(observations, contest))

    @staticmethod
    def most_candidates(rules: SearchRules) -> int:
        """How many candidates are tried at most: for what is hoped of them, and beyond the best."""
        return _MANY + 2 * rules.maximum_patience

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """The verdict on all that were measured."""
        return verdict_of(observations, self.rules.tolerance, self.measure.precision)

    def _candidate(self, num_workers: int) -> LoaderSettings:
        return with_workers(self.base, num_workers)

    def _race(
        self, candidates: Iterable[LoaderSettings], contest: Contest | None, dropped: Iterable[Observation] = ()
    ) -> Race:
        rounds = len(contest.recommended.by_round) if contest else 0
        window_s = _SHORT_WINDOW_S * 2 ** max(0, rounds - _SHORT_ROUNDS + 1)
        return Race(
            candidates=tuple(candidates),
            dropped=tuple(o.settings for o in dropped),
            window_s=min(self.measure.window_s, window_s),
        )

    def _after_failures(self, observations: Sequence[Observation]) -> Decision:
        """None could be measured so far: the next in order, as long as patience bears it."""
        untried = self._untried(observations)
        if len(observations) > self.rules.maximum_patience or not untried:
            return Stop(reason=f"{units.counted(len(observations), 'candidate')} could not be measured")
        return self._race([self._candidate(untried[0])], None)

    def _untried(self, observations: Iterable[Observation]) -> list[int]:
        tried = {o.num_workers for o in observations}
        return [n for n in self.rules.candidates if n not in tried]

    # Which candidates are started.

    def _new(self, observations: Sequence[Observation], contest: Contest) -> list[int]:
        """Values of num_workers to start now."""
        forecast = self._forecast(contest)
        if all(o.num_workers == contest.observations[0].num_workers for o in observations):
            return self._first_field(observations, forecast)
        fits = self._fitting(observations) if len(observations) < _MANY + self.rules.maximum_patience else []
        for chosen in (
            self._faster(fits, contest, forecast),
            self._beyond(observations, contest, forecast),
            self._cheaper(fits, contest, forecast),
        ):
            if chosen is not None:
                return [chosen]
        return []

    def _forecast(self, contest: Contest) -> Forecast:
        """What is expected of candidates, from all that was measured."""
        seen = {o.num_workers: Seen(batch_s=_batch_s(o), startup_s=o.startup_s or 0.0) for o in contest.observations}
        fewest = min(contest.observations, key=lambda o: o.num_workers)
        cpus_s = [o.cpu_s for o in contest.observations if o.cpu_s]
        consume_s, cpu_s = fewest.consume_s or 0.0, min(cpus_s, default=0.0)
        alone_s = _batch_s(fewest) * fewest.num_workers if fewest.num_workers else _batch_s(fewest) - consume_s
        profile = Profile(
            # Without workers torch may use several threads for a sample; a worker has one.
            loading_s=max(alone_s, cpu_s - consume_s, 1e-9),
            cpu_s=cpu_s,
            consume_s=consume_s,
            cores=self.cores,
        )
        start_s = _FORKED_S if self.start_method == "fork" else _SPAWNED_S / self.cores
        return Forecast(profile=profile, batches=fewest.batches, seen=seen, worker_start_s=start_s)

    def _first_field(self, observations: Sequence[Observation], forecast: Forecast) -> list[int]:
        """The predicted best, as far as a first step goes, and whoever is wanted in any case."""
        untried = self._untried(observations)
        step = [n for n in untried if n <= self._reach(0)] or untried[:1]
        goal = _hoped_best(step, forecast, self.rules.tolerance)
        field = {n for n in (goal, self._check(goal, forecast), self.guess, self.rules.reference) if n in untried}
        return sorted(n for n in field if n is not None)

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
        if not failed:
            return self._untried(observations)
        ceiling = max(_WORTH_SAVING * min(failed), math.sqrt(most * min(failed)))
        return [n for n in self._untried(observations) if n <= ceiling]

    def _faster(self, untried: Sequence[int], contest: Contest, forecast: Forecast) -> int | None:
        """One that is hoped to be faster than the fastest by more than the tolerance."""
        known = len(contest.fastest.by_round) >= 2
        wanted_s = _cost_s(contest.fastest) * (1 / (1 + self.rules.tolerance) if known else _AT_ONCE)
        hopeful = [n for n in untried if forecast.cost_s(n) <= wanted_s and _is_apart(n, forecast.seen)]
        hoped = _hoped_best(hopeful, forecast, self.rules.tolerance)
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

    def _cheaper(self, untried: Sequence[int], contest: Contest, forecast: Forecast) -> int | None:
        """One with far fewer workers that is hoped to be as good as the recommended one."""
        most = _WORTH_SAVING * contest.recommended.num_workers
        enough_s = _cost_s(contest.fastest) * (1 + self.rules.tolerance)
        hopeful = [n for n in untried if n <= most and forecast.cost_s(n) <= enough_s and _is_apart(n, forecast.seen)]
        return min(hopeful, default=None)

    def _beyond(self, observations: Sequence[Observation], contest: Contest, forecast: Forecast) -> int | None:
        """The next one beyond the best, unless enough of them were tried."""
        best = contest.recommended.num_workers
        for rung in self._rungs(best, self._borne(contest, forecast)):
            if not any(rung / 1.5 < o.num_workers < rung * 1.5 for o in observations if o.num_workers > best):
                least_s = _cost_s(contest.fastest)
                allowed = [n for n in self._untried(observations) if n > best and forecast.may_beat(least_s, n)]
                return min(allowed, key=lambda n: (abs(math.log(n / rung)), n), default=None)
        return None

    def _rungs(self, best: int, count: int) -> Iterator[int]:
        """Twice as many workers, four times, ...; no further than there are candidates."""
        first, most = max(1, 2 * best), self.rules.candidates[-1]
        for step in range(count):
            if first * 2**step < 2 * most:
                yield min(most, first * 2**step)

    def _borne(self, contest: Contest, forecast: Forecast) -> int:
        """How many candidates beyond the fastest are tried though they do not improve on it."""
        room = _room(contest, forecast)
        if room <= 1 + self.rules.tolerance:
            return 0  # nothing can be faster by more than the tolerance
        if math.isinf(room):
            return self.rules.maximum_patience
        return min(self.rules.maximum_patience, 1 + int(math.log2(room)))

    # Who takes part, and for how long.

    def _companions(
        self, observations: Sequence[Observation], contest: Contest, new: Sequence[int]
    ) -> list[Observation]:
        """Those who go along with new candidates: not those who are far behind what is hoped of these."""
        forecast = self._forecast(contest)
        hope_s = min(forecast.cost_s(n) for n in new)
        able = [o for o in observations if o.open and o.cost_s is not None]
        leading = [o for o in able if _cost_s(o) <= _HOPELESS * hope_s]
        rest = [o for o in self._doubtful(contest) if _cost_s(o) <= _HOPELESS * hope_s]
        return [o for o in leading if o in rest or o in (contest.fastest, contest.recommended)]

    def _doubtful(self, contest: Contest) -> list[Observation]:
        """Those of whom more must be known, and whom they are compared with."""
        able = [o for o in contest.observations if o.open]
        leaders = [o for o in able if o in (contest.recommended, contest.fastest)]
        doubtful = [o for o in able if contest.rival(o).open and not self._is_settled(o, contest)]
        doubtful = [o for o in doubtful if contest.doubt(o).n < self._most_rounds]
        if not doubtful and not any(self._lacks_rounds(o) for o in leaders):
            return []
        return [o for o in able if o in doubtful or o in leaders]

    @property
    def _most_rounds(self) -> int:
        """Rounds after which two that are still not told apart are left so; more where more precision is asked for."""
        return math.ceil(_MOST_ROUNDS * max(1.0, (_USUAL_PRECISION / self.measure.precision) ** 2))

    @property
    def _fewest_rounds(self) -> int:
        return self.measure.epochs if self.measure.mode == "epoch" else _FEWEST_ROUNDS

    def _lacks_rounds(self, one: Observation) -> bool:
        return len(one.by_round) < self._fewest_rounds

    def _is_settled(self, one: Observation, contest: Contest) -> bool:
        """Whether enough is known of it: it is out, or has had its rounds and what is unknown matters little."""
        if contest.is_out(one):
            return True
        return not self._lacks_rounds(one) and contest.matters_little(one)

    # Why it ends.

    def _reason(self, observations: Sequence[Observation], contest: Contest) -> str:
        parts = [_about_best(contest, self.rules.tolerance)]
        forecast = self._forecast(contest)
        more = sorted(o.num_workers for o in observations if o.num_workers > contest.fastest.num_workers)
        if _room(contest, forecast) <= 1 + self.rules.tolerance:
            parts.append(f"nothing can be faster: {_about_floor(forecast.profile)}")
        elif contest.fastest.num_workers == self.rules.candidates[-1]:
            parts.append("it is the largest candidate")
        elif more:
            parts.append(f"more workers ({', '.join(map(str, more))}) were not faster")
        return "; ".join(parts)


def _hoped_best(candidates: Sequence[int], forecast: Forecast, tolerance: float) -> int | None:
    """The fewest workers that are hoped to be about as fast as any."""
    if not candidates:
        return None
    least_s = min(forecast.cost_s(n) for n in candidates)
    return min(n for n in candidates if forecast.cost_s(n) <= least_s * (1 + tolerance / 2))


def _is_apart(num_workers: int, tried: Iterable[int]) -> bool:
    """Whether none that was tried is so near that it says the same."""
    return all(max(n, num_workers) >= _APART * min(n, num_workers) for n in tried)


def _room(contest: Contest, forecast: Forecast) -> float:
    """By which factor the fastest could be faster before the CPUs or the consumer set the limit."""
    return _cost_s(contest.fastest) / forecast.floor_s if forecast.floor_s > 0 else math.inf


def _about_best(contest: Contest, tolerance: float) -> str:
    recommended, fastest = contest.recommended.num_workers, contest.fastest.num_workers
    if recommended == fastest:
        return f"num_workers={fastest} is the fastest"
    return f"num_workers={recommended} is within {units.share(tolerance)} of the fastest, num_workers={fastest}"


def _about_floor(profile: Profile) -> str:
    if profile.consume_s >= profile.cpu_s / profile.cores:
        return "it keeps the consumer busy all the time"
    return f"it keeps {units.counted(profile.cores, 'CPU')} busy all the time"


def _batch_s(observation: Observation) -> float:
    """Its pace; where an epoch has no steady state, its share of the epoch."""
    if observation.batch_s is not None:
        return observation.batch_s
    return _cost_s(observation) / (observation.batches or 1)


def _cost_s(observation: Observation) -> float:
    return math.inf if observation.cost_s is None else observation.cost_s
