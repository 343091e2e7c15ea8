import contextlib
import os
import sys
from collections.abc import Iterator

import psutil
import pytest

from nws_sweep.records import storage
from tests.cluster.program import (
    SMALL,
    TIMEOUT_S,
    Program,
    complete,
    has_started,
    results,
    wait_until,
)
from tests.cluster.slurm import PROGRAMS, Slurm, members

ON_SLURM = (*SMALL, "hydra/launcher=slurm")
pytestmark = pytest.mark.xdist_group("slurm")


@pytest.fixture
def program(program: Program, cluster: Slurm) -> Iterator[Program]:
    program.python = sys.executable
    program.environment.update(cluster.environment)
    yield program
    wait_until(lambda: not cluster.queue(), step_s=0.5)
    program.check_no_process_left()


def python_of(cluster: Slurm, element: int) -> psutil.Process:
    found = []
    for process in members(cluster):
        with contextlib.suppress(psutil.Error):
            is_python = (
                "submitit.core._submit" in process.cmdline()
                and process.name() not in PROGRAMS
            )
            if is_python and process.environ().get("SLURM_ARRAY_TASK_ID") == str(
                element
            ):
                found.append(process)
    (one,) = found
    return one


def test_a_grid_is_measured_on_the_nodes_and_reported_here(program: Program) -> None:
    status, printed = program.run(*ON_SLURM, "batch_size=4,8")
    assert status == 0, printed
    folder = program.folder / "grid"
    found = results(folder)
    assert {size: len(result["trials"]) for size, result in found.items()} == {
        4: 2,
        8: 2,
    }
    assert complete(folder) == {4: True, 8: True}
    # a node each
    assert sorted(result["host"]["usable_cpus"] for result in found.values()) == [
        1,
        os.cpu_count(),
    ]
    report = (folder / storage.REPORT).read_text("utf-8")
    assert "times of unlike machines cannot be compared: " in report
    logs = [path.read_text() for path in (folder / ".submitit").rglob("*_log.out")]
    assert sum("\n  num_workers=" in log for log in logs) == 2


def test_a_lost_job_is_a_row_and_the_same_command_measures_it(
    program: Program, cluster: Slurm
) -> None:
    folder, grid = program.folder / "grid", (*ON_SLURM, "batch_size=4,8")
    process = program.start(*grid)
    wait_until(lambda: has_started(folder, 4))
    python_of(cluster, 0).kill()
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, printed
    assert "Traceback" not in printed
    error = results(folder)[4]["error"]
    assert error.startswith("the launcher failed: UncompletedJobError: Job ")
    assert "(state: FAILED)" in error
    assert (
        "batch_size=4: "
        in (folder / storage.REPORT).read_text("utf-8").partition("## Failures")[2]
    )
    wait_until(lambda: not cluster.queue(), step_s=0.5)  # the other job continues
    assert complete(folder) == {4: False, 8: True}
    before = results(folder)[8]
    status, printed = program.run(*grid)
    assert (status, printed.count("measured before")) == (0, 1), printed
    assert complete(folder) == {4: True, 8: True}
    assert results(folder)[8] == before


def test_a_rejected_submission_is_one_line(program: Program) -> None:
    status, printed = program.run(
        *ON_SLURM, "batch_size=4,8", "hydra.launcher.partition=none"
    )
    assert status == 2
    (line,) = [line for line in printed.splitlines() if line.startswith("nws_sweep: ")]
    assert line.startswith("nws_sweep: the launcher failed: ")
    assert "invalid partition specified: none" in line
