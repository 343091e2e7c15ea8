"""``${nws_best:...}`` in a project's config."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError

from nws_sweep.config import best_resolver, embedding
from nws_sweep.config.project_keys import fingerprint_of
from nws_sweep.results import ProjectFacts, SearchRecord, Verdict
from nws_sweep.results.result_cache import ResultStore
from nws_sweep.system import host
from tests.factories import FACTS, configuration, loader_settings, search_result, search_rules, trial

BEST = loader_settings(4, prefetch_factor=3)
VERDICT = Verdict(recommended=BEST, fastest=BEST)
PROVISIONAL = {"verdict": replace(VERDICT, provisional=True)}


def config(**data: Any) -> DictConfig:
    node = {
        "_target_": "mine.Data", "root": "/data", "batch_size": 64, "num_workers": "${nws_best:num_workers}",
        "workers_again": "${nws_best:num_workers}",
    }  # fmt: skip
    return OmegaConf.create({"data": {**node, **data}})


def result(**changed: Any) -> SearchRecord:
    found = search_result(trial(0, 4.0), trial(4, 2.0, settings=BEST))
    best_resolver.register_defaults()
    keys = {"batch_size": "data.batch_size", "num_workers": "data.num_workers"}
    project = ProjectFacts(key="data", keys=keys, fingerprint=fingerprint_of(config(), "data"), target="mine.Data")
    embedding.register_resolvers()
    plain: dict[str, Any] = {
        "configuration": configuration(), "stop_reason": "done", "verdict": VERDICT,
        "host": host.describe(), "started_at": datetime.now().astimezone().isoformat(),
        "facts": replace(FACTS, project=project),
    }  # fmt: skip
    return replace(found, **{**plain, **changed})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResultStore]:
    monkeypatch.setenv("NWS_SWEEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    embedding.register_resolvers()
    yield ResultStore()
    OmegaConf.clear_resolver("nws_best")


@pytest.mark.parametrize(
    ("data", "name", "answer"),
    [
        ({}, "num_workers", 4),
        ({}, "workers_again", 4),
        ({"prefetch_factor": "${nws_best:prefetch_factor}"}, "prefetch_factor", 3),
        ({"batch_size": "${size}"}, "num_workers", 4),  # through another key
    ],
)
def test_the_newest_result_is_used(store: ResultStore, data: dict[str, Any], name: str, answer: int) -> None:
    store.add(result())
    other = replace(FACTS, project=ProjectFacts(key="nowhere", keys={}, fingerprint="x"))
    store.add(result(facts=other, configuration=configuration(seed=5)))  # of another project
    found = config(**data)
    found.size = "${nws_best:batch_size,8}"
    assert found.data[name] == answer


def refused(data: DictConfig) -> str:
    with pytest.raises(InterpolationResolutionError) as caught:
        _ = data.data.num_workers
    return str(caught.value).splitlines()[0]


def test_without_a_result_the_error_has_the_command_that_measures(store: ResultStore) -> None:
    assert refused(config()).endswith(
        "nws_best:num_workers: no result for this config (there is none on this machine); measure with python -m "
        "nws_sweep dataset=project dataset.config=FILE, or set a default: ${nws_best:num_workers,0}"
    )


def test_the_command_in_the_error_names_the_config_of_the_program(store: ResultStore, tmp_path: Path) -> None:
    (tmp_path / "my config.yaml").write_text("data: {num_workers: '${nws_best:num_workers}', root: /}\n")
    with initialize_config_dir(str(tmp_path), version_base="1.3", job_name="train"):
        data = compose("my config.yaml", ["data.root=/a b"], return_hydra_config=True)
    HydraConfig.instance().set_config(data)
    OmegaConf.register_new_resolver("own", str)
    try:
        line = refused(data)
    finally:
        OmegaConf.clear_resolver("own")
    config_file = f"dataset.config={tmp_path}/my config.yaml"
    given = shlex.join([config_file, "dataset.imports=[train]", "dataset.overrides=[data.root=/a b]"])
    assert f"measure with python -m nws_sweep dataset=project {given}" in line


@pytest.mark.parametrize(
    ("changed", "asked", "reason"),
    [
        ({}, {"root": "/other"}, "the newest is of another dataset, at data"),
        ({}, {"batch_size": 32}, "the newest is of batch_size=64, this has 32"),
        ({"host": replace(host.describe(), torch="0.1")}, {}, "the newest is measured with torch 0.1, this is "),
        ({"started_at": "2020-01-01T00:00:00+00:00"}, {}, "the newest is measured 2"),
        ({"facts": FACTS}, {}, "there is none on this machine"),
        ({}, {"_target_": "others.Data"}, "there is none on this machine"),
        (PROVISIONAL, {}, "the newest is provisional: the time budget ended the search"),
        ({"configuration": configuration(search=search_rules((4,))), "trials": (trial(4, 2.0, settings=BEST),)}, {},
            "the newest is provisional: num_workers=4 was the only candidate"),
    ],
)  # fmt: skip
def test_a_stale_result_is_not_used(
    store: ResultStore, changed: dict[str, Any], asked: dict[str, Any], reason: str
) -> None:
    store.add(result(**changed))
    assert reason in refused(config(**asked))
    assert config(**asked, num_workers="${nws_best:num_workers,7}").data.num_workers == 7


def test_a_default_and_a_provisional_result_are_used_on_request(store: ResultStore) -> None:
    assert config(num_workers="${nws_best:num_workers,null}").data.num_workers is None
    store.add(result(**PROVISIONAL))
    assert config(num_workers="${nws_best:num_workers,7,provisional}").data.num_workers == 4
    for asked, line in (("num_workers,7,yes", "after the default provisional is allowed, not yes"),
                        ("workers", "nws_best:workers: allowed are batch_size, num_workers")):  # fmt: skip
        assert line in refused(config(num_workers=f"${{nws_best:{asked}}}"))
    best_resolver.register_defaults()  # as in a measurement
    assert config().data.num_workers == 0
    assert config(num_workers="${nws_best:num_workers,3}").data.num_workers == 3
