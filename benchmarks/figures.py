"""What is kept of every run, a line of JSON each, so that an interrupted benchmark can go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.lines import Lines

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


class Journal:
    """A file of figures. Its first line says what they were made with: figures of two such must not be mixed.

    Args:
        path: The file; its folder is made.
        made_with: Settings and machine.
        resume: Whether to go on with the file as it is; else it is put aside.

    Attributes:
        figures: All figures so far.

    Raises:
        ValueError: If the file was made with something else.
    """

    def __init__(self, path: Path, made_with: Mapping[str, Any], *, resume: bool) -> None:
        self._lines = Lines(path, made_with, resume=resume)
        self.figures = complete((Figure(**line) for line in self._lines.kept), made_with["workers"])
        self._lines.rewrite(asdict(figure) for figure in self.figures)

    def add(self, figures: Sequence[Figure]) -> None:
        """Appends figures to the file."""
        self.figures.extend(figures)
        self._lines.add(asdict(figure) for figure in figures)

    def has(self, workload: str, number: int) -> bool:
        """Whether this round of this workload is there."""
        return any((figure.workload, figure.round) == (workload, number) for figure in self.figures)


def complete(figures: Iterable[Figure], workers: Sequence[int]) -> list[Figure]:
    """The figures of those rounds that have all of theirs: sides measured at different times can't be compared."""
    by_round: dict[tuple[str, int], list[Figure]] = {}
    for figure in figures:
        by_round.setdefault((figure.workload, figure.round), []).append(figure)
    wanted = len(KINDS) * len(workers)
    return [figure for found in by_round.values() if len(found) == wanted for figure in found]
