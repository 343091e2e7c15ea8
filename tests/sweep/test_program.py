"""What all callbacks in another program share."""

import pickle
from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from nws_sweep.results import ProjectFacts
from nws_sweep.sweep import program
from nws_sweep.sweep.program import AutotuneCallback, SearchCallback
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


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "SLURM_PROCID"])
def test_of_several_ranks_the_first_one_writes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(other, raising=False)
    assert program.is_first_rank()
    monkeypatch.setenv(name, "1")
    assert not program.is_first_rank()


def test_launchers_can_pickle_the_callbacks() -> None:
    for callback in (AutotuneCallback(), SearchCallback(loader=2)):
        assert vars(pickle.loads(pickle.dumps(callback))) == vars(callback)
