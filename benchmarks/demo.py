"""Runs ``scripts/demo``, and keeps its tables, its picture and its report for the
documents."""

import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import support
from benchmarks.results import Results, Table
from nws_sweep import units
from nws_sweep.analysis.summary import ConfigurationSummary, Summary, summarise
from nws_sweep.records import storage
from nws_sweep.report import snippets

_ABOUT = {
    "photos": "real: JPEG files, decoded and cropped",
    "objects": "simulated: each sample waits 20 ms, as a remote object does",
    "step": "real JPEG files, a simulated training step of 80 ms",
    "tensors": "real: tensors in memory",
}
_DOCS = Path("docs")
_PICTURE = "time_vs_num_workers.png"
_HEADER = [
    "workload",
    "samples",
    "best num_workers",
    "CPU count",
    "speed-up over the CPU count",
    "the rule is",
]
_MEASURING = """\
What `scripts/demo` measures: a grid of configurations, and four workloads for which the rule of thumb "as many workers
as CPUs" is right or wrong. `grid.csv` is of the last run, as are
`docs/example-report.html` and the picture of the workloads; `rule_of_thumb.csv` has the median of all runs, and in
brackets the lowest and the highest value where they differ."""


def run(output: Path, repeats: int, command: str) -> None:
    """Writes the results; the report and the picture go to the documents."""
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / f"demo-{number}" for number in range(repeats)]
        for folder in folders:
            subprocess.run(
                ["scripts/demo"],
                check=True,
                env={**os.environ, "DEMO_DIR": str(folder)},
            )
        grid, last = (folders[-1] / part for part in ("photos", "workloads"))
        workloads = [summarise(storage.find(folder / last.name)) for folder in folders]
        origin = support.origin(command, repeats, "run")
        results = results_of(summarise(storage.find(grid)), workloads)
        results.write(output, origin)
        shutil.copy(grid / storage.PAGE, _DOCS / "example-report.html")
        shutil.copy(last / storage.PLOTS / _PICTURE, _DOCS / "images" / "demo.png")
    support.print_line(f"written to {output}")


def results_of(grid: Summary, workloads: Sequence[Summary]) -> Results:
    """The tables of a grid, and of the workloads in each run."""
    header, *best = snippets.best_table(grid)
    rows = [
        _row(runs)
        for runs in zip(*(summary.configurations for summary in workloads), strict=True)
    ]
    return Results(
        title="The demo",
        headline="",
        about=_MEASURING,
        tables=[Table("grid", header, best), Table("rule_of_thumb", _HEADER, rows)],
    )


def _row(runs: Sequence[ConfigurationSummary]) -> list[str]:
    first, best = (
        runs[0].run,
        [summary.best.num_workers for summary in runs if summary.best],
    )
    name, count = (
        first.folder.name.partition("=")[2].partition(",")[0],
        first.result.host.usable_cpus,
    )
    if not best:
        return [name, _ABOUT[name], "", str(count), "", "not measured"]
    over_cpus = [
        summary.gain_over(summary.configuration.search.reference) for summary in runs
    ]
    gains = [gain.value for gain in over_cpus if gain]
    judged = verdict(statistics.median_low(best), count)
    return [
        name,
        _ABOUT[name],
        numbers_of(best),
        str(count),
        speed_up(gains),
        judged,
    ]


def numbers_of(best: Sequence[int]) -> str:
    """Median, and lowest and highest number if they differ."""
    median, low, high = statistics.median_low(best), min(best), max(best)
    return str(median) if low == high else f"{median} ({low} to {high})"


def speed_up(gains: Sequence[float]) -> str:
    """Median, and lowest and highest value if they differ, with the digits of tables;
    empty without values."""
    if not gains:
        return ""
    number, between = units.quotient(
        statistics.median_low(gains), min(gains), max(gains)
    )
    if not number:
        return between
    if float(number) == 1.0:
        return "the same"
    return f"{number}x" if min(gains) == max(gains) else f"{number}x ({between})"


def verdict(best: int, count: int) -> str:
    """How a rule of thumb that gives ``count`` workers compares with the best
    number."""
    if best == count:
        return "right"
    return "too few" if best > count else "too many" if best else "worse than none"
