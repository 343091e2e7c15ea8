"""What is asked for: the keywords of a DataLoader, the rules of measuring and searching, one point of the grid.

A value that is not defined is None, never 0. Units stand in names: ``_s`` seconds, ``_bytes``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from nws_sweep.results.search_record import DatasetFacts

# A result that holds other figures was not measured, and is refused when it is read; NaN and infinity are among them.
Count = Annotated[int, msgspec.Meta(ge=1)]

Candidates = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1)]

# The strategy of a search whose candidates are runs of another program.
PROGRAM_STRATEGY = "program"

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
    windows: int = 5  # windows at least, in mode ``steady``; three make an interval
    max_seconds: float = 20.0  # no window begins after this much time in a trial
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

    strategy: str  # ``adaptive``, ``patience``, ``exhaustive``, or ``program`` (runs of another program)
    candidates: Candidates  # values of num_workers that may be tried, ascending and without repeats
    maximum_patience: int = 3  # candidates without improvement that the search bears
    tolerance: float = 0.03  # a candidate this much slower than the fastest is as good, if it needs fewer workers
    reference: int | None = None  # num_workers that is measured in any case, to tell the gain over it; None for none
    time_budget_s: float | None = None  # after it the search ends with the best so far; None for the runner's default
    also: tuple[str, ...] = ()  # other settings that are searched after num_workers, by their names

    @property
    def more_workers_hint(self) -> str:
        """What to ask for when more workers than the candidates' may be better."""
        by_program = self.strategy == PROGRAM_STRATEGY
        return "larger hydra.callbacks.nws_sweep.candidates" if by_program else "a larger search.max_workers"

    @property
    def measure_longer_hint(self) -> str:
        """How to measure longer."""
        by_program = self.strategy == PROGRAM_STRATEGY
        return "let the program take more batches" if by_program else "longer with measure=rigorous"


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
    def rank_suffix(self) -> str:
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
    """Which of several trial processes one is that are measured at once, as torchrun numbers the processes of a host."""

    number: int  # from 0
    ranks: int  # how many there are, at least 1
    folder: str  # where they find each other, and note how often they have met


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What a trial process is made of: plain values, so that they can be sent to any process."""

    dataset: Mapping[str, Any]  # as Hydra instantiates it
    consumer: Mapping[str, Any]  # likewise
    collate_fn: Mapping[str, Any] | None = None  # likewise; None for the DataLoader's own
    seed: int = 0  # of torch's random numbers
    start_method: str | None = None  # of multiprocessing, which workers follow; None for the platform's own
    working_folder: str = "."  # where relative paths of the dataset begin: where the user's command was started
    log_path: str | None = (
        None  # takes standard output and error of the trial process and its workers; None to drop them
    )
    environment: Mapping[str, str] | None = field(
        default=None, repr=False
    )  # None for that of the trial processes' server
    import_path: tuple[str, ...] | None = None  # the program's ``sys.path``, likewise
    rank: Rank | None = None  # which of several it is; None for one alone
    logs_samples: bool = False  # whether workers log some of their samples, so that these can be compared


def shown(value: Any) -> str:
    """A configuration's value as people type it: true, null and plain numbers."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def varying_columns(configurations: Sequence[Configuration]) -> tuple[str, ...]:
    """The columns that differ between configurations, ``dataset`` always among them, in their own order."""
    names = dict.fromkeys(name for configuration in configurations for name in configuration.columns)
    return tuple(
        name for name in names if name == "dataset" or len({str(c.columns.get(name)) for c in configurations}) > 1
    )
