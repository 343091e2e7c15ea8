"""The words for each bottleneck: its cause with the evidence, and what to change about
it. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from nws_sweep.analysis.diagnosis import Diagnosis, refused_by
from nws_sweep.analysis.remedies import Remedy
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.stages import Stage
from nws_sweep.records import Noise, Part, SearchRecord, WholeBatches
from nws_sweep.units import ROUGHLY, counted, seconds, share

# ratio of two times or costs: a smaller one is seldom worth a change of the program
WORTH_A_CHANGE = 1.5
COLLATE = "torch.utils.data.default_collate"  # the stage that whole batches do without
_COMPUTES = 0.5  # share of CPU time from which on a stage computes rather than waits


class Evidence(NamedTuple):
    """What a cause is told from: a diagnosis, and the stages of a sample."""

    diagnosis: Diagnosis
    stages: Sequence[Stage] = ()

    def dearest(self, *, computing: bool) -> Stage | None:
        """The stage that saves most if it takes no time, of those that compute or of
        those that wait; None without any."""
        stages = [stage for stage in self.stages if stage.saved and not stage.depth]
        of_kind = []
        for s in stages:
            if (s.cpu_share >= _COMPUTES) == computing:
                of_kind.append(s)
        return max(of_kind, key=lambda stage: stage.saved or 0.0, default=None)


def _start(evidence: Evidence) -> str:
    if not evidence.diagnosis.best.num_workers:
        return "starting workers takes longer than they save in an epoch"
    takes = share(evidence.diagnosis.account.share(Part.STARTING))
    method = evidence.diagnosis.replayed.model.start_method
    slow = "" if method == "fork" else f" with {method}; fork is faster"
    return f"starting and ending workers takes {takes} of the epoch{slow}"


def _order(_: Evidence) -> str:
    return "batches come in order: a slow batch holds up those behind it"


def _memory(evidence: Evidence) -> str:
    return did_not_fit(evidence.diagnosis)


def did_not_fit(diagnosis: Diagnosis) -> str:
    """The fewest workers beyond the best that did not fit, and why; empty if all
    did."""
    refused = refused_by(diagnosis.result, diagnosis.best)
    if not refused:
        return ""
    fewest = refused[0]
    return f"{counted(fewest.num_workers, 'worker')} did not fit ({fewest.reason})"


def _competition(evidence: Evidence) -> str:
    model = evidence.diagnosis.replayed.model
    alone = roughly(model.trials[0].records.loop.step_s)
    beside = roughly(model.fewest_workers.records.loop.step_s)
    slower = f"{beside} a batch instead of {alone}"
    return f"workers take CPUs from the training step: {slower}"


def _step(evidence: Evidence) -> str:
    # The step is a mean; the batch, a mean of logarithms, may be a little less.
    step_s = evidence.diagnosis.measured.step_s or 0.0
    takes = share(min(1.0, step_s / evidence.diagnosis.batch_s))
    return f"the training step takes {takes} of the time of a batch"


def _sampler(evidence: Evidence) -> str:
    takes = roughly(evidence.diagnosis.replayed.model.loop.sampler_s)
    return f"the sampler takes the main process {takes} a batch"


def _transfer(evidence: Evidence) -> str:
    takes = roughly(evidence.diagnosis.replayed.hand_over_s)
    return f"moving a batch from a worker to the main process takes {takes}"


def _cpu(evidence: Evidence) -> str:
    limit = "making samples takes CPU time"
    if evidence.diagnosis.best.num_workers:
        limit = "the CPUs are busy"
    stage, cpu_s = evidence.dearest(computing=True), evidence.diagnosis.measured.cpu_s
    if stage:
        takes = f"{stage.short_name} takes {share(stage.share)} of a sample"
        return f"{limit}: {takes}{_at(stage)}"
    if cpu_s:
        return f"{limit}: {roughly(cpu_s)} a batch"
    return limit


def _latency(evidence: Evidence) -> str:
    mean = evidence.diagnosis.replayed.mean
    waiting = share(mean.wait_s / mean.making_s if mean.making_s else 0.0)
    took = f"{waiting} of a batch's {roughly(mean.making_s)}"
    stage = evidence.dearest(computing=False)
    where = f", in {stage.short_name}{_at(stage)}" if stage else ""
    return f"loading waits: {took} is waiting for storage or the network{where}"


def _noise(evidence: Evidence) -> str:
    steal = share((evidence.diagnosis.best.noise or Noise()).steal)
    return f"hidden by noise: the hypervisor took {steal} of the CPU time"


class Limit(NamedTuple):
    """The words for a bottleneck.

    Attributes:
        name: In the cause, if two limit together.
        without: What the epoch would be like, if it were taken away.
        cause: With its evidence.
        remedy: What to change about it; empty for nothing.
    """

    name: str
    without: str
    cause: Callable[[Evidence], str]
    remedy: str = ""


LIMITS = {
    Bottleneck.NOISE: Limit("noise", "without noise", _noise),
    Bottleneck.STARTUP: Limit(
        "the start of workers",
        "without the start of workers",
        _start,
        "persistent_workers=true saves up to {} of each later epoch",
    ),
    Bottleneck.ORDER: Limit(
        "the order of batches",
        "with batches in any order",
        _order,
        "batches of more even cost save up to {}: a larger batch_size, or shuffle",
    ),
    Bottleneck.MEMORY: Limit(
        "memory",
        "with memory for more workers",
        _memory,
        "memory for more workers saves up to {} of the epoch",
    ),
    Bottleneck.COMPETITION: Limit(
        "workers beside the training step",
        "with an undisturbed training step",
        _competition,
        "fewer threads of the step (torch.set_num_threads) save up to {} of the epoch",
    ),
    Bottleneck.STEP: Limit(
        "the training step",
        "with an instant training step",
        _step,
        "a faster training step saves up to {} of the epoch",
    ),
    Bottleneck.SAMPLER: Limit(
        "the sampler",
        "without the sampler",
        _sampler,
        "a cheaper sampler saves up to {} of the epoch; no num_workers does",
    ),
    Bottleneck.TRANSFER: Limit(
        "moving batches",
        "without moving batches",
        _transfer,
        "less data in fewer tensors a batch, such as uint8, saves up to {} of the epoch",
    ),
    Bottleneck.CPU: Limit("the CPUs", "with enough CPUs", _cpu),
    Bottleneck.LATENCY: Limit(
        "waiting for data",
        "without waiting for storage or the network",
        _latency,
        "faster storage, or a cache, saves up to {} of the epoch",
    ),
}


def remedies(bottleneck: Bottleneck, evidence: Evidence) -> Iterator[Remedy]:
    """What to change about a bottleneck."""
    diagnosis, text = evidence.diagnosis, LIMITS[bottleneck].remedy
    if bottleneck is Bottleneck.CPU:
        yield from _less_computing(evidence)
    elif bottleneck is Bottleneck.ORDER and diagnosis.suggestions:
        yield from suggested(diagnosis)
    elif text:
        if (
            bottleneck is Bottleneck.LATENCY
            and diagnosis.best.num_workers == diagnosis.result.most_fed
        ):
            text = "more shards, for more workers, save up to {} of the epoch"
        yield Remedy(text, diagnosis.saved[bottleneck])


def suggested(diagnosis: Diagnosis) -> Iterator[Remedy]:
    """Other settings that are worth measuring."""
    for setting, saved in diagnosis.suggestions.items():
        yield Remedy(f"{setting} saves {{}} of the epoch", saved)


def _less_computing(evidence: Evidence) -> Iterator[Remedy]:
    replayed, stage = evidence.diagnosis.replayed, evidence.dearest(computing=True)
    cpus = 2 * replayed.best.cpus
    more = counted(cpus, "CPU")
    if stage is None:
        more = f"transforms of half the cost, or {more},"
    elif stage.name != COLLATE or not worth_indexing(evidence.diagnosis.result):
        cheaper = f"a cheaper {stage.short_name} saves up to {{}} of the epoch"
        yield Remedy(cheaper, stage.saved or 0.0)
    saved = replayed.saved(Bottleneck.COMPETITION, cpus=cpus)
    if saved > 0:
        yield Remedy(f"{more} save {{}} of the epoch", saved)


def worth_indexing(result: SearchRecord) -> WholeBatches | None:
    """The times of whole batches, if they were tried, were equal and are much
    faster."""
    indexed = result.facts.whole_batches if result.facts else None
    if indexed is None or indexed.samples_s < WORTH_A_CHANGE * indexed.whole_s:
        return None
    return indexed


def _at(stage: Stage) -> str:
    return f" ({stage.place})" if stage.place else ""


def roughly(time_s: float) -> str:
    """A time with two digits."""
    return seconds(time_s, ROUGHLY)
