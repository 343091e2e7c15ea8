"""How a loader scales with its workers: a curve through what was measured, for words about what was not. Pure.

The universal scalability law (Gunther, 2007) says that n workers have the throughput

    X(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1))

sigma being what they cannot share (contention), kappa what they do because of each other (coherency). Written as the
time of a batch it is linear in three terms, none of which is negative; and no batch comes faster than the consumer
takes them or the CPUs can make them:

    t(n) = max(n_s / n + m_s + crowding_s (n - 1), y_s)          n_s = (1 - sigma) / lambda, m_s = sigma / lambda,
                                                                 crowding_s = kappa / lambda

Without the last term that is the rule t = max(m + n/x, y) of the sleeping dataset (x workers), and y is reached with
x = n / (y - m) of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from nws_sweep.records import Estimate
from nws_sweep.stats import MIN_BURSTS_FOR_INTERVAL, student_t_975

# Measured points this near to the floor say that it was reached, not how.
_AT_FLOOR = 1.05
# Relative standard error of a point that has no interval, and the least that any has: moments differ.
_UNKNOWN_ERROR, _LEAST_ERROR = 0.05, 0.01
_DRAWS = 400
_LOW, _HIGH = 0.025, 0.975

Terms = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What was measured of a number of workers.

    Attributes:
        num_workers: At least 1.
        batch_s: Seconds per batch.
        error: Its standard error, as a share.
    """

    num_workers: int
    batch_s: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The curve, for one or more workers.

    Attributes:
        n_s: The part of a batch's time that workers share, s.
        m_s: The part that they do not, s.
        crowding_s: What each further worker adds, s.
        floor_s: y: what no batch can beat, s.
        points: How many points above the floor it was fitted to.
        draws: The first three, fitted to points that were moved by their errors: for intervals.
    """

    n_s: float
    m_s: float
    crowding_s: float
    floor_s: float
    points: int = 0
    draws: tuple[Terms, ...] = ()

    def batch_s(self, num_workers: float) -> float:
        """Seconds per batch with so many workers, at least 1."""
        return max(_time_s((self.n_s, self.m_s, self.crowding_s), num_workers), self.floor_s)

    def interval_s(self, num_workers: float) -> tuple[float, float]:
        """The 95 % interval of that: where the curve may lie, not where a measurement would."""
        times = sorted(law.batch_s(num_workers) for law in self._drawn)
        return times[int(_LOW * len(times))], times[int(_HIGH * len(times))]

    def most_gain(self, fewer: int, more: int) -> float:
        """By which share of the throughput that many workers could beat fewer: the quick end of the 95 % interval.

        Each drawn curve is compared with itself: what is uncertain of both numbers alike is no gain.
        """
        gains = sorted(law.batch_s(fewer) / law.batch_s(more) - 1 for law in self._drawn)
        return max(0.0, gains[int(_HIGH * len(gains))])

    @property
    def _drawn(self) -> list[Law]:
        """The curves that may be the true one; without draws this one alone."""
        return [
            replace(self, n_s=n_s, m_s=m_s, crowding_s=crowding_s, draws=()) for n_s, m_s, crowding_s in self.draws
        ] or [self]

    @property
    def enough(self) -> float | None:
        """Workers with which the floor is reached; None if it never is, or there is no floor.

        The smaller solution x of n/x + m + c (x - 1) = y, which is n / (y - m) for c = 0.
        """
        shared_s = self.floor_s - self.m_s + self.crowding_s
        under_root = shared_s**2 - 4 * self.crowding_s * self.n_s
        if shared_s <= 0 or under_root < 0:
            return None
        return 2 * self.n_s / (shared_s + math.sqrt(under_root))


def point_of(num_workers: int, batch: Estimate) -> Point:
    """A point with the standard error that its interval shows.

    Args:
        num_workers: At least 1.
        batch: Seconds per batch.
    """
    error = _UNKNOWN_ERROR
    if batch.low and batch.high and batch.n >= MIN_BURSTS_FOR_INTERVAL:
        error = max(_LEAST_ERROR, math.log(batch.high / batch.low) / (2 * student_t_975(batch.n - 1)))
    return Point(num_workers=num_workers, batch_s=batch.value, error=error)


def law_of(points: Sequence[Point], floor_s: float = 0.0) -> Law | None:
    """The law that fits best; None without any point that is above the floor.

    With one such point it is n/x alone, with two m + n/x; the last term needs three.

    Args:
        points: What was measured, each number of workers once.
        floor_s: What no batch can beat: the consumer's time, and CPU time / cores; 0 if nothing is known of it.
    """
    scaling = sorted((p for p in points if p.batch_s > _AT_FLOOR * floor_s), key=lambda p: p.num_workers)
    if not scaling:
        return None
    (fitted,) = _fit(scaling, [[p.batch_s for p in scaling]])
    spread = _misfit(scaling, fitted)
    n_s, m_s, crowding_s = fitted
    draws = tuple(_fit(scaling, _moved(scaling, spread)))
    return Law(n_s=n_s, m_s=m_s, crowding_s=crowding_s, floor_s=floor_s, points=len(scaling), draws=draws)


def _moved(points: Sequence[Point], spread: float) -> Any:
    """Times of the points moved by their errors, a row each time; the same points have the same ones."""
    import numpy as np

    errors = np.hypot([p.error for p in points], spread)
    normal = np.random.default_rng(0).standard_normal((_DRAWS, len(points)))
    return np.array([p.batch_s for p in points]) * np.exp(errors * normal)


def _time_s(terms: Terms, num_workers: float) -> float:
    n_s, m_s, crowding_s = terms
    return n_s / num_workers + m_s + crowding_s * (num_workers - 1)


def _misfit(points: Sequence[Point], fitted: Terms) -> float:
    """By how much the points lie further from the curve than their errors say, as a share of the time."""
    spare = len(points) - sum(term > 0 for term in fitted)
    if spare < 1:
        return 0.0
    squares = sum(math.log(p.batch_s / _time_s(fitted, p.num_workers)) ** 2 for p in points) / spare
    return math.sqrt(max(0.0, squares - sum(p.error**2 for p in points) / len(points)))


def _fit(points: Sequence[Point], times_s: Any) -> list[Terms]:
    """Least squares of the relative errors with no negative term, for each of several sets of times of the points.

    With three terms at most all choices of those that are not zero can be tried.
    """
    import numpy as np

    weights = np.array([1 / (p.batch_s * p.error) for p in points])
    rows = np.array([(1 / p.num_workers, 1.0, p.num_workers - 1.0) for p in points]) * weights[:, None]
    targets = np.array(times_s).T * weights[:, None]
    best = np.zeros((3, len(times_s)))
    least = np.full(len(times_s), np.inf)
    for chosen in _choices(min(3, len(points))):
        terms, squares = _least_squares(rows[:, chosen], targets)
        better = (squares < least) & (terms >= 0).all(axis=0)
        best[:, better] = 0.0
        best[np.ix_(chosen, better)] = terms[:, better]
        least[better] = squares[better]
    return [(float(n_s), float(m_s), float(crowding_s)) for n_s, m_s, crowding_s in best.T]


def _choices(most: int) -> list[list[int]]:
    """Which of the first terms, as many as there are points, are not zero; few terms first, which win ties."""
    return [list(chosen) for count in range(1, most + 1) for chosen in combinations(range(most), count)]


def _least_squares(rows: Any, targets: Any) -> tuple[Any, Any]:
    import numpy as np

    terms, *_ = np.linalg.lstsq(rows, targets, rcond=None)
    return terms, ((rows @ terms - targets) ** 2).sum(axis=0)
