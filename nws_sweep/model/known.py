"""What is known of trials: the costs of their batches, and how much longer these take
than replayed. Pure.

What the replay does not model (locks, memory bandwidth, servers that saturate) shows as
the measured time of a trial / its replayed time: this factor is interpolated as a power
of the number of workers. How far it may change between trials is learnt from its
changes so far, as the variance of a random walk over doublings of the workers.
"""

import itertools
import math
import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nws_sweep.model.epochs import Records, epoch_of
from nws_sweep.model.queue import QueueSettings
from nws_sweep.records import (
    BatchCost,
    BatchRecord,
    LoaderSettings,
    LoopCosts,
    Measurement,
    Span,
    Trial,
)

# batches of an epoch of unknown length: its start and its end take next to nothing
ENDLESS = 10**6
# Standard deviation of the logarithm of the factor of any trial, and of what few
# batches show; a factor that was measured badly is nearer to 1.
USUAL = 0.1
# The same of a factor measured in one window, before the rounds of a trial show it;
# and what is added if a window has one batch of each worker, since the kernel does not
# let all workers run equally.
_NOISE, _NOISE_OF_ONE = 0.035, 0.12
FEW_CPUS = 0.25  # of other programs; fewer may be noise
# The same of a prediction with workers before any trial with workers: what transfers,
# locks and memory take is unknown. Measured errors: 11 % in the median, 48 % at the
# 95th percentile.
_UNKNOWN = 0.2
# Standard deviation of the logarithm of the factor between a number of workers and
# its double, before any is known.
_MISFIT = 0.055


@dataclass(frozen=True)
class Known:
    """A trial whose costs are known.

    Attributes:
        settings: The settings of its queue.
        records: Costs of its batches; of a trial without records, those of another one.
        cost_s: Measured time per batch of an epoch, start and end included; used
            without spans.
        spans: Measured and replayed times of some of its batches.
        other_cpus: CPUs that other programs used meanwhile.
    """

    settings: QueueSettings
    records: Records
    cost_s: float
    spans: tuple[Span, ...] = ()
    other_cpus: float = 0.0

    @property
    def num_workers(self) -> int:
        """Number of workers of the trial."""
        return self.settings.num_workers

    @cached_property
    def factor(self) -> float:
        """Measured time / replayed time of the same batches, or of an epoch.

        The logarithm of the factor of batches is the mean of its posterior
        distribution, with ``variance`` and 0 as the prior mean (Gelman et al., Bayesian
        Data Analysis, 2013, section 2.5).
        """
        if not self.spans:
            settings = beside_others(self.settings, self.other_cpus)
            return (
                self.cost_s * self.records.batches / epoch_of(self.records, settings)[0]
            )
        return math.exp(
            math.log(self.measured_factor) * USUAL**2 / (USUAL**2 + self.variance)
        )

    @property
    def endless(self) -> "Known":
        """The trial with the same factor in an epoch whose start and end take next to
        nothing."""
        endless = replace(self, records=replace(self.records, batches=ENDLESS))
        return replace(endless, cost_s=self.cost_s * self.factor / endless.factor)

    @property
    def measured_factor(self) -> float:
        """Measured time / replayed time of the same batches; of at least one span."""
        return sum(span.measured_s for span in self.spans) / sum(
            span.replayed_s for span in self.spans
        )

    @cached_property
    def usual_s(self) -> Mapping[Hashable, float]:
        """Seconds of each batch: not the first of a worker, which has what a worker
        does once, and no stopped one."""
        usual_s = {}
        for record in self.records.made:
            if record.number >= self.num_workers and not record.was_stopped:
                usual_s[batch_of(record)] = sum(record.cost.parts)
        return usual_s

    @cached_property
    def variance(self) -> float:
        """Variance of the logarithm of ``measured_factor``: of the rounds, with the
        usual variance as one more."""
        usual = [_NOISE**2]
        if self.spans:
            usual = [
                _NOISE**2 + (_NOISE_OF_ONE * self.num_workers / span.batches) ** 2
                for span in self.spans
            ]
        # Each round took other batches: the ratio of a round is free of what they cost.
        by_round = {
            span.round: math.log(span.measured_s / span.replayed_s)
            for span in self.spans
        }
        logs = [log for number, log in by_round.items() if number is not None]
        mean = statistics.fmean(logs or [0.0])
        squares = statistics.fmean(usual) + sum((log - mean) ** 2 for log in logs)
        return squares / max(1, len(logs)) ** 2


def batch_of(record: BatchRecord) -> Hashable:
    """Identifies a batch: by its place in the order of the sampler, or else by the
    record itself."""
    return record if record.position is None else (record.epoch, record.position)


def known_of(
    trial: Trial,
    batches: int | None,
    cpus: float,
    instead: Records | None = None,
    epochs: int = 1,
    shuffled: bool = True,
) -> Known | None:
    """Collects what is known of a trial; None before its first batch and if it failed.

    Args:
        trial: The trial.
        batches: Length of an epoch; None if unknown.
        cpus: CPUs that its processes may use.
        instead: The records of another trial, if this one has none; None for a batch
            with the mean cost.
        epochs: See ``Records.shared_epochs``.
        shuffled: See ``Records``.
    """
    measured = trial.measurement
    if measured is None or (
        measured.batch_s is None and (batches is None or measured.epoch_s is None)
    ):
        return None
    batch_s = (
        measured.batch_s.value
        if measured.batch_s
        else (measured.epoch_s or 0.0) / (batches or 1)
    )
    cost_s = trial.objective_s / batches if batches and trial.objective_s else batch_s
    settings = queue_settings(trial.settings, cpus)
    length = batches or ENDLESS
    if not trial.records or trial.loop is None:
        records = _records_without(
            measured, batch_s, settings.num_workers, instead, length, epochs
        )
        return Known(settings, records, cost_s)
    # the others are slower
    plain = [record for record in trial.records if not record.stages]
    recorded = tuple(_with_usual_wait(plain or trial.records))
    records = Records(
        made=recorded,
        loop=trial.loop,
        batches=length,
        shared_epochs=epochs,
        shuffled=shuffled,
    )
    return Known(
        settings,
        records,
        cost_s,
        trial.spans,
        trial.noise.other_cpus if trial.noise else 0.0,
    )


def _records_without(
    measured: Measurement,
    batch_s: float,
    workers: int,
    instead: Records | None,
    length: int,
    epochs: int,
) -> Records:
    """Makes records of a trial that has none: of another trial, or of its mean batch,
    with its measured step and start.

    Each worker makes every n-th batch, so that its batch takes n times as long as one
    of the loader.
    """
    step_s = measured.step_s or 0.0
    making_s = max(1e-9, batch_s * workers if workers else batch_s - step_s)
    if instead is None:
        cpu_s = min(making_s, measured.cpu_s or 0.0)
        mean = BatchRecord(
            number=0, began_s=0.0, ended_s=0.0, cost=BatchCost(cpu_s, making_s - cpu_s)
        )
        instead = Records(
            made=(mean,), loop=LoopCosts(), batches=length, shared_epochs=epochs
        )
    start_s = max(0.0, measured.startup_s - making_s) / workers if workers else 0.0
    return replace(instead, loop=replace(instead.loop, step_s=step_s, fork_s=start_s))


def _with_usual_wait(records: Sequence[BatchRecord]) -> Iterator[BatchRecord]:
    """Gives a record whose worker was stopped the wait of a batch that waited longer,
    the nearest in the epoch.

    Its own wait is a lower bound, as a censored lifetime (Efron, The two sample problem
    with censored data, 1967: redistribution to the right). Batches of a stream have the
    place in which they were made.
    """
    places = []
    for number, record in enumerate(records):
        places.append(
            number / len(records) if record.position is None else record.position
        )
    ended = [
        pair for pair in zip(places, records, strict=True) if not pair[1].was_stopped
    ]
    for place, record in zip(places, records, strict=True):
        wait_s = record.cost.wait_s
        if record.was_stopped:
            longer = [
                (abs(at - place), rival.cost.wait_s)
                for at, rival in ended
                if rival.cost.wait_s > wait_s
            ]
            _, wait_s = min(longer, default=(0.0, wait_s))
        yield replace(record, cost=replace(record.cost, wait_s=wait_s))


def beside_others(settings: QueueSettings, used_cpus: float) -> QueueSettings:
    """Gives settings the CPUs that other programs leave, which used ``used_cpus``
    during the measurement.

    Other programs need no more; and a fair scheduler gives each running process the
    same share, theirs and ours.
    """
    if used_cpus < FEW_CPUS:
        return settings
    running = max(1, settings.num_workers)
    shared = settings.cpus * running / (running + used_cpus)
    return replace(settings, cpus=max(settings.cpus - used_cpus, shared))


def queue_settings(loader: LoaderSettings, cpus: float) -> QueueSettings:
    """Makes the settings of the queue of a DataLoader, with ``cpus`` CPUs."""
    return QueueSettings(
        num_workers=loader.num_workers,
        cpus=cpus,
        prefetch_factor=loader.prefetched,
        in_order=loader.in_order,
        persistent_workers=loader.persistent_workers,
    )


@dataclass(frozen=True)
class Factors:
    """The factors of known trials.

    Attributes:
        with_workers: The trials with workers, by num_workers.
        alone: The trial that stands for no workers.
    """

    with_workers: tuple[Known, ...]
    alone: Known

    def at(self, num_workers: int) -> float:
        """Interpolates the factor as a power of the workers; beyond all trials it is
        that of the nearest."""
        below, above, share = self._neighbours(num_workers)
        if below is None or above is None:
            return 1.0
        return math.pow(below.factor, 1 - share) * math.pow(above.factor, share)

    def misfit(self, num_workers: int) -> float:
        """Computes how far the logarithm of the factor may be below that of ``at``; 0
        for the workers of a trial.

        It is one standard deviation; beyond all trials at most that of a doubling,
        since more workers seldom make loading more efficient. Between two trials the
        factor may also grow later than a power of the workers.
        """
        below, above, share = self._neighbours(num_workers)
        if below is None or above is None:
            return _UNKNOWN
        if below is above:
            if not num_workers:
                return 0.0
            far = min(1.0, abs(doublings(below, num_workers)))
            return math.sqrt(self._variance * far)
        far = doublings(below, above.num_workers)
        change = abs(math.log(above.factor / below.factor))
        return math.sqrt(
            self._variance * far * share * (1 - share)
        ) + change * share * (1 - share)

    def _neighbours(self, num_workers: int) -> tuple[Known | None, Known | None, float]:
        """Finds the trials below and above, and the share of the doublings between them
        at which the number lies.

        They are the same trial at the workers of a trial and beyond all trials; None
        without any trial.
        """
        trials = self.with_workers if num_workers else (self.alone,)
        if not trials:
            return None, None, 0.0
        below = next(
            (trial for trial in reversed(trials) if trial.num_workers <= num_workers),
            trials[0],
        )
        above = next(
            (trial for trial in trials if trial.num_workers >= num_workers), trials[-1]
        )
        share = (
            0.0
            if below is above
            else doublings(below, num_workers) / doublings(below, above.num_workers)
        )
        return below, above, share

    @cached_property
    def _variance(self) -> float:
        """Variance of the logarithm of the factor for a doubling of the workers; at
        most the usual one.

        Larger changes show where the factor grows. Between trials it is then
        interpolated, not more uncertain.
        """
        changes = []
        for before, after in itertools.pairwise(self.with_workers):
            square = square_beyond_noise(
                math.log(after.factor / before.factor), before, after
            )
            changes.append(square / doublings(before, after.num_workers))
        return min(_MISFIT**2, (_MISFIT**2 + sum(changes)) / (1 + len(changes)))


def square_beyond_noise(change: float, before: Known, after: Known) -> float:
    """Computes the square of a change of the logarithm of times between two trials,
    less what noise explains."""
    return max(0.0, change**2 - before.variance - after.variance)


def doublings(trial: Known, num_workers: int) -> float:
    """Counts how often the workers of a trial are doubled to get this number; negative
    if it is smaller."""
    return math.log2(max(1, num_workers) / max(1, trial.num_workers))
