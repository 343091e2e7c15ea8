from __future__ import annotations

import importlib.util
from pathlib import Path

import psutil
import pytest

from nws_sweep import processes, storage
from tests.conftest import Command
from tests.system.conftest import lacking
from tests.system.grids import SMALL, TIMEOUT_S, begun, command_of, results, started
from tests.system.program import wait_until

ON_RAY = ("hydra/launcher=ray", "+hydra.launcher.ray.init.include_dashboard=false", *SMALL)


@pytest.fixture(autouse=True)
def ray(environment: dict[str, str], tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        lacking("Ray's launcher")
    environment |= {"HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


def test_a_grid_is_measured_by_tasks_and_one_that_dies_is_a_row(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "grid"
    with started(*ON_RAY, "batch_size=4,8,16", environment=environment, cwd=tmp_path) as process:
        wait_until(lambda: begun(folder, 4))
        family = psutil.Process(process.pid).children(recursive=True)
        (task,) = [one for one in family if "_run_job" in command_of(one)]
        task.kill()
        told, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, told
    found = results(folder)
    assert {size: record.complete for size, record in found.items()} == {4: False, 8: True, 16: True}
    assert found[4].error.startswith("the task was lost: ")
    assert "batch_size=4: the task was lost" in (folder / storage.REPORT).read_text("utf-8")
    assert "best: num_workers=" in told  # of the tasks, as they go
    wait_until(lambda: not [one for one in family if processes.is_alive(one)])


def test_a_cluster_that_cannot_be_reached_is_one_line(nws: Command) -> None:
    done = nws("-m", *ON_RAY[2:], "hydra/launcher=ray", "hydra.launcher.ray.init.address=auto")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("nws_sweep: hydra/launcher: nothing could be launched: ")
