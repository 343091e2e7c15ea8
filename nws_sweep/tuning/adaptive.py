"""Predict, then verify: one short measurement without workers predicts the best number of workers.

Candidates around the prediction are compared in rounds of short time slices; eliminated candidates are dropped. The
measurements correct the prediction. A further candidate is started only if the corrected prediction is faster than the
best, or as fast with fewer workers. Beyond the best, the number of workers is doubled while the CPUs and the consumer
leave headroom: the larger the headroom, the more candidates without improvement are allowed, up to the patience.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from nws_sweep import units
from nws_sweep.replay.model import queue_settings
from nws_sweep.results import LoaderSettings
from nws_sweep.tuning.bottleneck import Forecast, Measured, Profile
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
MOST_PREDICTED = 5  # candidates started for their prediction; the patience allows as many more
_MOST_ROUNDS, _USUAL_PRECISION = 6, 0.05  # two candidates remain a tie after these rounds, at this precision
_AT_ONCE = 0.9  # predicted time / best time to start a candidate before the best has two rounds
_WORTH_SAVING = 0.75  # a candidate with fewer workers is started only if it has at most this share of them
_FIRST_STEP, _STEP = 8, 4  # most workers started at first, and most workers / those measured
_TRUSTED = 1.15  # measured time / time by the model up to which the model is accepted
_APART = 1.1  # numbers of workers closer than this factor count as equal: 19 and 20
_FAR_BEHIND = 1.4  # a candidate slower than the prediction of new ones by this factor is not measured beside them
# CPU seconds to start and end a worker: 8 to 20 ms measured for fork; 1.5 to 3 s for a new process that imports torch.
_FORKED_S, _SPAWNED_S = 0.01, 2.0


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
        comparison = self.comparison(observations)
        if comparison is None:
            return self._after_failures(observations)
        forecast = self._forecast(comparison)
        new = self._new(observations, comparison, forecast)
        active = [o for o in comparison.observations if o.may_continue]
        dropped = [o for o in active if comparison.is_eliminated(o)]
        staying = self._undecided(active, comparison)
        if new:
            limit_s = _FAR_BEHIND * min(forecast.cost_s(n) for n in new)
            staying += [o for o in active if o in (comparison.fastest, comparison.recommended)]
            staying = [o for o in active if o in staying and cost_of(o) <= limit_s]
        chosen = [o.settings for o in staying if o not in dropped]
        if not new and not chosen:
            return Stop(reason=self._reason(observations, comparison, forecast))
        starting = [with_workers(self.base, n) for n in new]
        return self._round([*starting, *chosen], dropped, rounds=len(comparison.recommended.by_round))

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
        if len(observations) > self.rules.maximum_patience or not untried:
            return Stop(reason=f"{units.counted(len(observations), 'candidate')} could not be measured")
        return self._round([with_workers(self.base, untried[0])])

    def _untried(self, observations: Iterable[Observation]) -> list[int]:
        tried = {o.num_workers for o in observations}
        return [n for n in self.rules.candidates if n not in tried]

    def _new(self, observations: Sequence[Observation], comparison: PairedComparison, forecast: Forecast) -> list[int]:
        if all(o.num_workers == comparison.observations[0].num_workers for o in observations):
            return self._first_candidates(observations, forecast)
        fits = self._fitting(observations) if len(observations) < MOST_PREDICTED + self.rules.maximum_patience else []
        chosen = (
            self._faster(fits, comparison, forecast),
            self._beyond(observations, comparison, forecast),
            self._cheaper(fits, comparison, forecast),
        )
        return [n for n in chosen if n is not None][:1]

    def _forecast(self, comparison: PairedComparison) -> Forecast:
        measured = comparison.observations
        fewest = min(measured, key=lambda o: o.num_workers)
        consume_s = fewest.consume_s or 0.0
        cpu_s = min((o.cpu_s for o in measured if o.cpu_s), default=0.0)
        alone_s = _batch_s(fewest) * fewest.num_workers if fewest.num_workers else _batch_s(fewest) - consume_s
        # Without workers torch may use several threads for a sample; a worker has one.
        loading_s = max(alone_s, cpu_s - consume_s, 1e-9)
        return Forecast(
            profile=Profile(loading_s=loading_s, cpu_s=cpu_s, consume_s=consume_s, cores=self.cores),
            batches=fewest.batches,
            measured={o.num_workers: Measured(batch_s=_batch_s(o), startup_s=o.startup_s or 0.0) for o in measured},
            replayed=self._replayed(measured),
            worker_start_s=_FORKED_S if self.start_method == "fork" else _SPAWNED_S / self.cores,
        )

    def _replayed(self, measured: Sequence[Observation]) -> Callable[[int], float] | None:
        model, batches = measured[0].model, measured[0].batches
        if model is None:
            return None

        @cache
        def cost_s(num_workers: int) -> float:
            queue = queue_settings(with_workers(self.base, num_workers), self.cores)
            return model.epoch_s(queue) if batches else model.batch_s(queue)

        return cost_s

    def _first_candidates(self, observations: Sequence[Observation], forecast: Forecast) -> list[int]:
        """The predicted best within the first step, its check, the guess and the reference."""
        untried = self._untried(observations)
        step = [n for n in untried if n <= _most_started(self.cores, 0)] or untried[:1]
        best = _predicted_best(step, forecast, self.rules.tolerance)
        wanted = (best, self._check(best, forecast), self.guess, self.rules.reference)
        return [n for n in untried if n in wanted]

    def _check(self, best: int | None, forecast: Forecast) -> int | None:
        """A candidate beyond the predicted best, measured if the CPUs are the bottleneck.

        CPUs are never fully used, so the prediction is too low; a consumer can be fully used.
        """
        profile = forecast.profile
        if not best or self.rules.maximum_patience == 0 or profile.consume_s >= profile.cpu_s / profile.cores:
            return None
        further = (n for n in self.rules.candidates if n >= 2 * best and forecast.may_beat(forecast.cost_s(0), n))
        return min(further, default=None)

    def _fitting(self, observations: Sequence[Observation]) -> list[int]:
        """The untried candidates well below the fewest workers that failed, unless more workers succeeded."""
        most = max((o.num_workers for o in observations if o.cost_s is not None), default=0)
        failed = [o.num_workers for o in observations if o.cost_s is None and o.num_workers > most]
        ceiling = max(_WORTH_SAVING * min(failed), math.sqrt(most * min(failed))) if failed else math.inf
        return [n for n in self._untried(observations) if n <= ceiling]

    def _faster(self, untried: Sequence[int], comparison: PairedComparison, forecast: Forecast) -> int | None:
        """A candidate predicted to be faster than the fastest by more than the tolerance."""
        known = len(comparison.fastest.by_round) >= 2
        limit_s = cost_of(comparison.fastest) * (1 / (1 + self.rules.tolerance) if known else _AT_ONCE)
        promising = [n for n in untried if forecast.cost_s(n) <= limit_s and _is_apart(n, forecast.measured)]
        best = _predicted_best(promising, forecast, self.rules.tolerance)
        if best is None:
            return None
        below = max((n for n in forecast.measured if n < best), default=0)
        above = min((n for n in forecast.measured if n > best), default=None)
        if above is None:
            return max(n for n in promising if n <= max(promising[0], min(best, _most_started(self.cores, below))))
        if forecast.departure(above) <= _TRUSTED:
            return best
        # The model is wrong at ``above``: bisection finds where the departure begins.
        middle = math.sqrt(max(1, below) * above)
        return min((n for n in promising if below < n < above), key=lambda n: abs(math.log(n / middle)))

    def _cheaper(self, untried: Sequence[int], comparison: PairedComparison, forecast: Forecast) -> int | None:
        """A candidate with far fewer workers predicted to be as good as the recommended one."""
        most = _WORTH_SAVING * comparison.recommended.num_workers
        limit_s = cost_of(comparison.fastest) * (1 + self.rules.tolerance)
        allowed = (n for n in untried if n <= most and forecast.cost_s(n) <= limit_s)
        return min((n for n in allowed if _is_apart(n, forecast.measured)), default=None)

    def _beyond(
        self, observations: Sequence[Observation], comparison: PairedComparison, forecast: Forecast
    ) -> int | None:
        """The next doubling beyond the best, as far as the headroom allows."""
        best, most = comparison.recommended.num_workers, self.rules.candidates[-1]
        for doubling in (max(1, 2 * best) * 2**step for step in range(self._doublings(comparison, forecast))):
            if doubling >= 2 * most:
                break
            near = min(most, doubling)
            if not any(near / 1.5 < o.num_workers < near * 1.5 for o in observations if o.num_workers > best):
                least_s = cost_of(comparison.fastest)
                allowed = [n for n in self._untried(observations) if n > best and forecast.may_beat(least_s, n)]
                return min(allowed, key=lambda n: (abs(math.log(n / near)), n), default=None)
        return None

    def _doublings(self, comparison: PairedComparison, forecast: Forecast) -> int:
        """How many doublings beyond the best are measured: one within a factor of two of the floor, and so on."""
        headroom = _headroom(comparison, forecast)
        if math.isinf(headroom):
            return self.rules.maximum_patience
        if headroom <= 1 + self.rules.tolerance:
            return 0
        return min(self.rules.maximum_patience, 1 + int(math.log2(headroom)))

    def _undecided(self, active: Sequence[Observation], comparison: PairedComparison) -> list[Observation]:
        """The candidates that need more rounds, with the fastest and the recommended one."""
        fewest = self.measure.epochs if self.measure.mode == "epoch" else _FEWEST_ROUNDS
        most = math.ceil(_MOST_ROUNDS * max(1.0, (_USUAL_PRECISION / self.measure.precision) ** 2))

        def is_decided(one: Observation) -> bool:
            if comparison.is_eliminated(one) or comparison.deciding_ratio(one).n >= most:
                return True
            return len(one.by_round) >= fewest and comparison.is_negligible(one)

        leaders = [o for o in active if o in (comparison.recommended, comparison.fastest)]
        undecided = [o for o in active if comparison.comparator(o).may_continue and not is_decided(o)]
        if not undecided and all(len(o.by_round) >= fewest for o in leaders):
            return []
        return [o for o in active if o in undecided or o in leaders]

    def _reason(self, observations: Sequence[Observation], comparison: PairedComparison, forecast: Forecast) -> str:
        recommended, fastest = comparison.recommended.num_workers, comparison.fastest.num_workers
        reason = f"num_workers={fastest} is the fastest"
        if recommended != fastest:
            tolerance = units.share(self.rules.tolerance)
            reason = f"num_workers={recommended} is within {tolerance} of the fastest, num_workers={fastest}"
        if _headroom(comparison, forecast) <= 1 + self.rules.tolerance:
            profile, cpus = forecast.profile, units.counted(self.cores, "CPU")
            busy = "the consumer" if profile.consume_s >= profile.cpu_s / profile.cores else cpus
            return f"{reason}; no candidate can be faster, since it keeps {busy} busy all the time"
        if fastest == self.rules.candidates[-1]:
            return f"{reason}; it is the largest candidate"
        more = sorted(o.num_workers for o in observations if o.num_workers > fastest)
        return f"{reason}; more workers ({', '.join(map(str, more))}) were not faster" if more else reason


def _most_started(cores: float, measured: int) -> float:
    """The most workers to start when ``measured`` workers are the most that were measured."""
    return max(_FIRST_STEP, 2 * cores, _STEP * measured)


def _predicted_best(candidates: Sequence[int], forecast: Forecast, tolerance: float) -> int | None:
    """The fewest workers predicted to be about as fast as the fastest."""
    least_s = min((forecast.cost_s(n) for n in candidates), default=0.0)
    return min((n for n in candidates if forecast.cost_s(n) <= least_s * (1 + tolerance / 2)), default=None)


def _is_apart(num_workers: int, measured: Iterable[int]) -> bool:
    return all(max(n, num_workers) >= _APART * min(n, num_workers) for n in measured)


def _headroom(comparison: PairedComparison, forecast: Forecast) -> float:
    """Time of the fastest candidate / least time that the CPUs and the consumer allow."""
    return cost_of(comparison.fastest) / forecast.floor_s if forecast.floor_s > 0 else math.inf


def _batch_s(observation: Observation) -> float:
    """Seconds per batch; without a steady pace the time of an epoch / its batches."""
    if observation.batch_s is not None:
        return observation.batch_s
    return cost_of(observation) / (observation.batches or 1)
