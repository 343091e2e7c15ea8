"""Model of a loader: the time of a batch for each number of workers, predicted or fitted. Pure.

n workers divide the work of loading, all processes together have the CPU time of the cores, and batches are not faster
than the consumer:

    t(n) = max(loading / n, cpu / cores, consumer)     and without workers     t(0) = loading + consumer

``Forecast`` starts from one short measurement and corrects the model by later ones. ``ScalingFit`` is the same model
fitted to all measurements, with a part m that workers do not divide: t = max(m + n/x, y) for x workers.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nws_sweep.results import Estimate

# Between two measured candidates: weight of the smaller departure against the interpolated one, on the log scale.
_OPTIMISM = 2 / 3
_AT_FLOOR = 1.05  # measurements up to this factor above the floor do not enter the fit
_UNKNOWN_WIDTH, _LEAST_WIDTH = 0.1, 0.02  # half-width of an interval, as a share: if there is none, and at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Times of a batch, and the number of CPUs."""

    loading_s: float  # in one process
    cpu_s: float  # of all processes; 0 if unknown
    consume_s: float
    cores: float

    @property
    def floor_s(self) -> float:
        """Least time of a batch for any number of workers: by the CPUs and the consumer."""
        return max(self.cpu_s / self.cores, self.consume_s)

    def batch_s(self, num_workers: int) -> float:
        """Seconds per batch by the model."""
        if num_workers == 0:
            return self.loading_s + self.consume_s
        return max(self.loading_s / num_workers, self.floor_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measured times of one candidate."""

    batch_s: float
    startup_s: float  # from the start of an epoch to its first batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The model of a profile, corrected by the measured candidates."""

    profile: Profile
    batches: int | None  # length of an epoch; if None, costs are times per batch
    measured: Mapping[int, Measured]  # by num_workers
    worker_start_s: float = 0.01  # time to start and end a worker, until a candidate with workers is measured
    replayed: Callable[[int], float] | None = None  # the cost of a candidate by the replay of records

    def cost_s(self, num_workers: int) -> float:
        """The predicted cost of a candidate: seconds per epoch, or per batch if the length of an epoch is unknown.

        The prediction is optimistic, so that every candidate that may be the best is measured. Between two measured
        candidates the departure from the model lies between the interpolated and the smaller one; one worker has no
        departure unless measured; beyond all measured candidates the departure grows at the same rate.
        """
        if self.replayed is not None and self._has_workers:
            return self.replayed(num_workers)
        batch_s = self.profile.batch_s(num_workers) * self._factor(num_workers)
        if self.batches is None:
            return batch_s
        return self._startup_s(num_workers) + max(0, self.batches - 1) * batch_s

    def may_beat(self, cost_s: float, num_workers: int) -> bool:
        """True if a candidate may cost less: its start-up alone takes less time."""
        return self.batches is None or self._startup_s(num_workers) < cost_s

    @property
    def _has_workers(self) -> bool:
        return any(self.measured)

    @property
    def floor_s(self) -> float:
        """Lower bound of ``cost_s`` for all candidates."""
        return self.profile.floor_s * (1 if self.batches is None else self.batches)

    def departure(self, num_workers: int) -> float:
        """Measured time / time by the model of a measured candidate."""
        return self.measured[num_workers].batch_s / self.profile.batch_s(num_workers)

    def _factor(self, num_workers: int) -> float:
        """The predicted departure: a power of the workers between neighbouring measured candidates."""
        if num_workers == 0:
            return 1.0
        known = {1: 1.0, **{n: self.departure(n) for n in self.measured if n > 0}}
        if len(known) == 1:
            return known[1]
        numbers = sorted(known)
        place = min(bisect.bisect(numbers, num_workers), len(numbers) - 1)
        below, above = numbers[place - 1], numbers[place]
        growth = math.log(known[above] / known[below]) / math.log(above / below)
        if num_workers >= above:
            return known[above] * math.pow(num_workers / above, max(0.0, growth))
        between = known[below] * math.pow(num_workers / below, growth)
        return math.pow(between, 1 - _OPTIMISM) * math.pow(min(known[below], known[above]), _OPTIMISM)

    def _startup_s(self, num_workers: int) -> float:
        """Start-up, from the nearest measured candidate: the first batch, and a time per worker."""
        nearest = min(self.measured, key=lambda n: (abs(n - num_workers), n))
        startup_s = self.measured[nearest].startup_s
        if nearest == 0:
            return startup_s + self.worker_start_s * num_workers
        first_batch_s = min(startup_s, self.profile.loading_s)
        return first_batch_s + (startup_s - first_batch_s) * num_workers / nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFit:
    """The rule t = max(m + n/x, y) for x >= 1 workers, fitted to measurements."""

    n_s: float  # n, the part of a batch's time that workers divide
    m_s: float  # m, the part that they do not divide
    floor_s: float  # y, the least time of a batch
    points: int = 0  # number of measured candidates above the floor
    half_width: float = 0.0  # of the 95 % interval of the curve between these candidates, as a share

    def batch_s(self, num_workers: float) -> float:
        """Seconds per batch with ``num_workers`` >= 1."""
        return max(self.n_s / num_workers + self.m_s, self.floor_s)

    def interval_s(self, num_workers: float) -> tuple[float, float]:
        """The 95 % interval of the curve (not of a single measurement), s."""
        time_s, factor = self.n_s / num_workers + self.m_s, 1 + self.half_width
        return max(time_s / factor, self.floor_s), max(time_s * factor, self.floor_s)

    @property
    def enough(self) -> float | None:
        """Workers that reach the floor, x = n / (y - m); None if no number of workers does."""
        return self.n_s / (self.floor_s - self.m_s) if self.floor_s > self.m_s else None


def scaling_fit(measured: Mapping[int, Estimate], floor_s: float = 0.0) -> ScalingFit | None:
    """Fits by least squares of the relative errors; None if no measurement is above the floor.

    ``measured`` has seconds per batch by num_workers >= 1; ``floor_s`` is the least time of a batch, 0 if unknown. n
    and m are not negative; a single measurement gives n alone. The half-width of the curve is that of the measurements
    (by intervals or by twice the standard deviation of the residuals, whichever is larger) times sqrt(2 / points): with
    two terms the mean square error of the curve is 2 / points of that of a measurement.
    """
    points = {n: batch for n, batch in measured.items() if batch.value > _AT_FLOOR * floor_s}
    if not points:
        return None
    import numpy as np

    rows = [(1 / n, batch.value, _half_width(batch)) for n, batch in points.items()]
    shares, times_s, widths = np.array(rows).T
    weights = 1 / (times_s * widths)
    n_s, m_s = np.polyfit(shares, times_s, 1, w=weights) if len(points) > 1 else (0.0, 0.0)
    nothing_s = 1e-6 * np.min(times_s)  # rounding errors
    if m_s <= nothing_s:
        n_s, m_s = np.average(times_s / shares, weights=(weights * shares) ** 2), 0.0
    elif n_s <= nothing_s:
        n_s, m_s = 0.0, np.average(times_s, weights=weights**2)
    misfit = 4 * np.sum(np.log(times_s / (n_s * shares + m_s)) ** 2) / max(1, len(points) - 2)
    half_width = math.sqrt(max(np.mean(widths**2), misfit) * min(1.0, 2 / len(points)))
    return ScalingFit(n_s=float(n_s), m_s=float(m_s), floor_s=floor_s, points=len(points), half_width=half_width)


def _half_width(batch: Estimate) -> float:
    if not batch.low or not batch.high:
        return _UNKNOWN_WIDTH
    return max(_LEAST_WIDTH, math.sqrt(batch.high / batch.low) - 1)
