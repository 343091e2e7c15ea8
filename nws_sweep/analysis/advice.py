"""Diagnoses in sentences: what limits the epoch, what is saved without it, and what to
change. Pure."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from nws_sweep.analysis.diagnosis import Diagnosis, refused_by
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.stages import Stage
from nws_sweep.records import Noise, Part, SearchRecord, Trial
from nws_sweep.units import counted, ratio, seconds, share

_NEGLIGIBLE_GAIN = 0.01
_COMPUTES = 0.5  # share of CPU time from which on a stage computes rather than waits
# ratio of two times or costs: a smaller one is seldom worth a change of the program
_WORTH_A_LINE = 1.5


def sentence(diagnosis: Diagnosis, stages: Sequence[Stage] = ()) -> str:
    """Says what is saved without the first bottleneck, figures and the remedy, then the
    others."""
    if diagnosis.is_noisy:
        return _noise(diagnosis)
    remedies = _Remedies(diagnosis, stages)
    if not diagnosis.saved:
        return f"no bottleneck found: no cost, if removed, would save a tenth of the epoch; {remedies.busy}"
    first, *rest = diagnosis.bottlenecks
    name, without, remedy_of = _TEXTS[first]
    if diagnosis.together:
        (second,) = rest
        name += f" and {_TEXTS[second][0]}"
        without += f" and {_TEXTS[second][1]}"
    text = f"{name}: {without} the epoch would take {share(diagnosis.saved[first])} less; {remedy_of(remedies)}"
    if diagnosis.together or not rest:
        return text
    also = []
    for bottleneck in rest:
        _, without, remedy_of = _TEXTS[bottleneck]
        remedy = (
            f" ({remedy_of(remedies)})" if bottleneck in _CHANGED_BY_SETTINGS else ""
        )
        also.append(f"{share(diagnosis.saved[bottleneck])} less {without}{remedy}")
    return f"{text}; also: {' and '.join(also)}"


class _Remedies:
    """What to change about each bottleneck, with figures."""

    def __init__(self, diagnosis: Diagnosis, stages: Sequence[Stage]) -> None:
        self.diagnosis, self.stages = diagnosis, stages
        self.replayed, self.measured = diagnosis.replayed, diagnosis.measured

    def startup(self) -> str:
        method = self.replayed.model.start_method
        spawn = "" if method == "fork" else f"; fork starts faster than {method}"
        return (
            f"persistent_workers=true removes most of it after the first epoch{spawn}"
        )

    def order(self) -> str:
        suggestions = self.diagnosis.suggestions
        if not suggestions:
            return "batches of more even cost help (a larger batch_size, or shuffle)"
        savings = " or ".join(map(share, suggestions.values()))
        return f"{' or '.join(suggestions)} would save {savings} of the epoch"

    def memory(self) -> str:
        fewest = refused_by(self.diagnosis.result, self.diagnosis.best)[0]
        return f"{counted(fewest.num_workers, 'worker')} did not fit ({fewest.reason})"

    def competition(self) -> str:
        model = self.replayed.model
        alone_s, beside_s = (
            model.trials[0].records.loop.step_s,
            model.fewest_workers.records.loop.step_s,
        )
        took = f"with workers it takes {seconds(beside_s)} per batch on {counted(self.replayed.best.cpus, 'CPU')}"
        fewer = "fewer threads for the step (torch.set_num_threads) or more CPUs help"
        return f"{took} instead of {seconds(alone_s)}; {self._cheaper}, {fewer}{_more_workers(self.diagnosis)}"

    def step(self) -> str:
        # The step is a mean; the batch, a mean of logarithms, may be a little less.
        step_s = min(self.measured.step_s or 0.0, self._batch_s)
        takes = f"the training step takes {seconds(step_s)} of {seconds(self._batch_s)} per batch"
        return f"{takes}{_more_workers(self.diagnosis)}"

    def sampler(self) -> str:
        takes = f"drawing the indices of a batch takes the main process {seconds(self.replayed.model.loop.sampler_s)}"
        return f"{takes}: a cheaper sampler helps, and no number of workers does"

    def transfer(self) -> str:
        return (
            f"transferring a batch from a worker takes {seconds(self.replayed.hand_over_s)}; reduce the data per batch "
            "(a smaller dtype, conversion on the device), or use fewer and larger tensors"
        )

    def cpu(self) -> str:
        cpus = 2 * self.replayed.best.cpus
        saved = self.replayed.saved(Bottleneck.COMPETITION, cpus=cpus)
        step = (
            ", a training step that needs less CPU" if self.diagnosis.has_step else ""
        )
        cheaper = (
            f"{self._cheaper}{step} or more CPUs help{_more_workers(self.diagnosis)}"
        )
        return (
            f"with {counted(cpus, 'CPU')} {share(saved)} less; {self.busy}; {cheaper}"
        )

    def latency(self) -> str:
        workers, mean = self.replayed.best.num_workers, self.replayed.mean
        waiting = share(mean.wait_s / mean.making_s if mean.making_s else 0.0)
        more = "more workers than CPUs help"
        if workers == self.diagnosis.result.most_fed:
            more = "more shards would feed more workers"
        elif not workers and any(
            trial.num_workers and trial.objective_s
            for trial in self.diagnosis.result.trials
        ):
            starts_once = Bottleneck.STARTUP in self.diagnosis.saved
            more = (
                "workers that start once would help"
                if starts_once
                else "no workers that were measured help"
            )
        stage = dearest(self.stages, computing=False)
        waits = f"; it waits in {_named(stage)}" if stage else ""
        load = (
            f"loading a batch takes {seconds(mean.making_s)}, {waiting} of it I/O wait"
        )
        return f"{load}: {more} ({counted(workers, 'worker')} used){waits}"

    @property
    def busy(self) -> str:
        """How busy the CPUs are."""
        cpu_s = self.measured.cpu_s
        if cpu_s is None or not self._batch_s:
            return "CPU time unknown"
        utilization = share(min(1.0, cpu_s / (self.replayed.best.cpus * self._batch_s)))
        return f"CPU utilization {utilization}, {seconds(cpu_s)} of CPU time per batch"

    @property
    def _cheaper(self) -> str:
        stage = dearest(self.stages, computing=True)
        return f"a cheaper {_named(stage)}" if stage else "cheaper transforms"

    @property
    def _batch_s(self) -> float:
        if self.measured.batch_s:
            return self.measured.batch_s.value
        return (self.measured.step_s or 0.0) + (self.measured.wait_s or 0.0)


# The name of each bottleneck, what is taken away, and the remedy.
_TEXTS: dict[Bottleneck, tuple[str, str, Callable[[_Remedies], str]]] = {
    Bottleneck.STARTUP: ("start-up-bound", "without the start-up of workers", _Remedies.startup),
    Bottleneck.ORDER: ("head-of-line blocking", "with batches in any order", _Remedies.order),
    Bottleneck.MEMORY: ("memory-bound", "with memory for more workers", _Remedies.memory),
    Bottleneck.COMPETITION: (
        "workers compete with the training step", "with an undisturbed step", _Remedies.competition,
    ),
    Bottleneck.STEP: ("step-bound", "with an instant training step", _Remedies.step),
    Bottleneck.SAMPLER: ("sampler-bound", "without the sampler", _Remedies.sampler),
    Bottleneck.TRANSFER: ("transfer-bound", "without transfers", _Remedies.transfer),
    Bottleneck.CPU: ("CPU-bound", "with enough CPUs", _Remedies.cpu),
    Bottleneck.LATENCY: ("latency-bound", "without I/O wait", _Remedies.latency),
}  # fmt: skip
# Whose remedies are settings of the loader, the step or the machine: they are named
# though others limit the epoch more.
_CHANGED_BY_SETTINGS = {
    Bottleneck.STARTUP,
    Bottleneck.ORDER,
    Bottleneck.MEMORY,
    Bottleneck.COMPETITION,
}


def dearest(stages: Sequence[Stage], *, computing: bool) -> Stage | None:
    """The stage that saves most if it takes no time, of those that compute or of those
    that wait; None without any."""
    saving = [stage for stage in stages if stage.saved and not stage.depth]
    of_kind = [stage for stage in saving if (stage.cpu_share >= _COMPUTES) == computing]
    return max(of_kind, key=lambda stage: stage.saved or 0.0, default=None)


def _named(stage: Stage) -> str:
    place = f" at {stage.place}" if stage.place else ""
    return (
        f"{stage.name} ({share(stage.share)} of a sample's time{place}; the epoch would take {share(stage.saved)} less "
        "without it)"
    )


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


def further(diagnosis: Diagnosis) -> Iterator[str]:
    """Costs that depend on the position, settings that save time, and the upper bound
    of what a faster loader saves."""
    if diagnosis.is_noisy:
        return
    rise, step_share = diagnosis.replayed.rise, diagnosis.account.share(Part.STEP)
    dear_transfer = _dear_transfer(diagnosis)
    if dear_transfer:
        yield dear_transfer
    if max(rise, 1 / rise) >= _WORTH_A_LINE:
        yield (
            f"a batch in the last third of the epoch costs {rise:.2g} times as much as one in the first: "
            "timing only the beginning would mislead"
        )
    facts = diagnosis.result.facts
    uneven = (
        uneven_workers(diagnosis.best) if facts is not None and facts.iterable else ""
    )
    if uneven:
        yield uneven
    if diagnosis.suggestions and Bottleneck.ORDER not in diagnosis.bottlenecks:
        yield _Remedies(diagnosis, ()).order()
    if diagnosis.has_step and step_share:
        bound = 1 / step_share
        gain = (
            f"speed up training {ratio(bound)}"
            if bound - 1 > _NEGLIGIBLE_GAIN
            else "not speed up training"
        )
        yield f"upper bound: an infinitely fast loader would {gain}"


def uneven_workers(trial: Trial) -> str:
    """Which worker of an iterable dataset was busy much longer than the others; empty
    if none was.

    All of them take turns, so that it holds them up. Each had a batch after its first
    one.
    """
    worker_count = max(1, trial.num_workers)
    busy_s: dict[int, list[float]] = {}
    for record in trial.records:
        busy_s.setdefault(record.number % worker_count, []).append(record.cost.making_s)
    sums_s = {
        worker: sum(batches_s[1:])
        for worker, batches_s in busy_s.items()
        if len(batches_s) > 1
    }
    if len(sums_s) < 2:
        return ""
    slowest = max(sums_s, key=lambda worker: sums_s[worker])
    others_s = statistics.median(
        spent_s for worker, spent_s in sums_s.items() if worker != slowest
    )
    if sums_s[slowest] < _WORTH_A_LINE * others_s:
        return ""
    took = f"worker {slowest} took {ratio(sums_s[slowest] / others_s)} as long as the others"
    return f"{took}: shards of equal cost would let all workers end together"


def on_samples(result: SearchRecord) -> tuple[str, ...]:
    """Lines about what makes samples, besides their stages."""
    return (*_whole_batches(result), *_threads_beside(result.trials))


def _whole_batches(result: SearchRecord) -> Iterator[str]:
    """That whole batches can be indexed, if they were tried, were equal and are much
    faster."""
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
    batches = []
    for trial in trials:
        if trial.num_workers:
            batches += [record.stages[0] for record in trial.records if record.stages]
    worker_s = math.fsum(max(0.0, batch.cpu_s - batch.overhead_s) for batch in batches)
    all_s = math.fsum(max(0.0, batch.all_cpu_s - batch.overhead_s) for batch in batches)
    if all_s > _WORTH_A_LINE * worker_s:
        line = f"threads beside the worker's own use {share(1 - worker_s / all_s)} of the CPU time of making batches"
        pools = next((batch.pools for batch in reversed(batches) if batch.pools), "")
        if pools:
            line += (
                f"; libraries with several threads in a worker: {pools}; "
                "fewer, set in worker_init_fn, may be as fast"
            )
        yield line


def _noise(diagnosis: Diagnosis) -> str:
    steal = share((diagnosis.best.noise or Noise()).steal)
    took = f"the hypervisor took {steal} of the CPU time"
    return f"too much noise to identify the bottleneck: {took}; measure again on a quiet machine"


def _dear_transfer(diagnosis: Diagnosis) -> str:
    """Why workers do not help, if the transfer of a batch takes longer than loading it;
    else empty."""
    replayed = diagnosis.replayed
    load_s, hand_over_s = replayed.mean.making_s, replayed.hand_over_s
    if diagnosis.best.num_workers or hand_over_s <= load_s:
        return ""
    times = f"{seconds(load_s)} against {seconds(hand_over_s)}"
    return f"loading a batch takes less time than its transfer ({times}){_more_workers(diagnosis)}"


def _more_workers(diagnosis: Diagnosis) -> str:
    """What is known about more workers than the best has: a sentence never says more
    than was measured."""
    best = diagnosis.best.num_workers
    more = [number for number in diagnosis.result.measured_numbers if number > best]
    if not more:
        return "; more workers were not measured"
    numbers = f"{more[0]} to {more[-1]}" if len(more) > 1 else more[0]
    return f"; {'more ' if best else ''}workers ({numbers} measured) do not help"
