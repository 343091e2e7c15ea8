from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nws_sweep import storage
from tests.conftest import Command
from tests.system.grids import SMALL, TIMEOUT_S, begun, results, started
from tests.system.program import wait_until
from tests.system.slurm import Slurm, members

_DAEMONS = ("munged", "slurmctld", "slurmd", "slurmstepd")


@pytest.fixture(autouse=True)
def on_the_cluster(environment: dict[str, str], cluster: Slurm) -> Iterator[None]:
    """Whatever becomes of the jobs, none of their processes is there afterwards."""
    environment.update(cluster.environment)
    yield
    wait_until(lambda: not cluster.queue())
    wait_until(lambda: not [process for process in members(cluster) if _name(process) not in _DAEMONS])


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return _DAEMONS[0]


def python_of(cluster: Slurm, element: int) -> psutil.Process:
    """The process of an element of the array."""
    (found,) = [process for process in members(cluster) if is_python_of(process, element)]
    return found


def is_python_of(process: psutil.Process, element: int) -> bool:
    """Whether it is that; no process is that has ended meanwhile."""
    try:
        return (
            process.environ().get("SLURM_ARRAY_TASK_ID") == str(element)
            and "submitit.core._submit" in process.cmdline()
            and "srun" not in process.name()
        )
    except psutil.Error:
        return False


def test_a_grid_is_measured_on_the_nodes_and_reported_here(nws: Command, tmp_path: Path) -> None:
    done = nws("-m", "hydra/launcher=slurm", *SMALL, "batch_size=4,8")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = results(tmp_path / "grid")
    assert {size: len(record.trials) for size, record in found.items()} == {4: 2, 8: 2}
    assert all(record.complete for record in found.values())
    assert sorted(record.host.usable_cpus for record in found.values()) == [1, os.cpu_count()]  # a node each
    report = (tmp_path / "grid" / storage.REPORT).read_text("utf-8")
    assert report.count("_1-CPU_") > 1 < report.count(f"_{os.cpu_count()}-CPUs_")  # kinds of nodes
    logs = [path.read_text() for path in (tmp_path / "grid" / ".submitit").rglob("*_log.out")]
    assert sum("best: num_workers=" in log for log in logs) == 2


def test_jobs_that_die_are_rows_and_the_same_command_measures_them(
    environment: dict[str, str], nws: Command, tmp_path: Path, cluster: Slurm
) -> None:
    folder, overrides = tmp_path / "grid", ["batch_size=4,8,16,32"]
    with started("hydra/launcher=slurm", *SMALL, *overrides, environment=environment, cwd=tmp_path) as process:
        wait_until(lambda: begun(folder, 4))
        python_of(cluster, 0).kill()
        wait_until(lambda: begun(folder, 8))
        array = min(cluster.queue()).partition("_")[0]
        cluster.run("scancel", f"{array}_1")
        wait_until(lambda: begun(folder, 16))
        cluster.run("scancel", "--signal=USR2", f"{array}_2")  # as before its time is over
        told, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, told
    found = results(folder)
    assert [size for size, record in found.items() if record.complete] == [32]
    assert found[4].error.startswith(f"job {array}_0 was lost (FAILED on ")
    assert found[4].error.endswith(": Killed")
    assert found[8].error.startswith("the job was told to end (SIGTERM)")
    assert found[16].error.startswith("the job was told that its time is nearly over")
    report = (folder / storage.REPORT).read_text("utf-8")
    assert all(f"batch_size={size}: " in report.partition("## Failures")[2] for size in (4, 8, 16))
    again = nws("-m", "hydra/launcher=slurm", *SMALL, *overrides)
    assert (again.returncode, again.stderr) == (0, ""), again.stdout
    assert again.stdout.count("measured before") == 1
    assert all(record.complete for record in results(folder).values())
    assert results(folder)[32] == found[32]


def test_ctrl_c_cancels_the_jobs(environment: dict[str, str], nws: Command, tmp_path: Path, cluster: Slurm) -> None:
    with started("hydra/launcher=slurm", *SMALL, "batch_size=4,8,16", environment=environment, cwd=tmp_path) as process:
        wait_until(lambda: begun(tmp_path / "grid", 4))
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, told
    wait_until(lambda: not cluster.queue())


def test_what_slurm_refuses_is_one_line(nws: Command) -> None:
    done = nws("-m", "hydra/launcher=slurm", *SMALL, "batch_size=4,8", "hydra.launcher.partition=none")
    assert done.returncode == 2
    *of_sbatch, line = done.stderr.splitlines()
    assert all(line.startswith("sbatch: error: ") for line in of_sbatch)
    assert line.startswith("nws_sweep: hydra/launcher: nothing could be launched: ")
    assert "invalid partition specified: none" in line
