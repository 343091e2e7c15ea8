"""Runs ``scripts/demo``, and keeps its tables, its picture and its report for the documents."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks import support
from nws_sweep.analysis.summary import ConfigurationSummary, Summary, summarise
from nws_sweep.report import snippets
from nws_sweep.results import storage

_ABOUT = {
    "photos": "real: JPEG files, decoded and cropped",
    "objects": "simulated: each sample waits 20 ms, as a remote object does",
    "step": "real JPEG files, a simulated training step of 80 ms",
    "tensors": "real: tensors in memory",
}
_PICTURE = "throughput_vs_num_workers.png"
_HEADER = ["workload", "samples", "best num_workers", "CPU count", "speed-up over the CPU count", "the rule is"]
_INTRODUCTION = """\
What `scripts/demo` measures: a grid of configurations, and four workloads for which the rule of thumb "as many workers
as CPUs" is right or wrong. [example-report.html](example-report.html) is the report of the grid."""


def run(output: Path, command: str) -> None:
    """Writes the page, and beside it the report; the picture goes to ``images`` beside the folder of the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "demo"
        subprocess.run(["scripts/demo"], check=True, env={**os.environ, "DEMO_DIR": str(folder)})
        grid, workloads = (summarise(storage.find(folder / part)) for part in ("photos", "workloads"))
        output.write_text(page(grid, workloads, support.origin(command, 1, "run")), "utf-8")
        shutil.copy(folder / "photos" / storage.PAGE, output.with_name("example-report.html"))
        shutil.copy(folder / "workloads" / storage.PLOTS / _PICTURE, output.parent.parent / "images" / "demo.png")
    support.print_line(f"written to {output}")


def page(grid: Summary, workloads: Summary, origin: str) -> str:
    """The page of these results."""
    rows = [_row(configuration) for configuration in workloads.configurations]
    sections = [
        "# The demo",
        _INTRODUCTION,
        origin,
        f"## A grid\n\n{snippets.as_markdown_table(grid)}",
        f"## The rule of thumb\n\n{snippets.markdown_table(_HEADER, rows)}",
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _row(summary: ConfigurationSummary) -> list[str]:
    name = summary.run.folder.name.partition("=")[2].partition(",")[0]
    best, gain, count = summary.best, summary.gain_over_reference, summary.run.result.host.usable_cpus
    if best is None:
        return [name, _ABOUT[name], "", str(count), "", "not measured"]
    times = f"{gain.value:.2f}x" if gain else ""
    return [name, _ABOUT[name], str(best.num_workers), str(count), times, verdict(best.num_workers, count)]


def verdict(best: int, count: int) -> str:
    """How a rule of thumb that gives ``count`` workers compares with the best number."""
    if best == count:
        return "right"
    return "too few" if best > count else "too many" if best else "worse than none"
