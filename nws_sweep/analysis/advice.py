"""Diagnoses in sentences: what limits the epoch, what is saved without it, and what to change. Pure."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from nws_sweep.analysis.diagnosis import Diagnosis
from nws_sweep.replay.bottlenecks import Bottleneck
from nws_sweep.replay.counterfactual import Counterfactual, MeanCosts
from nws_sweep.replay.stages import Stage
from nws_sweep.results import Measurement, Noise, SearchRecord, Trial
from nws_sweep.units import counted, ratio, seconds, share

_NEGLIGIBLE_GAIN = 0.01
_COMPUTES = 0.5  # share of CPU time from which on a stage computes rather than waits
_WORTH_A_LINE = 1.5  # ratio of two times or costs: a smaller one is seldom worth a change of the program

# The name of each bottleneck, what is taken away, and figures with the remedy.
_TEXTS = {
    Bottleneck.STARTUP: (
        "start-up-bound", "without the start-up of workers",
        "persistent_workers=true removes most of it after the first epoch{spawn}",
    ),
    Bottleneck.ORDER: ("head-of-line blocking", "with batches in any order", "{suggested}"),
    Bottleneck.MEMORY: ("memory-bound", "with memory for more workers", "{refused}"),
    Bottleneck.COMPETITION: (
        "workers compete with the training step", "with an undisturbed step",
        "with workers it takes {beside} per batch on {cpus} instead of {alone}; {cheaper}, fewer threads "
        "for the step (torch.set_num_threads) or more CPUs help{more_workers}",
    ),
    Bottleneck.STEP: (
        "step-bound", "with an instant training step",
        "the training step takes {step} of {batch} per batch{more_workers}",
    ),
    Bottleneck.SAMPLER: (
        "sampler-bound", "without the sampler",
        "drawing the indices of a batch takes the main process {drawing}: a cheaper sampler helps, and no number of "
        "workers does",
    ),
    Bottleneck.TRANSFER: (
        "transfer-bound", "without transfers",
        "transferring a batch from a worker takes {transfer}; reduce the data per batch (a smaller dtype, conversion "
        "on the device), or use fewer and larger tensors",
    ),
    Bottleneck.CPU: (
        "CPU-bound", "with enough CPUs",
        "with {more_cpus} {with_more} less; {busy}; {cheaper}{cheaper_step} or more CPUs help{more_workers}",
    ),
    Bottleneck.LATENCY: (
        "latency-bound", "without I/O wait",
        "loading a batch takes {load}, {waiting} of it I/O wait: {feeding} ({workers} used){waiting_in}",
    ),
}  # fmt: skip

# Whose remedies are settings of the loader, the step or the machine: they are named though others limit the epoch more.
_CHANGED_BY_SETTINGS = {Bottleneck.STARTUP, Bottleneck.ORDER, Bottleneck.MEMORY, Bottleneck.COMPETITION}


def sentence(diagnosis: Diagnosis, stages: Sequence[Stage] = ()) -> str:
    """What is saved without the first bottleneck, figures and the remedy, then the others."""
    if diagnosis.replayed is None:
        return _noise(diagnosis)
    figures = {**_figures(diagnosis, diagnosis.replayed), **dearest(stages)}
    if not diagnosis.saved:
        return f"no bottleneck found: no cost, if removed, would save a tenth of the epoch; {figures['busy']}"
    first, *others = diagnosis.bottlenecks
    named = diagnosis.bottlenecks if diagnosis.together else [first]
    names, removals = (" and ".join(_TEXTS[bottleneck][place] for bottleneck in named) for place in (0, 1))
    saved, remedy = share(diagnosis.saved[first]), _TEXTS[first][2].format(**figures)
    text = f"{names}: {removals} the epoch would take {saved} less; {remedy}"
    if diagnosis.together or not others:
        return text
    also = []
    for bottleneck in others:
        _, without, remedy = _TEXTS[bottleneck]
        remedy = f" ({remedy.format(**figures)})" if bottleneck in _CHANGED_BY_SETTINGS else ""
        also.append(f"{share(diagnosis.saved[bottleneck])} less {without}{remedy}")
    return f"{text}; also: {' and '.join(also)}"


def dearest(stages: Sequence[Stage]) -> dict[str, str]:
    """The stages that save most if they take no time: of those that compute, and of those that wait."""
    saving = [stage for stage in stages if stage.saved and not stage.depth]
    saving.sort(key=lambda stage: stage.saved or 0.0, reverse=True)
    computing = next((stage for stage in saving if stage.cpu_share >= _COMPUTES), None)
    waiting = next((stage for stage in saving if stage.cpu_share < _COMPUTES), None)
    return {
        "cheaper": f"a cheaper {_named(computing)}" if computing else "cheaper transforms",
        "waiting_in": f"; it waits in {_named(waiting)}" if waiting else "",
    }


def _named(stage: Stage) -> str:
    place = f" at {stage.place}" if stage.place else ""
    return (
        f"{stage.name} ({share(stage.share)} of a sample's time{place}; the epoch would take {share(stage.saved)} less "
        "without it)"
    )


def fed_steps(workers_of: Mapping[float, int | None]) -> str:
    """The line about the workers that keep training steps busy, by seconds of a step; empty if none do."""
    fed = [f"{workers} for {1e3 * step_s:g} ms" for step_s, workers in workers_of.items() if workers is not None]
    if not fed:
        return ""
    unfed = [f"{1e3 * step_s:g} ms" for step_s, workers in workers_of.items() if workers is None]
    rest = f"; impossible for {', '.join(unfed)}" if unfed else ""
    return f"workers that keep a training step busy (predicted, at most 5 % waiting): {', '.join(fed)}{rest}"


def further(diagnosis: Diagnosis) -> Iterator[str]:
    """Costs that depend on the position, settings that save time, and the upper bound of what a faster loader saves."""
    if diagnosis.replayed is None:
        return
    rise, bound = diagnosis.replayed.rise, diagnosis.replayed.free_loader
    if dear_transfer := _dear_transfer(diagnosis, diagnosis.replayed.means):
        yield dear_transfer
    if max(rise, 1 / rise) >= _WORTH_A_LINE:
        yield (
            f"a batch in the last third of the epoch costs {rise:.2g} times as much as one in the first: "
            "timing only the beginning would mislead"
        )
    facts = diagnosis.result.facts
    if facts is not None and facts.iterable and (uneven := uneven_workers(diagnosis.best)):
        yield uneven
    if diagnosis.suggestions and Bottleneck.ORDER not in diagnosis.bottlenecks:
        yield _suggested(diagnosis)
    if diagnosis.has_step:
        much = f"speed up training {ratio(bound)}" if bound - 1 > _NEGLIGIBLE_GAIN else "not speed up training"
        yield f"upper bound: an infinitely fast loader would {much}"


def uneven_workers(trial: Trial) -> str:
    """Which worker of an iterable dataset was busy much longer than the others; empty if none was.

    All of them take turns, so that it holds them up. Each had a batch after its first one.
    """
    busy_s: dict[int, list[float]] = {}
    for record in trial.records:
        busy_s.setdefault(record.number % max(1, trial.num_workers), []).append(record.cost.making_s)
    sums_s = {worker: sum(later_s) for worker, (_, *later_s) in busy_s.items() if later_s}
    if len(sums_s) < 2:
        return ""
    slowest = max(sums_s, key=lambda worker: sums_s[worker])
    others_s = statistics.median(spent_s for worker, spent_s in sums_s.items() if worker != slowest)
    if sums_s[slowest] < _WORTH_A_LINE * others_s:
        return ""
    took = f"worker {slowest} took {ratio(sums_s[slowest] / others_s)} as long as the others"
    return f"{took}: shards of equal cost would let all workers end together"


def on_samples(result: SearchRecord) -> tuple[str, ...]:
    """Lines about what makes samples, besides their stages."""
    return (*_whole_batches(result), *_threads_beside(result.trials))


def _whole_batches(result: SearchRecord) -> Iterator[str]:
    """That whole batches can be indexed, if they were tried, were equal and are much faster."""
    facts, loader = result.facts, result.configuration.loader
    if facts is None or facts.whole_batches is None:
        return
    samples_s, whole_s = facts.whole_batches.samples_s, facts.whole_batches.whole_s
    if samples_s >= _WORTH_A_LINE * whole_s:
        sampler = "RandomSampler" if facts.is_shuffled else "SequentialSampler"
        batches = f"BatchSampler({sampler}(dataset), {loader.batch_size}, drop_last={loader.drop_last})"
        yield (
            f"index whole batches: dataset[indices] gives equal batches {ratio(samples_s / whole_s)} as fast as "
            f"samples that are collated (tried without workers: {seconds(whole_s)} instead of {seconds(samples_s)}); "
            f"DataLoader(dataset, batch_size=None, sampler={batches})"
        )


def _threads_beside(trials: Sequence[Trial]) -> Iterator[str]:
    """That threads of the dataset or of libraries compute much of the batches."""
    batches = [record.stages[0] for trial in trials if trial.num_workers for record in trial.records if record.stages]
    worker_s = math.fsum(max(0.0, batch.cpu_s - batch.overhead_s) for batch in batches)
    all_s = math.fsum(max(0.0, batch.all_cpu_s - batch.overhead_s) for batch in batches)
    if all_s > _WORTH_A_LINE * worker_s:
        pools = next((batch.pools for batch in reversed(batches) if batch.pools), "")
        remedy = f"; libraries with several threads in a worker: {pools}; fewer, set in worker_init_fn, may be as fast"
        beside = share(1 - worker_s / all_s)
        yield f"threads beside the worker's own use {beside} of the CPU time of making batches{remedy if pools else ''}"


def _suggested(diagnosis: Diagnosis) -> str:
    if not diagnosis.suggestions:
        return "batches of more even cost help (a larger batch_size, or shuffle)"
    savings = " or ".join(map(share, diagnosis.suggestions.values()))
    return f"{' or '.join(diagnosis.suggestions)} would save {savings} of the epoch"


def _refused(diagnosis: Diagnosis) -> str:
    """The fewest workers that did not fit, and why; empty if all did."""
    for trial in diagnosis.refused:
        return f"{counted(trial.num_workers, 'worker')} did not fit ({trial.reason})"
    return ""


def _noise(diagnosis: Diagnosis) -> str:
    steal = share((diagnosis.best.noise or Noise()).steal)
    took = f"the hypervisor took {steal} of the CPU time"
    return f"too much noise to identify the bottleneck: {took}; measure again on a quiet machine"


def _dear_transfer(diagnosis: Diagnosis, means: MeanCosts) -> str:
    """Why workers do not help, if the transfer of a batch takes longer than loading it; else empty."""
    if diagnosis.best.num_workers or means.hand_over_s is None or means.hand_over_s <= means.load_s:
        return ""
    times = f"{seconds(means.load_s)} against {seconds(means.hand_over_s)}"
    return f"loading a batch takes less time than its transfer ({times}){_more_workers(diagnosis)}"


def _more_workers(diagnosis: Diagnosis) -> str:
    """What is known about more workers than the best has: a sentence never says more than was measured."""
    best = diagnosis.best.num_workers
    more = [number for number in diagnosis.result.measured_numbers if number > best]
    if not more:
        return "; more workers were not measured"
    numbers = f"{more[0]} to {more[-1]}" if len(more) > 1 else more[0]
    return f"; {'more ' if best else ''}workers ({numbers} measured) do not help"


def _figures(diagnosis: Diagnosis, replayed: Counterfactual) -> dict[str, str]:
    best, measured = diagnosis.best.num_workers, diagnosis.best.measurement or Measurement(startup_s=0)
    means, (alone, fewest) = replayed.means, replayed.model.ends
    cpus, step_s, cpu_s = diagnosis.result.cpus, measured.step_s or 0.0, measured.cpu_s
    batch_s = measured.batch_s.value if measured.batch_s else step_s + (measured.wait_s or 0.0)
    busy = "CPU time unknown"
    if cpu_s is not None and batch_s:
        utilization = share(min(1.0, cpu_s / (cpus * batch_s)))
        busy = f"CPU utilization {utilization}, {seconds(cpu_s)} of CPU time per batch"
    method = replayed.model.start_method
    is_cpu_bound = Bottleneck.CPU in diagnosis.bottlenecks[:1]
    is_fed_out = best == diagnosis.result.most_fed
    return {
        "workers": counted(best, "worker"),
        "spawn": "" if method == "fork" else f"; fork starts faster than {method}",
        "suggested": _suggested(diagnosis),
        "refused": _refused(diagnosis),
        "beside": seconds(fewest.records.loop.step_s),
        "alone": seconds(alone.records.loop.step_s),
        "more_workers": _more_workers(diagnosis),
        "cpus": counted(cpus, "CPU"),
        "drawing": seconds(replayed.model.loop.sampler_s),
        "step": seconds(min(step_s, batch_s)),  # a mean; batch_s, a mean of logarithms, may be a little less
        "batch": seconds(batch_s),
        "transfer": seconds(means.hand_over_s),
        "more_cpus": counted(2 * cpus, "CPU"),
        "with_more": share(replayed.saved(Bottleneck.COMPETITION, cpus=2 * cpus)) if is_cpu_bound else "",
        "busy": busy,
        "cheaper_step": ", a training step that needs less CPU" if diagnosis.has_step else "",
        "load": seconds(means.load_s),
        "feeding": "more shards would feed more workers" if is_fed_out else "more workers than CPUs help",
        "waiting": share(means.wait_s / means.load_s if means.load_s else 0.0),
    }
