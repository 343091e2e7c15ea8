"""Start-up stays quick because heavy packages are imported where they are used."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("torch", "torchvision", "matplotlib", "pandas", "rich", "psutil", "PIL")


def imported(*arguments: str) -> set[str]:
    """Top-level packages that a command line imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "nws_sweep", *arguments],
        capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert lines
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"], ["batch_size=0"], ["best", "--help"]])
def test_heavy_packages_are_not_imported_before_they_are_needed(arguments: list[str]) -> None:
    assert not imported(*arguments) & set(HEAVY)


def test_report_does_not_import_torch() -> None:
    assert not imported("report", "/nowhere") & {"torch", "torchvision"}


def test_help_takes_less_than_two_bare_hydra_programs(tmp_path: Path) -> None:
    """A ratio of minima of runs in turn, for machines differ; the budget of half a second is meant against 0.31 s."""
    bare = tmp_path / "bare.py"
    bare.write_text('import hydra\n@hydra.main(version_base="1.3", config_path=None)\ndef main(config): pass\nmain()\n')
    commands = {"bare": [str(bare)], "ours": ["-m", "nws_sweep"]}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(4):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *command, "--help"], check=True, capture_output=True, cwd=ROOT)
            seconds[name].append(time.perf_counter() - began)
    assert min(seconds["ours"]) < 2 * min(seconds["bare"])
