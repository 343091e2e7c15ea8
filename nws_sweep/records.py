"""The values that travel between the modules: what was asked, what was measured, what was found.

All are frozen, say their units in their names (``_s`` seconds, ``_bytes``), and know nothing of torch, files or the
terminal. A quantity that is not defined is None, never 0.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any

import msgspec

# A result that holds other figures was not measured, and is refused when it is read; NaN and infinity are among them.
Count = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(ge=1e-12, le=1e18)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Finite = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
Candidates = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=10**18)]


class TrialState(str, enum.Enum):
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    SKIPPED = "skipped"  # could not have fitted, so it was not started
    MISMEASURED = "mismeasured"  # beats what the CPUs or the consumer allow, so it cannot be true
    WRONG_SAMPLES = "wrong_samples"  # its workers deliver other samples than loading without workers


class BurstKind(str, enum.Enum):
    """What a burst is for."""

    WARM_UP = "warm_up"  # thrown away: the pipeline fills
    STEADY = "steady"  # a window of whole clumps inside an epoch
    EPOCH = "epoch"  # a whole epoch, start-up included
    LOADING = "loading"  # without the consumer: what the loader does by itself


# The strategy of a search whose candidates are runs of another program.
HOSTED = "hosted"

# The keywords that tuning is about, and the values that go without saying.
_TUNED = (
    "batch_size", "num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "multiprocessing_context",
    "in_order",
)  # fmt: skip
_UNSAID = {"batch_size": None, "multiprocessing_context": None, "in_order": True}
_USUAL_PREFETCH = 2  # of a DataLoader with workers, for None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSettings:
    """The keywords that a DataLoader is given, under the DataLoader's own names."""

    batch_size: Count | None  # None where a batch_sampler or the dataset itself makes the batches
    num_workers: int = 0  # worker processes; 0 loads in the process that consumes
    pin_memory: bool = False  # copy batches into page-locked memory; without an accelerator of no effect
    prefetch_factor: int | None = None  # batches that each worker prepares ahead; None without workers
    persistent_workers: bool = False  # keep workers from one epoch to the next; False without workers
    shuffle: bool = False  # draw samples in a new random order each epoch; False for an iterable dataset
    drop_last: bool = False  # leave out the last batch if it is shorter
    multiprocessing_context: str | None = None  # start method of the workers; None for the platform's own
    timeout: float = 0.0  # seconds to wait for a batch from the workers, 0 for ever
    in_order: bool = True  # hand batches over in their order; else as they are finished (torch 2.6 and later)
    threads_per_worker: int | None = None  # threads of torch's operations in each worker; None for torch's one

    def canonical(self) -> LoaderSettings:
        """The same settings without what today's DataLoader refuses at num_workers=0 (ValueError otherwise)."""
        if self.num_workers:
            return self
        return replace(
            self, prefetch_factor=None, persistent_workers=False, multiprocessing_context=None, timeout=0.0,
            in_order=True, threads_per_worker=None,
        )  # fmt: skip

    @property
    def queued_batches(self) -> int:
        """How many batches the workers may hold ready or in the making."""
        return self.num_workers * (_USUAL_PREFETCH if self.prefetch_factor is None else self.prefetch_factor)

    def tuned(self) -> dict[str, Any]:
        """The keywords that tuning is about, ready to be passed to a DataLoader beside the dataset.

        There is no ``batch_size`` among them where it is None: something else decides it.
        """
        settings = {name: getattr(self, name) for name in _TUNED}
        return {name: value for name, value in settings.items() if name not in _UNSAID or value != _UNSAID[name]}

    def changes(self, own: LoaderSettings, searched: Iterable[str] = ()) -> dict[str, Any]:
        """The keywords to give to what has settings of its own: num_workers, those searched, and those that differ."""
        names = {"num_workers", *searched}
        mine, theirs = (replace(one, prefetch_factor=one.prefetch_factor or _USUAL_PREFETCH) for one in (self, own))
        names |= {each.name for each in fields(self) if getattr(mine, each.name) != getattr(theirs, each.name)}
        if self.batch_size is None:
            names.discard("batch_size")
        return {name: getattr(self, name) for name in _TUNED if name in names}

    def differing(self, other: LoaderSettings) -> str:
        """What differs from the other's beside num_workers, as ``key=value``; empty if nothing does."""
        mine, theirs = asdict(self), asdict(other)
        return " ".join(
            f"{name}={shown(value)}" for name, value in mine.items() if name != "num_workers" and value != theirs[name]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRules:
    """How a trial measures, and when it has enough; conf/measure holds the presets."""

    mode: str = "steady"  # or ``epoch``: whole epochs, as a stopwatch would
    precision: float = 0.05  # half-width of the 95 % interval that is narrow enough, as a share of the mean
    window_s: float = 0.5  # of a window at least
    bursts: int = 5  # windows at least, in mode ``steady``; three make an interval
    max_seconds: float = 20.0  # no burst begins after this much time in a trial
    max_batches: int | None = None  # nor after so many batches; None for no limit
    epochs: int = 1  # epochs at least, in mode ``epoch``
    timeout_s: float | None = 600.0  # a candidate that takes longer in all is killed; None for no limit
    interleave: int = 8  # candidates that are alive at once and measured in turn; 1 measures one after the other
    cache: str = "warm"  # page cache: ``warm`` (read beforehand), ``cold`` (dropped before each turn) or ``as_is``
    cache_files: tuple[str, ...] | None = None  # what ``cold`` drops; None for what the dataset's attributes name
    memory_budget_bytes: int | None = None  # of the processes of all candidates alive; None for most of what is free


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRules:
    """Which candidates are tried and how the best is chosen; conf/search holds the presets."""

    strategy: str  # ``adaptive``, ``patience``, ``exhaustive``, or ``hosted`` (runs of another program)
    candidates: Candidates  # values of num_workers that may be tried, ascending and without repeats
    maximum_patience: int = 3  # candidates without improvement that the search bears
    tolerance: float = 0.03  # a candidate this much slower than the fastest is as good, if it needs fewer workers
    reference: int | None = None  # num_workers that is measured in any case, to tell the gain over it; None for none
    time_budget_s: float | None = None  # after it the search ends with the best so far; None for the runner's default
    also: tuple[str, ...] = ()  # other settings that are searched after num_workers, by their names

    @property
    def wider(self) -> str:
        """What to ask for when more workers than the candidates' may be better."""
        hosted = self.strategy == HOSTED
        return "larger hydra.callbacks.nws_sweep.candidates" if hosted else "a larger search.max_workers"

    @property
    def longer(self) -> str:
        """How to measure longer."""
        hosted = self.strategy == HOSTED
        return "let the program take more batches" if hosted else "longer with measure=rigorous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One point of the grid: everything that is held fixed while num_workers is searched."""

    columns: Mapping[str, Any]  # what identifies the point for people, in the order of the columns of results.csv
    dataset: Mapping[str, Any]  # as Hydra instantiates it: ``_target_`` and its arguments
    consumer: Mapping[str, Any]  # likewise
    loader: LoaderSettings  # its num_workers stands for no choice
    measure: MeasureRules
    search: SearchRules
    collate_fn: Mapping[str, Any] | None = None  # as Hydra instantiates it; None for the DataLoader's own
    services: Mapping[str, Any] = field(default_factory=dict)  # context managers beside the search, likewise, by name
    seed: int = 0  # of torch's random numbers in each trial
    # Which samples of workers are compared: None for a few of each candidate, True also for a whole epoch of an
    # iterable dataset, False for none.
    check_samples: bool | None = None
    # Loaders that are measured at once, step by step, as the ranks of a host in DistributedDataParallel; num_workers,
    # batch_size and all other settings are those of each.
    ranks: int = 1

    def label_of(self, columns: Iterable[str]) -> str:
        """Those of the identifying columns that it has, as one line of ``key=value``."""
        return " ".join(f"{name}={shown(self.columns[name])}" for name in columns if name in self.columns)

    def differing(self, settings: LoaderSettings) -> str:
        """What a candidate has otherwise than the configuration, beside num_workers; empty for most."""
        alike = replace(self.loader, num_workers=settings.num_workers).canonical()
        return "" if settings == alike else settings.differing(alike)  # to compare first is ten times as quick

    def batches_of(self, settings: LoaderSettings, facts: DatasetFacts) -> int | None:
        """Batches of an epoch, of each rank where there are several; None if that cannot be told.

        The ranks share the samples as DistributedSampler does; an iterable dataset says what one of them gets.
        """
        samples, drop_last = facts.samples, settings.drop_last
        if samples is None or settings.batch_size is None:
            return None
        for shared_by in (1 if facts.iterable else self.ranks, settings.batch_size):
            samples = samples // shared_by if drop_last else -(-samples // shared_by)
        return samples

    @property
    def of_each(self) -> str:
        """To whom a setting belongs, such as `` (each of 4 ranks)``; empty for one alone."""
        return "" if self.ranks == 1 else f" (each of {self.ranks} ranks)"

    @property
    def fingerprint(self) -> str:
        """A short hash of everything that decides what is measured; equal configurations have equal ones."""
        values = asdict(self)
        if self.ranks == 1:  # as it was before there were several
            del values["ranks"]
        text = json.dumps(values, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Which of several arms one is that are measured at once, as torchrun numbers the processes of a host."""

    number: int  # from 0
    ranks: int  # how many there are, at least 1
    folder: str  # where they find each other, and note how often they have met


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """What an arm is made of: plain values, so that they can be sent to any process."""

    dataset: Mapping[str, Any]  # as Hydra instantiates it
    consumer: Mapping[str, Any]  # likewise
    collate_fn: Mapping[str, Any] | None = None  # likewise; None for the DataLoader's own
    seed: int = 0  # of torch's random numbers
    start_method: str | None = None  # of multiprocessing, which workers follow; None for the platform's own
    working_folder: str = "."  # where relative paths of the dataset begin: where the user's command was started
    log_path: str | None = None  # takes standard output and error of the arm and its workers; None to drop them
    environment: Mapping[str, str] | None = field(default=None, repr=False)  # None for that of the arms' server
    import_path: tuple[str, ...] | None = None  # the program's ``sys.path``, likewise
    rank: Rank | None = None  # which of several it is; None for one alone
    logs_samples: bool = False  # whether workers log some of their samples, so that these can be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A container of many Python objects in a dataset, which each forked worker comes to copy."""

    attribute: str  # as Python writes it from the dataset on: ``samples``, ``datasets[0].samples``
    type: str  # such as ``list of str``
    count: int
    bytes: int  # what its objects take in memory, estimated


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFacts:
    """Where in the config of a project stands what was measured."""

    key: str  # dotted key of the node that makes what is loaded
    keys: Mapping[str, str]  # dotted key of each setting of the DataLoader that the config has, by the setting's name
    fingerprint: str  # a short hash of the node without these settings; empty if the project's own program was run
    target: str = ""  # the node's ``_target_``; empty if that is not known
    # Settings with several keys in the config, and these: which of them the measured loader takes cannot be told.
    unclear: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """What a dataset says of itself once it is made."""

    type: str  # the class, with its module
    iterable: bool
    samples: int | None  # of an epoch, by its length or the sampler's; None if that cannot be told
    accelerator: str | None  # that pinned memory would serve
    objects: tuple[ObjectStore, ...] = ()  # its attributes that hold many Python objects, the largest first
    handles: tuple[str, ...] = ()  # open files and the like that forked workers share, each in words
    loader: LoaderSettings | None = None  # of the DataLoader that it came in, None if it came by itself
    project: ProjectFacts | None = None  # where it stands in a project's config, None if it comes from none


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstRequest:
    """What the next stretch of batches should be: at least so many batches and so long, in whole clumps."""

    kind: BurstKind  # an ``EPOCH`` starts a fresh epoch and ends with it, ``LOADING`` leaves the consumer out
    min_batches: int = 1
    min_seconds: float = 0.0
    multiple_of: int = 1  # stop only after a multiple of this many batches: n workers deliver in clumps of n
    max_batches: int | None = None  # stop after so many batches in any case; None for no limit
    fresh: bool = False  # leave the epoch that is under way and start a new one
    cover_buffer: bool = False  # take at least as many batches as lie ready when the burst begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A stretch of consecutive batches, seen from both sides of the queue.

    Of several ranks together a batch is a step of all of them: one batch each, until the slowest is done.
    """

    kind: BurstKind
    startup_s: NotNegative | None  # from ``iter(loader)`` to the first batch, if it began an epoch; it is wait_s[0] too
    wait_s: tuple[float, ...]  # blocked in ``next()``, one per batch
    consume_s: tuple[float, ...]  # in the consumer, one per batch
    samples: int  # in all batches together
    end_s: NotNegative | None = None  # from the last batch to the end of the epoch, if the epoch ended in this burst
    produced: int | None = None  # samples that the workers finished meanwhile; None if they were not counted
    batch_bytes: int | None = None  # of the first batch, if the burst began an epoch and they can be told
    batch_tensors: int | None = None  # likewise
    meet_s: tuple[float, ...] = ()  # of a rank: waiting for the others, one per batch, unless the consumer does that
    ranks: tuple[Burst, ...] = ()  # of several ranks together: what each of them saw, in their order

    @property
    def batches(self) -> int:
        """Batches taken."""
        return len(self.wait_s)

    @property
    def elapsed_s(self) -> float:
        """Seconds from the first call to the last return: waits, consumer and the end of the epoch."""
        return sum(self.wait_s) + sum(self.consume_s) + sum(self.meet_s) + (self.end_s or 0.0)

    @property
    def counts(self) -> bool:
        """Whether it is a part of what was measured: neither thrown away nor without the consumer."""
        return self.kind in (BurstKind.STEADY, BurstKind.EPOCH)

    @property
    def ended_epoch(self) -> bool:
        """Whether the loader had no more batches."""
        return self.end_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process and its descendants have used up to a moment; None where the platform does not tell."""

    cpu_s: float = 0.0  # user and system
    memory_bytes: int | None = None  # what the processes share among them counts once
    shm_bytes: int | None = None  # shared memory, batches on their way included
    disk_bytes: int | None = None  # read from storage, not from the page cache
    major_faults: int | None = None  # page faults that had to wait for storage


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTime:
    """What all CPUs of the machine have done up to a moment, s."""

    busy_s: float = 0.0  # of everything that runs
    steal_s: float = 0.0  # that the hypervisor gave to others while something here wanted to run
    throttled_s: float = 0.0  # that this process's control group could not run because its quota was spent

    def since(self, before: MachineTime) -> MachineTime:
        """What came in between."""
        return MachineTime(**{name: value - getattr(before, name) for name, value in asdict(self).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a candidate, from the moment that its processes went on to the moment that they stood still again."""

    bursts: tuple[Burst, ...]  # warm-up first
    before: Usage = Usage()  # what the tree had used when the turn began
    after: Usage = Usage()  # and at its end
    elapsed_s: float = 0.0
    machine: MachineTime = MachineTime()  # what the machine did meanwhile
    round: int | None = None  # None for a warm-up beforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its 95 % interval and the number of independent values behind it."""

    value: Positive
    low: Positive | None  # None below three values
    high: Positive | None
    n: int

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval; the value itself twice if there is none."""
        return self.low or self.value, self.high or self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMeasurement:
    """The quantities of one of several ranks; a step is a batch of each."""

    rank: int  # from 0
    startup_s: NotNegative  # from ``iter(loader)`` to its first batch, mean over the epochs begun
    own_s: Estimate  # per step until it is done itself, the consumer included: who has the most holds up the others
    wait_s: NotNegative  # per step, blocked in ``next()``
    consume_s: NotNegative  # per step
    meet_s: NotNegative  # per step, waiting for the others
    samples_per_s: NotNegative | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The quantities of one trial.

    Of several ranks they are those of all together: a batch is a step of all, samples, CPU time and memory are sums.
    """

    startup_s: NotNegative  # from ``iter(loader)`` to the first batch, mean over the epochs begun
    batch_s: Estimate | None = None  # steady seconds per batch as the consumer sees them
    # By how much batch_s may be off, as a share, because the queue was fuller or emptier at the end than at the
    # beginning: |batches made - batches taken| / batches taken.
    bias_bound: NotNegative | None = None
    samples_per_s: Positive | None = None  # steady
    wait_s: NotNegative | None = None  # per steady batch (of epochs without a steady pace per batch) in ``next()``
    consume_s: NotNegative | None = None  # per batch in the consumer, likewise
    stall_fraction: NotNegative | None = None  # share of the time lost to data: waits / waits and consumer
    epoch_s: NotNegative | None = None  # measured or projected (``trial.projected_epoch_s``); None for no known length
    # Per batch without the consumer, from one window; without workers what the consumer leaves of a batch. None where
    # there is no consumer.
    loading_s: NotNegative | None = None
    cpu_s: NotNegative | None = None  # of all processes per batch, user and system
    memory_bytes: Bytes | None = None  # the most of all processes after a turn; what they share counts once
    shm_bytes: Bytes | None = None  # the most of shared memory, likewise
    memory_growth_bytes: Finite | None = None  # per 1000 batches
    disk_bytes: NotNegative | None = None  # per batch, from storage
    ranks: tuple[RankMeasurement, ...] = ()  # in their order; empty for one alone

    @property
    def rate(self) -> Estimate | None:
        """Samples per second with the interval that a batch's time leaves them; None without a pace."""
        rate, batch = self.samples_per_s, self.batch_s
        if not rate:
            return None
        if batch is None or not batch.low or not batch.high:
            return Estimate(value=rate, low=None, high=None, n=batch.n if batch else 0)
        low, high = rate * batch.value / batch.high, rate * batch.value / batch.low
        return Estimate(value=rate, low=low, high=high, n=batch.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What disturbed a trial."""

    other_cpus: Finite = 0.0  # CPUs that were busy with anything else, on average
    steal: Finite = 0.0  # share of the time of the usable CPUs that the hypervisor gave to others
    throttled: Finite = 0.0  # share of the time that the control group's quota was spent
    outliers: tuple[int, ...] = ()  # bursts, from 0, whose mean lies far from the others'; they count all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate measured (or not) under one configuration."""

    settings: LoaderSettings  # what the DataLoader was given (canonical)
    state: TrialState
    reason: str = ""  # one line why it did not end well; empty if it did
    notes: tuple[str, ...] = ()  # what was asked for but has no meaning for this candidate
    warnings: tuple[str, ...] = ()  # issued while it was measured
    measurement: Measurement | None = None  # that of a mismeasured trial is there to be looked at
    noise: Noise | None = None
    finished: bool = True  # False if the search was interrupted before its end
    bursts: tuple[Burst, ...] = field(default=(), repr=False)  # warm-up included; of a failed trial too
    cost_s: Finite = 0.0  # from the start of its process to its end

    @property
    def num_workers(self) -> int:
        """The candidate."""
        return self.settings.num_workers

    @property
    def objective_s(self) -> float | None:
        """Seconds that trials are ranked by: an epoch where its length is known (start-up counts), else a batch.

        None if it was not measured, cannot be trusted, or has no steady batches to be ranked by.
        """
        if self.measurement is None or self.state is not TrialState.OK:
            return None
        if self.measurement.epoch_s is not None:
            return self.measurement.epoch_s
        return self.measurement.batch_s.value if self.measurement.batch_s else None


# What must be the same if two results are to be compared as if they were measured at one go.
MACHINE = ("hostname", "cpu_model", "cpu_count", "usable_cpus")
VERSIONS = ("python", "torch", "torchvision", "nws_sweep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Where a run was made: facts that decide whether two runs may be compared."""

    hostname: str
    platform: str
    cpu_model: str
    cpu_count: Count
    usable_cpus: Count
    memory_bytes: int
    python: str
    torch: str
    torchvision: str
    nws_sweep: str

    def difference(self, now: Host, names: Sequence[str] = (*MACHINE, *VERSIONS)) -> str:
        """The first of these facts that is another one now, in words; empty if all are the same."""
        for name in names:
            if (then := getattr(self, name)) != getattr(now, name):
                return f"measured with {name} {then}, this is {getattr(now, name)}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which candidate is the best, as far as the measurements can tell."""

    recommended: LoaderSettings  # the cheapest one that is not slower than the fastest by more than the tolerance
    fastest: LoaderSettings
    tied: tuple[LoaderSettings, ...] = ()  # others that may be as good or better for all that is known
    settle_s: Finite | None = None  # of further measuring that would tell them apart, roughly; None if nothing is tied
    provisional: bool = False  # whether the search was ended by its time budget, before it had enough


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCost:
    """Where the time of a search went, s; the parts but ``waiting_s``, which comes before, add up to the whole."""

    profile_s: Finite = 0.0  # the first look at the loader without workers, its process included
    startup_s: Finite = 0.0  # starting processes, making the dataset in them, and the first batch of each epoch
    warm_up_s: Finite = 0.0  # batches that were thrown away
    measuring_s: Finite = 0.0  # windows and epochs that count
    samples_s: Finite = 0.0  # comparing samples of workers with those of loading without workers
    waiting_s: Finite = 0.0  # waiting for another measurement on this machine to end
    other_s: Finite = 0.0  # the rest: ending processes, reading ahead for the page cache, deciding, saving

    @property
    def total_s(self) -> float:
        """The time of the search, s."""
        return float(sum(asdict(self).values()) - self.waiting_s)

    def plus(self, more: SearchCost) -> SearchCost:
        """Both together."""
        return SearchCost(**{name: value + getattr(more, name) for name, value in asdict(self).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePart:
    """One tensor, array, image or plain value of a sample, as digests."""

    form: bytes  # of its place in the sample, its type, shape and dtype
    content: bytes | None  # of its values; None if they cannot be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMade:
    """A sample that a worker has made."""

    worker: int
    key: int | str  # the index that was asked for; of an iterable dataset the position in the worker's stream
    parts: tuple[SamplePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesLogged:
    """Some of the samples that the workers of a loader have made, and what they shared in making them."""

    samples: tuple[SampleMade, ...] = ()  # each worker's in the order of making
    moved_files: tuple[str, ...] = ()  # paths of open files that the workers share and whose position they have moved


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesSeen:
    """The samples that a loader delivered in an epoch."""

    digests: tuple[bytes | None, ...]  # of each sample; None where its content cannot be compared
    workers: frozenset[int]  # those that delivered any
    complete: bool  # whether the epoch was seen to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCheck:
    """Whether the workers of an iterable dataset share its samples."""

    num_workers: int  # of the epoch that was looked at
    samples: int | None = None  # of that epoch; None if it was not seen to its end
    expected: int | None = None  # of an epoch without workers, likewise
    repeated: int = 0  # samples that came again, more than without workers
    idle: int = 0  # workers that delivered none
    error: str = ""  # why the samples could not be counted; empty if they were


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The outcome of the search of one configuration, complete or as far as it got."""

    configuration: Configuration
    host: Host
    facts: DatasetFacts | None = None  # None if the dataset could not be made
    trials: tuple[Trial, ...] = ()  # in the order of measuring
    stop_reason: str = ""  # why the search stopped, in words; empty while it has not
    error: str = ""  # why there is no result at all; empty if there is one
    started_at: str = ""  # ISO 8601 time with zone
    cost_s: NotNegative = 0.0  # of the whole search
    cost: SearchCost | None = None
    verdict: Verdict | None = None  # None while the search goes on, or if no candidate could be measured
    sample_check: SampleCheck | None = None  # None if that was not looked at
    forced: str = ""  # what a resumption by force has mixed: other hosts or versions; empty for nothing

    @property
    def complete(self) -> bool:
        """Whether the search came to its own end."""
        return bool(self.stop_reason) and not self.error

    @property
    def provisional(self) -> str:
        """Why the answer is not that of a whole search; empty if it is, or if there is an error instead."""
        if not self.complete and not self.error:
            finished = sum(trial.finished for trial in self.trials)
            begun = len(self.trials) - finished
            more = f", {begun} more were begun" if begun else ""
            return f"the search did not finish; {finished} candidates were measured{more}"
        if self.verdict is not None and self.verdict.provisional:
            return "the search was ended by its time budget; this is the best so far"
        candidates = {*self.configuration.search.candidates, *(trial.num_workers for trial in self.trials)}
        if len(candidates) == 1 and not self.error:
            return f"num_workers={candidates.pop()} was the only candidate; it was compared with no other"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedRun:
    """What one run of another program told about its training loader; ``gathering`` makes trials of them."""

    num_workers: int  # what the program was told to use
    candidates: tuple[int, ...]  # all values that it is going to be told; empty if nobody knows
    columns: Mapping[str, Any]  # what identifies the configuration otherwise
    program: str  # what the program calls itself
    host: Host
    settings: LoaderSettings | None = None  # what its training loader was given; None if it iterated none
    facts: DatasetFacts | None = None  # of that loader's dataset, likewise
    batches_per_epoch: int | None = None
    bursts: tuple[Burst, ...] = field(default=(), repr=False)  # warm-up included; kept if the program failed later
    noise: Noise | None = None
    reason: str = ""  # one line why it failed; empty if it did not
    started_at: str  # ISO 8601 time with zone
    elapsed_s: float


def shown(value: Any) -> str:
    """A configuration's value as people type it: true, null and plain numbers."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def varying_columns(configurations: Sequence[Configuration]) -> tuple[str, ...]:
    """The columns that differ between configurations, ``dataset`` always among them, in their own order."""
    names = dict.fromkeys(name for configuration in configurations for name in configuration.columns)
    return tuple(
        name for name in names if name == "dataset" or len({str(c.columns.get(name)) for c in configurations}) > 1
    )
