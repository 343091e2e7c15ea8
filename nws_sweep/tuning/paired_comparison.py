"""The words between a strategy and the runner, and the comparison of candidates measured in the same rounds. Pure.

The machine drifts from round to round and takes all candidates with it, so two of them are compared by the ratio of
their times round by round. Their spread is pooled over all pairs, with a weak prior: with two rounds each, five
candidates know more about the noise than any one of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from nws_sweep.measurement.stats import student_t_975
from nws_sweep.results import LoaderSettings, MeasureRules, SearchRules, Verdict

# Before anything is known of the noise: the standard deviation of the logarithm of two windows' ratio, and how many
# ratios that assumption is worth.
_PRIOR_SPREAD, _PRIOR_WEIGHT = 0.035, 2
# What looks after each round, and stops when it suits, needs wider intervals.
_SEQUENTIAL = 1.1
# No process waits so many times longer for an answer which cannot matter.
_MOST_LONGER = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of one candidate.

    Attributes:
        settings: The candidate, canonical.
        cost_s: The objective, smaller is better, s; None if it was not, or could not be, measured.
        by_round: What it would cost at the pace of a single round, s, by the number of the round.
        batch_s: Seconds per batch.
        startup_s: From the start of an epoch to its first batch, s.
        cpu_s: CPU seconds per batch.
        consume_s: Seconds per batch in the consumer.
        batches: Batches of an epoch; None if unknown.
        spent_s: What measuring it has taken so far, s.
        open: Whether it can be measured further.
    """

    settings: LoaderSettings
    cost_s: float | None = None
    by_round: Mapping[int, float] = field(default_factory=dict)
    batch_s: float | None = None
    startup_s: float | None = None
    cpu_s: float | None = None
    consume_s: float | None = None
    batches: int | None = None
    spent_s: float = 0.0
    may_continue: bool = False

    @property
    def num_workers(self) -> int:
        """The candidate's number of workers."""
        return self.settings.num_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Decision: measure these candidates until each has enough, in turn, so that drift of the machine meets them alike.

    Attributes:
        candidates: Those without an observation yet, at least one.
        beside: Candidates with an observation that are measured on beside them, for the comparison.
    """

    candidates: tuple[LoaderSettings, ...]
    beside: tuple[LoaderSettings, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRound:
    """Decision: one short turn of each of these, then ask again.

    Attributes:
        candidates: Who takes part, at least one; those that were not measured yet are started.
        dropped: Candidates that are out of the race for good.
        window_s: Length of a window at least, s.
    """

    candidates: tuple[LoaderSettings, ...]
    dropped: tuple[LoaderSettings, ...] = ()
    window_s: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Decision: the search is over, and why, in words."""

    reason: str


Decision = Measure | MeasureRound | Stop


class Strategy(Protocol):
    """Decides what to do next from all observations so far, whatever their order."""

    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The next candidates to measure, or the reason to stop."""

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """Which candidate is the best, as far as is known; None if none could be measured."""


def with_workers(base: LoaderSettings, num_workers: int) -> LoaderSettings:
    """The candidate of that many workers."""
    return replace(base, num_workers=num_workers).canonical()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatio:
    """How much slower one candidate is than another: the logarithm of the ratio of their costs, with 95 % to each side.

    Attributes:
        value: The estimate; below 0 if it is faster.
        half_width: Half the width of the interval.
        n: Rounds behind it.
    """

    value: float
    half_width: float
    n: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self.half_width


@dataclass(frozen=True)
class PairedComparison:
    """All candidates that could be measured.

    Attributes:
        observations: Those with a cost, at least one.
        tolerance: A candidate this much slower than the fastest is as good, if it is cheaper.
        precision: What may be gained beyond the tolerance by no more than this is too little to matter.
    """

    observations: tuple[Observation, ...]
    tolerance: float
    precision: float

    @cached_property
    def fastest(self) -> Observation:
        """The one with the least cost; where others met the same rounds, these decide."""
        leader = min(self.observations, key=lambda o: (cost_of(o), cheapness(o.settings)))
        return min(self.observations, key=lambda o: (_log_ratio(o, leader), cheapness(o.settings)))

    @cached_property
    def recommended(self) -> Observation:
        """The cheapest that is not slower than the fastest by more than the tolerance."""
        good = [o for o in self.observations if _log_ratio(o, self.fastest) <= math.log1p(self.tolerance)]
        return min(good, key=lambda o: cheapness(o.settings))

    def log_ratio(self, one: Observation, other: Observation) -> LogRatio:
        """By how much ``one`` is slower than ``other``."""
        if one.settings == other.settings:
            return LogRatio(value=0.0, half_width=0.0, n=len(one.by_round))
        n = len(_log_ratios(one, other))
        # Never in the same round, so drift comes on top: twice the variance of a pair's.
        share = 1 / n if n else sum(1 / max(1, len(o.by_round)) for o in (one, other))
        spread, degrees = self._noise
        half_width = _SEQUENTIAL * student_t_975(degrees) * spread * math.sqrt(share)
        return LogRatio(value=_log_ratio(one, other), half_width=half_width, n=n)

    @cached_property
    def _noise(self) -> tuple[float, int]:
        """Standard deviation of a ratio's logarithm, and its degrees of freedom."""
        squares, degrees = 0.0, 0
        for observation in self.observations:
            ratios = _log_ratios(observation, self.fastest)
            if observation.settings != self.fastest.settings and len(ratios) > 1:
                squares += sum((ratio - statistics.fmean(ratios)) ** 2 for ratio in ratios)
                degrees += len(ratios) - 1
        if degrees > 1 and squares / degrees > _PRIOR_SPREAD**2:  # noise beyond the prior is not talked down
            return math.sqrt(squares / degrees), degrees
        squares += _PRIOR_WEIGHT * _PRIOR_SPREAD**2
        return math.sqrt(squares / (degrees + _PRIOR_WEIGHT)), degrees + _PRIOR_WEIGHT

    def is_eliminated(self, one: Observation) -> bool:
        """Whether it is certain that it is not the one to recommend."""
        return one.settings != self.recommended.settings and self.deciding_ratio(one).low > self._edge(one, 0.0)

    def is_negligible(self, one: Observation) -> bool:
        """Whether knowing more of it can gain next to nothing: less than precision beyond the tolerance.

        A cheaper one that seems too slow would only save workers.
        """
        edge = self._edge(one, self.precision)
        if one.settings == self.recommended.settings:
            return self.deciding_ratio(one).high <= edge
        return self._is_cheap(one) or self.deciding_ratio(one).low >= edge

    def comparator(self, one: Observation) -> Observation:
        """Whom it must be compared with to tell whether it is the one to recommend."""
        return self.fastest if self._is_cheap(one) else self.recommended

    def deciding_ratio(self, one: Observation) -> LogRatio:
        """The gap whose interval leaves it open whether it is the one to recommend."""
        return self.log_ratio(one, self.comparator(one))

    def _is_cheap(self, one: Observation) -> bool:
        """Whether it is the recommended one, or cheaper."""
        return cheapness(one.settings) <= cheapness(self.recommended.settings)

    def _edge(self, one: Observation, beyond: float) -> float:
        """The gap to its rival from which on a cheap one is too slow, another one fast enough, on the log scale."""
        edge = math.log1p(self.tolerance) + math.log1p(beyond)
        return edge if self._is_cheap(one) else -edge

    def verdict(self) -> Verdict:
        """What is known now."""
        unclear = [o for o in self.observations if not self.is_eliminated(o) and not self.is_negligible(o)]
        tied = tuple(o.settings for o in unclear if o.settings != self.recommended.settings)
        if unclear and not tied:  # it may be slower than the fastest by more than the tolerance
            tied = (self.fastest.settings,)
        return Verdict(
            recommended=self.recommended.settings,
            fastest=self.fastest.settings,
            tied=tied,
            seconds_to_decide=max((self._seconds_to_decide(o) for o in unclear), default=None),
        )

    def _seconds_to_decide(self, one: Observation) -> float:
        """Further seconds, at the pace so far, until the interval leaves out the edge of the tolerance."""
        log_ratio = self.deciding_ratio(one)
        distance = abs(log_ratio.value - self._edge(one, self.precision))
        rounds = max(1, log_ratio.n)
        wanted = rounds * min(_MOST_LONGER, (log_ratio.half_width / distance) ** 2 if distance else _MOST_LONGER)
        round_s = sum(o.spent_s / max(1, len(o.by_round)) for o in (one, self.recommended))
        return max(1.0, wanted - rounds) * round_s


def _log_ratios(one: Observation, other: Observation) -> list[float]:
    """The logarithms of the ratios of their costs in the rounds that both took part in."""
    return [math.log(one.by_round[r] / other.by_round[r]) for r in sorted(set(one.by_round) & set(other.by_round))]


def _log_ratio(one: Observation, other: Observation) -> float:
    ratios = _log_ratios(one, other)
    return statistics.fmean(ratios) if ratios else math.log(cost_of(one) / cost_of(other))


def cheapness(settings: LoaderSettings) -> tuple[int, int]:
    """Fewest workers first, then what the queue holds."""
    return settings.num_workers, settings.queued_batches


def cost_of(observation: Observation) -> float:
    """Its cost, s; infinite if it has none."""
    return math.inf if observation.cost_s is None else observation.cost_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSearch:
    """What every search of num_workers is given.

    Attributes:
        rules: Candidates, ascending, and how many of them without improvement to bear.
        base: The settings beside num_workers.
        measure: What is precise enough.
    """

    rules: SearchRules
    base: LoaderSettings
    measure: MeasureRules

    def comparison(self, observations: Sequence[Observation]) -> PairedComparison | None:
        """The contest of those that could be measured; None if none could."""
        measured = tuple(o for o in observations if o.cost_s is not None)
        return PairedComparison(measured, self.rules.tolerance, self.measure.precision) if measured else None

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """The verdict on all that were measured."""
        comparison = self.comparison(observations)
        return comparison.verdict() if comparison else None
