"""Bottlenecks of a configuration at its best setting, from the measurements of its trials. Pure; see ``advice``.

Each bottleneck is a condition on the measurements, and several may hold: the first one is what to change. The
thresholds mark a tenth or a fifth of the time; they have no influence on which candidate is recommended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from nws_sweep.measurement.quantities import MIN_CONSUMER_SHARE
from nws_sweep.measurement.stats import half_width
from nws_sweep.results import Configuration, Measurement, Noise, SearchRecord, Trial, TrialState
from nws_sweep.tuning.bottleneck import Profile, ScalingFit, scaling_fit

# A consumer whose share of waiting is smaller gains little from a faster loader.
_HARDLY_WAITS = 0.1
# CPU utilization from which the CPUs count as saturated; the rest is lost between processes.
_SATURATED = 0.8
# Shares of an epoch spent on start-up, and of loading spent waiting, from which they count as a bottleneck.
_MUCH_START, _MOSTLY_WAITING = 0.3, 0.5
# Workers whose loading takes a smaller share of the consumer's time are well ahead of it.
_AHEAD = 0.8
# Slow-down of one worker against none, and growth of a batch's CPU time, from which transfer counts as the cause.
_LOST_IN_MOVING, _MOVING_CPU = 1.3, 1.4
# A training step beside workers is slowed down from this multiple of a whole batch without workers. A smaller one may
# be the work of an accelerator, which continues while the main process loads.
_SLOWED = 1.1
# A time below this share of the best's is a gain worth explaining.
_WORTH = 0.9
# Noise above these limits hides the bottleneck: relative half-width, steal, and CPUs as a share of the usable ones.
_NOISY_INTERVAL, _NOISY_STEAL, _NOISY_CPUS = 0.5, 0.25, 0.5
_DID_NOT_FIT = (TrialState.SKIPPED, TrialState.OUT_OF_MEMORY)


class Bottleneck(str, Enum):
    """What determines the time of a batch, in the order of reporting."""

    NOISE = "noise"
    STARTUP = "start-up"
    COMPETITION = "competition"
    CONSUMER = "consumer"
    TRANSFER = "transfer"
    CPU = "CPU"
    MEMORY = "memory"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The measurements by which bottlenecks are identified.

    Attributes:
        best: The recommended trial.
        measured: Its measurement.
        candidates: The measurement of each num_workers, ascending.
        configuration: The settings that were held fixed.
        cores: Usable CPUs.
        batches: Batches per epoch; None if unknown.
        refused: Trials with more workers than the best that did not fit, ascending by workers.
        other_cpus: The most CPUs that other programs used while any candidate was measured.
    """

    best: Trial
    measured: Measurement
    candidates: Mapping[int, Measurement]
    configuration: Configuration
    cores: float
    batches: int | None = None
    refused: tuple[Trial, ...] = ()
    other_cpus: float = 0.0

    @property
    def alone(self) -> Measurement | None:
        """The measurement without workers; None if there is none."""
        return self.candidates.get(0)

    @property
    def fewest(self) -> tuple[int, Measurement] | None:
        """The fewest workers measured, at least one, and their measurement; None if there are none."""
        return next(((number, found) for number, found in self.candidates.items() if number), None)

    @property
    def larger(self) -> bool:
        """Whether a candidate with more workers than the best was measured."""
        return any(number > self.best.num_workers for number in self.candidates)

    @property
    def batch_s(self) -> float:
        """Seconds per batch at the best setting; without a steady state the epoch divided by its batches."""
        if self.measured.batch_s is not None:
            return self.measured.batch_s.value
        return (self.measured.epoch_s or 0.0) / (self.batches or 1)

    @property
    def consume_s(self) -> float:
        """Seconds per batch in the consumer."""
        return self.measured.consume_s or 0.0

    @property
    def has_consumer(self) -> bool:
        """Whether the consumer takes a measurable share of the time."""
        return self.consume_s >= MIN_CONSUMER_SHARE * self.batch_s

    @property
    def loading_s(self) -> float | None:
        """Seconds to load a batch in one process without workers; None if not measured."""
        if self.alone is None or self.alone.batch_s is None:
            return None
        return max(0.0, self.alone.batch_s.value - (self.alone.consume_s or 0.0))

    @property
    def busy(self) -> float | None:
        """CPU utilization, 0 to 1; None if CPU time is unknown."""
        return None if self.measured.cpu_s is None else min(1.0, self.measured.cpu_s / (self.cores * self.batch_s))

    @property
    def waiting(self) -> float | None:
        """Share of the loading time spent waiting instead of computing; None if unknown."""
        found = self.alone
        process_s = self.loading_s  # per batch, summed over the loading processes
        if found is None or found.cpu_s is None or not process_s:
            number, found = self.fewest or (0, None)
            process_s = number * found.batch_s.value if found and found.batch_s else None
        if found is None or found.cpu_s is None or not process_s:
            return None
        return max(0.0, 1 - found.cpu_s / (self.configuration.ranks * process_s))

    def starting_s(self, found: Measurement) -> float | None:
        """Seconds of a candidate's epoch beyond its steady pace, at most ``startup_s``; None if unknown."""
        if found.epoch_s is None or self.batches is None:
            return None
        if found.batch_s is None:  # the epoch ends before the steady pace is reached
            return found.startup_s
        return min(found.startup_s, max(0.0, found.epoch_s - self.batches * found.batch_s.value))

    @property
    def quicker_pace(self) -> tuple[int, Measurement] | None:
        """The workers with the quickest pace, if it is well below the best's; else None."""
        paces = [(found.batch_s.value, number) for number, found in self.candidates.items() if number and found.batch_s]
        if not paces or self.measured.batch_s is None:
            return None
        pace_s, number = min(paces)
        return (number, self.candidates[number]) if pace_s < _WORTH * self.measured.batch_s.value else None

    @property
    def receive_s(self) -> float | None:
        """Seconds to receive a batch: the wait of the consumer although workers are well ahead of it.

        None if no workers are well ahead.
        """
        ahead = [
            found.batch_s.value - found.consume_s
            for number, found in self.candidates.items()
            if number and found.batch_s and found.consume_s
            if found.loading_s is not None and found.loading_s <= _AHEAD * found.consume_s
        ]
        return max(0.0, min(ahead)) if ahead else None

    @property
    def floor_s(self) -> float:
        """Lower bound of a batch, s: the consumer's time, CPU time on all CPUs; at most the least time measured."""
        cpus_s = [found.cpu_s for number, found in self.candidates.items() if number and found.cpu_s]
        cpu_s = min(cpus_s, default=self.measured.cpu_s or 0.0)
        profile = Profile(loading_s=0.0, cpu_s=cpu_s, consume_s=self.consume_s, cores=self.cores)
        return min([profile.floor_s, *(found.batch_s.value for found in self.candidates.values() if found.batch_s)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The bottlenecks of one configuration at its best setting, the most important first; empty if none was found.

    ``scaling`` is the fit of time against workers; None if the trials do not determine it.
    """

    bottlenecks: tuple[Bottleneck, ...]
    evidence: Evidence
    scaling: ScalingFit | None


def diagnose(result: SearchRecord, best: Trial | None) -> Diagnosis | None:
    """Identifies the bottlenecks of a configuration with this best trial; None if nothing was measured."""
    evidence = evidence_of(result, best)
    if evidence is None:
        return None
    if _is_too_noisy(evidence):
        return Diagnosis(bottlenecks=(Bottleneck.NOISE,), evidence=evidence, scaling=None)
    bottlenecks = tuple(bottleneck for bottleneck, holds in _CONDITIONS.items() if holds(evidence))
    paces = {number: found.batch_s for number, found in evidence.candidates.items() if number and found.batch_s}
    return Diagnosis(bottlenecks=bottlenecks, evidence=evidence, scaling=scaling_fit(paces, evidence.floor_s))


def evidence_of(result: SearchRecord, best: Trial | None) -> Evidence | None:
    """Gathers the measurements of a search; None if nothing was measured."""
    if best is None or best.measurement is None:
        return None
    trials = worker_trials(result)
    measured = [trial for trial in trials if trial.objective_s is not None]
    return Evidence(
        best=best,
        measured=best.measurement,
        candidates={trial.num_workers: trial.measurement for trial in measured if trial.measurement},
        configuration=result.configuration,
        cores=result.host.usable_cpus,
        batches=result.facts.batches_of(best.settings, result.configuration.ranks) if result.facts else None,
        refused=tuple(t for t in trials if t.num_workers > best.num_workers and t.state in _DID_NOT_FIT),
        other_cpus=max((trial.noise.other_cpus for trial in measured if trial.noise), default=0.0),
    )


def worker_trials(result: SearchRecord) -> tuple[Trial, ...]:
    """The trials of the search of num_workers, ascending, without those of settings searched after it."""
    trials = (trial for trial in result.trials if not result.configuration.differing(trial.settings))
    return tuple(sorted(trials, key=lambda trial: trial.num_workers))


def _is_too_noisy(evidence: Evidence) -> bool:
    """Other programs count if any candidate met them: with many workers of its own the best may seem undisturbed."""
    noise = evidence.best.noise or Noise()
    batch = evidence.measured.batch_s
    wide = batch is not None and batch.low is not None and half_width(batch) > _NOISY_INTERVAL
    return wide or noise.steal > _NOISY_STEAL or evidence.other_cpus > _NOISY_CPUS * evidence.cores


def _is_startup_bound(evidence: Evidence) -> bool:
    """Start-up takes a large share of the best's epochs, or makes faster workers slower per epoch."""
    has_workers, epoch_s = evidence.best.num_workers > 0, evidence.measured.epoch_s
    _, found = (0, evidence.measured) if has_workers else evidence.quicker_pace or (0, None)
    starting_s = evidence.starting_s(found) if found else None
    if found is None or found.epoch_s is None or starting_s is None or epoch_s is None:
        return False
    return starting_s > _MUCH_START * epoch_s if has_workers else found.epoch_s - starting_s < epoch_s


def _is_competition_bound(evidence: Evidence) -> bool:
    """Beside workers the training step alone takes longer than a batch without workers."""
    if evidence.best.num_workers or evidence.fewest is None or not evidence.has_consumer:
        return False
    return (evidence.fewest[1].consume_s or 0.0) > _SLOWED * evidence.batch_s


def is_consumer_bound(evidence: Evidence) -> bool:
    """Whether the consumer hardly waits, or no longer than for batches of workers that are well ahead of it."""
    waits_s, hardly_s = evidence.batch_s - evidence.consume_s, _HARDLY_WAITS * evidence.batch_s
    if not evidence.has_consumer or waits_s > evidence.consume_s:
        return False
    return waits_s <= hardly_s or (evidence.receive_s is not None and waits_s - evidence.receive_s <= hardly_s)


def _is_transfer_bound(evidence: Evidence) -> bool:
    """The cost of receiving batches shows in the hand-over, in the time of workers, or in saturated CPUs."""
    if is_consumer_bound(evidence):
        return evidence.receive_s is not None and evidence.receive_s > _HARDLY_WAITS * evidence.batch_s
    if evidence.best.num_workers == 0:
        return _gain_of_workers_is_lost(evidence)
    alone_s = evidence.alone.cpu_s if evidence.alone else None
    is_saturated = (evidence.busy or 0.0) >= _SATURATED
    return is_saturated and alone_s is not None and (evidence.measured.cpu_s or 0.0) > _MOVING_CPU * alone_s


def _gain_of_workers_is_lost(evidence: Evidence) -> bool:
    loading_s, alone = evidence.loading_s, evidence.alone
    number, found = evidence.fewest or (0, None)
    if found is None or found.batch_s is None or loading_s is None or alone is None:
        return False
    expected_s = max(loading_s / number, (alone.cpu_s or 0.0) / evidence.cores, evidence.consume_s)
    actual_s = found.batch_s.value - max(0.0, (found.consume_s or 0.0) - evidence.consume_s)  # not a slower step
    if expected_s < _WORTH * evidence.batch_s:
        return evidence.batch_s - actual_s < (evidence.batch_s - expected_s) / 2
    # A single worker is expected to be as fast as none.
    return number == 1 and actual_s > _LOST_IN_MOVING * expected_s


_CONDITIONS: dict[Bottleneck, Callable[[Evidence], bool]] = {
    Bottleneck.STARTUP: _is_startup_bound,
    Bottleneck.COMPETITION: _is_competition_bound,
    Bottleneck.CONSUMER: is_consumer_bound,
    Bottleneck.TRANSFER: _is_transfer_bound,
    Bottleneck.CPU: lambda evidence: (evidence.busy or 0.0) >= _SATURATED,
    Bottleneck.MEMORY: lambda evidence: (
        bool(evidence.refused) and not evidence.larger and not is_consumer_bound(evidence)
    ),
    Bottleneck.LATENCY: lambda evidence: (evidence.waiting or 0.0) >= _MOSTLY_WAITING,
}
