"""Ratios of our figures to the bare loop's, whether they are good enough, and the page that says so. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.catalogue import Workload
from benchmarks.journal import BARE_AFTER, BARE_BEFORE, OURS, Figure

# Medians of each workload, and of each of its numbers of workers.
WORKLOAD_LIMITS = (0.98, 1.02)
ROW_LIMITS = (0.95, 1.05)

_INTRODUCTION = """\
What nws_sweep says of a loader, beside what a plain loop with a stopwatch says of it, measured in turn on the same
machine: a bare loop over whole epochs for each number of workers in a fresh process, then one exhaustive search by
nws_sweep with its default rules, then the bare loops again. A ratio is nws_sweep's figure / the mean of the two bare
ones; 1 is right. The first epoch of a bare process, in which it does many things for the first time, does not count
unless it lasts so long that it is the only one (8 s, with --quick 2 s).

- batch_s: steady seconds per batch. In the bare loop: from when the queue (workers x prefetch_factor) was consumed once
  to when the workers have nothing left to make, in whole multiples of the number of workers, over all epochs.
- epoch_s: from just before `iter(loader)` to the end of the last consumption. The workers' shut-down after it is
  counted on neither side. nws_sweep projects it.
- bare after / before: batch_s of the bare loops after / before the search. It would be 1 on a quiet machine: a ratio
  is no better known than this one."""

_HEAD = (
    "| workload | workers | bare batch_s (ms) | batch_s: ours / bare | our interval | epoch_s: ours / bare "
    "| bare after / before |\n|---|---|---|---|---|---|---|"
)


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


def _to_bare(sides: Mapping[str, Figure], quantity: str) -> float | None:
    before, ours, after = (getattr(sides.get(kind), quantity, None) for kind in (BARE_BEFORE, OURS, BARE_AFTER))
    return None if before is None or ours is None or after is None else ours / ((before + after) / 2)


def _drift(sides: Mapping[str, Figure]) -> float | None:
    before, after = (getattr(sides.get(kind), "batch_s", None) for kind in (BARE_BEFORE, BARE_AFTER))
    return None if before is None or after is None else after / before


def _ratios(values: Iterable[float | None]) -> Ratios | None:
    known = [value for value in values if value is not None]
    return Ratios(statistics.median(known), min(known), max(known)) if known else None


def median(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return statistics.median(values) if values else None


def workload_medians(rows: Sequence[Row], quantity: str) -> dict[str, float | None]:
    """Per workload the median over the numbers of workers of the medians over rounds."""
    found: dict[str, list[float]] = {row.workload: [] for row in rows}
    for row in rows:
        if ratios := getattr(row, quantity):
            found[row.workload].append(ratios.median)
    return {name: median(values) for name, values in found.items()}


def verdicts(rows: Sequence[Row]) -> list[str]:
    """One sentence per target and quantity: met, or what missed it."""
    lines = []
    for quantity in ("batch_s", "epoch_s"):
        of_rows = {
            f"{r.workload} with {r.workers} workers": getattr(getattr(r, quantity), "median", None) for r in rows
        }
        low, high = WORKLOAD_LIMITS
        target = f"{quantity}: median ratio within {low}..{high} on each workload"
        lines.append(_verdict(target, workload_medians(rows, quantity), low, high))
        low, high = ROW_LIMITS
        lines.append(_verdict(f"{quantity}: no number of workers outside {low}..{high}", of_rows, low, high))
    return lines


def _verdict(target: str, found: Mapping[str, float | None], low: float, high: float) -> str:
    missed = [
        f"{what} ({'no value' if value is None else f'{value:.3f}'})"
        for what, value in found.items()
        if value is None or not low <= value <= high
    ]
    return f"{target}: " + (f"missed by {', '.join(missed)}" if missed else "met" if found else "nothing was measured")


def page(rows: Sequence[Row], workloads: Sequence[Workload], origin: str) -> str:
    """The whole page, in Markdown."""
    parts = [
        "# How far nws_sweep's figures are from a stopwatch's",
        _INTRODUCTION,
        origin,
        "## Targets\n\n" + "\n".join(f"- {verdict}" for verdict in verdicts(rows)),
        "## Figures\n\nMedian over the rounds (lowest to highest).\n\n" + table(rows),
        "## Workloads\n\n" + "\n".join(workload.line for workload in workloads),
    ]
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Row]) -> str:
    """A line per row, and one per workload for its median."""
    batch, epoch = workload_medians(rows, "batch_s"), workload_medians(rows, "epoch_s")
    lines = [_HEAD]
    for name in dict.fromkeys(row.workload for row in rows):
        lines += [_line(row) for row in rows if row.workload == name]
        lines.append(f"| **{name}** | median | | **{_plain(batch[name])}** | | **{_plain(epoch[name])}** | |")
    return "\n".join(lines + [f"\n{row.workload} with {row.workers} workers: {f}" for row in rows for f in row.faults])


def _line(row: Row) -> str:
    bare = "" if row.bare_batch_s is None else f"{1000 * row.bare_batch_s:.2f}"
    width = "" if row.half_width is None else f"± {100 * row.half_width:.1f} %"
    cells = (
        row.workload, str(row.workers), bare, _shown(row.batch_s), width, _shown(row.epoch_s), _shown(row.drift),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _shown(ratios: Ratios | None) -> str:
    return "" if ratios is None else f"{ratios.median:.3f} ({ratios.low:.3f} to {ratios.high:.3f})"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
