"""Searches on simulated machines without arms: thousands in seconds, with the truth at hand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.records import LoaderSettings, MeasureRules, SearchRules, Verdict
from nws_sweep.strategies import Adaptive, Observation, Race, Stop
from nws_sweep.strategies.base import Decision
from nws_sweep.strategies.contest import contest_of

BASE = LoaderSettings(batch_size=64, prefetch_factor=2)


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
        if self.batches is None:
            return self.batch_s(num_workers)
        return self.startup_s(num_workers) + self.batches * self.batch_s(num_workers)


@dataclass
class Outcome:
    """What a simulated search came to.

    Attributes:
        verdict: Its answer; None if nothing could be measured.
        spent_s: What it cost.
        tried: Candidates in the order of their starts.
        reason: Why it stopped.
    """

    verdict: Verdict | None
    spent_s: float
    tried: list[int]
    reason: str

    def regret(self, truth: Truth, candidates: Collection[int]) -> float:
        """By which share the recommended candidate is slower than the best."""
        assert self.verdict is not None
        best_s = min(truth.cost_s(n) for n in candidates if n not in truth.crashes)
        return truth.cost_s(self.verdict.recommended.num_workers) / best_s - 1

    def epochs(self, truth: Truth, candidates: Collection[int]) -> float:
        """Its cost in epochs at the best setting."""
        return self.spent_s / min(truth.cost_s(n) for n in candidates if n not in truth.crashes)


@dataclass
class Simulation:
    """A machine on which candidates take turns.

    Attributes:
        truth: What is so.
        noise: Standard deviation of the logarithm of a window of 0.2 s.
        seed: Of all that is random.
    """

    truth: Truth
    noise: float
    seed: int
    known: dict[LoaderSettings, Observation] = field(default_factory=dict)
    rounds: int = 0
    limit_s: float = 20.0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._drift = 0.0
        self._paces: dict[LoaderSettings, list[tuple[float, float]]] = {}

    def search(self, strategy: Adaptive, decide: Callable[[list[Observation]], Decision] | None = None) -> Outcome:
        """Does what the strategy says until it stops."""
        while isinstance(decision := (decide or strategy.decide)(list(self.known.values())), Race):
            assert decision.candidates
            assert self.rounds < 500, "the race does not end"
            for settings in decision.dropped:
                self.known[settings] = replace(self.known[settings], open=False)
            self._drift = 0.8 * self._drift + self._rng.gauss(0.0, self.noise)
            for settings in decision.candidates:
                self._turn(settings, decision.window_s)
            self.rounds += 1
        assert isinstance(decision, Stop)
        contest = contest_of(list(self.known.values()), strategy.rules.tolerance, strategy.measure.precision)
        return Outcome(
            verdict=contest.verdict() if contest else None,
            spent_s=sum(o.spent_s for o in self.known.values()),
            tried=[settings.num_workers for settings in self.known],
            reason=decision.reason,
        )

    def _turn(self, settings: LoaderSettings, window_s: float) -> None:
        n, truth = settings.num_workers, self.truth
        if n in truth.crashes:
            self.known[settings] = Observation(settings=settings, spent_s=truth.process_s)
            return
        before = self.known.get(settings)
        assert before is None or before.open, "a candidate that is out was asked for"
        batch_s = truth.batch_s(n)
        clumps = math.ceil(window_s / (max(1, n) * batch_s))
        length_s = clumps * max(1, n) * batch_s
        noise = self._rng.gauss(0.0, self.noise * math.sqrt(0.2 / max(0.2, length_s)))
        factor = math.exp(self._drift + noise)
        paces = self._paces.setdefault(settings, [])
        paces.append((length_s, batch_s * factor))
        spent_s = length_s + settings.queued_batches * batch_s
        if before is None:
            spent_s += truth.process_s + truth.startup_s(n)
        self.known[settings] = self._observation(settings, before, factor, spent_s)

    def _observation(
        self, settings: LoaderSettings, before: Observation | None, factor: float, spent_s: float
    ) -> Observation:
        truth, n = self.truth, settings.num_workers
        paces = self._paces[settings]
        batch_s = sum(length for length, _ in paces) / sum(length / pace for length, pace in paces)
        startup_s = truth.startup_s(n)

        def cost_s(pace_s: float) -> float:
            return pace_s if truth.batches is None else startup_s + truth.batches * pace_s

        spent_s += before.spent_s if before else 0.0
        return Observation(
            settings=settings,
            cost_s=cost_s(batch_s),
            by_round={**(before.by_round if before else {}), self.rounds: cost_s(truth.batch_s(n) * factor)},
            batch_s=batch_s,
            startup_s=startup_s,
            cpu_s=truth.cpu_s * factor,
            consume_s=truth.consume_s,
            batches=truth.batches,
            spent_s=spent_s,
            open=sum(length for length, _ in paces) < self.limit_s,
        )


def adaptive(
    candidates: tuple[int, ...] = tuple(range(65)), cores: float = 8.0, guess: int | None = None, **rules: object
) -> Adaptive:
    """The strategy with default rules."""
    chosen: dict[str, Any] = {"strategy": "adaptive", "candidates": candidates, **rules}
    return Adaptive(rules=SearchRules(**chosen), base=BASE, measure=MeasureRules(), cores=cores, guess=guess)


def run(truth: Truth, noise: float, seed: int, strategy: Adaptive | None = None) -> Outcome:
    """One search."""
    return Simulation(truth, noise, seed).search(strategy or adaptive(cores=truth.cores))
