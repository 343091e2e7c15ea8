"""What is kept of a benchmark, a line of JSON each as one measures, so that an interrupted one can go on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

BARE_BEFORE, OURS, BARE_AFTER = KINDS = ("bare_before", "ours", "bare_after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one side said of one workload with one number of workers.

    Attributes:
        workload: Its name.
        workers: Worker processes.
        round: From 1.
        kind: One of ``KINDS``.
        batch_s: Steady seconds per batch; None if there are none.
        epoch_s: Seconds for an epoch, start-up included, likewise.
        half_width: Half the width of nws_sweep's interval of batch_s, as a share; None if it has none.
        detail: What else helps to find out why two sides differ.
    """

    workload: str
    workers: int
    round: int
    kind: str
    batch_s: float | None
    epoch_s: float | None
    half_width: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One method, played once on one workload.

    Attributes:
        workload: Its name.
        method: Its name.
        repeat: From 1.
        pick: The number of workers that it recommends; None if it came to none.
        fastest: The one that it found to be the fastest, where that is another question; else None.
        cost_s: Wall time of the whole method, s.
        tied: Further numbers of workers that may be as good for all that it knows.
        tried: The numbers of workers that it measured.
        crashes: A line for each trial that broke, and for the method itself.
        left_behind: Processes that were still alive after it, a line each.
        detail: What else helps to understand it.
    """

    workload: str
    method: str
    repeat: int
    pick: int | None
    fastest: int | None = None
    cost_s: float = 0.0
    tied: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()
    crashes: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One bare run of the oracle.

    Attributes:
        workload: Its name.
        workers: Worker processes.
        repeat: From 1.
        number: Of the pass in its repeat, from 1.
        epoch_s: Length of an epoch, start-up included, s; None if the run broke.
        whole: Whether the epochs were run to their end; else the rest was projected.
    """

    workload: str
    workers: int
    repeat: int
    number: int
    epoch_s: float | None
    whole: bool = True


Record = Figure | Outcome | Run
Kind = TypeVar("Kind", Figure, Outcome, Run)
_TYPES: Mapping[str, type[Record]] = {"figure": Figure, "outcome": Outcome, "run": Run}


class Journal:
    """A file of records. Its first line says what they were made with: those of two such must not be mixed.

    Args:
        path: The file; its folder is made.
        made_with: Settings and machine, as JSON gives them back.
        resume: Whether to go on with the file as it is; else it is put aside.

    Attributes:
        records: All so far, without one that was not written to its end.

    Raises:
        ValueError: If the file was made with something else.
    """

    def __init__(self, path: Path, made_with: Mapping[str, Any], *, resume: bool) -> None:
        self._path = path
        self._made_with = dict(made_with)
        self.records: list[Record] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and resume:
            self.records = self._read()
        elif path.exists():
            path.replace(path.with_suffix(".previous.jsonl"))
        self.rewrite(self.records)

    def _read(self) -> list[Record]:
        lines = self._path.read_text("utf-8").splitlines(keepends=True)
        first, *rest = [json.loads(line) for line in lines if line.endswith("\n")] or [None]
        if first != self._made_with:
            raise ValueError(f"{self._path} was made with other settings or on another machine: leave out --resume")
        return [msgspec.convert(value, _TYPES[name]) for line in rest for name, value in line.items()]

    def rewrite(self, records: Sequence[Record]) -> None:
        """Replaces all lines but the first."""
        self._path.write_text(f"{json.dumps(self._made_with)}\n", "utf-8")
        self.records = []
        self.add(*records)

    def add(self, *records: Record) -> None:
        """Appends records to the file."""
        self.records += records
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps({type(one).__name__.lower(): asdict(one)})}\n" for one in records)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The records of one kind."""
        return [one for one in self.records if isinstance(one, kind)]
