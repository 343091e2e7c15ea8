from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from nws_sweep import extras, object_store
from nws_sweep.datasets.remote import Remote
from nws_sweep.errors import ConfigurationError, DatasetError
from tests.conftest import Command


@pytest.mark.parametrize("launcher", ["slurm", "ray"])
@pytest.mark.skipif(importlib.util.find_spec("submitit") is not None, reason="the launchers are installed")
def test_a_launcher_that_is_not_installed_is_one_line_and_nothing_is_written(
    shared_nws: Command, tmp_path: Path, launcher: str
) -> None:
    done = shared_nws("-m", f"hydra/launcher={launcher}", "batch_size=4,8")
    assert done.returncode == 2
    assert done.stderr == f"nws_sweep: hydra/launcher: {missing(launcher)}\n"
    assert not (tmp_path / "outputs").exists()


def test_launchers_of_others_are_none_of_our_business() -> None:
    extras.require("hydra/launcher", "hydra_plugins.unheard_of")
    assert extras.advice("joblib") is None


def missing(extra: str) -> str:
    return f"a package is missing; pip install '.[{extra}]' in the checkout of nws_sweep installs it"


def test_the_object_store_without_its_package_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ConfigurationError) as caught, object_store.running():
        pass
    assert str(caught.value) == f"the object store: {missing('remote')}"


@pytest.mark.parametrize(
    ("url", "package", "line"),
    [
        ("s3://bucket/train", "s3fs", missing("remote")),
        ("gs://bucket", "gcsfs", "a package is missing (Please install"),
    ],
)
def test_a_protocol_without_its_package_names_it(
    monkeypatch: pytest.MonkeyPatch, url: str, package: str, line: str
) -> None:
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, url.partition(":")[0], raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DatasetError) as caught:
        Remote(url)
    assert str(caught.value).startswith(f"dataset.url={url}: {line}")
