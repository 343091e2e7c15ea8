"""Predicts what any settings would do from all trials of a search. Pure.

Each prediction replays the records of the nearest trial (in the ratio of the workers) with costs. What the replay does
not know (locks, memory bandwidth, servers that saturate) shows as the measured time of a trial / its replayed time:
this factor is interpolated as a power of the number of workers, and applied to predictions.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from nws_sweep.replay.prediction import MOST_BATCHES, Prediction, Records, epoch_of, predict
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.replay.queue import replay as replay_queue
from nws_sweep.results import DEFAULT_PREFETCH, BatchCost, BatchRecord, LoaderSettings, LoopCosts, Trial

_parts = attrgetter("cpu_s", "wait_s", "copy_s")  # of a BatchCost


class _Step(NamedTuple):
    """The time between two batches."""

    measured_s: float
    replayed_s: float
    round: int | None


@dataclass(frozen=True)
class Known:
    """A trial with records."""

    settings: QueueSettings
    records: Records

    @cached_property
    def factor(self) -> float:
        """Measured / replayed time of the recorded batches, each replayed with its own cost; 1 if unknown.

        The start of an epoch is left out: it has costs of its own.
        """
        steps = self._steps
        replayed_s = sum(step.replayed_s for step in steps)
        return sum(step.measured_s for step in steps) / replayed_s if replayed_s else 1.0

    @cached_property
    def by_round(self) -> Mapping[int, float]:
        """The same of the batches that were returned in each round."""
        measured: dict[int, float] = defaultdict(float)
        replayed: dict[int, float] = defaultdict(float)
        for step in self._steps:
            if step.round is not None:
                measured[step.round] += step.measured_s
                replayed[step.round] += step.replayed_s
        return {number: measured[number] / replayed[number] for number in measured if replayed[number] > 0}

    @cached_property
    def _steps(self) -> list[_Step]:
        steps = []
        for _, records in itertools.groupby(self.records.made, key=lambda record: record.epoch):
            taken = [one for one in records if one.returned_s is not None]
            first = min(len(taken) // 4, self.settings.num_workers * self.settings.prefetch_factor)
            found = replay_queue([one.cost for one in taken], self.records.loop, self.settings).returned_s
            for (one, before), (end_s, begin_s) in zip(
                zip(taken[first + 1 :], taken[first:], strict=False),
                zip(found[first + 1 :], found[first:], strict=False),
                strict=True,
            ):
                steps.append(_Step((one.returned_s or 0.0) - (before.returned_s or 0.0), end_s - begin_s, one.round))
        return steps


@dataclass(frozen=True)
class Model:
    """What a search knows of one configuration: at least one trial with records."""

    known: tuple[Known, ...]  # by num_workers

    def predict(self, settings: QueueSettings, *, consumer_s: float | None = None) -> Prediction:
        """An epoch and a batch with their bands; ``consumer_s`` replaces the consumer's time."""
        records, factor = self._records(settings.num_workers, consumer_s)
        found = predict(records, settings)
        return replace(found, epoch_s=found.epoch_s.scaled(factor), batch_s=found.batch_s.scaled(factor))

    def epoch_s(self, settings: QueueSettings, *, consumer_s: float | None = None) -> float:
        """Predicted seconds of an epoch, without a band."""
        return self._replayed(settings, consumer_s)[0]

    def batch_s(self, settings: QueueSettings, *, consumer_s: float | None = None) -> float:
        """Predicted seconds of a batch at the steady pace, without a band."""
        return self._replayed(settings, consumer_s)[1]

    def _replayed(self, settings: QueueSettings, consumer_s: float | None) -> tuple[float, float]:
        records, factor = self._records(settings.num_workers, consumer_s)
        epoch_s, batch_s = epoch_of(records, settings)
        return epoch_s * factor, batch_s * factor

    def _records(self, num_workers: int, consumer_s: float | None) -> tuple[Records, float]:
        """The records for a number of workers, and the factor; of another consumer, the factor is in the records."""
        records, factor = self._pools[self._nearest(num_workers).settings.num_workers], self._factor(num_workers)
        return (records, factor) if consumer_s is None else (_with_consumer(records, consumer_s, factor), 1.0)

    @cached_property
    def _pools(self) -> dict[int, Records]:
        return {known.settings.num_workers: self._pooled(known) for known in self.known}

    def _pooled(self, chosen: Known) -> Records:
        """The records of a trial, and those of other trials of batches that it has not made.

        All trials take the same batches in the same order, so costs that depend on the number of workers show as the
        ratio of the sums over the batches that two trials have in common.
        """
        if chosen.settings.num_workers == 0:
            return chosen.records
        made = {_batch(record): record for record in chosen.records.made}
        for other in self.known:
            if other is not chosen and other.settings.num_workers:
                ours = [(made[_batch(one)].cost, one.cost) for one in other.records.made if _batch(one) in made]
                ratios = _ratios(ours)
                for record in other.records.made:
                    if _batch(record) not in made:
                        made[_batch(record)] = replace(record, cost=_scaled(record.cost, ratios))
        return replace(chosen.records, made=tuple(made.values()))

    def _nearest(self, num_workers: int) -> Known:
        """The trial whose records stand for this number of workers: without workers only for itself, if possible."""
        with_workers = [one for one in self.known if one.settings.num_workers]
        alone = [one for one in self.known if not one.settings.num_workers]
        if num_workers == 0:
            return (alone or with_workers)[0]
        return min(with_workers or alone, key=lambda one: abs(_log(one.settings.num_workers) - _log(num_workers)))

    def _factor(self, num_workers: int) -> float:
        """The factor, a power of the workers between neighbouring trials; beyond all trials that of the nearest."""
        if num_workers == 0:
            return self._nearest(0).factor
        known = [one for one in self.known if one.settings.num_workers]
        if not known:
            return 1.0
        numbers = [one.settings.num_workers for one in known]
        place = bisect.bisect(numbers, num_workers)
        if place in (0, len(numbers)):
            return known[max(0, place - 1)].factor
        below, above = known[place - 1], known[place]
        share = (_log(num_workers) - _log(numbers[place - 1])) / (_log(numbers[place]) - _log(numbers[place - 1]))
        return math.exp((1 - share) * math.log(below.factor) + share * math.log(above.factor))


def model_of(
    trials: Sequence[Trial], batches: int | None, cpus: float, most_batches: int = MOST_BATCHES
) -> Model | None:
    """The model of all trials with records; None if there are none.

    Args:
        trials: Trials of one configuration that differ in num_workers only.
        batches: Length of an epoch; None if unknown: then as many batches as were recorded.
        cpus: CPUs that the processes of a trial may use.
        most_batches: Batches of a longer epoch that are replayed.
    """
    known = []
    for trial in sorted(trials, key=lambda trial: trial.num_workers):
        if trial.records and trial.loop:
            length = batches or len(trial.records)
            records = Records(made=trial.records, loop=trial.loop, batches=length, most=most_batches)
            known.append(Known(settings=queue_settings(trial.settings, cpus), records=records))
    return Model(tuple(known)) if known else None


def queue_settings(loader: LoaderSettings, cpus: float) -> QueueSettings:
    """The settings of the queue of a DataLoader, with ``cpus`` CPUs."""
    return QueueSettings(
        num_workers=loader.num_workers,
        cpus=cpus,
        prefetch_factor=loader.prefetch_factor or DEFAULT_PREFETCH,
        in_order=loader.in_order,
        persistent_workers=loader.persistent_workers,
    )


def _batch(record: BatchRecord) -> tuple[int, int]:
    return record.epoch, record.number


def _ratios(pairs: Sequence[tuple[BatchCost, BatchCost]]) -> list[float]:
    """The ratios of sums over pairs of costs of the same batch, one for each kind of cost; 1 if there are none."""
    sums = [[sum(part) for part in zip(*map(_parts, costs), strict=True)] for costs in zip(*pairs, strict=True)]
    return [own / theirs if theirs else 1.0 for own, theirs in zip(*sums, strict=True)] if sums else [1.0] * 3


def _scaled(cost: BatchCost, factors: Sequence[float]) -> BatchCost:
    return BatchCost(*(value * factor for value, factor in zip(_parts(cost), factors, strict=True)))


def _with_consumer(records: Records, consumer_s: float, factor: float) -> Records:
    """Another consumer, which takes no CPU time, beside loading that costs ``factor`` times as much."""
    loop = LoopCosts(**{name: factor * value for name, value in asdict(records.loop).items()})
    made = (replace(one, cost=_scaled(one.cost, [factor] * 3)) for one in records.made)
    return replace(records, made=tuple(made), loop=replace(loop, consumer_s=consumer_s, consumer_cpu_s=0.0))


def _log(num_workers: int) -> float:
    return math.log(max(1, num_workers))
