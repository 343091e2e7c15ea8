"""Predicts whole epochs with any settings from recorded costs of some of their batches. Pure.

An epoch is put together from the records: in any order if the sampler draws one, else each batch stays in its place.
The band is that of a bootstrap over the records (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section
12.4: standard intervals).
"""

import bisect
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from nws_sweep.model.queue import QueueSettings
from nws_sweep.model.queue import replay as replay_queue
from nws_sweep.records import BatchCost, BatchRecord, Estimate, LoopCosts

MOST_BATCHES = 1000  # of a longer epoch that are replayed; the rest has their pace
_DRAWS = 20  # epochs for a band
MOST_ORDERS = 5  # of the same batches, of which a prediction is the mean
_VARIED = 0.3  # standard deviation / mean of the costs of batches


@dataclass(frozen=True, kw_only=True)
class Records:
    """What was recorded of one configuration.

    Attributes:
        made: At least one batch, in any order.
        loop: Costs of the main process and of the workers' life.
        batches: Number of batches of an epoch, at least 1.
        shared_epochs: Over which the start of persistent workers is shared out, as in a measured time.
        shuffled: Whether the sampler draws a random order, so that batches may change places.
    """

    made: tuple[BatchRecord, ...]
    loop: LoopCosts
    batches: int
    shared_epochs: int = 1
    shuffled: bool = True

    @cached_property
    def varies(self) -> bool:
        """Whether batches cost so different times that it matters which of them were timed."""
        costs_s = [record.cost.making_s for record in self.made]
        return statistics.pstdev(costs_s) > _VARIED * statistics.fmean(costs_s)

    @cached_property
    def in_order(self) -> list[BatchRecord]:
        """The records by position."""
        return sorted(self.made, key=position_of)

    @property
    def has_places(self) -> bool:
        """Whether the batches of an epoch are replayed in their places: they have one order, which is known."""
        return not self.shuffled and all(record.position is not None for record in self.made)

    def epochs(self, most: int, seeds: Sequence[int]) -> Iterator[list[BatchCost]]:
        """Yields the costs of at most ``most`` batches in the order of an epoch, which they represent.

        Each seed gives another random order; there is only one epoch if batches stay in their places.
        """
        for seed in seeds[:1] if self.has_places else seeds:
            count = min(self.batches, most)
            yield [*(self._in_place(count) if self.has_places else self._in_any_order(random.Random(seed), count))]

    def _in_any_order(self, draw: random.Random, count: int) -> Iterator[BatchCost]:
        """Each record is used as often as any other, to within one."""
        records, begin = self.in_order, draw.random()
        indices = [int((place + begin) * len(records) / count) % len(records) for place in range(count)]
        draw.shuffle(indices)
        yield from (records[index].cost for index in indices)

    def _in_place(self, count: int) -> Iterator[BatchCost]:
        """Each recorded batch has its place; between them, the nearest run of recorded batches goes on periodically.

        In an epoch of another length each run stands for its part of the epoch. Batches keep their distances, so that
        costs with a period meet the same workers.
        """
        runs = self._runs
        ends = [(before[-1][0] + after[0][0]) / 2 for before, after in pairwise(runs)]
        for number in range(count):
            place = (number + 0.5) * self._length / count - 0.5
            run = runs[bisect.bisect_left(ends, place)]
            yield run[(number - run[0][0]) % len(run)][1].cost

    @cached_property
    def _length(self) -> int:
        """Batches of the epoch in which the positions are: neighbours differ by the least."""
        places = [position_of(record) for record in self.in_order]
        gaps = [later - earlier for earlier, later in pairwise(places) if later > earlier]
        return round(1 / min(gaps, default=1.0))

    @cached_property
    def _runs(self) -> list[list[tuple[int, BatchRecord]]]:
        """The records, once each with their numbers in the order of the sampler, in runs of neighbours."""
        numbered = {round(position_of(record) * self._length): record for record in self.in_order}
        runs: list[list[tuple[int, BatchRecord]]] = []
        for number, record in numbered.items():
            if not runs or runs[-1][-1][0] != number - 1:
                runs.append([])
            runs[-1].append((number, record))
        return runs

    def resampled(self, draw: random.Random) -> "Records":
        """As many records, drawn with replacement: batches with places as runs, from each run and its neighbours."""
        if not self.has_places or len(self._runs) == 1:
            drawn = [replace(record, cost=draw.choice(self.made).cost) for record in self.made]
            return replace(self, made=tuple(drawn))
        drawn, last = [], len(self._runs) - 1
        for place, run in enumerate(self._runs):
            costs = [record.cost for _, record in self._runs[draw.randint(max(0, place - 1), min(last, place + 1))]]
            drawn += [replace(record, cost=costs[n % len(costs)]) for n, (_, record) in enumerate(run)]
        return replace(self, made=tuple(drawn))

    def slower(self, factor: float) -> "Records":
        """The same training step beside loading that costs ``factor`` times as much."""
        loop = {name: factor * value for name, value in asdict(self.loop).items() if not name.startswith("step")}
        recorded = (replace(record, cost=record.cost.scaled([factor] * 3)) for record in self.made)
        return replace(self, made=tuple(recorded), loop=replace(self.loop, **loop))


def position_of(record: BatchRecord) -> float:
    """The position; 0 if it is unknown."""
    return record.position or 0.0


class Prediction(NamedTuple):
    """Predicted times with their 95 % intervals: of an epoch, and of a batch once the queue has filled, both in s."""

    epoch_s: Estimate
    batch_s: Estimate


def epoch_of(records: Records, settings: QueueSettings, seeds: Sequence[int] = (0,)) -> tuple[float, float]:
    """Seconds of an epoch and of a batch at the steady pace, without a band, averaged over the orders of the seeds."""
    epochs = records.epochs(MOST_BATCHES, seeds)
    times = (epoch_and_batch_s(costs, records.loop, settings, records) for costs in epochs)
    epoch_s, batch_s = map(statistics.fmean, zip(*times, strict=True))
    return epoch_s, batch_s


def epoch_and_batch_s(
    costs: Sequence[BatchCost], loop: LoopCosts, settings: QueueSettings, records: Records
) -> tuple[float, float]:
    """Seconds of an epoch, of which some batches are replayed and the rest has their pace, and of a batch.

    The pace is that of a full queue, from a worker's second batch on; epoch / batches of a short epoch. Neither the
    start, when workers have made nothing yet, nor the end, when they no longer get batches, has that pace.
    """
    if settings.persistent_workers:
        names = ("fork_s", "start_s", "start_wait_s")
        loop = replace(loop, **{name: getattr(loop, name) / records.shared_epochs for name in names})
    replayed, count, workers = replay_queue(costs, loop, settings), len(costs), settings.num_workers
    full = count - 1 - workers * (1 + settings.prefetch_factor)
    full -= full % max(1, workers)  # equal workers return batches together
    batch_s = replayed.epoch_s / count
    if full > 0:
        batch_s = (replayed.returned_s[workers + full] - replayed.returned_s[workers]) / full
    return replayed.epoch_s + (records.batches - count) * batch_s, batch_s


def predict(records: Records, factor: float, settings: QueueSettings, misfit: float = 0.0) -> Prediction:
    """Predicts an epoch that takes ``factor`` times as long as replayed.

    The band is that of bootstrap samples whose loading is slower by other factors; ``misfit`` is the standard deviation
    of their logarithm.
    """
    epoch_s, batch_s = (factor * seconds for seconds in epoch_of(records, settings, range(MOST_ORDERS)))
    replicates = []
    for number in range(1, _DRAWS + 1):
        draw = random.Random(number)
        slower = records.resampled(draw).slower(math.exp(draw.gauss(0.0, misfit)))
        replicates.append(epoch_of(slower, settings, [number]))
    epochs_s, batches_s = zip(*replicates, strict=True)
    return Prediction(epoch_s=_estimate(epoch_s, epochs_s), batch_s=_estimate(batch_s, batches_s))


def _estimate(value: float, replicates: Sequence[float]) -> Estimate:
    """The value with twice the standard deviation of the replicates' logarithms on each side."""
    spread = math.exp(2 * statistics.stdev([math.log(replicate) for replicate in replicates]))
    return Estimate(value=value, low=value / spread, high=value * spread, n=len(replicates))
