"""Diagnoses in words: what limits the epoch, what to change, and what that saves.
Pure."""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nws_sweep.analysis import limits
from nws_sweep.analysis.diagnosis import Diagnosis
from nws_sweep.analysis.limits import (
    LIMITS,
    WORTH_A_CHANGE,
    Evidence,
    did_not_fit,
    roughly,
    worth_indexing,
)
from nws_sweep.analysis.remedies import Remedy, chosen
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.stages import Stage
from nws_sweep.records import Part, SearchRecord, Trial
from nws_sweep.units import ROUGHLY, interval, number, ratio, seconds, share

_NEGLIGIBLE_GAIN = 0.01
_LEAST_SHARE = 0.1  # of the time of a batch, below which its CPU time does not matter


class Advice(NamedTuple):
    """What limits an epoch, and what to change.

    Attributes:
        cause: With its evidence, in at most twenty words.
        remedies: At most two (``analysis.remedies``).
        kind: What is equal for two configurations that need the same: what limits, and
            the remedies without figures.
    """

    cause: str = ""
    remedies: tuple[Remedy, ...] = ()
    kind: tuple[str, ...] = ()


def of(diagnosis: Diagnosis, stages: Sequence[Stage] = ()) -> Advice:
    """The cause of the largest part of the time, and the remedies that save most."""
    evidence = Evidence(diagnosis, stages)
    limit, cause = _cause(evidence)
    remedies = chosen(*_remedies(evidence))
    return Advice(
        cause=cause,
        remedies=remedies,
        kind=(limit, *(remedy.text for remedy in remedies)),
    )


def _alone(diagnosis: Diagnosis) -> tuple[Bottleneck, ...]:
    """The bottlenecks that limit on their own; none if two limit together.

    Without workers it is the CPU time of the samples, whatever keeps workers from
    helping; unless whole batches are the remedy.
    """
    if not diagnosis.together:
        return diagnosis.bottlenecks
    is_cpu = not diagnosis.best.num_workers and Bottleneck.CPU in diagnosis.bottlenecks
    return (Bottleneck.CPU,) if is_cpu and indexing(diagnosis) is None else ()


def details(diagnosis: Diagnosis) -> Iterator[str]:
    """What is saved without each bottleneck, how busy the CPUs are, costs that depend on
    the position, other settings, and the upper bound of what a faster loader
    saves."""
    if diagnosis.is_noisy:
        return
    yield from _savings(diagnosis)
    yield _utilization(diagnosis)
    yield _more_workers(diagnosis)
    yield from filter(None, _further(diagnosis))


def _savings(diagnosis: Diagnosis) -> Iterator[str]:
    """What is saved without each bottleneck, or without two of them together."""
    saved = {}
    for limit, saved_share in diagnosis.saved.items():
        saved[LIMITS[limit].without] = saved_share
    if diagnosis.together:
        saved = {" and ".join(saved): max(saved.values())}
    for without, saved_share in saved.items():
        yield f"{without} the epoch would take {share(saved_share)} less"


def _utilization(diagnosis: Diagnosis) -> str:
    cpu_s, batch_s = diagnosis.measured.cpu_s, diagnosis.batch_s
    if cpu_s is None or not batch_s:
        return "CPU time unknown"
    utilization = share(min(1.0, cpu_s / (diagnosis.replayed.best.cpus * batch_s)))
    return f"CPU utilization {utilization}"


def _cause(evidence: Evidence) -> tuple[str, str]:
    """What limits, and the cause in words: a single limit, else what a change of the
    program meets, else two limits."""
    diagnosis = evidence.diagnosis
    first = next(iter(_alone(diagnosis)), None)
    transfer = _dear_transfer(diagnosis)
    # why no workers are best; a training step or a sampler is a better reason
    if transfer and (first is None or first.part is Part.MAKING):
        return LIMITS[Bottleneck.TRANSFER].name, transfer
    if first is not None:
        return LIMITS[first].name, LIMITS[first].cause(evidence)
    indexed = indexing(diagnosis)
    if indexed is not None:
        return "indexing", indexed.cause
    if diagnosis.together:
        pair = " and ".join(LIMITS[limit].name for limit in diagnosis.bottlenecks)
        alone = "without one alone the epoch is hardly shorter"
        return pair, f"{pair} limit together: {alone}"
    nothing = "no single cost limits: removing any saves less than a tenth of the epoch"
    return "nothing", nothing


def _remedies(evidence: Evidence) -> tuple[list[Remedy], list[Remedy]]:
    """What to change about the cause, and what else."""
    diagnosis = evidence.diagnosis
    of_limits = [[*limits.remedies(limit, evidence)] for limit in _alone(diagnosis)]
    others = [*itertools.chain(*of_limits[1:]), *limits.suggested(diagnosis)]
    for workers, saved in diagnosis.more_workers.items():
        text = f"{workers} saves {{}} of the epoch"
        if len(diagnosis.result.configuration.search.candidates) > 1:
            text = f"{text}: raise max_workers"
        others.append(Remedy(text, saved))
    indexed = indexing(diagnosis)
    of_indexing = [*indexed.remedies] if indexed else []
    of_cause = of_limits[0] if of_limits else []
    # to collate samples is computing
    if _alone(diagnosis)[:1] in ((), (Bottleneck.CPU,)):
        return [*of_cause, *of_indexing], others
    return of_cause, [*others, *of_indexing]


def fed_steps(workers_of: Mapping[float, int | None]) -> str:
    """The line about the workers that keep training steps busy, by seconds of a step;
    empty if none do."""
    fed, unfed = [], []
    for step_s, workers in workers_of.items():
        step = f"{1e3 * step_s:g} ms"
        if workers is None:
            unfed.append(step)
        else:
            fed.append(f"{workers} for {step}")
    if not fed:
        return ""
    rest = f"; impossible for {', '.join(unfed)}" if unfed else ""
    return f"workers that keep a training step busy (predicted, at most 5 % waiting): {', '.join(fed)}{rest}"


def _further(diagnosis: Diagnosis) -> Iterator[str]:
    rise, step_share = diagnosis.replayed.rise, diagnosis.account.share(Part.STEP)
    if max(rise, 1 / rise) >= WORTH_A_CHANGE:
        yield (
            f"a batch in the last third of the epoch costs {rise:.2g} times as much as one in the first: "
            "timing only the beginning would mislead"
        )
    facts = diagnosis.result.facts
    if facts and facts.iterable:
        yield uneven_workers(diagnosis.best)
    for setting, saved in diagnosis.suggestions.items():
        yield f"{setting} would save {share(saved)} of the epoch (predicted)"
    if diagnosis.has_step and step_share:
        gain = "not speed up training"
        if 1 / step_share - 1 > _NEGLIGIBLE_GAIN:
            gain = f"speed up training {ratio(1 / step_share)}"
        yield f"upper bound: an infinitely fast loader would {gain}"


def uneven_workers(trial: Trial) -> str:
    """Which worker of an iterable dataset was busy much longer than the others; empty
    if none was.

    All of them take turns, so that it holds them up. Each had a batch after its first
    one.
    """
    busy_s: dict[int, list[float]] = {}
    for record in trial.records:
        worker = record.number % max(1, trial.num_workers)
        busy_s.setdefault(worker, []).append(record.cost.making_s)
    sums_s = {}
    for worker, (_, *later_s) in busy_s.items():
        if later_s:
            sums_s[worker] = sum(later_s)
    if len(sums_s) < 2:
        return ""
    slowest = max(sums_s, key=sums_s.__getitem__)
    slowest_s = sums_s.pop(slowest)
    others_s = statistics.median(sums_s.values())
    if slowest_s < WORTH_A_CHANGE * others_s:
        return ""
    took = f"worker {slowest} took {ratio(slowest_s / others_s)} as long as the others"
    return f"{took}: shards of equal cost would let all workers end together"


def on_samples(result: SearchRecord) -> tuple[str, ...]:
    """Lines about what makes samples, besides their stages."""
    return (*_whole_batches(result), *_threads_beside(result.trials))


def _whole_batches(result: SearchRecord) -> Iterator[str]:
    """How whole batches are indexed, and what was measured, if it is worth it."""
    loader, indexed = result.configuration.loader, worth_indexing(result)
    if indexed is None:
        return
    is_shuffled = result.facts is not None and result.facts.is_shuffled
    sampler = "RandomSampler" if is_shuffled else "SequentialSampler"
    batches = f"BatchSampler({sampler}(dataset), {loader.batch_size}, drop_last={loader.drop_last})"
    tried = f"{seconds(indexed.whole_s)} instead of {seconds(indexed.samples_s)}"
    times = ratio(indexed.samples_s / indexed.whole_s)
    yield (
        f"index whole batches: dataset[indices] gives equal batches {times} as fast as samples that are collated "
        f"(tried without workers: {tried}); DataLoader(dataset, batch_size=None, sampler={batches})"
    )


def _threads_beside(trials: Sequence[Trial]) -> Iterator[str]:
    """That threads of the dataset or of libraries compute much of the batches."""
    batches = []
    for trial in trials:
        if trial.num_workers:
            batches += [record.stages[0] for record in trial.records if record.stages]
    worker_s = all_s = waited_s = 0.0
    for batch in batches:
        worker_s += max(0.0, batch.cpu_s - batch.overhead_s)
        all_s += max(0.0, batch.all_cpu_s - batch.overhead_s)
        waited_s += batch.wait_s
    computes = all_s - worker_s >= _LEAST_SHARE * (worker_s + waited_s)
    if computes and all_s > WORTH_A_CHANGE * worker_s:
        line = f"threads beside the worker's own use {share(1 - worker_s / all_s)} of the CPU time of making batches"
        pools = [batch.pools for batch in batches if batch.pools]
        if pools:
            line += f"; libraries with several threads in a worker: {pools[-1]}"
            line += "; fewer, set in worker_init_fn, may be as fast"
        yield line


def indexing(diagnosis: Diagnosis) -> Advice | None:
    """That whole batches are to be indexed, if it is worth a change of the program."""
    indexed = worth_indexing(diagnosis.result)
    if indexed is None:
        return None
    times = number(indexed.samples_s / indexed.whole_s, ROUGHLY)
    saved = 1 - indexed.whole_s / indexed.samples_s
    text = "indexing whole batches (batch_size=None, a BatchSampler) saves about {} of the epoch"
    remedy = Remedy(text, diagnosis.account.share(Part.MAKING) * saved)
    slow = "samples are collated one by one"
    return Advice(f"{slow}; whole batches load {times} times as fast", (remedy,))


def _dear_transfer(diagnosis: Diagnosis) -> str:
    """Why workers do not help, if moving a batch takes longer than loading it; else
    empty."""
    replayed, measured = diagnosis.replayed, diagnosis.measured
    load_s, hand_over_s = replayed.mean.making_s, replayed.hand_over_s
    loaded = roughly(load_s)
    if not diagnosis.has_step and measured.batch_s:  # as in the table
        load_s = max(load_s, measured.batch_s.value)
        loaded = interval(measured.batch_s)
    if diagnosis.best.num_workers or hand_over_s <= load_s:
        return ""
    moved = f"moving it from a worker takes {roughly(hand_over_s)}"
    return f"a batch is loaded in {loaded}; {moved}"


def _more_workers(diagnosis: Diagnosis) -> str:
    """What is known about more workers than the best has: a sentence never says more
    than was measured."""
    best = diagnosis.best.num_workers
    more = [number for number in diagnosis.result.measured_numbers if number > best]
    if not more:
        return did_not_fit(diagnosis) or "more workers were not measured"
    numbers = f"{more[0]} to {more[-1]}" if len(more) > 1 else more[0]
    return f"{'more ' if best else ''}workers ({numbers} measured) do not help"
