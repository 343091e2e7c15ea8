"""Searches on simulated machines without arms: thousands in seconds, with the truth at hand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from nws_sweep.records import LoaderSettings, MeasureRules, SearchRules, Verdict
from nws_sweep.strategies import Observation, Race, Stop, Strategy, make

BASE = LoaderSettings(batch_size=64, prefetch_factor=2)
_LIMIT_S = 20.0  # as measure.max_seconds


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A machine and a workload.

    Attributes:
        batch_s: Seconds per batch by num_workers.
        cpu_s: CPU seconds per batch.
        consume_s: Seconds of the consumer.
        cores: CPUs.
        batches: Batches of an epoch; None if unknown.
        startup_s: Seconds from the start of an epoch to its first batch by num_workers.
        process_s: Seconds to start a candidate's process.
        crashes: Candidates that fail.
    """

    batch_s: Callable[[int], float]
    cpu_s: float = 0.0
    consume_s: float = 0.0
    cores: float = 8.0
    batches: int | None = 1000
    startup_s: Callable[[int], float] = lambda n: 0.01 * n
    process_s: float = 0.1
    crashes: Collection[int] = ()

    def cost_s(self, num_workers: int) -> float:
        """What the candidates are ranked by."""
        return self.cost_at(num_workers, self.batch_s(num_workers))

    def cost_at(self, num_workers: int, batch_s: float) -> float:
        """The same if a batch took so long."""
        return batch_s if self.batches is None else self.startup_s(num_workers) + self.batches * batch_s


@dataclass(frozen=True)
class Outcome:
    """What a simulated search came to: its answer, and what it cost, s."""

    verdict: Verdict
    spent_s: float

    def regret(self, truth: Truth, candidates: Collection[int]) -> float:
        """By which share the recommended candidate is slower than the best."""
        best_s = min(truth.cost_s(n) for n in candidates if n not in truth.crashes)
        return truth.cost_s(self.verdict.recommended.num_workers) / best_s - 1


class Simulation:
    """A machine on which candidates take turns.

    Args:
        truth: What is so.
        noise: Standard deviation of the logarithm of a window of 0.2 s.
        seed: Of all that is random.
    """

    def __init__(self, truth: Truth, noise: float, seed: int) -> None:
        self.truth = truth
        self.noise = noise
        self.known: dict[LoaderSettings, Observation] = {}
        self.rounds = 0
        self._rng = random.Random(seed)
        self._drift = 0.0
        self._paces: dict[LoaderSettings, list[tuple[float, float]]] = {}

    def search(self, strategy: Strategy) -> Outcome:
        """Does what the strategy says until it stops."""
        while isinstance(decision := strategy.decide(list(self.known.values())), Race):
            assert decision.candidates
            assert self.rounds < 500, "the race does not end"
            for settings in decision.dropped:
                self.known[settings] = replace(self.known[settings], open=False)
            self._drift = 0.8 * self._drift + self._rng.gauss(0.0, self.noise)
            for settings in decision.candidates:
                self._turn(settings, decision.window_s)
            self.rounds += 1
        assert isinstance(decision, Stop)
        verdict = strategy.verdict(list(self.known.values()))
        assert verdict is not None
        return Outcome(verdict, sum(o.spent_s for o in self.known.values()))

    def _turn(self, settings: LoaderSettings, window_s: float) -> None:
        n, truth = settings.num_workers, self.truth
        if n in truth.crashes:
            self.known[settings] = Observation(settings=settings, spent_s=truth.process_s)
            return
        starting_s = truth.process_s + truth.startup_s(n)
        before = self.known.get(settings, Observation(settings=settings, spent_s=starting_s, open=True))
        assert before.open, "a candidate that is out was asked for"
        true_s = truth.batch_s(n)
        length_s = math.ceil(window_s / (max(1, n) * true_s)) * max(1, n) * true_s
        noise = self._rng.gauss(0.0, self.noise * math.sqrt(0.2 / max(0.2, length_s)))
        factor = math.exp(self._drift + noise)
        paces = self._paces.setdefault(settings, [])
        paces.append((length_s, true_s * factor))
        batch_s = sum(length for length, _ in paces) / sum(length / pace for length, pace in paces)
        self.known[settings] = Observation(
            settings=settings,
            cost_s=truth.cost_at(n, batch_s),
            by_round={**before.by_round, self.rounds: truth.cost_at(n, true_s * factor)},
            batch_s=batch_s,
            startup_s=truth.startup_s(n),
            cpu_s=truth.cpu_s * factor,
            consume_s=truth.consume_s,
            batches=truth.batches,
            spent_s=before.spent_s + length_s + settings.queued_batches * true_s,
            open=sum(length for length, _ in paces) < _LIMIT_S,
        )


def run(truth: Truth, noise: float, seed: int) -> Outcome:
    """One search with the default rules."""
    rules = SearchRules(strategy="adaptive", candidates=tuple(range(65)))
    return Simulation(truth, noise, seed).search(make(rules, BASE, MeasureRules(), truth.cores))
