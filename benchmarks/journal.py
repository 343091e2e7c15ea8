"""Raw figures of a benchmark, a line of JSON each, written while measuring so that
--resume can continue."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from benchmarks.epoch_times import PREFETCH_FACTOR

QUIET = "quiet"  # no neighbour; see ``neighbours``


class Setting(NamedTuple):
    """What is searched: the settings of a DataLoader beside those of its workload."""

    workers: int
    prefetch_factor: int = PREFETCH_FACTOR
    persistent: bool = False  # workers start once in a training, not in each epoch

    def __str__(self) -> str:
        """The number of workers, in brackets what is not DataLoader's default."""
        others = []
        if self.prefetch_factor != PREFETCH_FACTOR:
            others.append(str(self.prefetch_factor))
        if self.persistent:
            others.append("persistent")
        return f"{self.workers} ({', '.join(others)})" if others else str(self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """What was measured with some settings."""

    workers: int
    prefetch_factor: int = PREFETCH_FACTOR
    persistent: bool = False

    @property
    def setting(self) -> Setting:
        """The settings."""
        return Setting(self.workers, self.prefetch_factor, self.persistent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(_Measured):
    """A row of the table that a search prints; None for figures that it does not
    have."""

    batch_s: float | None = None  # steady seconds per batch
    low_s: float | None = None  # 95 % interval of ``batch_s``
    high_s: float | None = None
    epoch_s: float | None = None
    batches: int = 0  # measured, without those of warm-ups
    fault: str = ""  # why the candidate has no figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of one method on one workload."""

    workload: str
    method: str
    repeat: int  # from 1
    pick: int | None  # the recommended num_workers; None if the method failed
    prefetch_factor: int = PREFETCH_FACTOR  # recommended
    persistent: bool = False  # recommended
    most_processes: int = 0  # that the method started and that ran at the same time
    cost_s: float = 0.0  # wall time of the method
    # further values of num_workers that are statistically tied
    tied: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()  # the measured values of num_workers
    # a line per failed trial, and for a failure of the method
    crashes: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()  # a line per process that was alive afterwards
    beside: str = QUIET  # the neighbour
    rows: tuple[Row, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def setting(self) -> Setting | None:
        """What is recommended; None if the method failed."""
        if self.pick is None:
            return None
        return Setting(self.pick, self.prefetch_factor, self.persistent)

    @property
    def label(self) -> str | None:
        """``setting`` as text."""
        return None if self.setting is None else str(self.setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(_Measured):
    """One bare run of the oracle."""

    workload: str
    repeat: int  # from 1
    number: int  # of the pass in its repeat, from 1
    # length of an epoch with its start-up; None if the run failed
    epoch_s: float | None
    batch_s: float | None = None  # steady seconds per batch; None for short epochs
    whole: bool = True  # False if the end of an epoch was projected
    own: bool = True  # False if the number was measured only because a method picked it
    beside: str = QUIET  # the neighbour


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One epoch, predicted and measured by a bare loop, s."""

    workload: str
    repeat: int  # from 1
    workers: int
    prefetch_factor: int
    in_order: bool
    predicted_s: float
    interval_s: tuple[float, float]
    measured_s: float
    recorded_s: float  # windows of the trials whose records were replayed
    # the same epoch after the others of its workload, measured for one of them
    again_s: float | None = None

    @property
    def ratio(self) -> float:
        """Predicted / measured; 1 is right."""
        return self.predicted_s / self.measured_s

    @property
    def error(self) -> float:
        """The distance of ``ratio`` from 1."""
        return abs(self.ratio - 1)

    @property
    def is_inside(self) -> bool:
        """True if the predicted interval contains the measured epoch."""
        return self.interval_s[0] <= self.measured_s <= self.interval_s[1]

    @property
    def line(self) -> str:
        """Settings and times."""
        low_s, high_s = self.interval_s
        return (
            f"{self.workload} num_workers={self.workers} prefetch_factor={self.prefetch_factor} "
            f"in_order={self.in_order}: predicted {self.predicted_s:.3g} s ({low_s:.3g} to {high_s:.3g}), "
            f"measured {self.measured_s:.3g} s, ratio {self.ratio:.3f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One training run; see ``trainings.Seen``."""

    training: str
    method: str
    start: int  # num_workers at the start
    repeat: int  # from 1; 0 for the runs that find the best fixed number
    epochs_s: tuple[float, ...]
    settled: int
    longest_wait_s: float
    switches: int
    picked: str
    first_switch_s: float
    first_batch: int


Record = Outcome | Run | Forecast | Played
Kind = TypeVar("Kind", Outcome, Run, Forecast, Played)
_TYPES: Mapping[str, type[Record]] = {
    "outcome": Outcome, "run": Run, "forecast": Forecast, "played": Played,
}  # fmt: skip


class Journal:
    """A file of records, whose first line holds the settings and the machine that they
    were made with.

    Without ``resume`` an existing file is renamed; with it, ValueError if ``made_with``
    (of types that JSON preserves) differs from its first line.
    """

    def __init__(
        self, path: Path, made_with: Mapping[str, Any], *, resume: bool
    ) -> None:
        self._path = path
        self._made_with = dict(made_with)
        # without one that was interrupted while it was written
        self.records: list[Record] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and resume:
            self.records = self._read()
        elif path.exists():
            path.replace(path.with_suffix(".previous.jsonl"))
        self.rewrite(self.records)

    def _read(self) -> list[Record]:
        lines = self._path.read_text("utf-8").splitlines(keepends=True)
        first, *rest = [json.loads(line) for line in lines if line.endswith("\n")] or [
            None
        ]
        if first != self._made_with:
            raise ValueError(
                f"{self._path} was made with other settings or on another machine: leave out --resume"
            )
        return [
            msgspec.convert(value, _TYPES[name])
            for line in rest
            for name, value in line.items()
        ]

    def rewrite(self, records: Sequence[Record]) -> None:
        """Replaces the records."""
        self._path.write_text(f"{json.dumps(self._made_with)}\n", "utf-8")
        self.records = []
        self.add(*records)

    def add(self, *records: Record) -> None:
        """Appends records to the file."""
        self.records += records
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(
                f"{json.dumps({type(record).__name__.lower(): asdict(record)})}\n"
                for record in records
            )

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The records of one kind."""
        return [record for record in self.records if isinstance(record, kind)]

    def picks(self, workload: str) -> set[Setting]:
        """The distinct settings that were recommended for a workload."""
        settings = {o.setting for o in self.of(Outcome) if o.workload == workload}
        return {setting for setting in settings if setting is not None}
