import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose
from hydra.core.config_loader import ConfigLoader
from hydra.types import RunMode
from omegaconf import OmegaConf

from nws_sweep.config.schema import folder_name
from nws_sweep.errors import ConfigurationError
from nws_sweep.hydra_app import app, grid
from nws_sweep.hydra_app.grid import Composer
from nws_sweep.records import LoaderSettings
from tests.factories import FACTS, search_result, store_run, trial


@pytest.fixture
def composer(composing: ConfigLoader) -> Callable[..., Composer]:
    """Composers of multiruns."""

    def composer_of(*overrides: str) -> Composer:
        return Composer(
            composing.load_configuration("config", list(overrides), RunMode.MULTIRUN),
            composing,
        )

    return composer_of


def test_axes_are_expanded_as_by_hydra_and_the_command_line_precedes_presets(
    composer: Callable[..., Composer],
) -> None:
    overrides = [
        "batch_size=range(32,129,32)",
        "dataset=sleep",
        "measure=glob(*,exclude=e*)",
    ]
    one = composer(*overrides, "axis/batch_size=wide", "axis/pin_memory=both")
    axes = grid.axes_of(one.multirun, one.loader)
    assert {
        key: axes[key] for key in ("batch_size", "pin_memory", "dataset", "measure")
    } == {
        "batch_size": [
            "batch_size=32",
            "batch_size=64",
            "batch_size=96",
            "batch_size=128",
        ],
        "pin_memory": ["pin_memory=True", "pin_memory=False"],
        "dataset": ["dataset=sleep"],
        "measure": ["measure=default", "measure=quick", "measure=rigorous"],
    }


def test_the_plan_counts_configurations(
    composer: Callable[..., Composer],
) -> None:
    plan, shown = grid.check(
        composer("axis/batch_size=wide", "pin_memory=true,false", "max_workers=5")
    )
    assert plan.configurations == 8
    assert plan.varying == ("dataset", "batch_size", "pin_memory")
    assert {(point.loader.batch_size, point.loader.pin_memory) for point in shown} == {
        (32, True), (64, True), (128, True), (256, True), (32, False),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "tried", "at_most_s"),
    [
        (["max_workers=5", "measure=quick", "batch_size=8,16"], 6, 2 * 6 * (5.0 + 2.0)),
        (["max_workers=64", "patience=3", "measure=quick"], 6 + 3, 60.0),
        (["max_workers=5", "time_limit_s=30", "batch_size=8,16"], 6, 2 * 30.0),
        (["max_workers=5", "measure=epoch"], 6, None),  # of unknown length
    ],
)
def test_the_plan_has_an_upper_limit_of_the_time(
    composer: Callable[..., Composer],
    overrides: list[str],
    tried: int,
    at_most_s: float | None,
) -> None:
    plan, _ = grid.check(composer(*overrides))
    assert (plan.tried, plan.at_most_s) == (tried, at_most_s)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["pin_memory=true,false", "patience=1,-1"],
            "patience=-1: must be an integer of at least 0",
        ),
        (["batch_size=range(128,32)"], "batch_size=range(128,32): has no value"),
        (["dataset=glob(zz*)"], "dataset=glob(zz*): has no value"),
        (
            ["dataset=sleep,image_folder"],
            "dataset.root is missing: set dataset.root=VALUE",
        ),
        (
            ["axis/batch_size=small,wide"],
            "axis/batch_size=small: a preset with axes of its own cannot be a value of an axis; choose one, or list "
            "the values themselves",
        ),
    ],
)
def test_a_bad_value_rejects_the_whole_grid(
    composer: Callable[..., Composer], overrides: list[str], line: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        grid.check(composer(*overrides))
    assert str(caught.value) == line


@pytest.mark.usefixtures("composing")
def test_a_preset_without_a_grid_is_noted() -> None:
    single = compose(
        "config", overrides=["axis/batch_size=wide"], return_hydra_config=True
    )
    OmegaConf.update(single, "hydra.runtime.choices.dataset", "photos", force_add=True)
    plan, _ = grid.check_single(grid.without_hydra(single), single.hydra)
    assert plan.configurations == 1
    assert re.search("only with -m; .*batch_size=32,64,128,256", plan.note)


def test_a_finished_point_is_found_by_the_settings_of_the_dataloader_that_its_dataset_comes_in(
    composer: Callable[..., Composer], tmp_path: Path
) -> None:
    own = LoaderSettings(batch_size=24, num_workers=5, pin_memory=True)
    call: Any = SimpleNamespace(
        facts=lambda configuration, folder: replace(FACTS, loader=own)
    )
    grid_state = app.GridState(call, composer(), tmp_path)
    point = [
        "batch_size=null",
        "dataset._target_=x",
        "dataset=custom",
        "pin_memory=null",
    ]
    plain = grid_state.composer.configuration(point)
    values: Any = {"batch_size": 24, "pin_memory": True}
    measured = replace(
        plain,
        loader=replace(plain.loader, **values),
        columns={**plain.columns, **values},
    )
    store_run(
        tmp_path,
        search_result(trial(0, 8.0), configuration=measured),
        folder_name(point),
    )
    assert grid_state.ended(point)
