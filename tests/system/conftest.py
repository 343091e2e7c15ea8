from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system import slurm
from tests.system.slurm import Slurm

PLUGINS = Path(__file__).resolve().parent / "plugins"


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


@pytest.fixture
def surviving(nws: object, environment: dict[str, str]) -> list[str]:
    """Overrides that choose a sweeper which hands its points to ``launching``; Hydra finds plugins by their folder."""
    environment["PYTHONPATH"] += f"{os.pathsep}{PLUGINS}"
    return ["hydra.sweeper._target_=hydra_plugins.surviving.SurvivingSweeper"]
