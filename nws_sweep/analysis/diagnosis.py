"""What limits a configuration at its best setting, from the figures of its trials. Pure; ``advice`` puts it in words.

Each limit is a question to the figures, and several may hold: the first names what to change, the others what else was
seen. The thresholds are where a tenth or a fifth of the time is at stake; nothing here decides what is recommended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from nws_sweep.measurement.quantities import MIN_CONSUMER_SHARE
from nws_sweep.measurement.stats import half_width
from nws_sweep.results import Configuration, Measurement, Noise, SearchRecord, Trial, TrialState
from nws_sweep.tuning.bottleneck import Profile, ScalingFit, scaling_fit

# A consumer that waits for a smaller share of its time would gain little from a faster loader.
_HARDLY_WAITS = 0.1
# CPUs that are busy for a larger share of the time are what is missing: some of it is lost between processes.
_SATURATED = 0.8
# Shares of an epoch spent on its start, and of loading spent on waiting, that are worth naming.
_MUCH_START, _MOSTLY_WAITING = 0.3, 0.5
# Workers that would load, without the consumer, in a smaller share of its time are well ahead of it.
_AHEAD = 0.8
# A worker that is slower by this factor than loading without any loses it on moving batches, and so do workers with
# which a batch takes so many times the CPU time.
_LOST_IN_MOVING, _MOVING_CPU = 1.3, 1.4
# A training step beside workers that takes so many times a whole batch without any is slowed down by them. Less may be
# an accelerator's work, which goes on while the main process loads.
_SLOWED = 1.1
# What is worth an explanation why it was not gained.
_WORTH = 0.9
# From here on a machine is too disturbed to say anything: shares, and CPUs as a share of the usable ones.
_NOISY_INTERVAL, _NOISY_STEAL, _NOISY_CPUS = 0.5, 0.25, 0.5


class Bottleneck(str, Enum):
    """What limits, in the order in which they are named."""

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
    """The figures that the questions are put to.

    Attributes:
        best: The recommended trial.
        measured: Its quantities.
        candidates: The quantities of each num_workers that was measured, ascending.
        configuration: What was held fixed.
        cores: CPUs that could be used.
        batches: Batches of an epoch; None if unknown.
        refused: The trials with more workers than the best that had no room, the fewest workers first.
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
        """The quantities without workers; None if that was not measured."""
        return self.candidates.get(0)

    @property
    def fewest(self) -> tuple[int, Measurement] | None:
        """The fewest workers that were measured, at least one, and their quantities; None if there are none."""
        return next(((number, found) for number, found in self.candidates.items() if number), None)

    @property
    def larger(self) -> bool:
        """Whether more workers than the best's were measured."""
        return any(number > self.best.num_workers for number in self.candidates)

    @property
    def batch_s(self) -> float:
        """Seconds per batch at the best setting; where an epoch has no steady state, its share of the epoch."""
        if self.measured.batch_s is not None:
            return self.measured.batch_s.value
        return (self.measured.epoch_s or 0.0) / (self.batches or 1)

    @property
    def consume_s(self) -> float:
        """Seconds per batch in the consumer."""
        return self.measured.consume_s or 0.0

    @property
    def has_consumer(self) -> bool:
        """Whether anything is done with a batch that takes time."""
        return self.consume_s >= MIN_CONSUMER_SHARE * self.batch_s

    @property
    def loading_s(self) -> float | None:
        """Seconds to load a batch in one process without workers; None if that was not measured."""
        if self.alone is None or self.alone.batch_s is None:
            return None
        return max(0.0, self.alone.batch_s.value - (self.alone.consume_s or 0.0))

    @property
    def busy(self) -> float | None:
        """Share of the usable CPUs' time that is spent; None if CPU time is unknown."""
        return None if self.measured.cpu_s is None else min(1.0, self.measured.cpu_s / (self.cores * self.batch_s))

    @property
    def waiting(self) -> float | None:
        """Share of the loading that is waiting, not computing; None if it is unknown."""
        found = self.alone
        process_s = self.loading_s  # of a batch: time of all processes that load
        if found is None or found.cpu_s is None or not process_s:
            number, found = self.fewest or (0, None)
            process_s = number * found.batch_s.value if found and found.batch_s else None
        if found is None or found.cpu_s is None or not process_s:
            return None
        return max(0.0, 1 - found.cpu_s / (self.configuration.ranks * process_s))

    def starting_s(self, found: Measurement) -> float | None:
        """Seconds of a candidate's epoch that its start takes beyond the steady pace; None if its length is unknown.

        Never more than passes before the first batch.
        """
        if found.epoch_s is None or self.batches is None:
            return None
        if found.batch_s is None:  # it is over before they are at their pace
            return found.startup_s
        return min(found.startup_s, max(0.0, found.epoch_s - self.batches * found.batch_s.value))

    @property
    def quicker_pace(self) -> tuple[int, Measurement] | None:
        """Workers whose pace beats the best's by far, though their epoch does not; None if there are none."""
        paces = [(found.batch_s.value, number) for number, found in self.candidates.items() if number and found.batch_s]
        if not paces or self.measured.batch_s is None:
            return None
        pace_s, number = min(paces)
        return (number, self.candidates[number]) if pace_s < _WORTH * self.measured.batch_s.value else None

    @property
    def receive_s(self) -> float | None:
        """Seconds per batch that the consumer waits though the workers are well ahead of it; None if none are.

        It is what the main process takes to get a batch from them.
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
        """What no batch can beat, s: the consumer's time, and CPU time on all CPUs; never above what was measured."""
        cpus_s = [found.cpu_s for number, found in self.candidates.items() if number and found.cpu_s]
        cpu_s = min(cpus_s, default=self.measured.cpu_s or 0.0)
        profile = Profile(loading_s=0.0, cpu_s=cpu_s, consume_s=self.consume_s, cores=self.cores)
        return min([profile.floor_s, *(found.batch_s.value for found in self.candidates.values() if found.batch_s)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What limits one configuration at its best setting, the first being what to change; nothing may be used up.

    ``scaling`` is how time falls with workers; None if nothing shows it.
    """

    bottlenecks: tuple[Bottleneck, ...]
    evidence: Evidence
    scaling: ScalingFit | None


def diagnose(result: SearchRecord, best: Trial | None) -> Diagnosis | None:
    """What limits a configuration, whose best trial is given; None if nothing was measured."""
    evidence = evidence_of(result, best)
    if evidence is None:
        return None
    if _is_too_noisy(evidence):
        return Diagnosis(bottlenecks=(Bottleneck.NOISE,), evidence=evidence, scaling=None)
    bottlenecks = tuple(limit for limit, holds in _QUESTIONS.items() if holds(evidence))
    paces = {number: found.batch_s for number, found in evidence.candidates.items() if number and found.batch_s}
    return Diagnosis(bottlenecks=bottlenecks, evidence=evidence, scaling=scaling_fit(paces, evidence.floor_s))


def evidence_of(result: SearchRecord, best: Trial | None) -> Evidence | None:
    """The figures of a search; None if nothing was measured."""
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
        batches=result.configuration.batches_of(best.settings, result.facts) if result.facts else None,
        refused=tuple(t for t in trials if t.num_workers > best.num_workers and t.state in _NO_ROOM),
        other_cpus=max((trial.noise.other_cpus for trial in measured if trial.noise), default=0.0),
    )


_NO_ROOM = (TrialState.SKIPPED, TrialState.OUT_OF_MEMORY)


def worker_trials(result: SearchRecord) -> tuple[Trial, ...]:
    """The trials of the search of num_workers, ascending, without the settings that were searched after it."""
    trials = (trial for trial in result.trials if not result.configuration.differing(trial.settings))
    return tuple(sorted(trials, key=lambda trial: trial.num_workers))


def _is_too_noisy(evidence: Evidence) -> bool:
    """Whether the machine did so much else that the figures mean little; one candidate shows other programs."""
    noise = evidence.best.noise or Noise()
    batch = evidence.measured.batch_s
    wide = batch is not None and batch.low is not None and half_width(batch) > _NOISY_INTERVAL
    return wide or noise.steal > _NOISY_STEAL or evidence.other_cpus > _NOISY_CPUS * evidence.cores


def _is_startup_bound(evidence: Evidence) -> bool:
    """Whether starting workers takes a large share of the epochs, or keeps workers from paying off."""
    has_workers, epoch_s = evidence.best.num_workers > 0, evidence.measured.epoch_s
    _, found = (0, evidence.measured) if has_workers else evidence.quicker_pace or (0, None)
    starting_s = evidence.starting_s(found) if found else None
    if found is None or found.epoch_s is None or starting_s is None or epoch_s is None:
        return False
    return starting_s > _MUCH_START * epoch_s if has_workers else found.epoch_s - starting_s < epoch_s


def _is_competition_bound(evidence: Evidence) -> bool:
    """Whether workers slow the training step down so much that it alone takes longer than a batch without workers."""
    if evidence.best.num_workers or evidence.fewest is None or not evidence.has_consumer:
        return False
    return (evidence.fewest[1].consume_s or 0.0) > _SLOWED * evidence.batch_s


def is_consumer_bound(evidence: Evidence) -> bool:
    """Whether the consumer hardly waits, or no longer than it waits for workers that are well ahead of it."""
    waits_s, hardly_s = evidence.batch_s - evidence.consume_s, _HARDLY_WAITS * evidence.batch_s
    if not evidence.has_consumer or waits_s > evidence.consume_s:
        return False
    return waits_s <= hardly_s or (evidence.receive_s is not None and waits_s - evidence.receive_s <= hardly_s)


def _is_transfer_bound(evidence: Evidence) -> bool:
    """Whether getting batches costs more than making them: in the hand-over, the time, or the CPUs that are used up."""
    if is_consumer_bound(evidence):
        return evidence.receive_s is not None and evidence.receive_s > _HARDLY_WAITS * evidence.batch_s
    if evidence.best.num_workers == 0:
        return _workers_disappoint(evidence)
    alone_s = evidence.alone.cpu_s if evidence.alone else None
    is_used_up = (evidence.busy or 0.0) >= _SATURATED
    return is_used_up and alone_s is not None and (evidence.measured.cpu_s or 0.0) > _MOVING_CPU * alone_s


def _workers_disappoint(evidence: Evidence) -> bool:
    loading_s, alone = evidence.loading_s, evidence.alone
    number, found = evidence.fewest or (0, None)
    if found is None or found.batch_s is None or loading_s is None or alone is None:
        return False
    hoped_s = max(loading_s / number, (alone.cpu_s or 0.0) / evidence.cores, evidence.consume_s)
    got_s = found.batch_s.value - max(0.0, (found.consume_s or 0.0) - evidence.consume_s)  # a slower step moves nothing
    if hoped_s < _WORTH * evidence.batch_s:
        return evidence.batch_s - got_s < (evidence.batch_s - hoped_s) / 2
    # One worker alone is hoped to be no faster than none, and still loses on moving.
    return number == 1 and got_s > _LOST_IN_MOVING * hoped_s


def _is_memory_bound(evidence: Evidence) -> bool:
    """Whether more workers might help, and had no room."""
    return bool(evidence.refused) and not evidence.larger and not is_consumer_bound(evidence)


_QUESTIONS: dict[Bottleneck, Callable[[Evidence], bool]] = {
    Bottleneck.STARTUP: _is_startup_bound,
    Bottleneck.COMPETITION: _is_competition_bound,
    Bottleneck.CONSUMER: is_consumer_bound,
    Bottleneck.TRANSFER: _is_transfer_bound,
    Bottleneck.CPU: lambda evidence: (evidence.busy or 0.0) >= _SATURATED,
    Bottleneck.MEMORY: _is_memory_bound,
    Bottleneck.LATENCY: lambda evidence: (evidence.waiting or 0.0) >= _MOSTLY_WAITING,
}
