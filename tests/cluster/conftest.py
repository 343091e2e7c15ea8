import functools
import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nws_sweep.system import temporary
from tests import conftest
from tests.cluster import slurm
from tests.cluster.program import Program
from tests.cluster.slurm import Slurm

lacking = functools.partial(conftest.lacking, script="scripts/setup-cluster")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    """With its own temporary folder, since each program removes folders of killed ones
    at its start."""
    with tempfile.TemporaryDirectory(prefix="nws-") as own:
        program = Program(folder=tmp_path, environment={"TMPDIR": own})
        yield program
        left = program.processes()
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=10)
        monkeypatch.setattr(tempfile, "tempdir", own)
        temporary.remove_stale()


def need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            lacking(f"Hydra's launcher for {package}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Slurm]:
    if missing := slurm.missing():
        lacking(f"Slurm ({', '.join(missing)})")
    with slurm.running() as running:
        yield running
