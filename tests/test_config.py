from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

import nws_sweep
from nws_sweep import api, config, cores
from nws_sweep.config import explain
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import Configuration, LoaderSettings

CONF = Path(__file__).resolve().parent.parent / "conf"


@pytest.fixture(autouse=True)
def _hydra() -> Iterator[None]:
    config.register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        yield
    GlobalHydra.instance().clear()


def configured(*overrides: str) -> Configuration:
    return config.configuration(compose("config", overrides=list(overrides)), "photos", overrides)


def refused(*overrides: str) -> str:
    """The line that the user reads."""
    try:
        configured(*overrides)
    except Exception as error:
        return str(error if isinstance(error, ConfigurationError) else explain(error, overrides))
    raise AssertionError(f"{overrides} was not refused")


def test_the_defaults_are_those_of_the_readme() -> None:
    found = configured()
    assert found.columns == {
        "dataset": "photos", "batch_size": 64, "pin_memory": False, "prefetch_factor": 2, "patience": 3,
    }  # fmt: skip
    assert found.search.strategy == "adaptive"
    assert found.search.maximum_patience == 3
    assert found.search.candidates == tuple(range(max(32, 2 * cores.usable_cpus()) + 1))
    assert found.search.reference == cores.usable_cpus()
    assert found.loader.shuffle


def test_ranks_share_the_cpus_that_defaults_are_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "shared_cores", lambda *_: 48.0)
    found = configured("ranks=4")
    assert (found.ranks, found.columns["ranks"]) == (4, 4)
    assert found.search.candidates == tuple(range(24 + 1))  # 2 x 48 of all
    assert found.search.reference == 12
    assert configured("ranks=4", "search=exhaustive").search.candidates == tuple(range(24 + 1))
    assert configured("ranks=96").search.reference == 1
    assert configured("ranks=96").search.candidates == tuple(range(8 + 1))  # loading that waits gains far above that
    assert configured("ranks=4", "search.max_workers=5").search.candidates == tuple(range(5 + 1))
    assert configured().ranks == 1


def test_values_reach_what_they_are_for() -> None:
    assert configured("batch_size=12345").loader.batch_size == 12345
    assert configured("batch_size=null").loader.batch_size is None, "the dataset makes the batches"
    assert configured("patience=7").search.maximum_patience == 7
    assert configured("search.candidates=[8,0,2]").search.candidates == (0, 2, 8)
    assert configured("search.max_workers=3", "search.reference=4").search.reference is None
    assert configured("search.max_workers=4", "search.reference=4").search.reference == 4


def test_other_overrides_become_columns_and_presets_do_not() -> None:
    found = configured("measure=quick", "axis/batch_size=wide", "dataset.count=10", "batch_size=32")
    assert dict(found.columns) == {
        "dataset": "photos", "batch_size": 32, "pin_memory": False, "prefetch_factor": 2, "patience": 3,
        "measure": "quick", "dataset.count": 10,
    }  # fmt: skip


def test_the_fingerprint_tells_configurations_apart_and_nothing_else() -> None:
    assert configured("batch_size=64").fingerprint == configured("batch_size=64").fingerprint
    assert configured("batch_size=64").fingerprint != configured("batch_size=65").fingerprint
    assert configured("dataset.count=9").fingerprint != configured("dataset.count=10").fingerprint


_OUT_OF_RANGE = {
    "null or an integer of at least 1": [
        "batch_size=0", "batch_size=-4", "batch_size=abc", "batch_size=1.5", "batch_size=", "prefetch_factor=0",
        "prefetch_factor=none",
    ],
    "an integer of at least 0": ["patience=-1", "search.max_workers=-1"],
    "an integer of at least 1": ["ranks=0", "ranks=-1"],
    "true, false or null": ["pin_memory=maybe"],
    "adaptive or patience or exhaustive": ["search.strategy=bisect"],
    "fork or spawn or forkserver or null": ["loader.multiprocessing_context=thread"],
    "a number from 0 to 1": ["search.tolerance=2.0"],
    "seconds, a number above 0": ["measure.window_s=0.0", "measure.max_seconds=inf"],
    "null or seconds, a number above 0": [
        "search.time_budget_s=0.0", "measure.timeout_s=inf", "measure.timeout_s=-1.0",
    ],
    "null or a list of different integers of at least 0, such as [0,2,4]": [
        "search.candidates=[]", "search.candidates=[1, 1]", "search.candidates=[-1, 2]",
    ],
    "a list of different names out of prefetch_factor, pin_memory, persistent_workers, multiprocessing_context, "
    "in_order, threads_per_worker": ["search.also=['batch_size']"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("override", "line"),
    [
        *((each, f"{each}: allowed is {text}") for text, overrides in _OUT_OF_RANGE.items() for each in overrides),
        ("~batch_size", "~batch_size: the key cannot be deleted; allowed is null or an integer of at least 1"),
        ("bach_size=64", "bach_size=64: there is no key bach_size; did you mean batch_size?"),
        ("+bach_size=64", "bach_size=64: there is no key bach_size; did you mean batch_size?"),
        ("xyzzy=1", "xyzzy=1: there is no key xyzzy; --help lists the keys"),
        ("measure.max_sec=3", "measure.max_sec=3: there is no key measure.max_sec; did you mean measure.max_seconds?"),
        (
            "dataset.size=3",
            "dataset.size=3: the chosen dataset has no such argument; ++dataset.size=VALUE passes it on all the same",
        ),
        ("dataset=image_folder", "dataset.root is missing: give it as dataset.root=VALUE"),
        ("search=adaptve", "search=adaptve: allowed are adaptive, exhaustive, patience"),
        ("batch_size=64,256", "batch_size=64,256: several values are a grid, which needs -m before them"),
        ("a b=3", "a b=3: not an override; expected key=value"),
    ],
)
def test_bad_input_is_one_line_with_the_value_and_what_is_allowed(override: str, line: str) -> None:
    assert refused(override) == line


def test_a_key_given_twice_is_named_as_it_was_given_last() -> None:
    assert refused("batch_size=4", "batch_size=abc") == "batch_size=abc: allowed is null or an integer of at least 1"


def test_the_schema_is_pickled_by_name() -> None:
    """Launchers send it to other processes, where a copy of a dataclass has no fields."""
    inner = [each.default_factory for each in fields(config.SweepSchema) if is_dataclass(each.default_factory)]
    assert len(inner) == 5
    for schema in (config.SweepSchema, *inner):
        assert pickle.loads(pickle.dumps(schema)) is schema


def test_no_value_of_the_schema_is_a_folder_of_conf() -> None:
    """Hydra refuses batch_size=64 as soon as conf/batch_size/ exists: such a key would be a config group."""
    folders = {path.name for path in CONF.iterdir() if path.is_dir()}
    scalars = {key for key in config.ranges() if "." not in key}
    assert {"batch_size", "pin_memory", "prefetch_factor", "patience"} <= scalars
    assert not folders & scalars


def test_every_key_of_the_schema_has_a_value_and_an_explanation() -> None:
    text = (CONF / "base.yaml").read_text() + (CONF / "paths" / "default.yaml").read_text()
    composed = compose("config")
    for key in config.ranges():
        name = key.rpartition(".")[2]
        explained = re.search(rf"^ *{name}:.*#.*\w", text, re.MULTILINE)
        if key != "search.strategy":  # the option's own name says it
            assert explained, f"{key} is not explained in conf/"
        assert OmegaConf.select(composed, key, throw_on_missing=True) is not Ellipsis


def test_what_is_embedded_has_relative_interpolations_only_and_no_hydra_node() -> None:
    """base.yaml and its groups must work below any node of a host's configuration."""
    for path in sorted(CONF.rglob("*.yaml")):
        group = path.relative_to(CONF).parts[0]
        if group in ("hydra", "axis", "experiment", "config.yaml", "auto.yaml"):
            continue
        text = path.read_text()
        absolute = [
            name for name in re.findall(r"\$\{([^}]*)", text) if not name.startswith((".", "oc.", "nws_sweep."))
        ]
        assert not absolute, f"{path}: {absolute}"
        assert "hydra" not in (yaml.safe_load(text) or {})


@pytest.mark.parametrize("group", ["dataset", "measure", "search", "consumer", "experiment"])
def test_every_option_of_the_groups_composes(group: str) -> None:
    given = {
        "image_folder": ["dataset.root=/images"],
        "custom": [f"{group}._target_=a.B"],
        "remote": ["dataset.url=memory://train"],
        "project": ["dataset.config=conf/config.yaml"],
    }
    for path in (CONF / group).glob("*.yaml"):
        assert "_target_" in configured(f"{group}={path.stem}", *given.get(path.stem, [])).dataset


@pytest.mark.parametrize("data", ["images", "tensors", "on_device"])
def test_the_data_of_mnist_training_can_be_chosen(data: str) -> None:
    chosen = configured("experiment=mnist_training", f"experiment/mnist={data}")
    targets = {
        "images": "nws_sweep.datasets.vision.mnist",
        "tensors": "nws_sweep.datasets.vision.mnist_tensors",
        "on_device": "nws_sweep.datasets.synthetic.OnDevice",
    }
    assert chosen.dataset["_target_"] == targets[data]
    assert chosen.search.candidates == ((0,) if data == "on_device" else (0, 1, 2, 3, 4))
    assert (chosen.loader.batch_size, chosen.consumer["_target_"]) == (300, "nws_sweep.training.Train")


def test_the_experiments_are_what_they_say() -> None:
    full = configured("experiment=full_search")
    assert (full.dataset["_target_"], full.measure.mode) == ("nws_sweep.datasets.vision.cifar10", "epoch")
    assert full.search.candidates == tuple(range(cores.usable_cpus() + 1))
    timeline = configured("experiment=batch_timeline")
    assert timeline.search.candidates == (0, 1, 2, 3, 4)
    assert timeline.consumer["seconds_per_batch"] * 4 == timeline.dataset["seconds_per_sample"]


def test_presets_fill_the_sweepers_parameters() -> None:
    composed = compose("config", overrides=["axis/batch_size=wide", "axis/pin_memory=both"], return_hydra_config=True)
    assert dict(composed.hydra.sweeper.params) == {"batch_size": "32,64,128,256", "pin_memory": "true,false"}


def test_a_local_file_is_read_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "default.yaml").write_text("# @package _global_\nbatch_size: 7\n")
    composed = compose("config", overrides=[f"hydra.searchpath=[file://{tmp_path}]"])
    assert composed.batch_size == 7


def test_a_null_setting_is_that_of_the_dataloader_that_the_dataset_comes_in() -> None:
    own = LoaderSettings(
        batch_size=24, num_workers=5, pin_memory=True, prefetch_factor=3, persistent_workers=True, drop_last=True,
        timeout=7.0, in_order=False,
    )  # fmt: skip
    composed = compose("config", overrides=["dataset=project", "dataset.config=x.yaml", "loader.drop_last=false"])
    assert config.leaves_open(composed)
    found = config.configuration(composed, "project", (), own)
    assert found.loader == replace(own, num_workers=0, drop_last=False)
    assert (found.columns["batch_size"], found.columns["pin_memory"]) == (24, True)
    assert not config.leaves_open(compose("config"))
    assert config.configuration(composed, "project").loader == LoaderSettings(batch_size=None)


def test_the_apis_defaults_are_those_of_an_embedded_configuration() -> None:
    arguments = inspect.signature(nws_sweep.search).parameters.values()
    assert config.embedded(compose("base")) == api._plan({one.name: one.default for one in arguments})


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (["search.tolerance=5"], r"search.tolerance=5.0: allowed is a number from 0 to 1"),
        (["+mesure=5"], r"config: Key 'mesure' not in 'SweepSchema'"),
        ("base", "nws_sweep=base: a plain value"),
        ({}, "Missing mandatory value"),
    ],
)
def test_an_embedded_configuration_is_checked(node: Any, line: str) -> None:
    with pytest.raises(ConfigurationError, match=line):
        config.embedded(compose("base", overrides=node) if isinstance(node, list) else node)


@pytest.mark.parametrize(
    ("typed", "lists"),
    [
        ("dataset.overrides=[data=cifar,trainer=cpu]", [["data=cifar", "trainer=cpu"]]),
        ("++dataset.overrides=[+a.b=1, ++c=x=y,~d,e/f@g=h]", [["+a.b=1", "++c=x=y", "~d", "e/f@g=h"]]),
        ("dataset.overrides=[a=[1,2],b={c:1,d:2},e=f(1,2)]", [["a=[1,2]", "b={c:1,d:2}", "e=f(1,2)"]]),
        ("dataset.overrides=['a=b',\"c=d\",e='x, y']", [["a=b", "c=d", "e='x, y'"]]),
        ("dataset.overrides=[a=b],[c=d,e=f],[]", [["a=b"], ["c=d", "e=f"], []]),
        ("dataset.overrides=[]", [[]]),
        ("dataset.overrides=[ ]", [[]]),
    ],
)
def test_overrides_of_a_project_need_no_quotes(typed: str, lists: list[list[str]]) -> None:
    override = OverridesParser.create().parse_override(config.with_quoted_overrides(typed))
    values = cast("Any", override.value())
    found = values.list if override.is_sweep_override() else [values]
    assert [[getattr(element, "text", element) for element in each] for each in found] == lists


@pytest.mark.parametrize("typed", ["dataset.overrides=choice([a],[b])", "dataset.root=[a=b]", "-m", "batch_size=1,2"])
def test_other_arguments_stay_as_they_are(typed: str) -> None:
    assert config.with_quoted_overrides(typed) == typed
