import inspect
import re
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from hydra import compose

import nws_sweep
from nws_sweep.api.request import Request
from nws_sweep.config import schema, search_options
from nws_sweep.config.hydra_errors import explain
from nws_sweep.config.schema import folder_name
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import Configuration, LoaderSettings, MeasureRules, SearchRules
from nws_sweep.system import host
from tests.conftest import ROOT

CONF = ROOT / "conf"
pytestmark = pytest.mark.usefixtures("composing")


def configured(*overrides: str) -> Configuration:
    return schema.configuration(
        compose("config", overrides=list(overrides)), "photos", overrides
    )


def refused(*overrides: str) -> str:
    """The error message."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        configured(*overrides)
    error = caught.value
    return str(
        error if isinstance(error, ConfigurationError) else explain(error, overrides)
    )


def test_defaults_are_the_cpus_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "shared_cores", lambda *_: 48.0)
    found = configured("ranks=4", "strategy=patience")
    assert (found.ranks, found.columns["ranks"]) == (4, 4)
    assert found.search.candidates == tuple(range(24 + 1))  # 2 x 48 CPUs / 4 ranks
    assert found.search.reference == 12
    # the adaptive search has no limit of its own
    assert configured("ranks=96").search.candidates[-1] == 1024
    assert configured("ranks=4", "max_workers=5").search.candidates == tuple(
        range(5 + 1)
    )


def test_values_reach_the_configuration() -> None:
    assert configured("batch_size=null").loader.batch_size is None, (
        "the dataset makes the batches"
    )
    assert configured("patience=7").search.patience == 7
    assert configured("num_workers=[8,0,2]").search.candidates == (0, 2, 8)
    assert configured("max_workers=3", "reference=4").search.reference is None
    assert configured("max_workers=4", "reference=4").search.reference == 4
    many = configured("reference=96").search
    assert (many.reference, 96 in many.candidates, many.max_workers) == (96, True, None)


def test_other_overrides_become_columns_and_presets_do_not() -> None:
    unnamed = (
        "reuse=fresh",
        "paths.output_dir=x",
        "paths.lock_file=null",
        "paths.cache_dir=y",
    )
    found = configured(
        "measure=quick",
        "axis/batch_size=wide",
        "dataset.count=10",
        "batch_size=32",
        *unnamed,
    )
    assert dict(found.columns) == {
        "dataset": "photos", "batch_size": 32, "pin_memory": False, "prefetch_factor": None, "patience": 3,
        "measure": "quick", "dataset.count": 10,
    }  # fmt: skip


def test_the_parts_of_an_experiment_are_columns_in_its_place() -> None:
    found = configured("experiment=rule_of_thumb", "experiment/workload=objects")
    assert found.columns["workload"] == "objects"
    assert "experiment" not in found.columns


_OUT_OF_RANGE = {
    "null or an integer of at least 1": [
        "batch_size=0", "batch_size=abc", "batch_size=1.5", "batch_size=", "prefetch_factor=none",
    ],
    "an integer of at least 0": ["patience=-1"],
    "true, false or null": ["pin_memory=maybe"],
    "adaptive or patience or exhaustive": ["strategy=bisect"],
    "null or fork or spawn or forkserver": ["multiprocessing_context=thread"],
    "a number from 0 to 1": ["tolerance=2.0"],
    "seconds, a number above 0": ["measure.window_s=0.0", "measure.trial_limit_s=inf"],
    "null or seconds, a number above 0": ["time_limit_s=0.0", "measure.kill_after_s=inf"],
    "an integer from 1 to 4096": ["ranks=0", "ranks=1000000000000"],
    "null or an integer from 0 to 4096": ["max_workers=1000000000000000"],
    "null or a list of different integers from 0 to 4096, such as [0,2,4]": [
        "num_workers=[]", "num_workers=[0, 4097]", "num_workers=[1, 1]", "num_workers=[-1, 2]", "num_workers=4",
    ],
    "null or a list of different names out of prefetch_factor, pin_memory, persistent_workers, "
    "multiprocessing_context, in_order": ["settings=['batch_size']"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("override", "line"),
    [
        *((each, f"{each}: must be {text}") for text, overrides in _OUT_OF_RANGE.items() for each in overrides),
        ("~batch_size", "batch_size is missing: set batch_size=VALUE"),
        ("+bach_size=64", "+bach_size=64: there is no key bach_size; did you mean batch_size?"),
        ("xyzzy=1", "xyzzy=1: there is no key xyzzy; --help lists the keys"),
        ("measure.windo=3", "measure.windo=3: there is no key measure.windo; did you mean measure.windows?"),
        ("dataset.size=3",
         "dataset.size=3: the chosen dataset has no such argument; ++dataset.size=VALUE passes it anyway"),
        ("dataset=image_folder", "dataset.root is missing: set dataset.root=VALUE"),
        ("measure=quik", "measure=quik: must be one of default, epoch, quick, rigorous"),
        ("dataset=/", "dataset=/: a folder is dataset=image_folder dataset.root=/"),
        ("batch_size=64,256", "batch_size=64,256: several values are a grid, which needs -m"),
        ("num_workers=0,4", "num_workers=0,4: the numbers of a search are a list, num_workers=[0,4]"),
        ("in_ordr=false", "in_ordr=false: there is no key in_ordr; did you mean in_order?"),
        ("search.max_workers=4", "search.max_workers=4: there is no key search.max_workers; did you mean max_workers?"),
        ("+budget=10", "+budget=10: there is no key budget; did you mean time_limit_s?"),
        ("a b=3", "a b=3: not an override; expected key=value"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_with_the_value_and_its_range(
    override: str, line: str
) -> None:
    assert refused(override) == line


def test_the_rules_have_the_ranges_of_the_configuration() -> None:
    rules = get_type_hints(MeasureRules, include_extras=True)
    keys = get_type_hints(schema.MeasureSchema, include_extras=True)
    assert [name for name in rules if rules[name] != keys[name]] == ["cache_files"], (
        "OmegaConf has lists, not tuples"
    )
    assert rules.keys() == keys.keys()


def test_the_rules_and_tune_have_the_defaults_of_the_configuration() -> None:
    composed = configured()
    assert composed.measure == MeasureRules()
    rules = SearchRules(strategy="adaptive", candidates=composed.search.candidates)
    assert (rules.patience, rules.tolerance) == (
        composed.search.patience,
        composed.search.tolerance,
    )
    of_search, of_tune = (
        inspect.signature(function).parameters
        for function in (nws_sweep.search, nws_sweep.tune)
    )
    assert [
        name
        for name in of_tune
        if name != "loader" and of_tune[name] != of_search[name]
    ] == []


def test_no_value_of_the_schema_is_a_folder_of_conf() -> None:
    """Hydra rejects batch_size=64 if conf/batch_size/ exists, since the key would be a
    config group."""
    assert not {path.name for path in CONF.iterdir() if path.is_dir()} & set(
        schema.RANGES
    )


@pytest.mark.parametrize("group", ["dataset", "measure", "training_step", "experiment"])
def test_every_option_of_the_groups_composes(group: str) -> None:
    missing = {"image_folder": "root", "custom": "_target_", "remote": "url"}
    for path in (CONF / group).glob("*.yaml"):
        given = [f"{group}.{missing[path.stem]}=a.B"] if path.stem in missing else []
        assert "_target_" in configured(f"{group}={path.stem}", *given).dataset


def test_a_local_file_is_read_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "default.yaml").write_text(
        "# @package _global_\nbatch_size: 7\n"
    )
    composed = compose("config", overrides=[f"hydra.searchpath=[file://{tmp_path}]"])
    assert composed.batch_size == 7


def test_a_value_of_persistent_workers_that_was_given_is_not_searched() -> None:
    chosen = "persistent_workers=false"
    composed = compose("config", overrides=["dataset=sleep", chosen])
    searched = [
        schema.configuration(composed, "sleep", given).search.settings
        for given in ([chosen], [])
    ]
    assert searched == [("prefetch_factor",), None]


def test_a_null_setting_is_taken_from_the_dataloader_of_the_dataset() -> None:
    own = LoaderSettings(
        batch_size=24, num_workers=5, pin_memory=True, prefetch_factor=3, persistent_workers=True, drop_last=True,
        timeout=7.0, in_order=False,
    )  # fmt: skip
    null = (name for name in asdict(own) if name not in {"num_workers", "drop_last"})
    overrides = [
        "dataset=custom",
        "dataset._target_=x",
        "drop_last=false",
        *(f"{name}=null" for name in null),
    ]
    composed = compose("config", overrides=overrides)
    assert schema.has_open_settings(composed)
    found = schema.configuration(composed, "custom", (), own)
    assert found.loader == replace(own, num_workers=0, drop_last=False)
    assert (found.columns["batch_size"], found.columns["pin_memory"]) == (24, True)
    assert not schema.has_open_settings(compose("config"))


def test_the_apis_defaults_are_those_of_an_embedded_configuration() -> None:
    parameters = inspect.signature(nws_sweep.search).parameters
    defaults = {field.name: parameters[field.name].default for field in fields(Request)}
    assert search_options.embedded(compose("base")) == Request(**defaults).options
    an_array = Request(**{**defaults, "num_workers": np.array([4, 0])})
    assert an_array.options.search.candidates == (0, 4)


def step(number: str) -> list[str]:
    return ["training_step=sleep", f"training_step.seconds_per_batch={number}"]


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        *(
            (f"training_step={number}", step(number))
            for number in ("0.05", "0.05,0.1", "2e-3", "-1")
        ),
        ("settings=pin_memory", ["settings=[pin_memory]"]),
        ("settings=null", ["settings=null"]),
        ("batch_size=4", ["batch_size=4"]),
    ],
)
def test_a_number_is_a_training_step_and_one_name_a_list(
    typed: str, arguments: list[str]
) -> None:
    assert schema.hydra_arguments(typed) == arguments


def test_a_number_is_a_training_step_of_an_embedded_configuration() -> None:
    composed = compose("base")
    composed.training_step = 0.05
    assert search_options.embedded(composed).training_step == schema.sleeping(0.05)


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        (["axis/batch_size=wide", "++reuse=fresh", "paths.lock_file=null"], "default"),
        (
            ["axis/batch_size=wide", "pin_memory=true", "batch_size=64"],
            "batch_size=64,pin_memory=true",
        ),
        (
            ["pin_memory=False", "dataset.name=Truest", "seed=None"],
            "dataset.name=Truest,pin_memory=false,seed=none",
        ),
        (
            ["+training_step.ms=5", "~seed", "dataset.ids=[1,2]"],
            "+training_step.ms=5,dataset.ids=[1,2],~seed",
        ),
    ],
)
def test_a_folder_is_named_after_its_sorted_overrides_without_presets(
    overrides: list[str], name: str
) -> None:
    assert folder_name(overrides) == name


def test_unsafe_characters_in_a_name_are_replaced_and_a_hash_is_added() -> None:
    names = [folder_name([f"name={name}"]) for name in ("_x_", "<x>", '"x"')]
    assert names[0] == "name=_x_"
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"name=_x_-[0-9a-f]{8}", name) for name in names[1:])


@pytest.mark.parametrize("letter", ["x", "大"])
def test_a_long_name_is_cut_and_stays_unique(tmp_path: Path, letter: str) -> None:
    names = {folder_name([f"dataset.path={letter * 400}{end}"]) for end in "ab"}
    assert len(names) == 2
    for name in names:
        assert name.startswith(f"dataset.path={letter * 10}")
        (tmp_path / name).mkdir()


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        ".hidden",
        "a\0b",
        "a\nb",
        "~root",
        "..\\..\\x",
    ],
)
def test_no_name_leaves_the_folder_or_is_hidden(tmp_path: Path, name: str) -> None:
    for text in (f"dataset={name}", name, f"batch_size={name}/{name}"):
        path = tmp_path / folder_name([text])
        assert path.resolve().parent == path.parent == tmp_path
        assert not path.name.startswith(".")
        path.mkdir(exist_ok=True)
