from __future__ import annotations

import functools
import signal
from collections.abc import Iterator

import pytest

from tests import conftest
from tests.system import slurm
from tests.system.slurm import Slurm

lacking = functools.partial(conftest.lacking, script="scripts/setup-cluster")


@pytest.fixture(scope="session", autouse=True)
def heard_ctrl_c() -> None:
    """A shell makes what runs in the background deaf to it, and with that the programs that the tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Slurm]:
    if missing := slurm.missing():
        lacking(f"Slurm ({', '.join(missing)})")
    with slurm.running() as running:
        yield running
