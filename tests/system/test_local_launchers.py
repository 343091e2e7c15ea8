"""Launchers that run jobs at the same time on one machine: of no use for timing, but what they find is right."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import psutil
import pytest

from nws_sweep import processes
from tests.conftest import Command
from tests.system.conftest import lacking
from tests.system.grids import SMALL, TIMEOUT_S, begun, results, started, wait


@pytest.fixture(autouse=True)
def launchers() -> None:
    for name in ("submitit", "joblib"):
        if importlib.util.find_spec(name) is None:
            lacking(f"Hydra's launcher for {name}")


@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_the_lock_makes_jobs_measure_one_after_the_other(nws: Command, tmp_path: Path, launcher: str) -> None:
    done = nws("-m", f"hydra/launcher={launcher}", *SMALL, "batch_size=4,8")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = results(tmp_path / "grid")
    assert {size: len(record.trials) for size, record in found.items()} == {4: 2, 8: 2}
    waits_s = sorted(record.cost.waiting_s for record in found.values() if record.cost)
    assert waits_s[0] < 1.0 < waits_s[1]


def test_points_get_another_chance_when_joblib_gives_up(environment: dict[str, str], tmp_path: Path) -> None:
    """One worker that dies takes all others with it."""
    overrides = ("hydra/launcher=joblib", *SMALL, "batch_size=4,8")
    with started(*overrides, environment=environment, cwd=tmp_path) as process:
        wait(lambda: begun(tmp_path / "grid", 4))
        family = psutil.Process(process.pid).children(recursive=True)
        worker = next(one for one in family if processes.is_alive(one) and "LokyProcess-" in " ".join(one.cmdline()))
        worker.kill()
        told, _ = process.communicate(timeout=TIMEOUT_S)
    assert {size: record.complete for size, record in results(tmp_path / "grid").items()} == {4: True, 8: True}, told
