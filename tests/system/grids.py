"""Grids that a test starts, watches and interferes with."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from nws_sweep import storage
from nws_sweep.records import SearchRecord

SMALL = ("dataset=sleep", "dataset.seconds_per_sample=0.0005", "measure=quick", "search.max_workers=1",
         "hydra.sweep.dir=grid")  # fmt: skip
TIMEOUT_S = 300


@contextlib.contextmanager
def started(*overrides: str, environment: dict[str, str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "nws_sweep", "-m", *overrides],
        cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def results(folder: Path) -> dict[int | None, SearchRecord]:
    """Those of a grid, by their batch size."""
    return {run.result.configuration.loader.batch_size: run.result for run in storage.find(folder).runs}


def command_of(process: psutil.Process) -> str:
    """Its command line; empty if it has ended meanwhile, as others' processes do at any time."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def begun(folder: Path, batch_size: int) -> bool:
    """Whether the job of a point has begun to measure, or waits for its turn."""
    return any(f"batch_size={batch_size}," in path.parent.name for path in folder.glob(f"*/{storage.RESULT}"))
