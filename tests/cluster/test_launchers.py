import contextlib
import shlex
import sys

import psutil
import pytest

from nws_sweep.records import storage
from tests.cluster.conftest import need
from tests.cluster.program import (
    SMALL,
    TIMEOUT_S,
    Program,
    complete,
    results,
    wait_until,
)
from tests.conftest import Command
from tests.test_docs import ON_CLUSTERS, every_command

ON_RAY = (*SMALL, "hydra/launcher=ray")


@pytest.fixture
def program(program: Program, environment: dict[str, str]) -> Program:
    need("submitit", "joblib", "ray")
    ray = {
        "HOME": str(program.folder),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    environment |= ray
    program.python = sys.executable
    program.environment |= ray
    return program


@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_the_lock_serialises_the_jobs(program: Program, launcher: str) -> None:
    status, printed = program.run(
        *SMALL, f"hydra/launcher={launcher}", "batch_size=4,8"
    )
    assert status == 0, printed
    found = results(program.folder / "grid")
    assert {size: len(result["trials"]) for size, result in found.items()} == {
        4: 2,
        8: 2,
    }
    written = (
        path.stat().st_mtime
        for path in sorted((program.folder / "grid").rglob(storage.RESULT))
    )
    (first_ended_s, _), (second_ended_s, second_s) = sorted(
        (ended_s, found[size]["cost_s"])
        for size, ended_s in zip((4, 8), written, strict=True)
    )
    # it ends with the writing of its result
    assert first_ended_s <= second_ended_s - second_s


def test_ray_tasks_measure_a_grid_and_the_same_command_repeats_a_lost_one(
    program: Program,
) -> None:
    folder, grid = (
        program.folder / "grid",
        (*ON_RAY, "+hydra.launcher.ray.init.include_dashboard=false"),
    )
    process = program.start(*grid, "batch_size=4,8")
    # Ray may start either task first.
    wait_until(
        lambda: (
            sorted(complete(folder).values()) == [False, True]
            and len(running_tasks(process.pid)) == 1
        )
    )
    (lost,) = [
        size for size, is_complete in complete(folder).items() if not is_complete
    ]
    running_tasks(process.pid)[0].kill()
    # perhaps with a traceback of the killed task's processes
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    program.check_nothing_left()
    assert process.returncode == 1, printed
    assert complete(folder) == {4: lost != 4, 8: lost != 8}
    assert results(folder)[lost]["error"].startswith("the launcher failed: ")
    assert f"batch_size={lost}: the launcher failed" in (
        folder / storage.REPORT
    ).read_text("utf-8")
    assert "measured num_workers=" in printed  # printed by the tasks
    status, printed = program.run(*grid, "batch_size=4,8")
    assert (status, complete(folder)) == (0, {4: True, 8: True}), printed


def running_tasks(pid: int) -> list[psutil.Process]:
    """Ray's processes of a program that execute a task at the moment."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "_run_job" in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.mark.parametrize(
    "command", [line for line in every_command() if ON_CLUSTERS in line]
)
def test_every_documented_cluster_command_composes(nws: Command, command: str) -> None:
    need("submitit", "ray")
    # --cfg takes no grid
    single = [
        each for each in shlex.split(command)[1:] if each != "-m" and "," not in each
    ]
    done = nws(*single, "--cfg", "hydra", "-p", "hydra.launcher")
    assert (done.returncode, done.stderr) == (0, "")
    assert "_target_: hydra_plugins.hydra_" in done.stdout
