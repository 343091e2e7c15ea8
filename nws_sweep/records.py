"""The values that travel between the modules: what was asked, what was measured, what was found.

All are frozen, say their units in their names (``_s`` seconds, ``_bytes``), and know nothing of torch, files or the
terminal. A quantity that is not defined is None, never 0.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any


class TrialState(str, enum.Enum):
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    SKIPPED = "skipped"


class BurstKind(str, enum.Enum):
    """What a burst is for."""

    WARM_UP = "warm_up"  # thrown away: the pipeline fills
    STEADY = "steady"  # a window of whole clumps inside an epoch
    EPOCH = "epoch"  # a whole epoch, start-up included


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSettings:
    """The keywords that a DataLoader is given, under the DataLoader's own names.

    Attributes:
        batch_size: Samples per batch, at least 1.
        num_workers: Worker processes; 0 loads in the process that consumes.
        pin_memory: Copy batches into page-locked memory (needs an accelerator to have an effect).
        prefetch_factor: Batches that each worker prepares ahead; None without workers.
        persistent_workers: Keep workers from one epoch to the next; False without workers.
        shuffle: Draw samples in a new random order each epoch; False for an iterable dataset.
        drop_last: Leave out the last batch if it is shorter.
        multiprocessing_context: Start method of the workers (fork, spawn, forkserver), None for the platform's own.
        timeout: Seconds that the DataLoader waits for a batch from its workers, 0 for ever.
    """

    batch_size: int
    num_workers: int = 0
    pin_memory: bool = False
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    shuffle: bool = False
    drop_last: bool = False
    multiprocessing_context: str | None = None
    timeout: float = 0.0

    def canonical(self) -> LoaderSettings:
        """The same settings without what today's DataLoader refuses at num_workers=0 (ValueError otherwise)."""
        if self.num_workers:
            return self
        return replace(self, prefetch_factor=None, persistent_workers=False, multiprocessing_context=None, timeout=0.0)

    @property
    def queued_batches(self) -> int:
        """How many batches the workers may hold ready or in the making (DataLoader's prefetch_factor defaults to 2)."""
        return self.num_workers * (2 if self.prefetch_factor is None else self.prefetch_factor)

    def tuned(self) -> dict[str, Any]:
        """The keywords that tuning is about, ready to be passed to a DataLoader beside the dataset."""
        names = ("batch_size", "num_workers", "pin_memory", "prefetch_factor", "persistent_workers")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRules:
    """How long a trial measures; conf/measure holds the presets.

    Attributes:
        mode: ``steady`` (warm-up, then windows of batches) or ``epoch`` (whole epochs, as a stopwatch would).
        bursts: Windows at least, in mode ``steady``; three make an interval.
        seconds: Steady measuring time aimed at, s.
        max_seconds: No burst begins after this much time in a trial, s.
        epochs: Epochs at least, in mode ``epoch``.
        timeout_s: A candidate that has not answered for so long is killed, s; None for no limit.
    """

    mode: str = "steady"
    bursts: int = 5
    seconds: float = 3.0
    max_seconds: float = 20.0
    epochs: int = 1
    timeout_s: float | None = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRules:
    """Which candidates are tried and how the best is chosen; conf/search holds the presets.

    Attributes:
        strategy: ``patience`` or ``exhaustive``.
        candidates: Values of num_workers in the order of trying, ascending and without repeats.
        maximum_patience: Candidates without improvement that the patience strategy bears.
        tolerance: A candidate this much slower than the fastest (0.03 is 3 %) is as good, if it needs fewer workers.
        reference: Value of num_workers that is measured in any case, to tell the gain over it; None for none.
    """

    strategy: str
    candidates: tuple[int, ...]
    maximum_patience: int = 3
    tolerance: float = 0.03
    reference: int | None = None


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
        seed: Seed of torch's random numbers in each trial.
    """

    columns: Mapping[str, Any]
    dataset: Mapping[str, Any]
    consumer: Mapping[str, Any]
    loader: LoaderSettings
    measure: MeasureRules
    search: SearchRules
    collate_fn: Mapping[str, Any] | None = None
    seed: int = 0

    def label_of(self, columns: Iterable[str]) -> str:
        """Those of the identifying columns that it has, as one line of ``key=value``."""
        return " ".join(f"{name}={shown(self.columns[name])}" for name in columns if name in self.columns)

    @property
    def fingerprint(self) -> str:
        """A short hash of everything that decides what is measured; equal configurations have equal ones."""
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    """

    dataset: Mapping[str, Any]
    consumer: Mapping[str, Any]
    collate_fn: Mapping[str, Any] | None = None
    seed: int = 0
    start_method: str | None = None
    working_folder: str = "."
    log_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """What a dataset says of itself once it is made.

    Attributes:
        type: The class, with its module.
        iterable: Whether it is an IterableDataset.
        samples: Its length; None if it has none.
        accelerator: The accelerator that pinned memory would serve, None if there is none.
    """

    type: str
    iterable: bool
    samples: int | None
    accelerator: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstRequest:
    """What the next stretch of batches should be: at least so many batches and so long, in whole clumps.

    Attributes:
        kind: What the burst is for; an ``EPOCH`` starts a fresh epoch and ends with it.
        min_batches: Batches at least.
        min_seconds: Time at least, s.
        multiple_of: Stop only after a multiple of this many batches: n workers deliver in clumps of n.
    """

    kind: BurstKind
    min_batches: int = 1
    min_seconds: float = 0.0
    multiple_of: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A stretch of consecutive batches as the consumer saw them.

    Attributes:
        kind: What the burst was for.
        startup_s: From ``iter(loader)`` to the first batch in hand, if the burst began an epoch; it is wait_s[0] too.
        wait_s: Seconds blocked in ``next()``, one per batch.
        consume_s: Seconds in the consumer, one per batch.
        samples: Samples in all batches together.
        end_s: From the last batch to the end of the epoch, if the epoch ended in this burst.
    """

    kind: BurstKind
    startup_s: float | None
    wait_s: tuple[float, ...]
    consume_s: tuple[float, ...]
    samples: int
    end_s: float | None = None

    @property
    def batches(self) -> int:
        """Batches taken."""
        return len(self.wait_s)

    @property
    def elapsed_s(self) -> float:
        """Seconds from the first call to the last return: waits, consumer and the end of the epoch."""
        return sum(self.wait_s) + sum(self.consume_s) + (self.end_s or 0.0)

    @property
    def ended_epoch(self) -> bool:
        """Whether the loader had no more batches."""
        return self.end_s is not None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The quantities of one trial.

    Attributes:
        startup_s: From ``iter(loader)`` to the first batch, mean over the epochs begun, s.
        batch_s: Steady seconds per batch as the consumer sees them.
        samples_per_s: Steady samples per second.
        wait_s: Mean seconds per steady batch blocked in ``next()``.
        consume_s: Mean seconds per steady batch in the consumer.
        stall_fraction: Sum of waits / sum of waits and consumer: the share of the time that is lost to data.
        epoch_s: Seconds for an epoch: measured if whole epochs were, else startup_s + (batches - 1) x batch_s; None
            if the length of an epoch is unknown.
    """

    startup_s: float
    batch_s: Estimate | None = None
    samples_per_s: float | None = None
    wait_s: float | None = None
    consume_s: float | None = None
    stall_fraction: float | None = None
    epoch_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate measured (or not) under one configuration.

    Attributes:
        settings: What the DataLoader was given (canonical).
        state: How it ended.
        reason: One line why it did not end well; empty if it did.
        notes: What was asked for but has no meaning for this candidate.
        warnings: Warnings that were issued while it was measured.
        measurement: The quantities; None unless the state is ok.
        bursts: The raw batch times behind them, warm-up included; kept for a failed trial too.
        cost_s: Seconds that the trial took in all, from the start of its process to its end.
    """

    settings: LoaderSettings
    state: TrialState
    reason: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    measurement: Measurement | None = None
    bursts: tuple[Burst, ...] = field(default=(), repr=False)
    cost_s: float = 0.0

    @property
    def num_workers(self) -> int:
        """The candidate."""
        return self.settings.num_workers

    @property
    def objective_s(self) -> float | None:
        """Seconds that trials are ranked by: an epoch where its length is known (start-up counts), else a batch.

        None if it was not measured, or has no steady batches to be ranked by.
        """
        if self.measurement is None:
            return None
        if self.measurement.epoch_s is not None:
            return self.measurement.epoch_s
        return self.measurement.batch_s.value if self.measurement.batch_s else None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
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
    """

    configuration: Configuration
    host: Host
    facts: DatasetFacts | None = None
    trials: tuple[Trial, ...] = ()
    stop_reason: str = ""
    error: str = ""
    started_at: str = ""
    cost_s: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether the search came to its own end."""
        return bool(self.stop_reason) and not self.error


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
