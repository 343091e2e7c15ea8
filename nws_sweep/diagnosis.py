"""What limits a configuration at its best setting, from the figures of its trials. Pure; ``advice`` puts it in words.

Each limit is a question to the figures, and several may hold: the first names what to change, the others what else was
seen. The thresholds are where a tenth or a fifth of the time is at stake; nothing here decides what is recommended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from nws_sweep.bottleneck import Profile
from nws_sweep.quantities import LEAST_CONSUMER
from nws_sweep.records import Measurement, Noise, SearchRecord, Trial, TrialState
from nws_sweep.scaling import Law, law_of, point_of
from nws_sweep.stats import half_width

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


class Limit(str, Enum):
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
        cores: CPUs that could be used.
        alone: The quantities without workers; None if that was not measured.
        fewest: The measured trial with the fewest workers, at least one; None if there is none.
        batches: Batches of an epoch; None if unknown.
        refused: The trials with more workers that had no room, the fewest workers first.
        larger: Whether more workers than the best's were measured.
        least_cpu_s: The least CPU time of a batch that any candidate with workers took; None if it is unknown.
        quickest_s: The least time of a batch that any candidate took; None if none has a pace.
        other_cpus: The most CPUs that other programs used while any candidate was measured.
        handover_s: Seconds per batch that the consumer waits though the workers are well ahead of it: what the main
            process takes to get a batch from them. None if no measured workers are that quick.
        quicker_pace: The trial with workers whose pace beats the best's by far, though its epoch does not; None if
            there is none.
        wider: What to ask for when more workers may be better.
        longer: How to measure longer.
        ranks: How many share the CPUs; CPU time is that of a batch of each.
    """

    best: Trial
    measured: Measurement
    cores: float
    alone: Measurement | None = None
    fewest: Trial | None = None
    batches: int | None = None
    refused: tuple[Trial, ...] = ()
    larger: bool = False
    least_cpu_s: float | None = None
    quickest_s: float | None = None
    other_cpus: float = 0.0
    handover_s: float | None = None
    quicker_pace: Trial | None = None
    wider: str = "a larger search.max_workers"
    longer: str = "longer with measure=rigorous"
    ranks: int = 1

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
        return self.consume_s >= LEAST_CONSUMER * self.batch_s

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
        if self.alone is not None and self.loading_s and self.alone.cpu_s is not None:
            return max(0.0, 1 - self.alone.cpu_s / (self.ranks * self.loading_s))
        found = self.fewest.measurement if self.fewest else None
        if self.fewest is None or found is None or found.batch_s is None or found.cpu_s is None:
            return None
        workers = self.ranks * self.fewest.num_workers
        return max(0.0, 1 - found.cpu_s / (workers * found.batch_s.value))

    @property
    def starting_s(self) -> float | None:
        """Seconds of an epoch that its start takes beyond the steady pace; None if its length is unknown."""
        return self.starting_s_of(self.measured)

    def starting_s_of(self, found: Measurement) -> float | None:
        """The same of any candidate; never more than passes before the first batch."""
        if found.epoch_s is None or self.batches is None:
            return None
        if found.batch_s is None:  # it is over before they are at their pace
            return found.startup_s
        return min(found.startup_s, max(0.0, found.epoch_s - self.batches * found.batch_s.value))

    @property
    def floor_s(self) -> float:
        """What no batch can beat, s: the consumer's time, and CPU time on all CPUs; never above what was measured."""
        cpu_s = self.least_cpu_s or self.measured.cpu_s or 0.0
        profile = Profile(loading_s=0.0, cpu_s=cpu_s, consume_s=self.consume_s, cores=self.cores)
        return min(profile.floor_s, self.quickest_s or math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What limits one configuration at its best setting.

    Attributes:
        limits: What does, the first being the one to change; empty if nothing is used up.
        evidence: The figures behind it.
        law: How time falls with workers; None if nothing shows it.
    """

    limits: tuple[Limit, ...]
    evidence: Evidence
    law: Law | None

    @property
    def headspace(self) -> float | None:
        """How many times faster the best setting would train with a loader that takes no time; None without a consumer.

        Steady pace only: the start of an epoch is not counted.
        """
        return self.evidence.batch_s / self.evidence.consume_s if self.evidence.has_consumer else None

    def most_gain(self, num_workers: int) -> float | None:
        """By which share of its throughput the best could gain at most with so many workers; None if nothing tells.

        The law's optimistic end; of a single point that each worker brings as much as the others. Never in place of a
        measurement.
        """
        best, floor_s = self.evidence.best.num_workers, self.evidence.floor_s
        if self.law is None or best == 0:
            return None
        to_floor = self.evidence.batch_s / floor_s - 1 if floor_s > 0 else math.inf
        return max(0.0, min(self.law.most_gain(best, num_workers), to_floor))


def diagnose(result: SearchRecord, best: Trial | None) -> Diagnosis | None:
    """What limits a configuration; None if nothing was measured.

    Args:
        result: Its trials.
        best: The recommended one.
    """
    evidence = evidence_of(result, best)
    if evidence is None:
        return None
    if is_too_noisy(evidence):
        return Diagnosis(limits=(Limit.NOISE,), evidence=evidence, law=None)
    limits = tuple(limit for limit, holds in _QUESTIONS.items() if holds(evidence))
    return Diagnosis(limits=limits, evidence=evidence, law=_law(result, evidence))


def evidence_of(result: SearchRecord, best: Trial | None) -> Evidence | None:
    """The figures of a search; None if nothing was measured."""
    if best is None or best.measurement is None:
        return None
    trials = sorted(_of_the_search(result), key=lambda trial: trial.num_workers)
    measured = [trial for trial in trials if trial.objective_s is not None]
    alone = next((trial.measurement for trial in measured if trial.num_workers == 0), None)
    larger = [trial for trial in measured if trial.num_workers > best.num_workers]
    found = [trial.measurement for trial in measured if trial.measurement]
    cpus_s = [trial.measurement.cpu_s for trial in measured if trial.num_workers and trial.measurement]
    return Evidence(
        best=best,
        measured=best.measurement,
        cores=result.host.usable_cpus,
        alone=alone,
        fewest=next((trial for trial in measured if trial.num_workers), None),
        batches=result.configuration.batches_of(best.settings, result.facts) if result.facts else None,
        refused=tuple(t for t in trials if t.num_workers > best.num_workers and t.state in _NO_ROOM),
        larger=bool(larger),
        least_cpu_s=min(filter(None, cpus_s), default=None),
        quickest_s=min((one.batch_s.value for one in found if one.batch_s), default=None),
        other_cpus=max((trial.noise.other_cpus for trial in measured if trial.noise), default=0.0),
        handover_s=_handover_s(measured),
        quicker_pace=_quicker_pace(measured, best.measurement),
        wider=result.configuration.search.wider,
        longer=result.configuration.search.longer,
        ranks=result.configuration.ranks,
    )


_NO_ROOM = (TrialState.SKIPPED, TrialState.OUT_OF_MEMORY)


def _of_the_search(result: SearchRecord) -> list[Trial]:
    """The trials of the search of num_workers, without the settings that were searched after it."""
    return [trial for trial in result.trials if not result.configuration.differing(trial.settings)]


def _quicker_pace(trials: Sequence[Trial], best: Measurement) -> Trial | None:
    paces = [
        (trial.measurement.batch_s.value, trial.num_workers, trial)
        for trial in trials
        if trial.num_workers and trial.measurement and trial.measurement.batch_s
    ]
    if not paces or best.batch_s is None:
        return None
    pace_s, _, quickest = min(paces, key=lambda pace: pace[:2])
    return quickest if pace_s < _WORTH * best.batch_s.value else None


def _handover_s(trials: Sequence[Trial]) -> float | None:
    ahead = [
        found.batch_s.value - found.consume_s
        for trial in trials
        if trial.num_workers and (found := trial.measurement) and found.batch_s and found.consume_s
        if found.loading_s is not None and found.loading_s <= _AHEAD * found.consume_s
    ]
    return max(0.0, min(ahead)) if ahead else None


def _law(result: SearchRecord, evidence: Evidence) -> Law | None:
    points = [
        point_of(trial.num_workers, trial.measurement.batch_s)
        for trial in _of_the_search(result)
        if trial.num_workers and trial.objective_s is not None and trial.measurement and trial.measurement.batch_s
    ]
    return law_of(points, evidence.floor_s)


def is_too_noisy(evidence: Evidence) -> bool:
    """Whether the machine did so much else that the figures mean little.

    Programs that compute beside it take a smaller share the more workers there are: one candidate shows them.
    """
    noise = evidence.best.noise or Noise()
    batch = evidence.measured.batch_s
    wide = batch is not None and batch.low is not None and half_width(batch) > _NOISY_INTERVAL
    return wide or noise.steal > _NOISY_STEAL or evidence.other_cpus > _NOISY_CPUS * evidence.cores


def is_startup_bound(evidence: Evidence) -> bool:
    """Whether starting workers takes a large share of the epochs, or keeps workers from paying off."""
    if evidence.best.num_workers == 0:
        found = evidence.quicker_pace.measurement if evidence.quicker_pace else None
        starting_s = evidence.starting_s_of(found) if found else None
        if found is None or found.epoch_s is None or starting_s is None or evidence.measured.epoch_s is None:
            return False
        return found.epoch_s - starting_s < evidence.measured.epoch_s
    starting_s, epoch_s = evidence.starting_s, evidence.measured.epoch_s
    return bool(starting_s and epoch_s and starting_s > _MUCH_START * epoch_s)


def is_competition_bound(evidence: Evidence) -> bool:
    """Whether workers slow the training step down so much that it alone takes longer than a batch without workers."""
    found = evidence.fewest.measurement if evidence.fewest else None
    if evidence.best.num_workers or found is None or not evidence.has_consumer:
        return False
    return (found.consume_s or 0.0) > _SLOWED * evidence.batch_s


def is_consumer_bound(evidence: Evidence) -> bool:
    """Whether the consumer hardly waits, or no longer than it waits for workers that are well ahead of it."""
    waits_s = evidence.batch_s - evidence.consume_s
    if not evidence.has_consumer or waits_s > evidence.consume_s:
        return False
    if waits_s <= _HARDLY_WAITS * evidence.batch_s:
        return True
    return evidence.handover_s is not None and waits_s - evidence.handover_s <= _HARDLY_WAITS * evidence.batch_s


def is_transfer_bound(evidence: Evidence) -> bool:
    """Whether getting batches from workers costs more than making them.

    Under a consumer that workers are well ahead of: it waits for the hand-over all the same. Without workers at the
    best setting: workers that should be faster are not. With workers: the CPUs are used up, to a large part by what
    workers add to loading.
    """
    if is_consumer_bound(evidence):
        return evidence.handover_s is not None and evidence.handover_s > _HARDLY_WAITS * evidence.batch_s
    if evidence.best.num_workers == 0:
        return _workers_disappoint(evidence)
    alone, with_workers_s = evidence.alone, evidence.measured.cpu_s
    if alone is None or alone.cpu_s is None or with_workers_s is None or not is_cpu_bound(evidence):
        return False
    return with_workers_s > _MOVING_CPU * alone.cpu_s


def _workers_disappoint(evidence: Evidence) -> bool:
    trial, loading_s = evidence.fewest, evidence.loading_s
    found = trial.measurement if trial else None
    if trial is None or found is None or found.batch_s is None or loading_s is None or evidence.alone is None:
        return False
    alone_cpu_s = evidence.alone.cpu_s or 0.0
    hoped_s = max(loading_s / trial.num_workers, alone_cpu_s / evidence.cores, evidence.consume_s)
    got_s = found.batch_s.value - max(0.0, (found.consume_s or 0.0) - evidence.consume_s)  # a slower step moves nothing
    if hoped_s < _WORTH * evidence.batch_s:
        return evidence.batch_s - got_s < (evidence.batch_s - hoped_s) / 2
    # One worker alone is hoped to be no faster than none, and still loses on moving.
    return trial.num_workers == 1 and got_s > _LOST_IN_MOVING * hoped_s


def is_cpu_bound(evidence: Evidence) -> bool:
    """Whether the usable CPUs are busy nearly all the time."""
    return evidence.busy is not None and evidence.busy >= _SATURATED


def is_memory_bound(evidence: Evidence) -> bool:
    """Whether more workers might help, and had no room."""
    return bool(evidence.refused) and not evidence.larger and not is_consumer_bound(evidence)


def is_latency_bound(evidence: Evidence) -> bool:
    """Whether loading is mostly waiting: for storage, a network, a lock."""
    return evidence.waiting is not None and evidence.waiting >= _MOSTLY_WAITING


_QUESTIONS: dict[Limit, Callable[[Evidence], bool]] = {
    Limit.STARTUP: is_startup_bound,
    Limit.COMPETITION: is_competition_bound,
    Limit.CONSUMER: is_consumer_bound,
    Limit.TRANSFER: is_transfer_bound,
    Limit.CPU: is_cpu_bound,
    Limit.MEMORY: is_memory_bound,
    Limit.LATENCY: is_latency_bound,
}
