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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nws_sweep.replay.prediction import MOST_BATCHES, Prediction, Records, epoch_of, predict
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.results import DEFAULT_PREFETCH, BatchCost, BatchRecord, LoaderSettings, LoopCosts, Span, Trial

# Standard deviation of the logarithm of the factor between a number of workers and its double, before any is known.
_MISFIT = 0.055
# The same of the factor of any trial; a factor that was measured badly is nearer to 1.
_USUAL = 0.1
# The same of a factor measured in one window, before the rounds of a trial show it; and what is added if a window has
# one batch of each worker, since the kernel does not let all workers run equally.
_NOISE, _NOISE_OF_ONE = 0.035, 0.12
_SMALL_KIND = 0.05  # share of all costs; see ``_ratios``
# CPU seconds to start a worker, until a trial with workers is known: 8 to 20 ms measured for fork, with the end of the
# worker; 1.5 to 3 s for a new process that imports torch.
FORKED_S, _SPAWNED_S = 0.01, 2.0
_BATCHES = 200  # of an epoch of unknown length


@dataclass(frozen=True)
class Known:
    """A trial whose costs are known.

    Attributes:
        settings: The settings of its queue.
        records: Costs of its batches; of a trial without records, those of another one.
        measured_s: Time of an epoch; used without spans.
        spans: Measured and replayed times of some of its batches.
    """

    settings: QueueSettings
    records: Records
    measured_s: float
    spans: tuple[Span, ...] = ()

    @cached_property
    def factor(self) -> float:
        """Measured time / replayed time of the same batches, or of an epoch.

        The logarithm of that of batches is the mean of its posterior distribution, with ``variance`` and 0 as the prior
        mean (Gelman et al., Bayesian Data Analysis, 2013, section 2.5).
        """
        if not self.spans:
            return self.measured_s / epoch_of(self.records, self.settings)[0]
        ratio = sum(one.measured_s for one in self.spans) / sum(one.replayed_s for one in self.spans)
        return math.exp(math.log(ratio) * _USUAL**2 / (_USUAL**2 + self.variance))

    @cached_property
    def round_ratios(self) -> Mapping[int, float]:
        """The factor of each round, divided by the mean of all; empty without rounds.

        Each round took other batches. The ratio is free of what they cost.
        """
        logs = {one.round: math.log(one.measured_s / one.replayed_s) for one in self.spans if one.round is not None}
        mean = statistics.fmean(logs.values()) if logs else 0.0
        return {number: math.exp(log - mean) for number, log in logs.items()}

    @cached_property
    def variance(self) -> float:
        """Of the logarithm of the ratio of times, from the differences between rounds; the usual counts as one more."""
        usual = [_NOISE**2 + (_NOISE_OF_ONE * self.settings.num_workers / one.batches) ** 2 for one in self.spans]
        squares = statistics.fmean(usual or [_NOISE**2]) + sum(math.log(one) ** 2 for one in self.round_ratios.values())
        return squares / max(1, len(self.round_ratios)) ** 2


@dataclass(frozen=True)
class Model:
    """What a search knows of one configuration: at least one trial whose costs are known.

    Attributes:
        known: The trials, by num_workers.
        start_method: Of workers: fork, spawn or forkserver.
        step_s: Seconds of another training step per batch, which takes no CPU time; None for the recorded one.
    """

    known: tuple[Known, ...]
    start_method: str = "fork"
    step_s: float | None = None

    def predict(self, settings: QueueSettings) -> Prediction:
        """An epoch and a batch with their bands."""
        number = settings.num_workers
        misfit = math.sqrt(self.misfit(number) ** 2 + self._nearest(number).variance)
        return predict(*self._inputs(number), settings, misfit)

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
        """What is replayed, and the factor; of another training step, the factor is in the records."""
        records, factor = self.records_for(num_workers), self.factor(num_workers)
        return (records, factor) if self.step_s is None else (_with_step(records, self.step_s, factor), 1.0)

    def records_for(self, num_workers: int) -> Records:
        """The records that stand for this number of workers."""
        return self._records[self._nearest(num_workers).settings.num_workers, num_workers > 0]

    @cached_property
    def _records(self) -> Mapping[tuple[int, bool], Records]:
        """What is replayed, by the num_workers of a trial and whether there are workers in the replay."""
        start_s = FORKED_S if self.start_method == "fork" else _SPAWNED_S
        found: dict[tuple[int, bool], Records] = {}
        for one in self.known:
            number, pooled = one.settings.num_workers, self._pooled(one)
            started = pooled if number else replace(pooled, loop=replace(pooled.loop, start_s=start_s))
            found |= {(number, False): pooled, (number, True): started}
        return found

    def _pooled(self, chosen: Known) -> Records:
        """The records of a trial, and those of other trials of batches that it has not made.

        All trials take the same batches in the same order, so costs that depend on the number of workers show as the
        ratio of the sums over the batches that two trials have in common. What was stopped is the last choice.
        """
        own = {_batch(record): record.cost for record in chosen.records.made if not record.was_stopped}
        scaled = [(record, [1.0] * 3) for record in chosen.records.made]
        for other in self._with_workers:
            if other is not chosen:
                both = [one for one in other.records.made if _batch(one) in own and not one.was_stopped]
                ratios = _ratios([(own[_batch(one)], one.cost) for one in both])
                scaled += [(record, ratios) for record in other.records.made]
        made: dict[tuple[int, int], BatchRecord] = {}
        for record, ratios in sorted(scaled, key=lambda each: each[0].was_stopped):
            made.setdefault(_batch(record), replace(record, cost=record.cost.scaled(ratios)))
        # Without workers, batches are recorded without their position in the sampler's order.
        positions = {_batch(record): record.position for one in self._with_workers for record in one.records.made}
        placed = (replace(record, position=positions.get(batch, record.position)) for batch, record in made.items())
        return replace(chosen.records, made=tuple(placed))

    def _nearest(self, num_workers: int) -> Known:
        """The trial whose records stand for this number of workers: without workers only for itself, if possible."""
        known = self._with_workers if num_workers else self.known[:1]
        return min(known or self.known, key=lambda one: abs(_doublings(one, num_workers)))


def model_of(
    trials: Sequence[Trial], batches: int | None, cpus: float, start_method: str, most: int = MOST_BATCHES
) -> Model | None:
    """The model of all trials with records; None if there are none.

    Args:
        trials: Trials of one configuration that differ in num_workers only.
        batches: Length of an epoch; None if unknown: then as many batches as were recorded.
        cpus: CPUs that the processes of a trial may use.
        start_method: Of workers.
        most: Batches of a longer epoch that are replayed.
    """
    recorded = sorted((trial for trial in trials if trial.records), key=lambda trial: trial.num_workers)
    known = [one for one in (known_of(trial, batches, cpus) for trial in recorded) if one]
    shorter = (replace(one, records=replace(one.records, most=most)) for one in known)
    return Model(tuple(shorter), start_method) if known else None


def known_of(trial: Trial, batches: int | None, cpus: float, instead: Records | None = None) -> Known | None:
    """The costs of a trial as recorded; None before its first batch and if it failed.

    Args:
        trial: The trial.
        batches: Length of an epoch; None if unknown.
        cpus: CPUs that its processes may use.
        instead: The records of another trial, if this one has none; None for a batch with the mean cost.
    """
    settings, found = queue_settings(trial.settings, cpus), trial.measurement
    if found is None or (found.batch_s is None and (batches is None or found.epoch_s is None)):
        return None
    batch_s = found.batch_s.value if found.batch_s else (found.epoch_s or 0.0) / (batches or 1)
    whole_s = trial.objective_s if batches else None
    if trial.records and trial.loop:
        made = tuple(_with_usual_wait(trial.records))
        records = Records(made=made, loop=trial.loop, batches=batches or len(trial.records))
        return Known(settings, records, whole_s or batch_s * records.batches, trial.spans)
    workers, step_s = settings.num_workers, found.step_s or 0.0
    making_s = max(1e-9, batch_s * workers if workers else batch_s - step_s)
    if instead is None:
        cost = BatchCost(cpu_s := min(making_s, found.cpu_s or 0.0), making_s - cpu_s)
        made = (BatchRecord(number=0, position=0.0, began_s=0.0, ended_s=0.0, cost=cost),)
        instead = Records(made=made, loop=LoopCosts(step_s=step_s), batches=batches or _BATCHES)
    start_s = max(0.0, found.startup_s - making_s) / workers if workers else 0.0
    records = replace(instead, loop=replace(instead.loop, step_s=step_s, fork_s=start_s))
    return Known(settings, records, whole_s or batch_s * records.batches)


def _with_usual_wait(records: Sequence[BatchRecord]) -> Iterator[BatchRecord]:
    """The records; one whose worker was stopped gets the wait of a batch that waited longer, the nearest in the epoch.

    Its own wait is a lower bound, as a censored lifetime (Efron, The two sample problem with censored data, 1967:
    redistribution to the right).
    """
    whole = [one for one in records if not one.was_stopped]
    for record in records:
        if not record.was_stopped:
            yield record
            continue
        longer = (one for one in whole if one.cost.wait_s > record.cost.wait_s)
        nearest = min(longer, key=lambda one: abs(one.position - record.position), default=record)
        yield replace(record, cost=replace(record.cost, wait_s=nearest.cost.wait_s))


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


def _sum(costs: Iterable[BatchCost]) -> BatchCost:
    return BatchCost(*map(sum, zip(*(cost.parts for cost in costs), strict=True)))


def _ratios(pairs: Sequence[tuple[BatchCost, BatchCost]]) -> list[float]:
    """The ratios of sums over pairs of costs of the same batch, one for each kind of cost; 1 if there are none.

    The ratio of a kind that is a small share of either's costs is nearer to 1: one wait in batches that else only
    compute would multiply the waits of other batches by thousands.
    """
    if not pairs:
        return [1.0] * 3
    own, theirs = (_sum(costs).parts for costs in zip(*pairs, strict=True))
    all_s = (sum(own) + sum(theirs)) / 2
    return [
        _shrunk(one, other, min(one, other) / all_s if all_s else 0.0) for one, other in zip(own, theirs, strict=True)
    ]


def _shrunk(own_s: float, theirs_s: float, share: float) -> float:
    weight = share**2 / (share**2 + _SMALL_KIND**2)
    return float((own_s / theirs_s) ** weight) if share else 1.0


def _with_step(records: Records, step_s: float, factor: float) -> Records:
    """Another training step, which takes no CPU time, beside loading that costs ``factor`` times as much."""
    slower = records.slower(factor)
    return replace(slower, loop=replace(slower.loop, step_s=step_s, step_cpu_s=0.0))


def _doublings(known: Known, num_workers: int) -> float:
    """How often the workers of a trial are doubled to get this number; negative if it is smaller."""
    return math.log2(max(1, num_workers) / max(1, known.settings.num_workers))
