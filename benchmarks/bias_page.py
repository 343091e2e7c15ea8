"""The page of ``scripts/benchmark bias``: ratios of nws_sweep's times to those of a plain loop. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.catalogue import Workload
from benchmarks.journal import BARE_AFTER, BARE_BEFORE, NWS_SWEEP, Figure

# Targets for the medians of workloads and of rows.
WORKLOAD_LIMITS = (0.98, 1.02)
ROW_LIMITS = (0.95, 1.05)

_INTRODUCTION = """\
Times measured by nws_sweep compared with those of a plain timed loop on the same machine: a bare loop over whole epochs
for each num_workers in a fresh process, then one exhaustive search by nws_sweep with its default rules, then the
bare loops again. A ratio is nws_sweep's time / the mean of the two bare times; 1 is unbiased. The first epoch of a bare
process includes one-time work and is not counted, unless it is the only one because it lasts 8 s (with --quick 2 s).

- batch_s: steady seconds per batch. In the bare loop the timed part begins after as many batches as the queue holds
  (workers x prefetch_factor), ends when no batch is left to be made, and is a whole multiple of the workers; over all
  epochs.
- epoch_s: from just before `iter(loader)` to the end of the workers after the last training step. nws_sweep
  projects it.
- interval: the median half width of the intervals of batch_s that nws_sweep gives, nominally 95 %.
- bare after / before: batch_s of the bare loops after / before the search. It is 1 on a quiet machine; its distance
  from 1 is the uncertainty of the other ratios."""

_HEAD = (
    "| workload | workers | bare batch_s (ms) | batch_s: nws_sweep / bare | interval | epoch_s: nws_sweep / bare "
    "| bare after / before |\n|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios of several rounds; 1 is unbiased."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload with one num_workers, over all rounds; None for a quantity without a value in any round."""

    workload: str
    workers: int
    bare_batch_s: float | None  # median of the bare loop
    batch_s: Ratios | None  # nws_sweep / mean of the bare loops before and after
    epoch_s: Ratios | None  # nws_sweep / mean of the bare loops before and after
    half_width: float | None  # median half width of nws_sweep's intervals, as a share
    drift: Ratios | None  # bare batch_s after / before the search: noise of the machine
    faults: tuple[str, ...] = ()  # distinct reasons why nws_sweep has no value


def rows_of(figures: Sequence[Figure]) -> list[Row]:
    """A row per workload, in order of appearance, and num_workers, ascending."""
    workloads = dict.fromkeys(figure.workload for figure in figures)
    numbers = sorted({figure.workers for figure in figures})
    groups = [[f for f in figures if (f.workload, f.workers) == (name, n)] for name in workloads for n in numbers]
    return [_row(group) for group in groups if group]


def _row(group: Sequence[Figure]) -> Row:
    rounds = [{f.kind: f for f in group if f.round == number} for number in sorted({f.round for f in group})]
    bare = [f.batch_s for f in group if f.kind != NWS_SWEEP and f.batch_s is not None]
    widths = [f.half_width for f in group if f.half_width is not None]
    own = [f for f in group if f.kind == NWS_SWEEP]
    return Row(
        workload=group[0].workload,
        workers=group[0].workers,
        bare_batch_s=median(bare),
        batch_s=_ratios(_to_bare(r, "batch_s") for r in rounds),
        epoch_s=_ratios(_to_bare(r, "epoch_s") for r in rounds),
        half_width=median(widths),
        drift=_ratios(_drift(r) for r in rounds),
        faults=tuple(dict.fromkeys(f"{f.detail.get('state')}: {f.detail.get('reason')}" for f in own if not f.epoch_s)),
    )


def _to_bare(sides: Mapping[str, Figure], quantity: str) -> float | None:
    before, own, after = (getattr(sides.get(kind), quantity, None) for kind in (BARE_BEFORE, NWS_SWEEP, BARE_AFTER))
    return None if before is None or own is None or after is None else own / ((before + after) / 2)


def _drift(sides: Mapping[str, Figure]) -> float | None:
    before, after = (getattr(sides.get(kind), "batch_s", None) for kind in (BARE_BEFORE, BARE_AFTER))
    return None if before is None or after is None else after / before


def _ratios(values: Iterable[float | None]) -> Ratios | None:
    known = [value for value in values if value is not None]
    return Ratios(statistics.median(known), min(known), max(known)) if known else None


def median(values: Sequence[float]) -> float | None:
    """The median; None without values."""
    return statistics.median(values) if values else None


def workload_medians(rows: Sequence[Row], quantity: str) -> dict[str, float | None]:
    """Per workload, the median over num_workers of the medians over the rounds."""
    found: dict[str, list[float]] = {row.workload: [] for row in rows}
    for row in rows:
        if ratios := getattr(row, quantity):
            found[row.workload].append(ratios.median)
    return {name: median(values) for name, values in found.items()}


def verdicts(rows: Sequence[Row]) -> list[str]:
    """One sentence per target and quantity: met, or missed by which rows."""
    lines = []
    for quantity in ("batch_s", "epoch_s"):
        of_rows = {
            f"{r.workload} with {r.workers} workers": getattr(getattr(r, quantity), "median", None) for r in rows
        }
        low, high = WORKLOAD_LIMITS
        target = f"{quantity}: median ratio within {low}..{high} on each workload"
        lines.append(_verdict(target, workload_medians(rows, quantity), low, high))
        low, high = ROW_LIMITS
        lines.append(_verdict(f"{quantity}: no num_workers outside {low}..{high}", of_rows, low, high))
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
        "# Bias: times of nws_sweep compared with a plain loop",
        f"{_found(rows)} {origin}",
        _INTRODUCTION,
        "## Figures\n\nMedian over the rounds (lowest to highest).\n\n" + table(rows),
        "## Workloads\n\n" + "\n".join(workload.line for workload in workloads),
        "## Targets\n\n" + "\n".join(f"- {verdict}" for verdict in verdicts(rows)),
    ]
    return "\n\n".join(parts) + "\n"


def _found(rows: Sequence[Row]) -> str:
    """The ranges of the medians of the workloads and of the rows."""
    lines = []
    for name, meaning in (("batch_s", "The time per batch"), ("epoch_s", "The time of an epoch")):
        ratios: list[Ratios | None] = [getattr(row, name) for row in rows]
        medians = [*filter(None, workload_medians(rows, name).values())]
        if single := [one.median for one in ratios if one]:
            lines.append(
                f"{meaning} (`{name}`) by nws_sweep is {min(medians):.3f} to {max(medians):.3f} times that of a bare "
                f"loop in the medians of the workloads, {min(single):.3f} to {max(single):.3f} times in single rows."
            )
    return " ".join(lines)


def table(rows: Sequence[Row]) -> str:
    """A line per row and one per workload with its median."""
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
