from __future__ import annotations

import importlib.util
import shlex

import pytest

from tests.conftest import Command
from tests.system.conftest import lacking
from tests.test_docs import ON_CLUSTERS, every_command


@pytest.mark.parametrize("command", [line for line in every_command() if ON_CLUSTERS in line])
def test_every_command_of_the_documents_that_needs_a_cluster_is_composed(nws: Command, command: str) -> None:
    for package in ("submitit", "ray"):
        if importlib.util.find_spec(package) is None:
            lacking(f"Hydra's launcher for {package}")
    single = [each for each in shlex.split(command)[3:] if each != "-m" and "," not in each]  # --cfg takes no grid
    done = nws(*single, "--cfg", "hydra", "-p", "hydra.launcher")
    assert (done.returncode, done.stderr) == (0, "")
    assert "_target_: hydra_plugins.hydra_" in done.stdout
