from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from nws_sweep import extras
from tests.conftest import Command


@pytest.mark.parametrize("launcher", ["slurm", "ray"])
@pytest.mark.skipif(importlib.util.find_spec("submitit") is not None, reason="the launchers are installed")
def test_a_launcher_that_is_not_installed_is_one_line_and_nothing_is_written(
    shared_nws: Command, tmp_path: Path, launcher: str
) -> None:
    done = shared_nws("-m", f"hydra/launcher={launcher}", "batch_size=4,8")
    assert done.returncode == 2
    line = f"nws_sweep: hydra/launcher: its package is missing; install it by pip install 'nws-sweep[{launcher}]'\n"
    assert done.stderr == line
    assert not (tmp_path / "outputs").exists()


def test_launchers_of_others_are_none_of_our_business() -> None:
    extras.require_launcher("hydra_plugins.unheard_of.Launcher")
    assert extras.advice("joblib") is None
