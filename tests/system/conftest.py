from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.system import slurm
from tests.system.slurm import Slurm


def lacking(what: str) -> None:
    """Fails where everything has to be tested, and skips elsewhere."""
    reason = f"{what} is missing; scripts/setup-cluster installs it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Slurm]:
    if missing := slurm.missing():
        lacking(f"Slurm ({', '.join(missing)})")
    with slurm.running() as running:
        yield running
