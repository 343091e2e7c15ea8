"""Configurations made quickly are those that Hydra composes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from nws_sweep import config, grid
from nws_sweep.composing import Composer, configuration_of
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import Configuration

CONF = Path(__file__).resolve().parent.parent / "conf"


@pytest.fixture
def composer() -> Iterator[Composer]:
    yield from composer_of()


def composer_of(*overrides: str) -> Iterator[Composer]:
    config.register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        loader = GlobalHydra.instance().config_loader()
        whole = loader.load_configuration("config", list(overrides), RunMode.MULTIRUN)
        yield Composer(whole, loader)
    GlobalHydra.instance().clear()


def by_hydra(composer: Composer, overrides: list[str]) -> Configuration:
    composed = composer.loader.load_sweep_config(composer.whole, overrides)
    task = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    return configuration_of(task, composed.hydra, overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["batch_size=7", "pin_memory=true", "patience=5"],
        ["batch_size=7", "dataset=sleep", "dataset.length=50", "measure=quick"],
        ["dataset=sleep", "+dataset.more=1", "dataset.seconds_per_sample=1e-3"],
        ["search.candidates=[0,2,4]", "search=exhaustive", "search.tolerance=0.1"],
        ["dataset._target_=package.Mine", "batch_size=null", "seed=3"],
        ["experiment=batch_timeline", "prefetch_factor=4"],
        ["++dataset.files=9", "~consumer", "consumer=none"],
        ["batch_size=4", "++batch_size=8"],
        ["dataset=sleep", "dataset.length=5", "++dataset={length:6}"],
        ["dataset=sleep", "dataset.length=5", "dataset={length:6}"],
        ["batch_size='8'"],
        ["pin_memory=yes"],
        ["patience=2", "search.maximum_patience=${patience}"],
        ["axis/batch_size=wide", "batch_size=32", "order=interleaved", "loader.multiprocessing_context=spawn"],
    ],
)
def test_a_point_is_what_hydra_makes_of_it(composer: Composer, overrides: list[str]) -> None:
    try:
        expected: Configuration | str = by_hydra(composer, overrides)
    except Exception:
        with pytest.raises(ConfigurationError):
            composer.configuration(overrides)
        return
    for _ in range(2):  # the second time from what is kept
        assert composer.configuration(overrides) == expected


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["batch_size=0"], "batch_size=0: allowed is"),
        (["batch_size=many"], "batch_size=many"),
        (["pin_memory=maybe"], "pin_memory=maybe: allowed is true, false or null"),
        (["search.tolerance=half"], "search.tolerance=half: allowed is a number from 0 to 1"),
        (["prefetch_factor=1.5"], "prefetch_factor=1.5: allowed is"),
        (["batch_size=true"], "batch_size=true: allowed is"),
        (["batch_size=8.5"], "batch_size=8.5: allowed is"),
        (["seed=abc"], "seed=abc: allowed is an integer"),
        (["dataset=sleep", "dataset.lenght=3"], "dataset.lenght=3: the chosen dataset has no such argument"),
        (["search.maximum_patience=-1"], "search.maximum_patience=-1: allowed is"),
        (["patience=-1"], "=-1: allowed is"),
    ],
)
def test_what_is_wrong_is_told_as_ever(composer: Composer, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        composer.configuration(overrides)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_one_point_does_not_leak_into_the_next(composer: Composer) -> None:
    assert composer.configuration(["batch_size=7"]).loader.batch_size == 7
    assert composer.configuration(["pin_memory=true"]).loader.batch_size == 64


@pytest.mark.parametrize(
    ("key", "wrong"),
    [("batch_size", "0"), ("batch_size", "x"), ("patience", "-3"), ("search.tolerance", "2"), ("pin_memory", "maybe")],
)
def test_one_wrong_value_of_many_is_found(key: str, wrong: str) -> None:
    values = [*("1" for _ in range(100)), wrong, *("1" for _ in range(100))]
    for composer in composer_of(f"{key}={','.join(values)}"):
        with pytest.raises(ConfigurationError, match=f"{key}={wrong}|patience=-3"):
            grid.check(composer)


@pytest.mark.parametrize(
    ("points", "longest", "overrides"),
    [
        (2000, 2000, ["batch_size=range(1,2001)"]),
        (10_000, 100, ["batch_size=range(1,101)", "seed=range(0,100)"]),
    ],
)
def test_ten_thousand_points_are_planned_within_a_minute(points: int, longest: int, overrides: list[str]) -> None:
    """Both shapes, one long axis and several; each value of each is checked. On a busy machine too."""
    for composer in composer_of(*overrides, "dataset=sleep"):
        began = time.monotonic()
        plan, shown = grid.check(composer)
        assert time.monotonic() - began < 60
        assert plan.configurations == points
        assert {1, longest} <= {each.loader.batch_size for each in shown}
