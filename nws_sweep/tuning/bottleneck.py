"""What limits a loader, and what follows for other numbers of workers. Pure.

The model: n workers share the work of loading, all processes together cannot use more CPU time than there are cores,
and no batch comes faster than the consumer takes them. So a batch takes

    t(n) = max(loading / n, cpu / cores, consumer)     and without workers     t(0) = loading + consumer

A search starts from one short measurement and corrects the model by what was measured since: ``Forecast``. Afterwards
the same model is fitted to all that was measured, with a part m that workers do not share: ``ScalingFit``, the rule
t = max(m + n/x, y) of the sleeping dataset.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass

from nws_sweep.results import Estimate

# Between two measured candidates: the weight of the smaller departure against what they interpolate, on the log scale.
_HOPE = 2 / 3
# Measured points this near to the floor say that it was reached, not how.
_AT_FLOOR = 1.05
# Half the width of the interval, as a share, of an estimate that has none, and the least that any has: moments differ.
_UNKNOWN_WIDTH, _LEAST_WIDTH = 0.1, 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a batch takes, s: to make it in one process, of all CPU time (0 if that is unknown), and in the consumer."""

    loading_s: float
    cpu_s: float
    consume_s: float
    cores: float

    @property
    def floor_s(self) -> float:
        """What no number of workers can beat: the CPUs' and the consumer's time."""
        return max(self.cpu_s / self.cores, self.consume_s)

    def batch_s(self, num_workers: int) -> float:
        """The model's seconds per batch."""
        if num_workers == 0:
            return self.loading_s + self.consume_s
        return max(self.loading_s / num_workers, self.floor_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of one number of workers, s: per batch, and from the start of an epoch to its first batch."""

    batch_s: float
    startup_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The model of a profile, corrected by what was seen of numbers of workers.

    Where the batches of an epoch are unknown only the pace counts. ``worker_start_s`` is what a worker takes to start
    and to end, where none was measured.
    """

    profile: Profile
    batches: int | None
    seen: Mapping[int, Measured]
    worker_start_s: float = 0.01

    def cost_s(self, num_workers: int) -> float:
        """What a candidate is hoped to cost: seconds of an epoch, or per batch where its length is unknown.

        Hopeful, so that a candidate that might be the best is tried. Between two measured candidates the departure from
        the model is taken to lie between what they interpolate and the smaller of theirs; a single worker departs from
        it not at all, unless it was measured; beyond all of them it goes on to grow as it did.
        """
        batch_s = self.profile.batch_s(num_workers) * self._factor(num_workers)
        if self.batches is None:
            return batch_s
        return self._startup_s(num_workers) + max(0, self.batches - 1) * batch_s

    def may_beat(self, cost_s: float, num_workers: int) -> bool:
        """Whether a candidate may cost less than this: not if an epoch's start takes as long by itself."""
        return self.batches is None or self._startup_s(num_workers) < cost_s

    @property
    def floor_s(self) -> float:
        """What no candidate can beat, in the same unit."""
        return self.profile.floor_s * (1 if self.batches is None else self.batches)

    def departure(self, measured: int) -> float:
        """Measured time / model's time of a candidate that was measured."""
        return self.seen[measured].batch_s / self.profile.batch_s(measured)

    def _factor(self, num_workers: int) -> float:
        """Measured time / model's time, as it is hoped to be: a power of the workers between each two measured."""
        if num_workers == 0:
            return 1.0
        known = {1: 1.0, **{n: self.departure(n) for n in self.seen if n > 0}}
        if len(known) == 1:
            return known[1]
        numbers = sorted(known)
        place = min(bisect.bisect(numbers, num_workers), len(numbers) - 1)
        below, above = numbers[place - 1], numbers[place]
        growth = math.log(known[above] / known[below]) / math.log(above / below)
        if num_workers >= above:
            return known[above] * math.pow(num_workers / above, max(0.0, growth))
        between = known[below] * math.pow(num_workers / below, growth)
        return math.pow(between, 1 - _HOPE) * math.pow(min(known[below], known[above]), _HOPE)

    def _startup_s(self, num_workers: int) -> float:
        """Start-up by the nearest measured candidate: the first batch, and a share for each worker to be started."""
        nearest = min(self.seen, key=lambda n: (abs(n - num_workers), n))
        seen = self.seen[nearest]
        if nearest == 0:
            return seen.startup_s + self.worker_start_s * num_workers
        first_batch_s = min(seen.startup_s, self.profile.loading_s)
        return first_batch_s + (seen.startup_s - first_batch_s) * num_workers / nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFit:
    """The rule t = max(m + n/x, y) for x workers, at least one, fitted to what was measured.

    Attributes:
        n_s: n, the part of a batch's time that workers share, s.
        m_s: m, the part that they do not, s.
        floor_s: y, what no batch can beat, s.
        points: How many measured candidates above the floor it was fitted to.
        half_width: By which share the time may be off, either way, between the fewest and the most workers of these.
    """

    n_s: float
    m_s: float
    floor_s: float
    points: int = 0
    half_width: float = 0.0

    def batch_s(self, num_workers: float) -> float:
        """Seconds per batch with so many workers, at least 1."""
        return max(self.n_s / num_workers + self.m_s, self.floor_s)

    def interval_s(self, num_workers: float) -> tuple[float, float]:
        """The 95 % interval of that: where the curve may lie, not where a measurement would."""
        time_s, factor = self.n_s / num_workers + self.m_s, 1 + self.half_width
        return max(time_s / factor, self.floor_s), max(time_s * factor, self.floor_s)

    @property
    def enough(self) -> float | None:
        """Workers with which the floor is reached, x = n / (y - m); None if it never is, or there is no floor."""
        return self.n_s / (self.floor_s - self.m_s) if self.floor_s > self.m_s else None


def scaling_fit(measured: Mapping[int, Estimate], floor_s: float = 0.0) -> ScalingFit | None:
    """The law that fits best, by least squares of the relative errors; None without any point above the floor.

    Neither n nor m is negative, and one such point shows n alone. The curve is as uncertain as points are on average,
    by their own intervals or by how far from it they lie (twice the standard deviation), and less the more of them
    there are: with two terms its mean square error is 2 / points of theirs. No batch can beat ``floor_s``: the
    consumer's time, and CPU time / cores; 0 if nothing is known of it.
    """
    points = {n: batch for n, batch in measured.items() if batch.value > _AT_FLOOR * floor_s}
    if not points:
        return None
    import numpy as np

    rows = [(1 / n, batch.value, _half_width(batch)) for n, batch in points.items()]
    shares, times_s, widths = np.array(rows).T
    weights = 1 / (times_s * widths)
    n_s, m_s = np.polyfit(shares, times_s, 1, w=weights) if len(points) > 1 else (0.0, 0.0)
    nothing_s = 1e-6 * np.min(times_s)  # what rounding leaves
    if m_s <= nothing_s:
        n_s, m_s = np.average(times_s / shares, weights=(weights * shares) ** 2), 0.0
    elif n_s <= nothing_s:
        n_s, m_s = 0.0, np.average(times_s, weights=weights**2)
    misfit = 4 * np.sum(np.log(times_s / (n_s * shares + m_s)) ** 2) / max(1, len(points) - 2)
    half_width = math.sqrt(max(np.mean(widths**2), misfit) * min(1.0, 2 / len(points)))
    return ScalingFit(n_s=float(n_s), m_s=float(m_s), floor_s=floor_s, points=len(points), half_width=half_width)


def _half_width(batch: Estimate) -> float:
    """Half the width of the interval of an estimate, as a share of it."""
    if not batch.low or not batch.high:
        return _UNKNOWN_WIDTH
    return max(_LEAST_WIDTH, math.sqrt(batch.high / batch.low) - 1)
