import importlib.util
import re
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
    assert done.stderr == f"nws_sweep: hydra/launcher: {missing(launcher)}\n"
    assert not (tmp_path / "outputs").exists()


def missing(extra: str) -> str:
    return f"a package is missing; pip install '.[{extra}]' in the checkout of nws_sweep installs it"


@pytest.mark.parametrize(
    ("protocol", "package", "line"),
    [("s3", "s3fs", missing("remote")), ("gs", "gcsfs", "a package is missing (Please install")],
)
def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch, protocol: str, package: str, line: str) -> None:
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, protocol, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DatasetError, match=re.escape(f"dataset.url={protocol}://bucket: {line}")):
        Remote(f"{protocol}://bucket")
