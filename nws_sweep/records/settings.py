"""Requested values: DataLoader settings, the rules of measuring and searching, one
configuration of a grid."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from nws_sweep.records.ranges import (
    ONLINE_STRATEGY,
    AnyStrategy,
    Cache,
    Candidates,
    Count,
    CountOr0,
    Mode,
    Precision,
    Ranks,
    Searchable,
    Seconds,
    SecondsOr0,
    Share,
    StartMethod,
    Workers,
)

# Tuned keywords.
_TUNED = (
    "batch_size",
    "num_workers",
    "pin_memory",
    "prefetch_factor",
    "persistent_workers",
    "multiprocessing_context",
    "in_order",
    "timeout",
)
DEFAULT_PREFETCH = 2  # torch's, where prefetch_factor is None
# of a training: with one epoch persistent workers would save nothing
_USUAL_EPOCHS = 10
# how a trial process makes an object: a ``_target_``, as Hydra has it, and its
# arguments
Recipe = Mapping[str, Any]
# the ``_target_`` of a configuration without a training step
NO_STEP = "nws_sweep.dataloading.training_steps.Nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSettings:
    """Keyword arguments of a DataLoader, under its own names."""

    batch_size: Count | None  # None if a batch_sampler or the dataset makes the batches
    num_workers: Workers = 0  # worker processes; 0 loads in the main process
    # copy batches into page-locked memory; no effect without an accelerator
    pin_memory: bool = False
    # batches that each worker loads ahead; None without workers
    prefetch_factor: Count | None = None
    # keep workers between epochs; False without workers
    persistent_workers: bool = False
    # a new random order each epoch; False for an iterable dataset
    shuffle: bool = False
    drop_last: bool = False  # omit an incomplete last batch
    # start method of the workers; None for the default
    multiprocessing_context: StartMethod | None = None
    # seconds to wait for a batch from the workers; 0 for no limit
    timeout: SecondsOr0 = 0.0
    # deliver batches in order, else as they are finished (torch 2.6 and later)
    in_order: bool = True

    def canonical(self) -> "LoaderSettings":
        """The settings without those that DataLoader rejects for num_workers=0
        (ValueError)."""
        if self.num_workers:
            return self
        return replace(
            self,
            prefetch_factor=None,
            persistent_workers=False,
            multiprocessing_context=None,
            timeout=0.0,
            in_order=True,
        )

    def with_workers(self, num_workers: int) -> "LoaderSettings":
        """The canonical settings with another number of workers."""
        return replace(self, num_workers=num_workers).canonical()

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of DataLoader."""
        return asdict(self)

    @property
    def prefetched(self) -> int:
        """Batches that each worker loads ahead: ``prefetch_factor``, or torch's
        default."""
        return (
            DEFAULT_PREFETCH if self.prefetch_factor is None else self.prefetch_factor
        )

    @property
    def queued_batches(self) -> int:
        """Batches that the workers may hold ready or in preparation."""
        return self.num_workers * self.prefetched

    def steady_part(self, batches: int) -> slice | None:
        """Selects the batches of an epoch that have the steady pace: whole multiples of
        the workers, without the first one, which includes the start, and the last ones.

        None if the epoch is shorter than two queues, or none are left: then all that is
        known of a batch is its share of the epoch.
        """
        multiple, queued = max(1, self.num_workers), max(1, self.queued_batches)
        # the last batch may be shorter, and others arrive together with it
        full_batches = batches if self.drop_last else batches - 1
        part = slice(multiple, full_batches // multiple * multiple)
        if batches < 2 * queued or part.stop <= part.start:
            return None
        return part

    def changes(
        self, before: "LoaderSettings", searched: Iterable[str] = ()
    ) -> dict[str, Any]:
        """The keywords to change in a loader with settings ``before``: num_workers,
        what was searched or differs."""
        after = replace(self, prefetch_factor=self.prefetched)
        before = replace(before, prefetch_factor=before.prefetched)
        names = {"num_workers", *searched}
        changes = {}
        for name in _TUNED:
            if name in names or getattr(after, name) != getattr(before, name):
                changes[name] = getattr(self, name)
        if self.batch_size is None:
            changes.pop("batch_size", None)
        return changes

    def differing(self, base: "LoaderSettings") -> str:
        """The settings that differ from ``base``, except num_workers, as ``key=value``;
        empty if none differs."""
        values, base_values = asdict(self), asdict(base)
        names = [
            name
            for name in values
            if name != "num_workers" and values[name] != base_values[name]
        ]
        return " ".join(f"{name}={shown(values[name])}" for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRules:
    """How a trial measures and when it has converged; presets are in conf/measure."""

    mode: Mode = "steady"  # or ``epoch``: whole epochs
    # half-width of the 95 % interval to reach, as a share of the mean
    precision: Precision = 0.05
    window_s: Seconds = 0.5  # least duration of a window
    # least number of windows, in mode ``steady``; an interval needs three
    windows: Count = 5
    trial_limit_s: Seconds = 20.0  # no window begins later in a trial
    # least number of epochs, in mode ``epoch``; see ``shared_epochs``
    epochs: Count = 1
    # a trial that takes longer is killed; None for no limit
    kill_after_s: Seconds | None = 600.0
    # candidates measured in interleaved time slices; 1 measures one after the other
    interleave: Count = 8
    # or ``warm``, or ``cold``: files are dropped from the page cache before each time
    # slice
    cache: Cache = "auto"
    # files and folders that ``cold`` drops, which needs them
    cache_files: tuple[str, ...] | None = None
    # of all trial processes together; None for most of the free memory
    memory_budget_bytes: Count | None = None

    @property
    def shared_epochs(self) -> int:
        """Epochs over which the start of persistent workers is shared out: as many as a
        training has, if not given."""
        return self.epochs if self.epochs > 1 else _USUAL_EPOCHS


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRules:
    """Which candidates are measured and how the best is chosen."""

    strategy: AnyStrategy  # of ``ranges.STRATEGIES``, or ``online``
    candidates: Candidates  # allowed values of num_workers, ascending and distinct
    # consecutive candidates without improvement allowed before the search stops
    patience: CountOr0 = 3
    max_workers: Workers | None = None  # the user's limit; None for none
    tolerance: Share = 0.03  # share of the time that twice as many workers must save
    # num_workers for comparison; dropped if it is not a candidate; None for none
    reference: Workers | None = None
    # ends the search with the best so far; None for the runner's default
    time_limit_s: Seconds | None = None
    # Names of settings to search after num_workers; None for prefetch_factor and
    # persistent_workers, unless given.
    settings: tuple[Searchable, ...] | None = ()

    def searched(self, base: LoaderSettings) -> tuple[str, ...]:
        """The settings to search after num_workers in a loader with settings
        ``base``."""
        if self.settings is not None:
            return self.settings
        names = []
        if (
            self.strategy in ("adaptive", ONLINE_STRATEGY)
            and base.prefetch_factor is None
        ):
            names.append("prefetch_factor")
        if self.strategy == "adaptive" and not base.persistent_workers:
            names.append("persistent_workers")
        return tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One point of a grid: everything that is held fixed while num_workers is
    searched."""

    columns: Mapping[str, Any]  # identifying columns, in the order of results.csv
    dataset: Recipe
    training_step: Recipe
    loader: LoaderSettings  # its num_workers is the program's own, 0 for a dataset
    measure: MeasureRules
    search: SearchRules
    collate_fn: Recipe | None = None  # None for the DataLoader's default
    # of context managers around the search
    services: Mapping[str, Recipe] = field(default_factory=dict)
    seed: int = 0  # of torch in each trial
    # Compared samples: None for a few of each candidate, True also for an epoch of an
    # iterable dataset, False for none.
    check_samples: bool | None = None
    # loaders that run at the same time on this host, of which one is measured;
    # settings are of each
    ranks: Ranks = 1

    def label_of(self, columns: Iterable[str]) -> str:
        """The given identifying columns as one line of ``key=value``."""
        return " ".join(
            f"{name}={shown(self.columns[name])}"
            for name in columns
            if name in self.columns
        )

    def differing(self, settings: LoaderSettings) -> str:
        """The settings of a candidate that differ from the configuration, except
        num_workers; mostly empty."""
        configured = self.loader.with_workers(settings.num_workers)
        # comparing first is ten times as fast
        return "" if settings == configured else settings.differing(configured)

    @property
    def has_step(self) -> bool:
        """Whether a training step was given; without one a loop still takes a little
        time for each batch."""
        return self.training_step.get("_target_") != NO_STEP

    @property
    def rank_suffix(self) -> str:
        """Suffix of a setting, such as `` (each of 4 ranks)``; empty for one rank."""
        return "" if self.ranks == 1 else f" (each of {self.ranks} ranks)"

    @property
    def fingerprint(self) -> str:
        """A short hash of all values; equal configurations have equal fingerprints."""
        text = json.dumps(asdict(self), sort_keys=True, default=plain)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """What a program has set in its process; see ``trials.process_state``."""

    environment: Mapping[str, str] = field(repr=False)
    import_path: tuple[str, ...]  # ``sys.path``
    # settings of imported ones, by the function that reads
    libraries: Mapping[str, Any] = field(default_factory=dict)
    cpus: Collection[int] | None = None  # on which it may run; None where it is unknown
    # the soft and the hard limit; None where it is unknown
    open_files: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """The specification of a trial process: plain values, which can be sent to any
    process."""

    configuration: Configuration
    state: ProcessState  # of the program
    # of multiprocessing, which workers follow; None for the platform's default
    start_method: str | None = None
    # base of relative paths of the dataset: where the user started the command
    working_folder: str = "."
    # file for standard output and error of the trial process and its workers
    log_path: str | None = None
    rank: int = 0  # whose share of the samples is loaded


def plain(value: Any) -> Any:
    """What JSON has instead of a value that it lacks: the number of a NumPy scalar,
    else text."""
    return value.item() if getattr(value, "ndim", None) == 0 else str(value)


def shown(value: Any) -> str:
    """A value of a configuration as typed on the command line: true, null and plain
    numbers."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def varying_columns(configurations: Sequence[Configuration]) -> tuple[str, ...]:
    """The columns whose values differ between configurations, and ``dataset``, in their
    own order."""
    names = dict.fromkeys(
        name for configuration in configurations for name in configuration.columns
    )
    return tuple(
        name
        for name in names
        if name == "dataset"
        or len({str(c.columns.get(name)) for c in configurations}) > 1
    )
