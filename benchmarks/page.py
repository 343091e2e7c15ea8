"""The page of results, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.catalogue import Workload
from benchmarks.comparison import Ratios, Row, verdicts, workload_medians
from nws_sweep.records import Host

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the figures come from.

    Attributes:
        host: The machine.
        command: The command line that made the page.
        date: The day, ISO 8601.
        rounds: Rounds, or repeats.
        threads: Threads that torch was given per process, as OMP_NUM_THREADS says.
    """

    host: Host
    command: str
    date: str
    rounds: int
    threads: str


def page(rows: Sequence[Row], workloads: Sequence[Workload], origin: Origin) -> str:
    """The whole page."""
    parts = [
        "# How far nws_sweep's figures are from a stopwatch's",
        _INTRODUCTION,
        origin_line(origin, "round"),
        "## Targets\n\n" + "\n".join(f"- {verdict}" for verdict in verdicts(rows)),
        "## Figures\n\nMedian over the rounds (lowest to highest).\n\n" + table(rows),
        "## Workloads\n\n" + "\n".join(about(workload) for workload in workloads),
    ]
    return "\n\n".join(parts) + "\n"


def origin_line(origin: Origin, unit: str) -> str:
    """One sentence; the unit is what it has several of."""
    host = origin.host
    return (
        f"Made on {origin.date} by `{origin.command}`, {origin.rounds} {unit}{'s' * (origin.rounds != 1)}, on "
        f"{host.cpu_model}, {host.usable_cpus} usable of {host.cpu_count} cores, torch {host.torch}, Python "
        f"{host.python}, OMP_NUM_THREADS={origin.threads}."
    )


def about(workload: Workload) -> str:
    """A line of a list."""
    return f"- {workload.name}: {workload.about}, {workload.batches} batches an epoch"


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
        row.workload, str(row.workers), bare, _ratios(row.batch_s), width, _ratios(row.epoch_s), _ratios(row.drift),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _ratios(ratios: Ratios | None) -> str:
    return "" if ratios is None else f"{ratios.median:.3f} ({ratios.low:.3f} to {ratios.high:.3f})"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
