import importlib.util
import sys
from pathlib import Path

import pytest

from nws_sweep.datasets.remote import Remote
from nws_sweep.errors import DatasetError
from tests.conftest import Command


@pytest.mark.xdist_group("shared")  # with tests/test_cli.py
@pytest.mark.parametrize("launcher", ["slurm", "ray"])
@pytest.mark.skipif(importlib.util.find_spec("submitit") is not None, reason="the launchers are installed")
def test_a_missing_launcher_is_reported_in_one_line(shared_nws: Command, tmp_path: Path, launcher: str) -> None:
    done = shared_nws("-m", f"hydra/launcher={launcher}", "batch_size=4,8")
    assert done.returncode == 2
    advice = f"a package is missing; pip install '.[{launcher}]' in the checkout of nws_sweep installs it"
    assert done.stderr == f"nws_sweep: hydra/launcher: {advice}\n"
    assert not (tmp_path / "outputs").exists()


def test_a_missing_package_of_a_protocol_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(DatasetError, match=r"dataset.url=s3://bucket: cannot be read \(ImportError: .*s3fs"):
        Remote("s3://bucket")
