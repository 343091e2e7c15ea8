"""``+nws_sweep=online`` in another Hydra program, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from nws_sweep.results import storage
from nws_sweep.results.settings import ONLINE_STRATEGY
from tests.conftest import COMMAND_TIMEOUT_S
from tests.hosts import write_training_host


def run(folder: Path, environment: Mapping[str, str], *overrides: str) -> subprocess.CompletedProcess[str]:
    """Runs the program."""
    command = [sys.executable, "train.py", *overrides, "hydra.run.dir=run"]
    return subprocess.run(
        command, cwd=folder, env={**environment}, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )


def test_the_training_of_an_unchanged_program_gets_workers_while_it_runs(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = write_training_host(tmp_path)
    plain = run(folder, environment)
    tuned = run(folder, environment, "+nws_sweep=online", "loader.dataset.length=2000")
    assert (plain.returncode, tuned.returncode) == (0, 0), tuned.stderr
    printed = [line for line in tuned.stdout.splitlines() if "[nws_sweep." not in line]
    assert printed == plain.stdout.replace("119", "1999").splitlines()
    record = storage.load(folder / "run" / "nws_sweep").result
    assert record.configuration.search.strategy == ONLINE_STRATEGY
    assert record.verdict is not None
    assert any(trial.num_workers for trial in record.trials)  # on a busy machine the change may be undone
    assert "num_workers: " in (folder / "run" / "nws_sweep" / storage.BEST).read_text("utf-8")
    assert "num_workers=" in (folder / "run" / "train.log").read_text("utf-8")
    report = subprocess.run(
        [sys.executable, "-m", "nws_sweep", "report", str(folder / "run" / "nws_sweep")],
        env={**environment}, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert report.returncode == 0, report.stderr
    assert (folder / "run" / "nws_sweep" / storage.REPORT).exists()


@pytest.mark.parametrize("override", ["max_workers=-1", "settings=[pin_memory]", "reuse=often"])
def test_a_wrong_option_stops_the_program_with_one_line(
    tmp_path: Path, environment: dict[str, str], override: str
) -> None:
    name = f"hydra.callbacks.nws_sweep.{override}"
    failed = run(write_training_host(tmp_path), environment, "+nws_sweep=online", name)
    assert failed.returncode != 0
    assert "nws_sweep: " in failed.stderr
    assert "allowed is" in failed.stderr
    assert "Traceback" not in failed.stderr
