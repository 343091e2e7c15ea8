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
_MANY_THREADS = 1.5  # ratio of the CPU time of all threads and of the worker's own
_MUCH_FASTER = 1.5  # ratio of times from which on whole batches are worth a line
_UNEVEN = 1.5  # time of a worker / that of the others that is worth a line
_RISE = 1.5  # ratio of costs in the last third of an epoch and in the first that is worth a line

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


def sentence(diagnosis: Diagnosis, stages: Sequence[Stage] = ()) -> str:
    """What is saved without the first bottleneck, figures and the remedy, then the others."""
    if diagnosis.replayed is None:
        return _noise(diagnosis)
    figures = {**_figures(diagnosis, diagnosis.replayed), **dearest(stages)}
    if not diagnosis.saved:
        return f"no bottleneck found: no cost, if removed, would save a tenth of the epoch; {figures['busy']}"
    (first, saved), *others = diagnosis.saved.items()
    taken = diagnosis.bottlenecks if diagnosis.together else [first]
    names, without, _ = (" and ".join(words) for words in zip(*map(_TEXTS.__getitem__, taken), strict=True))
    start = f"{names}: {without} the epoch would take {share(saved)} less"
    also = " and ".join(f"{share(other)} less {_TEXTS[each][1]}" for each, other in others)
    return f"{start}; {_TEXTS[first][2].format(**figures)}" + (f"; also: {also}" if len(taken) == 1 and also else "")


def dearest(stages: Sequence[Stage]) -> dict[str, str]:
    """The stages that save most if they take no time: of those that compute, and of those that wait."""
    saving = sorted(
        (stage for stage in stages if stage.saved and not stage.depth), key=lambda stage: -(stage.saved or 0.0)
    )
    computing = next((one for one in saving if one.cpu_share >= _COMPUTES), None)
    waiting = next((one for one in saving if one.cpu_share < _COMPUTES), None)
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


def fed_steps(found: Mapping[float, int | None]) -> str:
    """The line about the workers that keep training steps busy, by seconds of a step; empty if none do."""
    fed = [f"{workers} for {1e3 * step_s:g} ms" for step_s, workers in found.items() if workers is not None]
    if not fed:
        return ""
    unfed = [f"{1e3 * step_s:g} ms" for step_s, workers in found.items() if workers is None]
    rest = f"; impossible for {', '.join(unfed)}" if unfed else ""
    return f"workers that keep a training step busy (predicted, at most 5 % waiting): {', '.join(fed)}{rest}"


def further(diagnosis: Diagnosis) -> Iterator[str]:
    """Costs that depend on the position, settings that save time, and the upper bound of what a faster loader saves."""
    if diagnosis.replayed is None:
        return
    rise, bound = diagnosis.replayed.rise, diagnosis.replayed.free_loader
    if dear_transfer := _dear_transfer(diagnosis, diagnosis.replayed.means):
        yield dear_transfer
    if max(rise, 1 / rise) >= _RISE:
        yield (
            f"a batch in the last third of the epoch costs {rise:.2g} times as much as one in the first: "
            "timing only the beginning would mislead"
        )
    facts = diagnosis.result.facts
    if facts is not None and facts.iterable and (uneven := uneven_workers(diagnosis.best)):
        yield uneven
    if diagnosis.suggestions and diagnosis.bottlenecks[:1] != (Bottleneck.ORDER,):
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
    if sums_s[slowest] < _UNEVEN * others_s:
        return ""
    took = f"worker {slowest} took {ratio(sums_s[slowest] / others_s)} as long as the others"
    return f"{took}: shards of equal cost would let all workers end together"


def on_samples(result: SearchRecord) -> tuple[str, ...]:
    """Lines about what makes samples, besides their stages."""
    return (*_whole_batches(result), *_threads_beside(result.trials))


def _whole_batches(result: SearchRecord) -> Iterator[str]:
    """That whole batches can be indexed, if they were tried, were equal and are much faster."""
    found, loader = result.facts and result.facts.whole_batches, result.configuration.loader
    if result.facts and found and found.samples_s >= _MUCH_FASTER * found.whole_s:
        sampler = "RandomSampler" if result.facts.is_shuffled else "SequentialSampler"
        batches = f"BatchSampler({sampler}(dataset), {loader.batch_size}, drop_last={loader.drop_last})"
        yield (
            f"index whole batches: dataset[indices] gives equal batches {ratio(found.samples_s / found.whole_s)} as "
            f"fast as samples that are collated (tried without workers: {seconds(found.whole_s)} instead of "
            f"{seconds(found.samples_s)}); DataLoader(dataset, batch_size=None, sampler={batches})"
        )


def _threads_beside(trials: Sequence[Trial]) -> Iterator[str]:
    """That threads of the dataset or of libraries compute much of the batches."""
    batches = [record.stages[0] for trial in trials if trial.num_workers for record in trial.records if record.stages]
    own_s = math.fsum(max(0.0, batch.cpu_s - batch.overhead_s) for batch in batches)
    all_s = math.fsum(max(0.0, batch.all_cpu_s - batch.overhead_s) for batch in batches)
    if all_s > _MANY_THREADS * own_s:
        pools = next((batch.pools for batch in reversed(batches) if batch.pools), "")
        remedy = f"; libraries with several threads in a worker: {pools}; fewer, set in worker_init_fn, may be as fast"
        others = share(1 - own_s / all_s)
        yield f"threads beside the worker's own use {others} of the CPU time of making batches{remedy if pools else ''}"


def _suggested(diagnosis: Diagnosis) -> str:
    if not diagnosis.suggestions:
        return "batches of more even cost help (a larger batch_size, or shuffle)"
    savings = " or ".join(map(share, diagnosis.suggestions.values()))
    return f"{' or '.join(diagnosis.suggestions)} would save {savings} of the epoch"


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
    best, found = diagnosis.best.num_workers, diagnosis.best.measurement or Measurement(startup_s=0)
    means, (alone, fewest) = replayed.means, replayed.model.ends
    cores, step_s, cpu_s = diagnosis.result.cpus, found.step_s or 0.0, found.cpu_s
    batch_s = found.batch_s.value if found.batch_s else step_s + (found.wait_s or 0.0)
    busy = "CPU time unknown"
    if cpu_s is not None and batch_s:
        utilization = share(min(1.0, cpu_s / (cores * batch_s)))
        busy = f"CPU utilization {utilization}, {seconds(cpu_s)} of CPU time per batch"
    load, more_workers = seconds(means.load_s), _more_workers(diagnosis)
    method = replayed.model.start_method
    is_cpu_bound = Bottleneck.CPU in diagnosis.bottlenecks[:1]
    is_fed_out = best == diagnosis.result.most_fed
    return {
        "workers": counted(best, "worker"),
        "spawn": "" if method == "fork" else f"; fork starts faster than {method}",
        "suggested": _suggested(diagnosis),
        "refused": next(
            (f"{counted(one.num_workers, 'worker')} did not fit ({one.reason})" for one in diagnosis.refused), ""
        ),
        "beside": seconds(fewest.records.loop.step_s),
        "alone": seconds(alone.records.loop.step_s),
        "more_workers": more_workers,
        "cpus": counted(cores, "CPU"),
        "drawing": seconds(replayed.model.loop.sampler_s),
        "step": seconds(min(step_s, batch_s)),  # a mean; batch_s, a mean of logarithms, may be a little less
        "batch": seconds(batch_s),
        "transfer": seconds(means.hand_over_s),
        "more_cpus": counted(2 * cores, "CPU"),
        "with_more": share(replayed.without(Bottleneck.COMPETITION, cpus=2 * cores)) if is_cpu_bound else "",
        "busy": busy,
        "cheaper_step": ", a training step that needs less CPU" if diagnosis.has_step else "",
        "load": load,
        "feeding": "more shards would feed more workers" if is_fed_out else "more workers than CPUs help",
        "waiting": share(means.wait_s / means.load_s if means.load_s else 0.0),
    }
