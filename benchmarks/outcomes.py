"""What is kept of a comparison of search methods, a line of JSON each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.lines import Lines


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


class Journal:
    """A file of outcomes and runs.

    Args:
        path: The file; its folder is made.
        made_with: Settings and machine.
        resume: Whether to go on with the file as it is; else it is put aside.

    Attributes:
        outcomes: All outcomes so far.
        runs: All runs so far.

    Raises:
        ValueError: If the file was made with something else.
    """

    def __init__(self, path: Path, made_with: Mapping[str, Any], *, resume: bool) -> None:
        self._lines = Lines(path, made_with, resume=resume)
        self.outcomes = [_outcome(line["outcome"]) for line in self._lines.kept if "outcome" in line]
        self.runs = [Run(**line["run"]) for line in self._lines.kept if "run" in line]

    def add_outcome(self, outcome: Outcome) -> None:
        """Appends one to the file."""
        self.outcomes.append(outcome)
        self._lines.add([{"outcome": asdict(outcome)}])

    def add_run(self, run: Run) -> None:
        """Appends one to the file."""
        self.runs.append(run)
        self._lines.add([{"run": asdict(run)}])

    def has(self, workload: str, method: str, repeat: int) -> bool:
        """Whether this method was played."""
        return any((o.workload, o.method, o.repeat) == (workload, method, repeat) for o in self.outcomes)


def _outcome(line: Mapping[str, Any]) -> Outcome:
    tuples = ("tied", "tried", "crashes", "left_behind")
    return Outcome(**{**line, **{name: tuple(line[name]) for name in tuples}})
