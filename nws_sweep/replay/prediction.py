"""Predicts whole epochs with any settings from recorded costs of some of their batches. Pure.

An epoch is put together from the records: each of its batches gets the cost of a record near its position, so that
costs that depend on the position stay where they are. The band is that of a bootstrap over the records (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993, section 12.4: standard intervals).
"""

import bisect
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from nws_sweep.replay.queue import QueueSettings
from nws_sweep.replay.queue import replay as replay_queue
from nws_sweep.results import BatchCost, BatchRecord, Estimate, LoopCosts

MOST_BATCHES = 1000
_DRAWS = 20  # epochs for a band
MOST_ORDERS = 5  # of the same batches, of which a prediction is the mean
_VARIED = 0.3  # standard deviation / mean of the costs of batches
_NEAR = 0.05  # records within this share of the epoch stand for a position, if costs depend on it
_SIGNIFICANT = 2.33  # standard deviations, 1 % of epochs without an order are taken for ones with it


@dataclass(frozen=True, kw_only=True)
class Records:
    """What was recorded of one configuration.

    Attributes:
        made: At least one batch, in any order.
        loop: Costs of the main process and of the workers' life.
        batches: Number of batches of an epoch, at least 1.
        epochs: Over which the start of persistent workers is shared out, as in a measured time.
        most: Batches of a longer epoch that are replayed; the rest has their pace.
    """

    made: tuple[BatchRecord, ...]
    loop: LoopCosts
    batches: int
    epochs: int = 1
    most: int = MOST_BATCHES

    @cached_property
    def in_order(self) -> list[BatchRecord]:
        """The records by position; of more than are replayed, every second, third, ..."""
        return sorted(self.made, key=position_of)[:: -(-len(self.made) // self.most)]

    @cached_property
    def varies(self) -> bool:
        """Whether batches cost so different times that it matters which of them were timed."""
        costs_s = [one.cost.making_s for one in self.made]
        return statistics.pstdev(costs_s) > _VARIED * statistics.fmean(costs_s)

    @cached_property
    def reach(self) -> float:
        """The share of the epoch within which batches may change places: all of it if costs have no known order.

        They have one if neighbours differ less than any two, by von Neumann's ratio of the logarithms (Annals of
        Mathematical Statistics 12, 1941), whose mean is 2 and whose variance is 4 / n without an order.
        """
        logs = [math.log(max(1e-9, one.cost.making_s)) for one in self.in_order]
        spread = statistics.pvariance(logs) if len(logs) > 2 else 0.0
        if spread <= 0 or any(one.position is None for one in self.made):
            return 1.0
        ratio = statistics.fmean((later - earlier) ** 2 for earlier, later in pairwise(logs)) / spread
        return _NEAR if ratio < 2 - _SIGNIFICANT * 2 / math.sqrt(len(logs)) else 1.0

    def epoch(self, seed: int, most: int | None = None) -> list[BatchCost]:
        """The costs of at most ``most`` batches in the order of an epoch, which they represent.

        Each record is used as often as any other, to within one, in any order; if costs have an order, a batch gets the
        cost of a record within ``reach`` of its position, however many there are of each part of the epoch.
        """
        count = min(self.batches, most or self.most)
        if (seed, count) not in self._epochs:
            self._epochs[seed, count] = self._drawn(random.Random(seed), count)
        return self._epochs[seed, count]

    @cached_property
    def _epochs(self) -> dict[tuple[int, int], list[BatchCost]]:
        """The results of ``epoch`` so far: the same epoch is replayed with one thing after the other taken away."""
        return {}

    def _drawn(self, draw: random.Random, count: int) -> list[BatchCost]:
        made = self.in_order
        if self.reach < 1:
            indices = (bisect.bisect(made, (place + 0.5) / count, key=position_of) for place in range(count))
            return [self._near(index, draw).cost for index in indices]
        begin = draw.random()
        places = [
            (place + draw.uniform(-count, count), int((place + begin) * len(made) / count)) for place in range(count)
        ]
        return [made[index % len(made)].cost for _, index in sorted(places)]

    def _near(self, index: int, draw: random.Random) -> BatchRecord:
        """One of the records within ``reach`` of a place among them, in which a part without records has no length."""
        near, last = max(1, round(self.reach * len(self.in_order))), len(self.in_order) - 1
        return self.in_order[draw.randint(max(0, index - near), min(last, index + near))]

    def resampled(self, draw: random.Random) -> "Records":
        """As many records, each drawn with replacement from those within ``reach`` of its position."""
        return replace(self, made=tuple(self._near(index, draw) for index in range(len(self.in_order))))

    def slower(self, factor: float) -> "Records":
        """The same training step beside loading that costs ``factor`` times as much."""
        loop = {name: factor * value for name, value in asdict(self.loop).items() if not name.startswith("step")}
        made = (replace(one, cost=one.cost.scaled([factor] * 3)) for one in self.made)
        return replace(self, made=tuple(made), loop=replace(self.loop, **loop))


def position_of(record: BatchRecord) -> float:
    """The position; 0 if it is unknown."""
    return record.position or 0.0


class Prediction(NamedTuple):
    """Predicted times with their 95 % intervals: of an epoch, and of a batch once the queue has filled, both in s."""

    epoch_s: Estimate
    batch_s: Estimate


def epoch_of(records: Records, settings: QueueSettings, seed: int = 0) -> tuple[float, float]:
    """Seconds of an epoch and of a batch at the steady pace, without a band; the same for the same seed."""
    costs = records.epoch(seed)
    if len(records.made) == 1:  # equal batches have their pace from the second queue on
        costs = costs[: max(50, 4 * settings.queued_batches)]
    return epoch_and_batch_s(costs, records.loop, settings, records)


def epoch_and_batch_s(
    costs: Sequence[BatchCost], loop: LoopCosts, settings: QueueSettings, records: Records
) -> tuple[float, float]:
    """Seconds of an epoch, of which some batches are replayed and the rest has their pace, and of a batch.

    The pace is that of a full queue, from a worker's second batch on; epoch / batches of a short epoch. Neither the
    start, when workers have made nothing yet, nor the end, when they no longer get batches, has that pace.
    """
    if settings.persistent_workers:
        loop = replace(loop, fork_s=loop.fork_s / records.epochs, start_s=loop.start_s / records.epochs)
    found, count, workers = replay_queue(costs, loop, settings), len(costs), settings.num_workers
    full = count - 1 - workers * (1 + settings.prefetch_factor)
    full -= full % max(1, workers)  # equal workers return batches together
    batch_s = found.epoch_s / count
    if full > 0:
        batch_s = (found.returned_s[workers + full] - found.returned_s[workers]) / full
    return found.epoch_s + (records.batches - count) * batch_s, batch_s


def predict(records: Records, factor: float, settings: QueueSettings, misfit: float = 0.0) -> Prediction:
    """Predicts an epoch that takes ``factor`` times as long as replayed.

    The band is that of bootstrap samples whose loading is slower by other factors; ``misfit`` is the standard deviation
    of their logarithm.
    """
    arrangements = [epoch_of(records, settings, seed) for seed in range(MOST_ORDERS)]
    epoch_s, batch_s = (factor * statistics.fmean(times) for times in zip(*arrangements, strict=True))
    replicates = []
    for number in range(1, _DRAWS + 1):
        draw = random.Random(number)
        slower = records.resampled(draw).slower(math.exp(draw.gauss(0.0, misfit)))
        replicates.append(epoch_of(slower, settings, number))
    epochs, paces = zip(*replicates, strict=True)
    return Prediction(epoch_s=_estimate(epoch_s, epochs), batch_s=_estimate(batch_s, paces))


def _estimate(value: float, replicates: Sequence[float]) -> Estimate:
    """The value with twice the standard deviation of the replicates' logarithms on each side."""
    spread = math.exp(2 * statistics.stdev([math.log(one) for one in replicates]))
    return Estimate(value=value, low=value / spread, high=value * spread, n=len(replicates))
