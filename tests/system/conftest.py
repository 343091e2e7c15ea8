from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tests import conftest
from tests.system import slurm
from tests.system.slurm import Slurm

lacking = functools.partial(conftest.lacking, script="scripts/setup-cluster")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Slurm]:
    if missing := slurm.missing():
        lacking(f"Slurm ({', '.join(missing)})")
    with slurm.running() as running:
        yield running
