"""The adaptive search on simulated machines without trial processes: its regret and its cost over many searches."""

import math
import random
import statistics
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
import pytest

from nws_sweep.replay import choice
from nws_sweep.replay.known import Known, known_of
from nws_sweep.results import LoaderSettings, Measurement, MeasureRules, SearchRules, Trial, TrialState
from nws_sweep.tuning.estimates import estimates_of
from nws_sweep.tuning.observations import MeasureRound, Observation, Stop
from nws_sweep.tuning.strategy import make
from tests import factories
from tests.factories import loader_settings

CANDIDATES = tuple(range(65))


@dataclass(frozen=True, kw_only=True)
class Truth:
    """True times of a workload, s, some by num_workers; ``batch_s`` includes the CPU time."""

    batch_s: Callable[[int], float]
    cpu_s: float = 0.0
    step_s: float = 0.0
    cores: float = 8.0
    batches: int | None = 1000  # None if the length of an epoch is unknown
    startup_s: Callable[[int], float] = lambda n: 0.01 * n
    crashes: Collection[int] = ()

    def cost_s(self, num_workers: int, factor: float = 1.0) -> float:
        """Seconds per batch, start-up included, if each batch takes ``factor`` times its time."""
        start_s = self.startup_s(num_workers) / self.batches if self.batches else 0.0
        return self.batch_s(num_workers) * factor + start_s


class Simulation:
    """One search with the default rules; ``noise`` is the standard deviation of the log time of a window of 0.2 s."""

    def __init__(self, truth: Truth, noise: float, seed: int) -> None:
        self.truth = truth
        self.noise = noise
        self.known: dict[LoaderSettings, Observation] = {}
        self._rng = random.Random(seed)
        self._drift = 0.0
        self._windows: dict[LoaderSettings, list[tuple[float, float]]] = {}
        rules = SearchRules(strategy="adaptive", candidates=CANDIDATES, max_workers=CANDIDATES[-1])
        strategy = make(rules, loader_settings(prefetch_factor=2), MeasureRules(), truth.cores)
        for self.rounds in range(500):
            decision = strategy.decide(list(self.known.values()))
            if not isinstance(decision, MeasureRound):
                break
            assert decision.candidates
            for settings in decision.dropped:
                self.known[settings] = replace(self.known[settings], may_continue=False, eliminated=True)
            self._drift = 0.8 * self._drift + self._rng.gauss(0.0, self.noise)
            for settings in decision.candidates:
                self._run_slice(settings, decision.window_s)
        assert isinstance(decision, Stop), "the search does not end"
        found = estimates_of(list(self.known.values()), rules.tolerance)
        self.answer = found.answer if found else None

    def spent_s(self) -> float:
        return sum(o.spent_s for o in self.known.values())

    def regret(self) -> float:
        """Price of the answer / the least price - 1."""
        assert self.answer is not None
        possible = (n for n in CANDIDATES if n not in self.truth.crashes)
        return self._price(self.answer.num_workers) / min(map(self._price, possible)) - 1

    def _price(self, num_workers: int) -> float:
        return choice.price(self.truth.cost_s(num_workers), num_workers, 0.03)

    def _run_slice(self, settings: LoaderSettings, window_s: float) -> None:
        n, truth, process_s = settings.num_workers, self.truth, 0.1
        if n in truth.crashes:
            self.known[settings] = Observation(settings=settings, spent_s=process_s)
            return
        starting_s = process_s + truth.startup_s(n)
        before = self.known.get(settings, Observation(settings=settings, spent_s=starting_s, may_continue=True))
        assert before.may_continue, "an eliminated candidate was measured"
        true_s = truth.batch_s(n)
        length_s = math.ceil(window_s / (max(1, n) * true_s)) * max(1, n) * true_s
        noise = self._rng.gauss(0.0, self.noise * math.sqrt(0.2 / max(0.2, length_s)))
        factor = math.exp(self._drift + noise)
        windows = self._windows.setdefault(settings, [])
        windows.append((length_s, factor))
        measured_s = sum(length for length, _ in windows)
        mean = measured_s / sum(length / factor for length, factor in windows)
        self.known[settings] = Observation(
            settings=settings,
            cost_s=truth.cost_s(n, mean),
            by_round={**before.by_round, self.rounds: truth.cost_s(n, factor)},
            known=self._known(settings, mean),
            batches=truth.batches,
            spent_s=before.spent_s + length_s + settings.queued_batches * true_s,
            may_continue=measured_s < 20.0,  # as measure.trial_limit_s
        )

    def _known(self, settings: LoaderSettings, factor: float) -> Known | None:
        truth, batch_s = self.truth, self.truth.batch_s(settings.num_workers) * factor
        found = Measurement(
            startup_s=truth.startup_s(settings.num_workers) + batch_s,
            batch_s=factories.estimate(batch_s),
            epoch_s=truth.batches and truth.batches * truth.cost_s(settings.num_workers, factor),
            step_s=truth.step_s * factor,
            cpu_s=truth.cpu_s,
        )
        instead = next((o.known.records for o in self.known.values() if o.known), None)
        return known_of(
            Trial(settings=settings, state=TrialState.OK, measurement=found),
            truth.batches,
            truth.cores,
            instead=instead,
        )


def waiting(knee: int, loading_s: float = 0.32) -> Truth:
    """A dataset that sleeps, and a training step that ``knee`` workers keep busy."""
    step_s = loading_s / knee
    return Truth(
        batch_s=lambda n: max(loading_s / n, step_s) if n else loading_s + step_s,
        cpu_s=0.002,
        step_s=step_s,
    )


def computing(cores: int) -> Truth:
    """A dataset that computes, 10 % slower with workers."""
    return Truth(batch_s=lambda n: 0.04 / min(n, cores) * 1.1 if n else 0.04, cpu_s=0.04, cores=cores)


def peaked(best: int) -> Truth:
    """Workers that slow each other down beyond the best number."""
    return Truth(batch_s=lambda n: 0.2 / max(1, min(n, best)) * (1 + 0.05 * max(0, n - best)), cpu_s=0.01)


HUMPS = {1: 1.0, 2: 0.5, 4: 0.25, 8: 0.33, 16: 0.15}
TRUTHS: dict[str, Truth] = {
    "knee at 1": waiting(1),
    "knee at 16": waiting(16),
    "CPUs 2": computing(2),
    "CPUs 16": computing(16),
    "in memory": Truth(batch_s=lambda n: 0.002 if n == 0 else 0.004, cpu_s=0.002),
    "flat": Truth(batch_s=lambda n: 0.05, cpu_s=0.005),
    "peak at 20": peaked(20),
    "two humps": Truth(batch_s=lambda n: 0.1 * float(np.interp(n, list(HUMPS), list(HUMPS.values()))), cpu_s=0.004),
    "training_step": Truth(batch_s=lambda n: 0.1 if n else 0.15, cpu_s=0.05, step_s=0.1),
    "crashes above": replace(waiting(16), crashes=range(10, 65)),
    "no length": replace(waiting(4), batches=None),
    "short": replace(waiting(16), batches=20, startup_s=lambda n: 0.05 + 0.03 * n),
}
# Between two numbers that were measured, what slows workers down is interpolated; near a steep peak that costs a tenth.
STEEP = "peak at 20"


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize(("noise", "seeds", "median", "most"), [(0.0, 1, 0.01, 0.12), (0.1, 5, 0.05, 0.2)])
def test_the_recommended_candidate_is_close_to_the_best(
    name: str, noise: float, seeds: int, median: float, most: float
) -> None:
    found = [Simulation(TRUTHS[name], noise, seed).regret() for seed in range(seeds)]
    assert statistics.median(found) <= (0.12 if name == STEEP else median)
    assert max(found) <= most


def test_the_cost_of_a_search_has_not_grown() -> None:
    """Geometric mean over all workloads, s."""
    spent_s = [Simulation(truth, 0.03, seed).spent_s() for truth in TRUTHS.values() for seed in range(3)]
    assert statistics.geometric_mean(spent_s) <= 9.0
