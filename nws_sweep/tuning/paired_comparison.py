"""Observations, decisions, and the comparison of candidates measured in the same rounds. Pure.

Drift from round to round affects all candidates equally, so candidates are compared by the ratios of their times in the
same rounds. Each pair has only a few rounds, so the variance of the ratios is pooled over all pairs, with a weak prior.
"""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from nws_sweep.measurement.stats import student_t_975
from nws_sweep.replay.model import Known
from nws_sweep.results import LoaderSettings, MeasureRules, SearchRules, Verdict

# Prior of the noise: standard deviation of the logarithm of the ratio of two windows, and its weight in ratios.
_PRIOR_SPREAD, _PRIOR_WEIGHT = 0.035, 2
_SEQUENTIAL = 1.1  # widens intervals, because the search looks at them after each round
_MOST_LONGER = 1000.0  # upper bound of further rounds / rounds so far in ``_seconds_to_decide``


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The measurements of one candidate so far."""

    settings: LoaderSettings  # canonical
    cost_s: float | None = None  # the objective, smaller is better; None if it is not, or cannot be, measured
    by_round: Mapping[int, float] = field(default_factory=dict)  # cost at the pace of each round, s, by round
    batches: int | None = None  # batches of an epoch; None if unknown
    spent_s: float = 0.0  # cost of the measurements so far
    may_continue: bool = False  # True if the candidate can be measured further
    known: Known | None = None  # costs of its batches; None before the first one

    @property
    def num_workers(self) -> int:
        """Number of workers of the candidate."""
        return self.settings.num_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Decision: measure new candidates until they have converged, in interleaved time slices."""

    candidates: tuple[LoaderSettings, ...]  # without observations, at least one
    beside: tuple[LoaderSettings, ...] = ()  # candidates with observations, measured further for the comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRound:
    """Decision: measure one short time slice of each candidate, then decide again."""

    candidates: tuple[LoaderSettings, ...]  # at least one; new candidates are started
    dropped: tuple[LoaderSettings, ...] = ()  # candidates to end, because they are eliminated
    window_s: float = 0.5  # least duration of a window


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Decision: end the search; the reason is one sentence."""

    reason: str


Decision = Measure | MeasureRound | Stop


def with_workers(base: LoaderSettings, num_workers: int) -> LoaderSettings:
    """The canonical settings with ``num_workers``."""
    return replace(base, num_workers=num_workers).canonical()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatio:
    """Logarithm of the ratio of two candidates' costs with its 95 % interval; below 0 if the first one is faster."""

    value: float
    half_width: float
    n: int  # number of rounds

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
    """The comparison of all candidates that have a cost."""

    observations: tuple[Observation, ...]  # at least one
    tolerance: float  # a candidate slower by at most this share counts as equally fast
    precision: float  # a gain of at most this share beyond the tolerance is negligible

    @cached_property
    def fastest(self) -> Observation:
        """The candidate with the least cost, by the ratios in common rounds where there are any."""
        leader = min(self.observations, key=lambda o: (cost_of(o), _by_cheapness(o.settings)))
        return min(self.observations, key=lambda o: (_log_ratio(o, leader), _by_cheapness(o.settings)))

    @cached_property
    def recommended(self) -> Observation:
        """The cheapest candidate within the tolerance of the fastest."""
        good = [o for o in self.observations if _log_ratio(o, self.fastest) <= math.log1p(self.tolerance)]
        return min(good, key=lambda o: _by_cheapness(o.settings))

    def log_ratio(self, one: Observation, other: Observation) -> LogRatio:
        """The log ratio of the costs of ``one`` and ``other``."""
        if one.settings == other.settings:
            return LogRatio(value=0.0, half_width=0.0, n=len(one.by_round))
        n = len(_log_ratios(one, other))
        # Without common rounds drift adds to the noise: the variance is twice that of a pair.
        share = 1 / n if n else sum(1 / max(1, len(o.by_round)) for o in (one, other))
        spread, degrees = self._noise
        half_width = _SEQUENTIAL * student_t_975(degrees) * spread * math.sqrt(share)
        return LogRatio(value=_log_ratio(one, other), half_width=half_width, n=n)

    @cached_property
    def _noise(self) -> tuple[float, int]:
        """Standard deviation of a log ratio, and its degrees of freedom."""
        others = (o for o in self.observations if o.settings != self.fastest.settings)
        groups = [ratios for other in others if (ratios := _log_ratios(other, self.fastest))]
        degrees = sum(len(ratios) - 1 for ratios in groups)
        squares = sum((ratio - statistics.fmean(ratios)) ** 2 for ratios in groups for ratio in ratios)
        if degrees > 1 and squares / degrees > _PRIOR_SPREAD**2:  # the prior never reduces measured noise
            return math.sqrt(squares / degrees), degrees
        squares += _PRIOR_WEIGHT * _PRIOR_SPREAD**2
        return math.sqrt(squares / (degrees + _PRIOR_WEIGHT)), degrees + _PRIOR_WEIGHT

    def is_eliminated(self, one: Observation) -> bool:
        """True if the candidate is certainly not the one to recommend."""
        return one.settings != self.recommended.settings and self.deciding_ratio(one).low > self._edge(one, 0.0)

    def expected_loss(self, one: Observation) -> float:
        """Expected time lost beyond the tolerance by not choosing a candidate, as a share; 0 for cheaper ones.

        For the recommended one it is the time lost by choosing it instead of the fastest. The log ratio has a normal
        distribution, so the loss is that of the linear loss function (Raiffa and Schlaifer, Applied Statistical
        Decision Theory, 1961, section 11.2).
        """
        ratio = self.deciding_ratio(one)
        if one.settings == self.recommended.settings:
            excess = ratio.value - self._edge(one, 0.0)
        elif self._is_cheap(one):
            return 0.0
        else:
            excess = self._edge(one, 0.0) - ratio.value
        normal = statistics.NormalDist(excess, max(1e-9, ratio.half_width / 2))
        return excess * (1 - normal.cdf(0.0)) + normal.variance * normal.pdf(0.0)

    def is_negligible(self, one: Observation) -> bool:
        """True if further measuring can gain at most ``precision`` beyond the tolerance.

        A cheaper candidate that seems too slow could only save workers.
        """
        edge = self._edge(one, self.precision)
        if one.settings == self.recommended.settings:
            return self.deciding_ratio(one).high <= edge
        return self._is_cheap(one) or self.deciding_ratio(one).low >= edge

    def comparator(self, one: Observation) -> Observation:
        """The candidate to compare with: the fastest for cheap candidates, else the recommended one."""
        return self.fastest if self._is_cheap(one) else self.recommended

    def deciding_ratio(self, one: Observation) -> LogRatio:
        """The log ratio to the comparator."""
        return self.log_ratio(one, self.comparator(one))

    def _is_cheap(self, one: Observation) -> bool:
        """True for the recommended candidate and cheaper ones."""
        return _by_cheapness(one.settings) <= _by_cheapness(self.recommended.settings)

    def _edge(self, one: Observation, beyond: float) -> float:
        """The log ratio above which a cheap candidate is too slow, and below which another one is fast enough."""
        edge = math.log1p(self.tolerance) + math.log1p(beyond)
        return edge if self._is_cheap(one) else -edge

    def verdict(self) -> Verdict:
        """The verdict on the observations so far."""
        unclear = [o for o in self.observations if not self.is_eliminated(o) and not self.is_negligible(o)]
        tied = tuple(o.settings for o in unclear if o.settings != self.recommended.settings)
        if unclear and not tied:  # the recommended candidate may be outside the tolerance of the fastest
            tied = (self.fastest.settings,)
        return Verdict(
            recommended=self.recommended.settings,
            fastest=self.fastest.settings,
            tied=tied,
            seconds_to_decide=max((self._seconds_to_decide(o) for o in unclear), default=None),
        )

    def _seconds_to_decide(self, one: Observation) -> float:
        """Further seconds, at the pace so far, until the interval excludes the edge of the tolerance."""
        log_ratio = self.deciding_ratio(one)
        distance = abs(log_ratio.value - self._edge(one, self.precision))
        rounds = max(1, log_ratio.n)
        needed = rounds * min(_MOST_LONGER, (log_ratio.half_width / distance) ** 2 if distance else _MOST_LONGER)
        round_s = sum(o.spent_s / max(1, len(o.by_round)) for o in (one, self.recommended))
        return max(1.0, needed - rounds) * round_s


def _log_ratios(one: Observation, other: Observation) -> list[float]:
    return [math.log(one.by_round[r] / other.by_round[r]) for r in sorted(set(one.by_round) & set(other.by_round))]


def _log_ratio(one: Observation, other: Observation) -> float:
    ratios = _log_ratios(one, other)
    return statistics.fmean(ratios) if ratios else math.log(cost_of(one) / cost_of(other))


def _by_cheapness(settings: LoaderSettings) -> tuple[int, int]:
    """Sort key: fewest workers first, then the shortest queue."""
    return settings.num_workers, settings.queued_batches


def cost_of(observation: Observation) -> float:
    """The cost, s; infinite if it is None."""
    return math.inf if observation.cost_s is None else observation.cost_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(ABC):
    """Decides from all observations so far, in any order; it has no state."""

    rules: SearchRules  # the strategy, its candidates and limits
    base: LoaderSettings  # all settings but num_workers
    measure: MeasureRules  # precision and duration of the measurements

    @abstractmethod
    def decide(self, observations: Sequence[Observation]) -> Decision:
        """The candidates to measure next, or the reason to stop."""

    def comparison(self, observations: Sequence[Observation]) -> PairedComparison | None:
        """The comparison of the candidates that have a cost; None if there are none."""
        measured = tuple(o for o in observations if o.cost_s is not None)
        return PairedComparison(measured, self.rules.tolerance, self.measure.precision) if measured else None

    def verdict(self, observations: Sequence[Observation]) -> Verdict | None:
        """The verdict on the observations; None if no candidate has a cost."""
        comparison = self.comparison(observations)
        return comparison.verdict() if comparison else None
