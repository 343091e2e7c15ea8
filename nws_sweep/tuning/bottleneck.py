"""Model of a loader: the predicted time of a batch for each number of workers. Pure.

n workers divide the work of loading, all processes together have the CPU time of the cores, and batches are not faster
than the consumer:

    t(n) = max(loading / n, cpu / cores, consumer)     and without workers     t(0) = loading + consumer

``Forecast`` starts from one short measurement and corrects the model by later ones.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Between two measured candidates: weight of the smaller departure against the interpolated one, on the log scale.
_OPTIMISM = 2 / 3


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
