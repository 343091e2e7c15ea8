"""Predicts what any settings would do from all trials of a search. Pure.

Each prediction replays the records of the nearest trial (in the ratio of the workers) with costs. What the replay does
not know (locks, memory bandwidth, servers that saturate) shows as the measured time of a trial / its replayed time:
this factor is interpolated as a power of the number of workers, and applied to predictions. How far the factor may
change between trials is learnt from its changes so far, as the variance of a random walk over doublings of the workers.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from operator import attrgetter

from nws_sweep.replay.prediction import MOST_BATCHES, Prediction, Records, epoch_of, predict
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.results import DEFAULT_PREFETCH, BatchCost, BatchRecord, LoaderSettings, LoopCosts, Trial

# Standard deviation of the logarithm of the factor between a number of workers and its double, before any is known.
_MISFIT = 0.055
# The same of a factor measured in one round, before the rounds of a trial show it.
_NOISE = 0.035
# CPU seconds to start a worker, until a trial with workers is known: 8 to 20 ms measured for fork, with the end of the
# worker; 1.5 to 3 s for a new process that imports torch.
_FORKED_S, _SPAWNED_S = 0.01, 2.0
_BATCHES = 200  # of an epoch of unknown length
_FEW_BATCHES = 100  # replayed for the pace of a trial, beside some queues
_parts = attrgetter("cpu_s", "wait_s", "copy_s")  # of a BatchCost


@dataclass(frozen=True)
class Known:
    """A trial whose costs are known.

    Attributes:
        settings: The settings of its queue.
        records: Costs of its batches; of a trial without records, those of another one.
        measured_s: Time of a batch at the steady pace, or of an epoch.
        is_whole: Whether ``measured_s`` is the time of an epoch.
        by_round: Time of an epoch or of a batch at the pace of each round.
    """

    settings: QueueSettings
    records: Records
    measured_s: float
    is_whole: bool = False
    by_round: Mapping[int, float] = field(default_factory=dict)

    @cached_property
    def factor(self) -> float:
        """Measured time / its time as replayed with the costs of the batches that were made while it was measured."""
        if self.is_whole:
            return self.measured_s / epoch_of(self.records, self.settings)[0]
        made = [one for one in self.records.made if one.round is not None]
        return self.measured_s / self._pace_s(made or self.records.made, self.records.most)

    @cached_property
    def round_ratios(self) -> Mapping[int, float]:
        """Time of each round / its replayed time, divided by the mean of all; empty if whole epochs were measured.

        Each round took other batches. The ratio is free of what they cost.
        """
        if self.is_whole or not self.by_round:
            return {}
        made: dict[int, list[BatchRecord]] = {number: [] for number in self.by_round}
        for one in self.records.made:
            if one.round in made:
                made[one.round].append(one)
        usual = self.records.made
        few = _FEW_BATCHES + 6 * self.settings.queued_batches
        logs = {n: math.log(cost_s / self._pace_s(made[n] or usual, few)) for n, cost_s in self.by_round.items()}
        mean = statistics.fmean(logs.values())
        return {number: math.exp(log - mean) for number, log in logs.items()}

    @cached_property
    def variance(self) -> float:
        """Of the logarithm of the factor, from the differences between rounds, with the weight of a round for noise."""
        squares = _NOISE**2 + sum(math.log(ratio) ** 2 for ratio in self.round_ratios.values())
        return squares / max(1, len(self.round_ratios)) ** 2

    @property
    def loading_s(self) -> float:
        """Seconds of a batch without the consumer."""
        return epoch_of(_with_consumer(self.records, 0.0, self.factor), self.settings)[1]

    def _pace_s(self, made: Sequence[BatchRecord], most: int) -> float:
        return epoch_of(replace(self.records, made=tuple(made), most=most), self.settings)[1]


@dataclass(frozen=True)
class Model:
    """What a search knows of one configuration: at least one trial whose costs are known.

    Attributes:
        known: The trials, by num_workers.
        start_method: Of workers: fork, spawn or forkserver.
        consumer_s: Seconds of another consumer per batch, which takes no CPU time; None for the recorded consumer.
    """

    known: tuple[Known, ...]
    start_method: str = "fork"
    consumer_s: float | None = None

    def predict(self, settings: QueueSettings) -> Prediction:
        """An epoch and a batch with their bands."""
        return predict(*self._inputs(settings.num_workers), settings)

    def epoch_s(self, settings: QueueSettings) -> float:
        """Predicted seconds of an epoch, without a band."""
        records, factor = self._inputs(settings.num_workers)
        return factor * epoch_of(records, settings)[0]

    def batch_s(self, settings: QueueSettings) -> float:
        """Predicted seconds of a batch at the steady pace, without a band."""
        records, factor = self._inputs(settings.num_workers)
        return factor * epoch_of(records, settings)[1]

    def factor(self, num_workers: int) -> float:
        """The factor, a power of the workers between neighbouring trials; beyond all trials that of the nearest."""
        below, above, share = self._neighbours(num_workers)
        return below.factor ** (1 - share) * above.factor**share if below and above else 1.0

    def misfit(self, num_workers: int) -> float:
        """How far the logarithm of the factor may be below that of ``factor``, 0 for the workers of a known trial.

        It is one standard deviation; beyond all trials at most that of a doubling, since more workers seldom make
        loading more efficient. Between two trials the factor may also grow later than a power of the workers.
        """
        below, above, share = self._neighbours(num_workers)
        if below is None or above is None or below is above:
            far = 1.0 if below is None else min(1.0, abs(_doublings(below, num_workers)))
            return math.sqrt(self._variance * far) if num_workers else 0.0
        doublings = _doublings(below, above.settings.num_workers)
        change = abs(math.log(above.factor / below.factor))
        return math.sqrt(self._variance * doublings * share * (1 - share)) + change * share * (1 - share)

    def _neighbours(self, num_workers: int) -> tuple[Known | None, Known | None, float]:
        """The trials below and above, and the share of the doublings between them; the same trial at or beyond both."""
        known = self._with_workers if num_workers else (self._nearest(0),)
        if not known:
            return None, None, 0.0
        below = max((one for one in known if one.settings.num_workers <= num_workers), key=_workers, default=known[0])
        above = min((one for one in known if one.settings.num_workers >= num_workers), key=_workers, default=known[-1])
        if below is above:
            return below, below, 0.0
        return below, above, _doublings(below, num_workers) / _doublings(below, above.settings.num_workers)

    @cached_property
    def _variance(self) -> float:
        """Of the logarithm of the factor, for a doubling of the workers; at most the usual one.

        Larger changes show where the factor grows. Between trials it is then interpolated, not more uncertain.
        """
        changes = []
        for before, after in itertools.pairwise(self._with_workers):
            square = math.log(after.factor / before.factor) ** 2 - before.variance - after.variance
            changes.append(max(0.0, square) / _doublings(before, after.settings.num_workers))
        return min(_MISFIT**2, (_MISFIT**2 + sum(changes)) / (1 + len(changes)))

    @cached_property
    def _with_workers(self) -> tuple[Known, ...]:
        return tuple(one for one in self.known if one.settings.num_workers)

    def _inputs(self, num_workers: int) -> tuple[Records, float]:
        """What is replayed, and the factor; of another consumer, the factor is in the records."""
        records, factor = self.records_for(num_workers), self.factor(num_workers)
        return (records, factor) if self.consumer_s is None else (_with_consumer(records, self.consumer_s, factor), 1.0)

    def records_for(self, num_workers: int) -> Records:
        """The records that stand for this number of workers."""
        return self._records[self._nearest(num_workers).settings.num_workers, num_workers > 0]

    @cached_property
    def _records(self) -> Mapping[tuple[int, bool], Records]:
        """What is replayed, by the num_workers of a trial and whether there are workers in the replay."""
        start_s = _FORKED_S if self.start_method == "fork" else _SPAWNED_S
        found: dict[tuple[int, bool], Records] = {}
        for one in self.known:
            number, pooled = one.settings.num_workers, self._pooled(one)
            started = pooled if number else replace(pooled, loop=replace(pooled.loop, start_s=start_s))
            found |= {(number, False): pooled, (number, True): started}
        return found

    def _pooled(self, chosen: Known) -> Records:
        """The records of a trial, and those of other trials of batches that it has not made.

        All trials take the same batches in the same order, so costs that depend on the number of workers show as the
        ratio of the sums over the batches that two trials have in common.
        """
        if chosen.settings.num_workers == 0:
            return chosen.records
        made = {_batch(record): record for record in chosen.records.made}
        for other in self._with_workers:
            if other is not chosen:
                ours = [(made[_batch(one)].cost, one.cost) for one in other.records.made if _batch(one) in made]
                ratios = _ratios(ours)
                for record in other.records.made:
                    if _batch(record) not in made:
                        made[_batch(record)] = replace(record, cost=_scaled(record.cost, ratios))
        return replace(chosen.records, made=tuple(made.values()))

    def _nearest(self, num_workers: int) -> Known:
        """The trial whose records stand for this number of workers: without workers only for itself, if possible."""
        known = self._with_workers if num_workers else self.known[:1]
        return min(known or self.known, key=lambda one: abs(_doublings(one, num_workers)))


def model_of(
    trials: Sequence[Trial], batches: int | None, cpus: float, start_method: str | None, most: int = MOST_BATCHES
) -> Model | None:
    """The model of all trials with records; None if there are none.

    Args:
        trials: Trials of one configuration that differ in num_workers only.
        batches: Length of an epoch; None if unknown: then as many batches as were recorded.
        cpus: CPUs that the processes of a trial may use.
        start_method: Of workers; None for fork.
        most: Batches of a longer epoch that are replayed.
    """
    recorded = sorted((trial for trial in trials if trial.records), key=lambda trial: trial.num_workers)
    known = [one for one in (known_of(trial, batches, cpus) for trial in recorded) if one]
    shorter = (replace(one, records=replace(one.records, most=most)) for one in known)
    return Model(tuple(shorter), start_method or "fork") if known else None


def known_of(
    trial: Trial,
    batches: int | None,
    cpus: float,
    by_round: Mapping[int, float] | None = None,
    instead: Records | None = None,
) -> Known | None:
    """The costs of a trial as recorded; None before its first batch and if it failed.

    Args:
        trial: The trial.
        batches: Length of an epoch; None if unknown.
        cpus: CPUs that its processes may use.
        by_round: Time of an epoch or of a batch at the pace of each round.
        instead: The records of another trial, if this one has none; None for a batch with the mean cost.
    """
    settings, found = queue_settings(trial.settings, cpus), trial.measurement
    if found is None or (found.batch_s is None and (batches is None or found.epoch_s is None)):
        return None
    batch_s = found.batch_s.value if found.batch_s else (found.epoch_s or 0.0) / (batches or 1)
    if trial.records and trial.loop:
        records = Records(made=trial.records, loop=trial.loop, batches=batches or len(trial.records))
        if found.batch_s or trial.objective_s is None:
            return Known(settings, records, batch_s, by_round=by_round or {})
        return Known(settings, records, trial.objective_s, is_whole=True)
    workers, consumer_s = settings.num_workers, found.consume_s or 0.0
    making_s = max(1e-9, batch_s * workers if workers else batch_s - consumer_s)
    if instead is None:
        cost = BatchCost(cpu_s := min(making_s, (found.cpu_s or 0.0) / max(1, len(found.ranks))), making_s - cpu_s)
        made = (BatchRecord(number=0, position=0.0, began_s=0.0, ended_s=0.0, cost=cost),)
        instead = Records(made=made, loop=LoopCosts(consumer_s=consumer_s), batches=batches or _BATCHES)
    start_s = max(0.0, found.startup_s - making_s) / workers if workers else 0.0
    records = replace(instead, loop=replace(instead.loop, consumer_s=consumer_s, fork_s=start_s))
    whole_s = trial.objective_s if batches else None
    return Known(settings, records, whole_s or batch_s * records.batches, is_whole=True)


def queue_settings(loader: LoaderSettings, cpus: float) -> QueueSettings:
    """The settings of the queue of a DataLoader, with ``cpus`` CPUs."""
    return QueueSettings(
        num_workers=loader.num_workers,
        cpus=cpus,
        prefetch_factor=loader.prefetch_factor or DEFAULT_PREFETCH,
        in_order=loader.in_order,
        persistent_workers=loader.persistent_workers,
    )


def _workers(known: Known) -> int:
    return known.settings.num_workers


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


def _doublings(known: Known, num_workers: int) -> float:
    """How often the workers of a trial are doubled to get this number; negative if it is smaller."""
    return math.log2(max(1, num_workers) / max(1, known.settings.num_workers))
