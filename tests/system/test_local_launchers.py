"""Launchers that run jobs at the same time on one machine: of no use for timing, but what they find is right."""

from __future__ import annotations

import importlib.util
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from nws_sweep.records import SearchRecord
from tests.conftest import Command
from tests.system.conftest import lacking
from tests.system.grids import SMALL, TIMEOUT_S, begun, command_of, results, started
from tests.system.program import wait_until


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
    first, second = sorted(measuring(record) for record in found.values())
    assert first[1] <= second[0]


def measuring(record: SearchRecord) -> tuple[float, float]:
    """From when to when, s."""
    assert record.cost is not None
    began_s = datetime.fromisoformat(record.started_at).timestamp() + record.cost.waiting_s
    return began_s, began_s + record.cost_s


def test_points_get_another_chance_when_joblib_gives_up(environment: dict[str, str], tmp_path: Path) -> None:
    """One worker that dies takes all others with it."""
    overrides = ("hydra/launcher=joblib", *SMALL, "batch_size=4,8")
    with started(*overrides, environment=environment, cwd=tmp_path) as process:
        wait_until(lambda: begun(tmp_path / "grid", 4))
        family = psutil.Process(process.pid).children(recursive=True)
        worker = next(one for one in family if "LokyProcess-" in command_of(one))
        worker.kill()
        told, _ = process.communicate(timeout=TIMEOUT_S)
    assert {size: record.complete for size, record in results(tmp_path / "grid").items()} == {4: True, 8: True}, told
