"""What all callbacks in another program share."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from nws_sweep.hydra_app import program
from nws_sweep.hydra_app.program import AutotuneCallback, SearchCallback, WatchCallback
from nws_sweep.results import ProjectFacts
from tests.factories import FACTS, search_result, trial


def test_overrides_are_columns_unless_they_set_one_and_the_keys_of_the_settings_are_known() -> None:
    config = OmegaConf.create(
        {"data": {"batch_size": 64, "num_workers": 0}, "lr": 0.5, "model": {"depth": 2}, "other": {"batch_size": 7}}
    )
    measured = search_result(trial(2, 8.0), columns={"dataset": "Photos", "batch_size": 64}, facts=FACTS)
    overrides = ["data.batch_size=64", "other.batch_size=7", "++lr=0.5", "model=small"]
    record = program.of_program(measured, config, overrides)
    own = {"other.batch_size": 7, "lr": 0.5, "model": "small"}
    assert record.configuration.columns == {**measured.configuration.columns, **own}
    unclear = {"batch_size": ("data.batch_size", "other.batch_size")}
    project = ProjectFacts(keys={"num_workers": "data.num_workers"}, unclear=unclear)
    assert record.facts == replace(FACTS, project=project)
    assert program.of_program(replace(measured, facts=None), config, []).facts is None


def test_launchers_can_pickle_the_callbacks() -> None:
    for callback in (AutotuneCallback(), SearchCallback(loader=2), WatchCallback()):
        assert vars(pickle.loads(pickle.dumps(callback))) == vars(callback)


def test_an_axis_of_the_program_with_the_name_of_one_of_ours_names_a_folder(tmp_path: Path) -> None:
    callback = AutotuneCallback()
    callback._grid = tmp_path
    hydra = {"overrides": {"task": ["reuse=a", "+nws_sweep=autotune"]}, "runtime": {"output_dir": ""}}
    callback._config = OmegaConf.create({"hydra": hydra})
    assert callback.save(search_result(trial(2, 8.0))) == tmp_path / "reuse=a"


def test_ranks_other_than_the_first_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    callback = AutotuneCallback()
    callback._config = OmegaConf.create(
        {"hydra": {"overrides": {"task": []}, "runtime": {"output_dir": str(tmp_path)}}}
    )
    monkeypatch.setenv("RANK", "1")
    callback.keep(search_result(trial(2, 8.0)))
    assert list(tmp_path.iterdir()) == []
