from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from nws_sweep import config, grid
from nws_sweep.composing import Composer, dataset_name
from nws_sweep.errors import ConfigurationError

CONF = Path(__file__).resolve().parent.parent / "conf"


@pytest.fixture
def loader() -> Iterator[ConfigLoader]:
    config.register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        yield GlobalHydra.instance().config_loader()
    GlobalHydra.instance().clear()


def composed(loader: ConfigLoader, *overrides: str) -> DictConfig:
    """What Hydra hands to the callback at the start of a multirun."""
    from hydra.types import RunMode

    return loader.load_configuration(config_name="config", overrides=list(overrides), run_mode=RunMode.MULTIRUN)


def test_axes_are_expanded_as_hydra_expands_them(loader: ConfigLoader) -> None:
    overrides = ["batch_size=range(32,129,32)", "pin_memory=true,false", "dataset=sleep", "measure=glob(*,exclude=e*)"]
    assert grid.axes(overrides, {}, loader) == {
        "batch_size": ["batch_size=32", "batch_size=64", "batch_size=96", "batch_size=128"],
        "pin_memory": ["pin_memory=True", "pin_memory=False"],
        "dataset": ["dataset=sleep"],
        "measure": ["measure=default", "measure=quick", "measure=rigorous"],
    }


def test_the_command_line_replaces_a_preset_of_the_same_key(loader: ConfigLoader) -> None:
    found = grid.axes(["batch_size=7"], {"batch_size": "32,64", "pin_memory": "true,false"}, loader)
    assert found["batch_size"] == ["batch_size=7"]
    assert found["pin_memory"] == ["pin_memory=True", "pin_memory=False"]


def test_every_value_of_every_axis_is_seen_in_a_sum_not_a_product() -> None:
    axes = {name: [f"{name}={value}" for value in range(100)] for name in "abc"}
    points = list(grid.samples(axes))
    assert len(points) == 1 + 3 * 99
    assert {override for point in points for override in point} == {text for values in axes.values() for text in values}


def test_the_plan_counts_configurations_and_candidates(loader: ConfigLoader) -> None:
    whole = composed(loader, "batch_size=64,256", "pin_memory=true,false", "search.max_workers=5", "measure=quick")
    plan, shown = grid.check(Composer(whole, loader))
    assert plan.configurations == 4
    assert plan.candidates == (0, 1, 2, 3, 4, 5)
    assert plan.varying == ("dataset", "batch_size", "pin_memory")
    assert plan.at_most_s == 4 * 6 * (5.0 + 2.0)
    assert {(point.loader.batch_size, point.loader.pin_memory) for point in shown} == {
        (64, True), (256, True), (64, False),
    }  # fmt: skip


def test_the_adaptive_search_tries_a_few_of_many_candidates(loader: ConfigLoader) -> None:
    plan, _ = grid.check(Composer(composed(loader, "search.max_workers=64", "patience=3", "measure=quick"), loader))
    assert len(plan.candidates) == 65
    assert plan.tried == 5 + 2 * 3
    assert plan.at_most_s == plan.tried * (5.0 + 2.0)
    all_of_them, _ = grid.check(Composer(composed(loader, "search.max_workers=64", "search=exhaustive"), loader))
    assert all_of_them.tried == 65


def test_a_time_budget_is_the_limit_of_the_plan(loader: ConfigLoader) -> None:
    plan, _ = grid.check(Composer(composed(loader, "search.time_budget_s=30", "batch_size=8,16"), loader))
    assert plan.at_most_s == 2 * (30.0 + 2.0)


def test_presets_count(loader: ConfigLoader) -> None:
    plan, _ = grid.check(Composer(composed(loader, "axis/batch_size=wide", "axis/pin_memory=both"), loader))
    assert plan.configurations == 8


def test_whole_epochs_have_no_limit_in_time(loader: ConfigLoader) -> None:
    plan, _ = grid.check(Composer(composed(loader, "measure=epoch"), loader))
    assert plan.at_most_s is None


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["batch_size=64,0"], "batch_size=0: allowed is null or an integer of at least 1"),
        (["batch_size=64,abc"], "batch_size=abc: allowed is null or an integer of at least 1"),
        (["pin_memory=true,false", "patience=1,-1"], "patience=-1: allowed is an integer of at least 0"),
        (["dataset=sleep,image_folder"], "dataset.root is missing: give it as dataset.root=VALUE"),
    ],
)
def test_one_bad_value_refuses_the_whole_grid(loader: ConfigLoader, overrides: list[str], line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        grid.check(Composer(composed(loader, *overrides), loader))
    assert str(caught.value) == line


def test_a_preset_without_a_grid_is_pointed_out() -> None:
    config.register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        single = compose("config", overrides=["axis/batch_size=wide"], return_hydra_config=True)
    with_choices = OmegaConf.merge(single, {"hydra": {"runtime": {"choices": {"dataset": "photos"}}}})
    assert isinstance(with_choices, DictConfig)
    plan, _ = grid.check_single(with_choices)
    assert plan.configurations == 1
    assert "only with -m" in plan.notes[0]
    assert "batch_size=32,64,128,256" in plan.notes[0]


def test_a_dataset_is_called_by_its_option_or_by_a_target_given_by_hand() -> None:
    given = OmegaConf.create({"dataset": {"_target_": "my.module.Mine"}})
    assert dataset_name("photos", [], given) == "photos"
    assert dataset_name("custom", ["dataset._target_=my.module.Mine"], given) == "Mine"
    assert dataset_name(None, [], given) == "Mine"


AXES = {
    "batch_size": ["batch_size=1", "batch_size=2", "batch_size=3"],
    "seed": ["seed=0", "seed=1"],
    "pin_memory": ["pin_memory=True", "pin_memory=False"],
}


def test_the_order_of_the_grid_is_hydras() -> None:
    found = list(grid.points(AXES, "grid"))
    assert found[:3] == [
        ["batch_size=1", "seed=0", "pin_memory=True"],
        ["batch_size=1", "seed=0", "pin_memory=False"],
        ["batch_size=1", "seed=1", "pin_memory=True"],
    ]
    assert len(found) == grid.size_of(AXES) == 12


def test_interleaved_repeats_come_one_after_the_other_each_in_an_order_of_its_own() -> None:
    found = list(grid.points(AXES, "interleaved"))
    assert sorted(found) == sorted(grid.points(AXES, "grid"))
    assert [point[1] for point in found] == ["seed=0"] * 6 + ["seed=1"] * 6
    first, second = ([(point[0], point[2]) for point in half] for half in (found[:6], found[6:]))
    assert sorted(first) == sorted(second)
    assert first != second
    assert first != sorted(first)


def test_the_same_grid_is_interleaved_alike_each_time() -> None:
    """A grid that is gone on with keeps its order."""
    assert list(grid.points(AXES, "interleaved")) == list(grid.points(AXES, "interleaved"))


def test_without_repeats_all_points_are_drawn() -> None:
    axes = {"batch_size": [f"batch_size={size}" for size in range(50)]}
    found = [point[0] for point in grid.points(axes, "interleaved")]
    assert sorted(found) == sorted(axes["batch_size"])
    assert found != axes["batch_size"]


def test_what_refers_to_another_value_does_so_in_each_point(loader: ConfigLoader) -> None:
    whole = composed(loader, "batch_size=4,8", "search.maximum_patience=${batch_size}")
    _, shown = grid.check(Composer(whole, loader))
    assert [point.search.maximum_patience for point in shown] == [4, 8]
