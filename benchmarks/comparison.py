"""Ratios of our figures to the bare loop's, and whether they are good enough. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.figures import BARE_AFTER, BARE_BEFORE, OURS, Figure

# Medians of each workload, and of each of its numbers of workers.
WORKLOAD_LIMITS = (0.98, 1.02)
ROW_LIMITS = (0.95, 1.05)
QUANTITIES = ("batch_s", "epoch_s")


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios of several rounds: 1 is what they should be."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload with one number of workers, over all rounds.

    Attributes:
        workload: Its name.
        workers: Worker processes.
        bare_batch_s: Median of the bare loop's, s; None if it had no steady batches.
        batch_s: Ours / the mean of the bare ones before and after; None where a side has no value in any round.
        epoch_s: Likewise.
        half_width: Median of our intervals' half widths, as a share.
        drift: The bare batch_s after ours / before ours: what the machine's noise alone does.
        faults: Why ours has no value, each once.
    """

    workload: str
    workers: int
    bare_batch_s: float | None
    batch_s: Ratios | None
    epoch_s: Ratios | None
    half_width: float | None
    drift: Ratios | None
    faults: tuple[str, ...] = ()

    def ratios(self, quantity: str) -> Ratios | None:
        """Those of ``batch_s`` or ``epoch_s``."""
        return {"batch_s": self.batch_s, "epoch_s": self.epoch_s}[quantity]


def rows_of(figures: Sequence[Figure]) -> list[Row]:
    """A row per workload and number of workers, in the order of appearance and of the numbers."""
    workloads = dict.fromkeys(figure.workload for figure in figures)
    numbers = sorted({figure.workers for figure in figures})
    groups = [[f for f in figures if (f.workload, f.workers) == (name, n)] for name in workloads for n in numbers]
    return [_row(group) for group in groups if group]


def _row(group: Sequence[Figure]) -> Row:
    rounds = [{f.kind: f for f in group if f.round == number} for number in sorted({f.round for f in group})]
    bare = [f.batch_s for f in group if f.kind != OURS and f.batch_s is not None]
    widths = [f.half_width for f in group if f.half_width is not None]
    ours = [f for f in group if f.kind == OURS]
    return Row(
        workload=group[0].workload,
        workers=group[0].workers,
        bare_batch_s=median(bare),
        batch_s=_ratios(_to_bare(r, "batch_s") for r in rounds),
        epoch_s=_ratios(_to_bare(r, "epoch_s") for r in rounds),
        half_width=median(widths),
        drift=_ratios(_drift(r) for r in rounds),
        faults=tuple(
            dict.fromkeys(f"{f.detail.get('state')}: {f.detail.get('reason')}" for f in ours if not f.epoch_s)
        ),
    )


def _to_bare(sides: dict[str, Figure], quantity: str) -> float | None:
    before, ours, after = (_value(sides, kind, quantity) for kind in (BARE_BEFORE, OURS, BARE_AFTER))
    return None if before is None or ours is None or after is None else ours / ((before + after) / 2)


def _drift(sides: dict[str, Figure]) -> float | None:
    before, after = _value(sides, BARE_BEFORE, "batch_s"), _value(sides, BARE_AFTER, "batch_s")
    return None if before is None or after is None else after / before


def _value(sides: dict[str, Figure], kind: str, quantity: str) -> float | None:
    value: float | None = getattr(sides[kind], quantity) if kind in sides else None
    return value


def _ratios(values: Iterable[float | None]) -> Ratios | None:
    known = [value for value in values if value is not None]
    return Ratios(statistics.median(known), min(known), max(known)) if known else None


def median(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return statistics.median(values) if values else None


def workload_medians(rows: Sequence[Row], quantity: str) -> dict[str, float | None]:
    """Per workload the median over the numbers of workers of the medians over rounds."""
    names = dict.fromkeys(row.workload for row in rows)
    return {name: median(_medians([row for row in rows if row.workload == name], quantity)) for name in names}


def _medians(rows: Sequence[Row], quantity: str) -> list[float]:
    known = [row.ratios(quantity) for row in rows]
    return [ratios.median for ratios in known if ratios is not None]


def verdicts(rows: Sequence[Row]) -> list[str]:
    """One sentence per target and quantity: met, or what missed it."""
    return [verdict(rows, quantity) for quantity in QUANTITIES for verdict in (_on_workloads, _on_rows)]


def _on_workloads(rows: Sequence[Row], quantity: str) -> str:
    found = list(workload_medians(rows, quantity).items())
    low, high = WORKLOAD_LIMITS
    return _verdict(f"{quantity}: median ratio within {low}..{high} on each workload", found, WORKLOAD_LIMITS)


def _on_rows(rows: Sequence[Row], quantity: str) -> str:
    found = []
    for row in rows:
        ratios = row.ratios(quantity)
        found.append((f"{row.workload} with {row.workers} workers", ratios.median if ratios else None))
    low, high = ROW_LIMITS
    return _verdict(f"{quantity}: no number of workers outside {low}..{high}", found, ROW_LIMITS)


def _verdict(target: str, found: Sequence[tuple[str, float | None]], limits: tuple[float, float]) -> str:
    missed = [f"{what} ({_shown(value)})" for what, value in found if value is None or not _within(value, limits)]
    return f"{target}: " + (f"missed by {', '.join(missed)}" if missed else "met" if found else "nothing was measured")


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]


def _shown(value: float | None) -> str:
    return "no value" if value is None else f"{value:.3f}"
