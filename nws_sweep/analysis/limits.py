"""The words for each bottleneck: its cause with the evidence, and what to change about
it. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nws_sweep.analysis.diagnosis import Diagnosis, refused_by
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.stages import Stage
from nws_sweep.records import Noise, Part
from nws_sweep.units import ROUGHLY, counted, seconds, share

_COMPUTES = 0.5  # share of CPU time from which on a stage computes rather than waits


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to change.

    Attributes:
        text: With ``{}`` in the place of the share.
        saved: Share of the epoch, 0 to 1, at most.
    """

    text: str
    saved: float

    def __str__(self) -> str:
        return self.text.replace("{}", share(self.saved))


class Evidence:
    """The figures of a diagnosis, and the cause and the remedies of each bottleneck."""

    def __init__(self, diagnosis: Diagnosis, stages: Sequence[Stage]) -> None:
        self.diagnosis, self.stages = diagnosis, stages
        self.replayed, self.measured = diagnosis.replayed, diagnosis.measured

    def _start(self) -> str:
        if not self.diagnosis.best.num_workers:
            return "starting workers takes longer than they save in an epoch"
        takes = share(self.diagnosis.account.share(Part.STARTING))
        method = self.replayed.model.start_method
        slow = "" if method == "fork" else f" with {method}; fork is faster"
        return f"starting and ending workers takes {takes} of the epoch{slow}"

    def _start_once(self) -> Iterator[Remedy]:
        text = "persistent_workers=true saves up to {} of each later epoch"
        yield Remedy(text, self.diagnosis.saved[Bottleneck.STARTUP])

    def _order(self) -> str:
        return "batches come in order: a slow batch holds up those behind it"

    def _even_batches(self) -> Iterator[Remedy]:
        if not self.diagnosis.suggestions:
            text = "batches of more even cost save up to {}: a larger batch_size, or shuffle"
            yield Remedy(text, self.diagnosis.saved[Bottleneck.ORDER])

    def _memory(self) -> str:
        fewest = refused_by(self.diagnosis.result, self.diagnosis.best)[0]
        return f"{counted(fewest.num_workers, 'worker')} did not fit ({fewest.reason})"

    def _more_memory(self) -> Iterator[Remedy]:
        text = "memory for more workers saves up to {} of the epoch"
        yield Remedy(text, self.diagnosis.saved[Bottleneck.MEMORY])

    def _competition(self) -> str:
        model = self.replayed.model
        alone_s = model.trials[0].records.loop.step_s
        beside_s = model.fewest_workers.records.loop.step_s
        slower = f"{roughly(beside_s)} a batch instead of {roughly(alone_s)}"
        return f"workers take CPUs from the training step: {slower}"

    def _fewer_threads(self) -> Iterator[Remedy]:
        text = "fewer threads of the step (torch.set_num_threads) save up to {} of the epoch"
        yield Remedy(text, self.diagnosis.saved[Bottleneck.COMPETITION])

    def _step(self) -> str:
        # The step is a mean; the batch, a mean of logarithms, may be a little less.
        step_share = min(1.0, (self.measured.step_s or 0.0) / self._batch_s)
        return f"the training step takes {share(step_share)} of the time of a batch"

    def _faster_step(self) -> Iterator[Remedy]:
        text = "a faster training step saves up to {} of the epoch"
        yield Remedy(text, self.diagnosis.saved[Bottleneck.STEP])

    def _sampler(self) -> str:
        sampler_s = self.replayed.model.loop.sampler_s
        return f"the sampler takes the main process {roughly(sampler_s)} a batch"

    def _cheaper_sampler(self) -> Iterator[Remedy]:
        text = "a cheaper sampler saves up to {} of the epoch; no num_workers does"
        yield Remedy(text, self.diagnosis.saved[Bottleneck.SAMPLER])

    def _transfer(self) -> str:
        moving_s = self.replayed.hand_over_s
        return f"moving a batch from a worker to the main process takes {roughly(moving_s)}"

    def _smaller_batches(self) -> Iterator[Remedy]:
        text = "less data in fewer tensors a batch, such as uint8, saves up to {} of the epoch"
        yield Remedy(text, self.diagnosis.saved[Bottleneck.TRANSFER])

    def _cpu(self) -> str:
        limit = "making samples takes CPU time"
        if self.diagnosis.best.num_workers:
            limit = "the CPUs are busy"
        stage = dearest(self.stages, computing=True)
        if stage:
            return f"{limit}: {_with_share(stage)}"
        cpu_s = self.measured.cpu_s
        return f"{limit}: {roughly(cpu_s)} a batch" if cpu_s else limit

    def _less_computing(self) -> Iterator[Remedy]:
        stage = dearest(self.stages, computing=True)
        cpus = 2 * self.replayed.best.cpus
        saved = self.replayed.saved(Bottleneck.COMPETITION, cpus=cpus)
        if stage:
            cheaper = f"a cheaper {_short(stage)} saves up to {{}} of the epoch"
            yield Remedy(cheaper, stage.saved or 0.0)
        if saved > 0:
            more = counted(cpus, "CPU")
            if not stage:
                more = f"transforms of half the cost, or {more},"
            yield Remedy(f"{more} save {{}}", saved)

    def _latency(self) -> str:
        mean = self.replayed.mean
        waiting = share(mean.wait_s / mean.making_s if mean.making_s else 0.0)
        stage = dearest(self.stages, computing=False)
        where = f", in {_short(stage)}{_at(stage)}" if stage else ""
        took = f"{waiting} of a batch's {roughly(mean.making_s)}"
        return f"loading waits: {took} is waiting for storage or the network{where}"

    def _less_waiting(self) -> Iterator[Remedy]:
        saved = self.diagnosis.saved[Bottleneck.LATENCY]
        faster = "faster storage, or a cache, saves up to {} of the epoch"
        if self.diagnosis.best.num_workers == self.diagnosis.result.most_fed:
            faster = "more shards, for more workers, save up to {} of the epoch"
        yield Remedy(faster, saved)

    def _noise(self) -> str:
        steal = share((self.diagnosis.best.noise or Noise()).steal)
        return f"hidden by noise: the hypervisor took {steal} of the CPU time"

    def _nothing(self) -> Iterator[Remedy]:
        yield from ()

    @property
    def busy(self) -> str:
        """How busy the CPUs are."""
        cpu_s = self.measured.cpu_s
        if cpu_s is None or not self._batch_s:
            return "CPU time unknown"
        utilization = share(min(1.0, cpu_s / (self.replayed.best.cpus * self._batch_s)))
        return f"CPU utilization {utilization}, {seconds(cpu_s)} of CPU time per batch"

    @property
    def _batch_s(self) -> float:
        if self.measured.batch_s:
            return self.measured.batch_s.value
        return (self.measured.step_s or 0.0) + (self.measured.wait_s or 0.0)


@dataclass(frozen=True, slots=True)
class Limit:
    """The words for a bottleneck.

    Attributes:
        name: In the cause, if two limit together.
        without: What the epoch would be like, if it were taken away.
        cause: With its evidence.
        remedies: What to change about it.
    """

    name: str
    without: str
    cause: Callable[[Evidence], str]
    remedies: Callable[[Evidence], Iterator[Remedy]]


LIMITS: dict[Bottleneck, Limit] = {
    Bottleneck.NOISE: Limit(
        "noise", "without noise", Evidence._noise, Evidence._nothing
    ),
    Bottleneck.STARTUP: Limit(
        "the start of workers", "without the start of workers",
        Evidence._start, Evidence._start_once,
    ),
    Bottleneck.ORDER: Limit(
        "the order of batches", "with batches in any order",
        Evidence._order, Evidence._even_batches,
    ),
    Bottleneck.MEMORY: Limit(
        "memory", "with memory for more workers",
        Evidence._memory, Evidence._more_memory,
    ),
    Bottleneck.COMPETITION: Limit(
        "workers beside the training step", "with an undisturbed training step",
        Evidence._competition, Evidence._fewer_threads,
    ),
    Bottleneck.STEP: Limit(
        "the training step", "with an instant training step",
        Evidence._step, Evidence._faster_step,
    ),
    Bottleneck.SAMPLER: Limit(
        "the sampler", "without the sampler",
        Evidence._sampler, Evidence._cheaper_sampler,
    ),
    Bottleneck.TRANSFER: Limit(
        "moving batches", "without moving batches",
        Evidence._transfer, Evidence._smaller_batches,
    ),
    Bottleneck.CPU: Limit(
        "the CPUs", "with enough CPUs", Evidence._cpu, Evidence._less_computing
    ),
    Bottleneck.LATENCY: Limit(
        "waiting for data", "without waiting for storage or the network",
        Evidence._latency, Evidence._less_waiting,
    ),
}  # fmt: skip


def dearest(stages: Sequence[Stage], *, computing: bool) -> Stage | None:
    """The stage that saves most if it takes no time, of those that compute or of those
    that wait; None without any."""
    saving = [stage for stage in stages if stage.saved and not stage.depth]
    of_kind = [stage for stage in saving if (stage.cpu_share >= _COMPUTES) == computing]
    return max(of_kind, key=lambda stage: stage.saved or 0.0, default=None)


def _with_share(stage: Stage) -> str:
    return f"{_short(stage)} takes {share(stage.share)} of a sample{_at(stage)}"


def _short(stage: Stage) -> str:
    """The last two parts of its name, such as ``FakeData.__getitem__``."""
    return ".".join(stage.name.split(".")[-2:])


def _at(stage: Stage) -> str:
    return f" ({stage.place})" if stage.place else ""


def roughly(time_s: float) -> str:
    """A time with two digits."""
    return seconds(time_s, ROUGHLY)
