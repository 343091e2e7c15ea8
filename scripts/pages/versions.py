"""Uses nws_sweep as README.md does, then runs the tests, with the versions of this
environment.

``python -m scripts.pages.versions NAME`` writes the row of that name in
docs/get-started/install.md; further arguments go to pytest, and the page stays as it
is. scripts/test-versions makes the environments.
"""

import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from nws_sweep.report.snippets import markdown_table
from scripts.pages.reference import ROOT
from tests.hosts import write_training_host

PAGE = ROOT / "docs" / "get-started" / "install.md"
_BEGIN, _END = "<!-- versions -->\n", "<!-- end -->"
_GRID = ("-m", "nws_sweep", "-m", "batch_size=64,256", "pin_memory=true,false")
_SMALL = (
    "dataset.count=32",
    "max_workers=1",
    "measure=quick",
    "measure.window_s=0.01",
    "measure.trial_limit_s=0.1",
)
_PROGRAM = """\
import nws_sweep
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    dataset = TensorDataset(torch.arange(640.0))
    limits = {{"max_workers": 2, "reuse": "never"}}
    loader = {loader}
    assert [sum(len(batch) for (batch,) in loader) for _ in range(2)] == [640, 640]
"""
_LOADER = "DataLoader(dataset, batch_size=64, shuffle=True)"
_RESULT = "nws_sweep.search(dataset, batch_size=64, shuffle=True, **limits)"
WAYS: Mapping[str, Sequence[str]] = {
    "grid": (*_GRID, *_SMALL),
    "`search`": (
        "-c",
        _PROGRAM.format(
            loader=f"DataLoader(dataset, batch_size=64, **{_RESULT}.loader_kwargs)"
        ),
    ),
    "`tune`": ("-c", _PROGRAM.format(loader=f"nws_sweep.tune({_LOADER}, **limits)")),
    "`autotune`": (
        "-c",
        _PROGRAM.format(loader=f"nws_sweep.autotune({_LOADER}, **limits)"),
    ),
    "`+nws_sweep=autotune`": ("train.py", "+nws_sweep=autotune"),
    "`+nws_sweep=search`": ("train.py", "+nws_sweep=search"),
}


def result_of(arguments: Sequence[str], folder: Path) -> str:
    """Runs Python in that folder: passed, or failed with its output printed, for a
    warning too."""
    environment = os.environ | {"NWS_SWEEP_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0 and "Warning" not in done.stderr:
        return "passed"
    print(
        *arguments, done.stdout, done.stderr, f"exit status {done.returncode}", sep="\n"
    )
    return "failed"


def tested(arguments: Sequence[str]) -> tuple[str, int]:
    """Runs the tests; the counts of pytest's last line, such as ``1700 passed, 3
    skipped``, and its exit status."""
    # Old packages beside new ones that have deprecated something; Hydra's warnings
    # are of other classes.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-W",
        "ignore::DeprecationWarning",
        *arguments,
    ]
    last = ""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line.strip("= \n") or last
    return last.partition(" in ")[0], process.returncode


def write_row(row: Sequence[str]) -> None:
    """Replaces or appends the row of the same first cell in the table of the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    table, _, after = rest.partition(_END)
    header = ["", "versions", *WAYS, "tests", "date"]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    rows = {
        cells[0]: cells
        for cells in (
            [cell.strip() for cell in line.split("|")[1:-1]] for line in lines
        )
    }
    rows[row[0]] = list(row)
    PAGE.write_text(
        f"{before}{_BEGIN}\n{markdown_table([header, *rows.values()])}\n{_END}{after}",
        "utf-8",
    )


def main(name: str, *arguments: str) -> int:
    """Runs everything; the exit status is not 0 if anything failed."""
    versions = f"Python {platform.python_version()}, torch {version('torch')}, Hydra {version('hydra-core')}"
    print(f"{name}: {versions}")
    with tempfile.TemporaryDirectory() as folder:
        results = {
            way: result_of(command, write_training_host(Path(folder)))
            for way, command in WAYS.items()
        }
    print(
        *(f"{way}: {result}" for way, result in results.items()), sep="\n", flush=True
    )
    counts, status = tested(arguments)
    if not arguments:
        write_row(
            [
                name,
                versions,
                *results.values(),
                counts,
                datetime.date.today().isoformat(),
            ]
        )
    return 1 if "failed" in results.values() else status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
