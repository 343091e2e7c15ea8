"""Predicts whole epochs with any settings from recorded costs of some of their batches.
Pure.

An epoch is put together from the records: in any order if the sampler draws one, else
each batch stays in its place. The band is that of a bootstrap over the records (Efron
and Tibshirani, An Introduction to the Bootstrap, 1993, section 12.4: standard
intervals).
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


class _Run(NamedTuple):
    """Records of batches that follow one another in the order of the sampler, the first
    of them with its number."""

    first: int
    records: list[BatchRecord]

    @property
    def last(self) -> int:
        """The number of the last record."""
        return self.first + len(self.records) - 1


@dataclass(frozen=True, kw_only=True)
class Records:
    """What was recorded of one configuration.

    Attributes:
        made: At least one batch, in any order.
        loop: Costs of the main process and of the workers' life.
        batches: Number of batches of an epoch, at least 1.
        shared_epochs: Over which the start of persistent workers is shared out, as in a
            measured time.
        shuffled: Whether the sampler draws a random order, so that batches may change
            places.
    """

    made: tuple[BatchRecord, ...]
    loop: LoopCosts
    batches: int
    shared_epochs: int = 1
    shuffled: bool = True

    @cached_property
    def varies(self) -> bool:
        """Whether batches cost so different times that it matters which of them were
        timed."""
        costs_s = [record.cost.making_s for record in self.made]
        return statistics.pstdev(costs_s) > _VARIED * statistics.fmean(costs_s)

    @cached_property
    def in_order(self) -> list[BatchRecord]:
        """The records by position."""
        return sorted(self.made, key=position_of)

    @cached_property
    def has_places(self) -> bool:
        """Whether the batches of an epoch are replayed in their places: they have one
        order, which is known."""
        return not self.shuffled and all(
            record.position is not None for record in self.made
        )

    def epochs(self, most: int, seeds: Sequence[int]) -> Iterator[list[BatchCost]]:
        """Yields the costs of at most ``most`` batches in the order of an epoch, which
        they represent.

        Each seed gives another random order; there is only one epoch if batches stay in
        their places.
        """
        count = min(self.batches, most)
        if self.has_places:
            yield self._in_place(count)
            return
        for seed in seeds:
            yield self._in_any_order(random.Random(seed), count)

    def _in_any_order(self, draw: random.Random, count: int) -> list[BatchCost]:
        """Draws an order in which each record is used as often as any other, to within
        one."""
        begin = draw.random()
        records = self.in_order
        indices = [
            int((place + begin) * len(records) / count) % len(records)
            for place in range(count)
        ]
        draw.shuffle(indices)
        return [records[index].cost for index in indices]

    def _in_place(self, count: int) -> list[BatchCost]:
        """Gives each recorded batch its place; between them, the nearest run of
        recorded batches goes on periodically.

        In an epoch of another length each run stands for its part of the epoch. Batches
        keep their distances, so that costs with a period meet the same workers.
        """
        runs = self._runs
        borders = [
            (run.last + following.first) / 2 for run, following in pairwise(runs)
        ]
        costs = []
        for number in range(count):
            place = (number + 0.5) * self._length / count - 0.5
            run = runs[bisect.bisect_left(borders, place)]
            costs.append(run.records[(number - run.first) % len(run.records)].cost)
        return costs

    @cached_property
    def _length(self) -> int:
        """Batches of the epoch in which the positions are: neighbours differ by the
        least."""
        places = [position_of(record) for record in self.in_order]
        gaps = [
            later - earlier for earlier, later in pairwise(places) if later > earlier
        ]
        return round(1 / min(gaps, default=1.0))

    @cached_property
    def _runs(self) -> "list[_Run]":
        """The runs of neighbours, in the order of the sampler; of several records of a
        batch the last one counts."""
        numbered = {
            round(position_of(record) * self._length): record
            for record in self.in_order
        }
        runs: list[_Run] = []
        for number, record in numbered.items():
            if not runs or number != runs[-1].last + 1:
                runs.append(_Run(number, []))
            runs[-1].records.append(record)
        return runs

    def resampled(self, draw: random.Random) -> "Records":
        """Draws as many records with replacement: batches with places as runs, from
        each run and its neighbours."""
        if not self.has_places or len(self._runs) == 1:
            drawn = [
                replace(record, cost=draw.choice(self.made).cost)
                for record in self.made
            ]
            return replace(self, made=tuple(drawn))
        drawn = []
        last = len(self._runs) - 1
        for place, run in enumerate(self._runs):
            source = self._runs[
                draw.randint(max(0, place - 1), min(last, place + 1))
            ].records
            for number, record in enumerate(run.records):
                drawn.append(replace(record, cost=source[number % len(source)].cost))
        return replace(self, made=tuple(drawn))

    def slower(self, factor: float) -> "Records":
        """The same training step beside loading that costs ``factor`` times as much."""
        costs_s = {name: factor * cost_s for name, cost_s in asdict(self.loop).items()}
        loop = replace(
            LoopCosts(**costs_s),
            step_s=self.loop.step_s,
            step_cpu_s=self.loop.step_cpu_s,
        )
        return replace(
            self, made=tuple(scaled(record, factor) for record in self.made), loop=loop
        )


def position_of(record: BatchRecord) -> float:
    """Returns the position; 0 if it is unknown."""
    return record.position or 0.0


def scaled(record: BatchRecord, factor: float) -> BatchRecord:
    """Returns the record of a batch that costs ``factor`` times as much."""
    return replace(record, cost=record.cost.scaled([factor] * 3))


class Prediction(NamedTuple):
    """Predicted times with their 95 % intervals: of an epoch, and of a batch once the
    queue has filled, both in s."""

    epoch_s: Estimate
    batch_s: Estimate


def epoch_of(
    records: Records, settings: QueueSettings, seeds: Sequence[int] = (0,)
) -> tuple[float, float]:
    """Computes the seconds of an epoch and of a batch at the steady pace, averaged over
    the orders of the seeds."""
    times = [
        epoch_and_batch_s(costs, records.loop, settings, records)
        for costs in records.epochs(MOST_BATCHES, seeds)
    ]
    return statistics.fmean(epoch_s for epoch_s, _ in times), statistics.fmean(
        batch_s for _, batch_s in times
    )


def epoch_and_batch_s(
    costs: Sequence[BatchCost],
    loop: LoopCosts,
    settings: QueueSettings,
    records: Records,
) -> tuple[float, float]:
    """Computes the seconds of an epoch, of which some batches are replayed and the rest
    has their pace, and of a batch.

    The pace is that of a full queue, from a worker's second batch on; epoch / batches
    of a short epoch. Neither the start, when workers have made nothing yet, nor the
    end, when they no longer get batches, has that pace.
    """
    if settings.persistent_workers:
        epochs = records.shared_epochs
        loop = replace(
            loop,
            fork_s=loop.fork_s / epochs,
            start_s=loop.start_s / epochs,
            start_wait_s=loop.start_wait_s / epochs,
        )
    replayed = replay_queue(costs, loop, settings)
    count = len(costs)
    workers = settings.num_workers
    full = count - 1 - workers * (1 + settings.prefetch_factor)
    full -= full % max(1, workers)  # equal workers return batches together
    batch_s = replayed.epoch_s / count
    if full > 0:
        batch_s = (
            replayed.returned_s[workers + full] - replayed.returned_s[workers]
        ) / full
    return replayed.epoch_s + (records.batches - count) * batch_s, batch_s


def predict(
    records: Records, factor: float, settings: QueueSettings, misfit: float = 0.0
) -> Prediction:
    """Predicts an epoch that takes ``factor`` times as long as replayed.

    The band is that of bootstrap samples whose loading is slower by other factors;
    ``misfit`` is the standard deviation of their logarithm.
    """
    epochs_s: list[float] = []
    batches_s: list[float] = []
    for number in range(1, _DRAWS + 1):
        draw = random.Random(number)
        drawn = records.resampled(draw).slower(math.exp(draw.gauss(0.0, misfit)))
        epoch_s, batch_s = epoch_of(drawn, settings, [number])
        epochs_s.append(epoch_s)
        batches_s.append(batch_s)
    epoch_s, batch_s = epoch_of(records, settings, range(MOST_ORDERS))
    return Prediction(
        _estimate(factor * epoch_s, epochs_s), _estimate(factor * batch_s, batches_s)
    )


def _estimate(value: float, replicates: Sequence[float]) -> Estimate:
    """Gives the value an interval: twice the standard deviation of the replicates'
    logarithms on each side."""
    spread = math.exp(
        2 * statistics.stdev([math.log(replicate) for replicate in replicates])
    )
    return Estimate(
        value=value, low=value / spread, high=value * spread, n=len(replicates)
    )
