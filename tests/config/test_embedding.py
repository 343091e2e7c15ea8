from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigLoadError
from omegaconf import OmegaConf

from hydra_plugins.nws_sweep_plugin import NwsSweepConfigSource
from nws_sweep.config import embedding, hydra_versions, search_options
from nws_sweep.errors import ConfigurationError
from nws_sweep.system import host
from tests.conftest import ROOT
from tests.hosts import write_host
from tests.roots import made_up

CONF = ROOT / "conf"


def in_host(folder: Path, *overrides: str) -> Any:
    """The plain values that a program with its own batch_size and dataset composes."""
    with initialize_config_dir(
        config_dir=str(write_host(folder) / "conf"), **hydra_versions.BASE
    ):
        return OmegaConf.to_container(
            compose("config", overrides=list(overrides)), resolve=True
        )


@pytest.mark.parametrize(
    ("path", "is_group", "is_config"),
    [
        *(
            (path, True, False)
            for path in (
                "",
                "nws_sweep",
                "nws_sweep/measure",
                "nws_sweep/training_step/model",
            )
        ),
        *(
            (f"nws_sweep/{name}", False, True)
            for name in ("autotune", "search", "base.yaml", "measure/quick")
        ),
        *(
            (path, False, False)
            for path in ("base", "config", "dataset", "measure", "measure/quick")
        ),
        *(
            (f"nws_sweep/{name}", False, False)
            for name in ("nope", "measure/nope", "config", "config.yaml", "local")
        ),
        *(
            (f"nws_sweep/hydra{name}", False, False)
            for name in ("", "/callbacks", "/help/nws_sweep")
        ),
        *(
            (f"nws_sweep/{name}", False, False)
            for name in ("axis/batch_size", "experiment/full_search")
        ),
    ],
)
def test_a_host_sees_what_it_composes(
    path: str, is_group: bool, is_config: bool
) -> None:
    source = NwsSweepConfigSource("nws_sweep", embedding.SEARCH_PATH)
    assert (source.is_group(path), source.is_config(path)) == (is_group, is_config)
    if not is_config:
        with pytest.raises(ConfigLoadError):
            source.load_config(path)


def test_a_host_composes_the_configuration_below_one_node_and_overrides_it(
    tmp_path: Path,
) -> None:
    found = in_host(tmp_path, "+nws_sweep=base", "dataset=b")
    assert (found["batch_size"], found["dataset"]) == (32, {"name": "b"})
    assert found["nws_sweep"]["batch_size"] == 64
    assert (
        found["nws_sweep"]["dataset"]["root"]
        == found["nws_sweep"]["paths"]["cache_dir"]
    )
    assert found["nws_sweep"]["reference"] == host.usable_cpus()
    # of the host
    own = {
        "mine": "defaults: [base, _self_]\nseed: 7\n",
        "measure/quick": "trial_limit_s: 7.0\n",
    }
    made_up(
        tmp_path, {f"conf/nws_sweep/{name}.yaml": text for name, text in own.items()}
    )
    found = in_host(
        tmp_path, "+nws_sweep=mine", "nws_sweep.strategy=exhaustive", "nws_sweep/measure=quick",
        "nws_sweep.time_limit_s=10", "nws_sweep.patience=5", "batch_size=64",
    )  # fmt: skip
    assert (found["batch_size"], found["nws_sweep"]["seed"]) == (64, 7)
    node = found["nws_sweep"]
    assert (node["strategy"], node["time_limit_s"], node["patience"]) == (
        "exhaustive",
        10,
        5,
    )
    assert node["measure"]["trial_limit_s"] == 7.0
    with pytest.raises(
        HydraException,
        match=r"Available options in 'nws_sweep/measure':\s+default\s+epoch",
    ):
        in_host(tmp_path, "+nws_sweep=base", "nws_sweep/measure=nope")


def test_a_host_is_told_what_it_can_start(tmp_path: Path) -> None:
    with pytest.raises(
        HydraException,
        match=r"Available options in 'nws_sweep':\s+autotune\s+search\s+watch\n",
    ):
        in_host(tmp_path, "+nws_sweep=tune")


@pytest.mark.parametrize("group", ["dataset", "measure", "paths", "training_step"])
def test_every_option_composes_and_resolves_in_a_host(
    tmp_path: Path, group: str
) -> None:
    missing = {"image_folder": "root", "custom": "_target_", "remote": "url"}
    for path in (CONF / group).glob("*.yaml"):
        given = (
            [f"nws_sweep.{group}.{missing[path.stem]}=x"]
            if path.stem in missing
            else []
        )
        found = in_host(
            tmp_path, "+nws_sweep=base", f"nws_sweep/{group}={path.stem}", *given
        )
        assert "???" not in str(found["nws_sweep"]), path


def test_a_broken_installation_stops_only_nws_sweep_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "PACKAGE", "nws_sweep.nowhere")
    assert embedding.conf_folder() == CONF  # of a checkout
    monkeypatch.setattr(
        embedding,
        "__file__",
        str(tmp_path / "nowhere" / "nws_sweep" / "config" / "embedding.py"),
    )
    assert in_host(tmp_path) == {"batch_size": 32, "dataset": {"name": "a"}}


def test_a_string_in_place_of_the_node_is_rejected_with_the_remedy() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^nws_sweep=base: a plain value, .*pip install -e \."
    ):
        search_options.embedded("base")
