"""What limits a loader, and what follows for other numbers of workers: a prediction from one short measurement. Pure.

The model: n workers share the work of loading, all processes together cannot use more CPU time than there are cores,
and no batch comes faster than the consumer takes them. So a batch takes

    t(n) = max(loading / n, cpu / cores, consumer)     and without workers     t(0) = loading + consumer

The rule t = max(m + n/x, y) of the sleeping dataset is the same without the CPUs. What the model leaves out (moving
batches between processes, memory bandwidth, locks) is learnt from what was measured since: ``Forecast``.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a batch takes, s.

    Attributes:
        loading_s: Time to make it in one process.
        cpu_s: CPU time of all processes, the consumer's included; 0 if it is unknown.
        consume_s: Time in the consumer.
        cores: CPUs that may be used.
    """

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
class Seen:
    """What was measured of one number of workers, s: per batch, and from the start of an epoch to its first batch."""

    batch_s: float
    startup_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The model, corrected by what was measured.

    Attributes:
        profile: What the model starts from.
        batches: Batches of an epoch; None if unknown: then only the pace counts.
        seen: What was measured, by num_workers.
        worker_start_s: Seconds that a worker takes to start and to end, where none was measured.
    """

    profile: Profile
    batches: int | None
    seen: Mapping[int, Seen]
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
        return self.startup_s(num_workers) + max(0, self.batches - 1) * batch_s

    def may_beat(self, cost_s: float, num_workers: int) -> bool:
        """Whether a candidate may cost less than this: not if an epoch's start takes as long by itself."""
        return self.batches is None or self.startup_s(num_workers) < cost_s

    @property
    def floor_s(self) -> float:
        """What no candidate can beat, in the same unit."""
        return self.profile.floor_s * (1 if self.batches is None else self.batches)

    def _factor(self, num_workers: int) -> float:
        """Measured time / model's time, as it is hoped to be."""
        known = sorted({1: 1.0, **{n: self.departure(n) for n in self.seen if n > 0}}.items())
        if num_workers == 0:
            return 1.0
        place = bisect.bisect_right([n for n, _ in known], num_workers)
        (below, before), (above, after) = known[place - 1], known[min(place, len(known) - 1)]
        if place == len(known):
            return self._beyond(known, num_workers)
        share = math.log(num_workers / below) / math.log(above / below)
        between = (1 - share) * math.log(before) + share * math.log(after)
        return math.exp((1 - _HOPE) * between + _HOPE * math.log(min(before, after)))

    @staticmethod
    def _beyond(known: Sequence[tuple[int, float]], num_workers: int) -> float:
        """The departure of more workers than were measured: a power of their number, as between the last two."""
        last, departure = known[-1]
        growth = 0.0
        if len(known) > 1:
            before, smaller = known[-2]
            growth = max(0.0, math.log(departure / smaller) / math.log(last / before))
        return departure * math.pow(num_workers / last, growth)

    def departure(self, measured: int) -> float:
        """Measured time / model's time of a candidate that was measured."""
        return self.seen[measured].batch_s / self.profile.batch_s(measured)

    def startup_s(self, num_workers: int) -> float:
        """Start-up by the nearest measured candidate: the first batch, and a share for each worker to be started."""
        nearest = min(self.seen, key=lambda n: (abs(n - num_workers), n))
        seen = self.seen[nearest]
        if nearest == 0:
            return seen.startup_s + self.worker_start_s * num_workers
        first_batch_s = min(seen.startup_s, self.profile.loading_s)
        return first_batch_s + (seen.startup_s - first_batch_s) * num_workers / nearest


# Between two measured candidates: the weight of the smaller departure against what they interpolate, on the log scale.
_HOPE = 2 / 3
