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
from typing import Any


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

# Told among the tuned keywords only where they are not what DataLoader does by itself.
_SELDOM_TUNED = {"multiprocessing_context": None, "in_order": True}
_USUAL_PREFETCH = 2  # of a DataLoader with workers, for None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSettings:
    """The keywords that a DataLoader is given, under the DataLoader's own names.

    Attributes:
        batch_size: Samples per batch, at least 1; None where a batch_sampler or the dataset itself makes the batches.
        num_workers: Worker processes; 0 loads in the process that consumes.
        pin_memory: Copy batches into page-locked memory (needs an accelerator to have an effect).
        prefetch_factor: Batches that each worker prepares ahead; None without workers.
        persistent_workers: Keep workers from one epoch to the next; False without workers.
        shuffle: Draw samples in a new random order each epoch; False for an iterable dataset.
        drop_last: Leave out the last batch if it is shorter.
        multiprocessing_context: Start method of the workers (fork, spawn, forkserver), None for the platform's own.
        timeout: Seconds that the DataLoader waits for a batch from its workers, 0 for ever.
        in_order: Hand batches over in their order; else as they are finished (torch 2.6 and later).
        threads_per_worker: Threads of torch's operations in each worker (torch.set_num_threads); None for torch's one.
    """

    batch_size: int | None
    num_workers: int = 0
    pin_memory: bool = False
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    shuffle: bool = False
    drop_last: bool = False
    multiprocessing_context: str | None = None
    timeout: float = 0.0
    in_order: bool = True
    threads_per_worker: int | None = None

    def canonical(self) -> LoaderSettings:
        """The same settings without what today's DataLoader refuses at num_workers=0 (ValueError otherwise)."""
        if self.num_workers:
            return self
        return replace(
            self,
            prefetch_factor=None,
            persistent_workers=False,
            multiprocessing_context=None,
            timeout=0.0,
            in_order=True,
            threads_per_worker=None,
        )

    @property
    def queued_batches(self) -> int:
        """How many batches the workers may hold ready or in the making (DataLoader's prefetch_factor defaults to 2)."""
        return self.num_workers * (2 if self.prefetch_factor is None else self.prefetch_factor)

    def batches_of(self, samples: int) -> int | None:
        """Batches of an epoch over so many samples; None if these settings do not decide it."""
        if self.batch_size is None:
            return None
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def tuned(self) -> dict[str, Any]:
        """The keywords that tuning is about, ready to be passed to a DataLoader beside the dataset.

        There is no ``batch_size`` among them where it is None: something else decides it.
        """
        names = ["batch_size", "num_workers", "pin_memory", "prefetch_factor", "persistent_workers"]
        names += [name for name, usual in _SELDOM_TUNED.items() if getattr(self, name) != usual]
        settings = {name: getattr(self, name) for name in names}
        return {name: value for name, value in settings.items() if name != "batch_size" or value is not None}

    def changes(self, own: LoaderSettings, searched: Iterable[str] = ()) -> dict[str, Any]:
        """The keywords to give to what has other settings of its own: num_workers, and those that differ.

        Args:
            own: What the receiver has without them.
            searched: Names of settings that are among them in any case.
        """
        names = {"num_workers", *searched}
        mine, theirs = (replace(one, prefetch_factor=one.prefetch_factor or _USUAL_PREFETCH) for one in (self, own))
        names |= {each.name for each in fields(self) if getattr(mine, each.name) != getattr(theirs, each.name)}
        possible = [*self.tuned(), *(name for name in _SELDOM_TUNED if name not in self.tuned())]
        return {name: getattr(self, name) for name in possible if name in names}

    def differing(self, other: LoaderSettings) -> str:
        """What differs from the other's beside num_workers, as ``key=value``; empty if nothing does."""
        names = [each.name for each in fields(self) if each.name != "num_workers"]
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in names)
        return " ".join(f"{name}={shown(mine)}" for name, mine, theirs in pairs if mine != theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRules:
    """How a trial measures, and when it has enough; conf/measure holds the presets.

    Attributes:
        mode: ``steady`` (warm-up, then windows of batches) or ``epoch`` (whole epochs, as a stopwatch would).
        precision: Half-width of the 95 % interval, as a share of the mean, that is narrow enough.
        window_s: Length of a window at least, s.
        bursts: Windows at least, in mode ``steady``; three make an interval.
        max_seconds: No burst begins after this much time in a trial, s.
        max_batches: No burst begins after so many batches in a trial; None for no limit.
        epochs: Epochs at least, in mode ``epoch``.
        timeout_s: A candidate that takes longer in all is killed, s; None for no limit.
        interleave: Candidates that are alive at once and measured in turn; 1 measures one after the other.
        cache: Page cache: ``warm`` (read beforehand), ``cold`` (files dropped before each turn) or ``as_is``.
        cache_files: Files and folders that ``cold`` drops; None for those that the dataset's attributes name.
        memory_budget_bytes: What the processes of all candidates alive may hold; None for most of what is free.
    """

    mode: str = "steady"
    precision: float = 0.05
    window_s: float = 0.5
    bursts: int = 5
    max_seconds: float = 20.0
    max_batches: int | None = None
    epochs: int = 1
    timeout_s: float | None = 600.0
    interleave: int = 8
    cache: str = "warm"
    cache_files: tuple[str, ...] | None = None
    memory_budget_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRules:
    """Which candidates are tried and how the best is chosen; conf/search holds the presets.

    Attributes:
        strategy: ``adaptive``, ``patience``, ``exhaustive``, or ``hosted`` (runs of another program).
        candidates: Values of num_workers that may be tried, ascending and without repeats.
        maximum_patience: Candidates without improvement that the search bears.
        tolerance: A candidate this much slower than the fastest (0.03 is 3 %) is as good, if it needs fewer workers.
        reference: Value of num_workers that is measured in any case, to tell the gain over it; None for none.
        time_budget_s: The search ends after so much time with the best so far, s; None for the runner's default.
        also: Other settings that are searched after num_workers, by their names.
    """

    strategy: str
    candidates: tuple[int, ...]
    maximum_patience: int = 3
    tolerance: float = 0.03
    reference: int | None = None
    time_budget_s: float | None = None
    also: tuple[str, ...] = ()

    @property
    def wider(self) -> str:
        """What to ask for when more workers than the candidates' may be better."""
        if self.strategy == HOSTED:
            return "larger hydra.callbacks.nws_sweep.candidates"
        return "a larger search.max_workers"

    @property
    def longer(self) -> str:
        """How to measure longer."""
        if self.strategy == HOSTED:
            return "let the program take more batches"
        return "longer with measure=rigorous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One point of the grid: everything that is held fixed while num_workers is searched.

    Attributes:
        columns: What identifies the point for people, in the order of the columns of results.csv.
        dataset: The dataset as Hydra instantiates it (``_target_`` and its arguments).
        consumer: The consumer, likewise.
        loader: The DataLoader's settings; its num_workers stands for no choice.
        measure: How long a trial measures.
        search: Which candidates are tried.
        collate_fn: The collate_fn, as Hydra instantiates it; None for the DataLoader's own.
        services: What runs beside the search, by name: context managers as Hydra instantiates them.
        seed: Seed of torch's random numbers in each trial.
        check_samples: Which samples of workers are compared: None for a few of each candidate, True also for a whole
            epoch of an iterable dataset, False for none.
        ranks: Loaders that are measured at once, step by step, as the ranks of a host in DistributedDataParallel;
            num_workers, batch_size and all other settings are those of each.
    """

    columns: Mapping[str, Any]
    dataset: Mapping[str, Any]
    consumer: Mapping[str, Any]
    loader: LoaderSettings
    measure: MeasureRules
    search: SearchRules
    collate_fn: Mapping[str, Any] | None = None
    services: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    check_samples: bool | None = None
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
        samples = facts.samples
        if samples is None:
            return None
        if self.ranks > 1 and not facts.iterable:
            samples = samples // self.ranks if settings.drop_last else -(-samples // self.ranks)
        return settings.batches_of(samples)

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
    """Which of several arms one is that are measured at once, as torchrun numbers the processes of a host.

    Attributes:
        number: From 0.
        ranks: How many there are, at least 1.
        folder: Where they find each other, and note how often they have met.
    """

    number: int
    ranks: int
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """What an arm is made of: plain values, so that they can be sent to any process.

    Attributes:
        dataset: The dataset as Hydra instantiates it.
        consumer: The consumer, likewise.
        collate_fn: The collate_fn, likewise; None for the DataLoader's own.
        seed: Seed of torch's random numbers.
        start_method: multiprocessing's start method as the parent set it, which DataLoader workers follow; None for the
            platform's own.
        working_folder: Where relative paths of the dataset begin: where the user's command was started.
        log_path: File that standard output and error of the arm and its workers are appended to; None to drop them.
        environment: The environment variables of the program; None for those of the server that arms are forked from.
        import_path: Its ``sys.path``, likewise.
        rank: Which of several it is; None for one alone.
        logs_samples: Whether workers log some of their samples, so that these can be compared.
    """

    dataset: Mapping[str, Any]
    consumer: Mapping[str, Any]
    collate_fn: Mapping[str, Any] | None = None
    seed: int = 0
    start_method: str | None = None
    working_folder: str = "."
    log_path: str | None = None
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    import_path: tuple[str, ...] | None = None
    rank: Rank | None = None
    logs_samples: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A container of many Python objects in a dataset, which each forked worker comes to copy.

    Attributes:
        attribute: Where it is, as Python writes it from the dataset on: ``samples``, ``datasets[0].samples``.
        type: What it is, such as ``list of str``.
        count: Its elements.
        bytes: What its objects take in memory, estimated.
    """

    attribute: str
    type: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFacts:
    """Where in the config of a project stands what was measured.

    Attributes:
        key: Dotted key of the node that makes what is loaded.
        keys: Dotted key of each setting of the DataLoader that the project's config has, by the setting's name.
        fingerprint: A short hash of the node without these settings; empty if the project's own program was run.
        target: The node's ``_target_``; empty if that is not known.
        unclear: Of each setting for which the project's config has several keys, these; which of them the measured
            loader takes cannot be told.
    """

    key: str
    keys: Mapping[str, str]
    fingerprint: str
    target: str = ""
    unclear: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """What a dataset says of itself once it is made.

    Attributes:
        type: The class, with its module.
        iterable: Whether it is an IterableDataset.
        samples: What an epoch takes of it, its length or that of the sampler; None if that cannot be told.
        accelerator: The accelerator that pinned memory would serve, None if there is none.
        objects: Its attributes that hold many Python objects, the largest first.
        handles: Open files and the like that it holds and that forked workers share, each in words.
        loader: The settings of the DataLoader that it came in, None if it came by itself.
        project: Where it stands in a project's config, None if it comes from none.
    """

    type: str
    iterable: bool
    samples: int | None
    accelerator: str | None
    objects: tuple[ObjectStore, ...] = ()
    handles: tuple[str, ...] = ()
    loader: LoaderSettings | None = None
    project: ProjectFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstRequest:
    """What the next stretch of batches should be: at least so many batches and so long, in whole clumps.

    Attributes:
        kind: What the burst is for; an ``EPOCH`` starts a fresh epoch and ends with it, ``LOADING`` leaves the consumer
            out.
        min_batches: Batches at least.
        min_seconds: Time at least, s.
        multiple_of: Stop only after a multiple of this many batches: n workers deliver in clumps of n.
        max_batches: Stop after so many batches in any case; None for no limit.
        fresh: Leave the epoch that is under way and start a new one.
        cover_buffer: Take at least as many batches as lie ready when the burst begins.
    """

    kind: BurstKind
    min_batches: int = 1
    min_seconds: float = 0.0
    multiple_of: int = 1
    max_batches: int | None = None
    fresh: bool = False
    cover_buffer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A stretch of consecutive batches, seen from both sides of the queue.

    Of several ranks together a batch is a step of all of them: one batch each, until the slowest is done.

    Attributes:
        kind: What the burst was for.
        startup_s: From ``iter(loader)`` to the first batch in hand, if the burst began an epoch; it is wait_s[0] too.
        wait_s: Seconds blocked in ``next()``, one per batch.
        consume_s: Seconds in the consumer, one per batch.
        samples: Samples in all batches together.
        end_s: From the last batch to the end of the epoch, if the epoch ended in this burst.
        produced: Samples that the workers finished meanwhile; None if they were not counted.
        batch_bytes: Bytes of the first batch, if the burst began an epoch and they can be told.
        batch_tensors: Tensors of that batch, likewise.
        meet_s: Of a rank: seconds that it waited for the others, one per batch. Empty for one alone, and where the
            consumer does that.
        ranks: Of several ranks together: what each of them saw, in their order. Empty for one alone.
    """

    kind: BurstKind
    startup_s: float | None
    wait_s: tuple[float, ...]
    consume_s: tuple[float, ...]
    samples: int
    end_s: float | None = None
    produced: int | None = None
    batch_bytes: int | None = None
    batch_tensors: int | None = None
    meet_s: tuple[float, ...] = ()
    ranks: tuple[Burst, ...] = ()

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
    """What a process and its descendants have used up to a moment; None where the platform does not tell.

    Attributes:
        cpu_s: CPU time, user and system, s.
        memory_bytes: Memory of all processes; what they share among them counts once.
        shm_bytes: Shared memory, batches on their way included.
        disk_bytes: Bytes read from storage, not from the page cache.
        major_faults: Page faults that had to wait for storage.
    """

    cpu_s: float = 0.0
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    disk_bytes: int | None = None
    major_faults: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTime:
    """What all CPUs of the machine have done up to a moment, s.

    Attributes:
        busy_s: CPU time of everything that runs.
        steal_s: CPU time that the hypervisor gave to others while something here wanted to run.
        throttled_s: Time that this process's control group could not run because its quota was spent.
    """

    busy_s: float = 0.0
    steal_s: float = 0.0
    throttled_s: float = 0.0

    def since(self, before: MachineTime) -> MachineTime:
        """What came in between."""
        return MachineTime(
            busy_s=self.busy_s - before.busy_s,
            steal_s=self.steal_s - before.steal_s,
            throttled_s=self.throttled_s - before.throttled_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a candidate, from the moment that its processes went on to the moment that they stood still again.

    Attributes:
        bursts: The bursts of the turn, warm-up first.
        before: What the tree had used when the turn began.
        after: What it had used at its end.
        elapsed_s: Length of the turn, s.
        machine: What the machine did meanwhile.
        round: Number of the round that it belongs to; None for a warm-up beforehand.
    """

    bursts: tuple[Burst, ...]
    before: Usage = Usage()
    after: Usage = Usage()
    elapsed_s: float = 0.0
    machine: MachineTime = MachineTime()
    round: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its 95 % interval and the number of independent values behind it.

    Attributes:
        value: The point estimate.
        low: Lower end of the interval; None below three values.
        high: Upper end, likewise.
        n: Independent values (bursts).
    """

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval; the value itself twice if there is none."""
        return self.low or self.value, self.high or self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMeasurement:
    """The quantities of one of several ranks; a step is a batch of each.

    Attributes:
        rank: Its number, from 0.
        startup_s: From ``iter(loader)`` to its first batch, mean over the epochs begun, s.
        own_s: Seconds per step until it is done itself, the consumer included: who has the most holds up the others.
        wait_s: Seconds per step blocked in ``next()``.
        consume_s: Seconds per step in the consumer.
        meet_s: Seconds per step that it waits for the others.
        samples_per_s: Samples per second that it gets.
    """

    rank: int
    startup_s: float
    own_s: Estimate
    wait_s: float
    consume_s: float
    meet_s: float
    samples_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The quantities of one trial.

    Of several ranks they are those of all together: a batch is a step of all (a batch of each, until the slowest has
    its own), samples, CPU time and memory are sums.

    Attributes:
        startup_s: From ``iter(loader)`` to the first batch, mean over the epochs begun, s.
        batch_s: Steady seconds per batch as the consumer sees them.
        bias_bound: By how much batch_s may be off, as a share, because the queue was fuller or emptier at the end than
            at the beginning: |batches made - batches taken| / batches taken.
        samples_per_s: Steady samples per second.
        wait_s: Mean seconds per steady batch blocked in ``next()``; of epochs without a steady pace per batch of them.
        consume_s: Mean seconds per batch in the consumer, likewise.
        stall_fraction: Sum of waits / sum of waits and consumer: the share of the time that is lost to data.
        epoch_s: Seconds for an epoch, measured or projected; None if its length is unknown.
        loading_s: Seconds per batch without the consumer, from one window; without workers what the consumer leaves of
            a batch. None where there is no consumer.
        cpu_s: CPU seconds of all processes per batch, user and system.
        memory_bytes: Largest memory of all processes seen after a turn; what they share among them counts once.
        shm_bytes: Largest amount of shared memory, likewise.
        memory_growth_bytes: Growth of that memory per 1000 batches.
        disk_bytes: Bytes per batch that came from storage.
        ranks: The quantities of each rank, in their order; empty for one alone.
    """

    startup_s: float
    batch_s: Estimate | None = None
    bias_bound: float | None = None
    samples_per_s: float | None = None
    wait_s: float | None = None
    consume_s: float | None = None
    stall_fraction: float | None = None
    epoch_s: float | None = None
    loading_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    memory_growth_bytes: float | None = None
    disk_bytes: float | None = None
    ranks: tuple[RankMeasurement, ...] = ()

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
    """What disturbed a trial.

    Attributes:
        other_cpus: CPUs that were busy with anything else, on average.
        steal: Share of the time of the usable CPUs that the hypervisor gave to others.
        throttled: Share of the time that the control group's quota was spent.
        outliers: Numbers of the bursts, from 0, whose mean lies far from the others'. They count all the same.
    """

    other_cpus: float = 0.0
    steal: float = 0.0
    throttled: float = 0.0
    outliers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate measured (or not) under one configuration.

    Attributes:
        settings: What the DataLoader was given (canonical).
        state: How it ended.
        reason: One line why it did not end well; empty if it did.
        notes: What was asked for but has no meaning for this candidate.
        warnings: Warnings that were issued while it was measured.
        measurement: The quantities; None if there are none. Those of a mismeasured trial are there to be looked at.
        noise: What disturbed it; None if nothing was measured.
        finished: Whether it was measured to its end; False if the search was interrupted before.
        bursts: The raw batch times behind them, warm-up included; kept for a failed trial too.
        cost_s: Seconds that the trial took in all, from the start of its process to its end.
    """

    settings: LoaderSettings
    state: TrialState
    reason: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    measurement: Measurement | None = None
    noise: Noise | None = None
    finished: bool = True
    bursts: tuple[Burst, ...] = field(default=(), repr=False)
    cost_s: float = 0.0

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
    cpu_count: int
    usable_cpus: int
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
    """Which candidate is the best, as far as the measurements can tell.

    Attributes:
        recommended: The cheapest one that is not slower than the fastest by more than the tolerance.
        fastest: The one with the least time.
        tied: Others that may be as good or better for all that is known; empty if the recommendation is clear.
        settle_s: Seconds of further measuring that would tell them apart, roughly; None if nothing is tied.
        provisional: Whether the search was ended by its time budget, before it had enough.
    """

    recommended: LoaderSettings
    fastest: LoaderSettings
    tied: tuple[LoaderSettings, ...] = ()
    settle_s: float | None = None
    provisional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCost:
    """Where the time of a search went, s; the parts but ``waiting_s``, which comes before, add up to the whole.

    Attributes:
        profile_s: The first look at the loader without workers, its process included.
        startup_s: Starting processes, making the dataset in them, and the first batch of each epoch.
        warm_up_s: Batches that were thrown away.
        measuring_s: Windows and epochs that count.
        samples_s: Comparing samples of workers with those of loading without workers.
        waiting_s: Waiting for another measurement on this machine to end.
        other_s: The rest: ending processes, reading ahead for the page cache, deciding, saving.
    """

    profile_s: float = 0.0
    startup_s: float = 0.0
    warm_up_s: float = 0.0
    measuring_s: float = 0.0
    samples_s: float = 0.0
    waiting_s: float = 0.0
    other_s: float = 0.0

    @property
    def total_s(self) -> float:
        """The time of the search, s."""
        return float(sum(asdict(self).values()) - self.waiting_s)

    def plus(self, more: SearchCost) -> SearchCost:
        """Both together."""
        return SearchCost(**{name: value + getattr(more, name) for name, value in asdict(self).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePart:
    """One tensor, array, image or plain value of a sample, as digests.

    Attributes:
        form: Of its place in the sample, its type, shape and dtype.
        content: Of its values; None if they cannot be compared.
    """

    form: bytes
    content: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMade:
    """A sample that a worker has made.

    Attributes:
        worker: Number of the worker.
        key: The index that the dataset was asked for; of an iterable dataset the position in the worker's stream.
        parts: Digests of what it consists of.
    """

    worker: int
    key: int | str
    parts: tuple[SamplePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesLogged:
    """Some of the samples that the workers of a loader have made, and what they shared in making them.

    Attributes:
        samples: The samples, each worker's in the order of making.
        moved_files: Paths of open files that the workers share and whose position they have moved.
    """

    samples: tuple[SampleMade, ...] = ()
    moved_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesSeen:
    """The samples that a loader delivered in an epoch.

    Attributes:
        digests: A digest of each sample; None for one whose content cannot be compared.
        workers: The numbers of the workers that delivered any.
        complete: Whether the epoch was seen to its end.
    """

    digests: tuple[bytes | None, ...]
    workers: frozenset[int]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCheck:
    """Whether the workers of an iterable dataset share its samples.

    Attributes:
        num_workers: Workers of the epoch that was looked at.
        samples: Samples of that epoch; None if it was not seen to its end.
        expected: Samples of an epoch without workers, likewise.
        repeated: Samples that came again, more than without workers.
        idle: Workers that delivered none.
        error: Why the samples could not be counted; empty if they were.
    """

    num_workers: int
    samples: int | None = None
    expected: int | None = None
    repeated: int = 0
    idle: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The outcome of the search of one configuration, complete or as far as it got.

    Attributes:
        configuration: What was held fixed.
        host: Where it was measured.
        facts: What the dataset said of itself; None if it could not be made.
        trials: All trials in the order of measuring.
        stop_reason: Why the search stopped, in words; empty while it has not.
        error: Why there is no result at all; empty if there is one.
        started_at: ISO 8601 time with zone.
        cost_s: Seconds of the whole search.
        cost: Where they went; None if nobody has told.
        verdict: Which candidate is the best; None while the search goes on, or if none could be measured.
        sample_check: Whether the workers share the samples; None if that was not looked at.
        forced: What a resumption by force has mixed: other hosts or versions; empty for nothing.
    """

    configuration: Configuration
    host: Host
    facts: DatasetFacts | None = None
    trials: tuple[Trial, ...] = ()
    stop_reason: str = ""
    error: str = ""
    started_at: str = ""
    cost_s: float = 0.0
    cost: SearchCost | None = None
    verdict: Verdict | None = None
    sample_check: SampleCheck | None = None
    forced: str = ""

    @property
    def unfinished(self) -> bool:
        """Whether there are trials that were begun and not measured to their end."""
        return any(not trial.finished for trial in self.trials)

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
    """What one run of another program told about its training loader, on its own; ``gathering`` makes trials of them.

    Attributes:
        num_workers: What the program was told to use.
        candidates: All values that it is going to be told; empty if nobody knows.
        columns: What identifies the configuration otherwise.
        program: What the program calls itself.
        host: Where it ran.
        settings: What its training loader was given; None if it iterated none.
        facts: What is known of that loader's dataset; likewise.
        batches_per_epoch: Length of an epoch; None if unknown.
        bursts: The loader's times, warm-up included; kept if the program failed after them.
        noise: What disturbed the run; None if unknown.
        reason: One line why it failed; empty if it did not.
        started_at: ISO 8601 time with zone.
        elapsed_s: Length of the run, s.
    """

    num_workers: int
    candidates: tuple[int, ...]
    columns: Mapping[str, Any]
    program: str
    host: Host
    settings: LoaderSettings | None = None
    facts: DatasetFacts | None = None
    batches_per_epoch: int | None = None
    bursts: tuple[Burst, ...] = field(default=(), repr=False)
    noise: Noise | None = None
    reason: str = ""
    started_at: str
    elapsed_s: float


def shown(value: Any) -> str:
    """A configuration's value as people type it: true, null and plain numbers."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def varying_columns(configurations: Sequence[Configuration]) -> tuple[str, ...]:
    """The columns that differ between configurations, ``dataset`` always among them, in their own order."""
    names = dict.fromkeys(name for configuration in configurations for name in configuration.columns)
    return tuple(
        name for name in names if name == "dataset" or len({str(c.columns.get(name)) for c in configurations}) > 1
    )
