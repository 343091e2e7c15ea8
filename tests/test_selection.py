from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.errors import ConfigurationError
from nws_sweep.storage import Stored, select
from tests.factories import search_result, summary_of_grid, summary_of_run, trial

POINTS: tuple[dict[str, Any], ...] = (
    {"batch_size": 64, "pin_memory": True},
    {"batch_size": 64, "pin_memory": False},
    {"batch_size": 256, "pin_memory": True, "prefetch_factor": 4},
)


def grid() -> Stored:
    return summary_of_grid(*(search_result(trial(0, 8.0), columns=point) for point in POINTS)).stored


def selected(*conditions: str) -> list[int]:
    """Which points meet the conditions."""
    stored = grid()
    return [stored.runs.index(run) for run in select(stored, conditions).runs]


@pytest.mark.parametrize(
    ("conditions", "points"),
    [
        ([], [0, 1, 2]),
        (["batch_size=64"], [0, 1]),
        (["pin_memory=true"], [0, 2]),
        (["pin_memory=True"], [0, 2]),
        (["prefetch_factor=null"], [0, 1]),
        (["prefetch_factor=None"], [0, 1]),
        (["pin_memory=true", "batch_size=64"], [0]),
        (["dataset=photos"], [0, 1, 2]),
    ],
)
def test_those_are_kept_that_have_all_the_values_as_people_type_them(conditions: list[str], points: list[int]) -> None:
    assert selected(*conditions) == points


def test_only_the_single_one_that_was_asked_for_is_no_grid_any_more() -> None:
    assert select(grid(), ["batch_size=64"]).is_grid
    assert not select(grid(), ["batch_size=256"]).is_grid
    alone = replace(grid(), runs=grid().runs[:1])
    assert select(alone, []).is_grid
    assert not select(alone, ["batch_size=64"]).is_grid


def test_a_run_may_be_asked_for_too() -> None:
    run = summary_of_run(search_result(trial(0, 8.0))).stored
    assert select(run, ["batch_size=64"]) == run


def test_a_value_may_hold_an_equals_sign() -> None:
    stored = summary_of_grid(*(search_result(columns={"dataset.root": root}) for root in ("a=1", "a"))).stored
    assert select(stored, ["dataset.root=a=1"]).runs == stored.runs[:1]


def test_a_configuration_without_the_key_does_not_have_the_value() -> None:
    stored = summary_of_grid(search_result(), search_result(columns={"seed": None})).stored
    assert select(stored, ["seed=null"]).runs == stored.runs[1:]


@pytest.mark.parametrize(
    ("conditions", "line"),
    [
        (["batch_size=65"], "--where batch_size=65: allowed for batch_size: 64, 256"),
        (["batch_size="], "--where batch_size=: allowed for batch_size: 64, 256"),
        (
            ["batch_size=256", "pin_memory=false"],
            "--where batch_size=256 --where pin_memory=false: allowed for pin_memory: true",
        ),
        (
            ["bach_size=64"],
            "--where bach_size=64: there is no key bach_size; allowed: dataset (photos), batch_size (64, 256), "
            "pin_memory (true, false), prefetch_factor (null, 4), patience (3)",
        ),
        (["batch_size"], "--where batch_size: allowed is KEY=VALUE, such as batch_size=64"),
        (["=64"], "--where =64: allowed is KEY=VALUE, such as batch_size=64"),
        (["a\nb"], "--where a b: allowed is KEY=VALUE, such as batch_size=64"),
    ],
)
def test_what_nothing_meets_is_one_line_that_says_what_there_is(conditions: list[str], line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        select(grid(), conditions)
    assert str(caught.value) == line
