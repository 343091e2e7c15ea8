from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nws_sweep import facets
from nws_sweep.analysis import Summary
from tests.factories import failed_trial, points, search_result, summary_of_grid, summary_of_run, trial


def grid(**axes: Sequence[Any]) -> Summary:
    return summary_of_grid(*(search_result(trial(0, 8.0), columns=columns) for columns in points(**axes)))


def shape(summary: Summary) -> list[tuple[str, list[str]]]:
    found = facets.facets(summary)
    return [
        (title, [facets.BETWEEN.join(facets.cells(c, found.within)) for c in configurations])
        for title, configurations in found.panels.items()
    ]


def test_each_dataset_has_a_panel_and_labels_are_the_values_of_the_rest() -> None:
    found = grid(dataset=("photos", ""), batch_size=(64, 256))
    assert shape(found) == [("photos", ["64", "256"]), ('""', ["64", "256"])]
    one = search_result(trial(0, 8.0), failed_trial(1), columns={"seed": 1})
    assert shape(summary_of_run(one)) == [("", [""])]
    # What has nothing measured has no place.
    assert shape(summary_of_grid(one, search_result(failed_trial(0), columns={"seed": 2}))) == [("", ["1"])]


@pytest.mark.parametrize(
    ("axes", "across"),
    [
        # Few curves in each panel, with the fewest panels.
        ({"batch_size": (32, 64, 128), "pin_memory": (False, True), "prefetch_factor": (None, 2, 4)}, ("batch_size",)),
        ({"dataset": ("a", "b"), "seed": (3, 1, 2), "batch_size": (1, 2, 3, 4)}, ("dataset", "seed")),
        ({"seed": range(9)}, ()),  # a panel for each curve
        ({"dataset": [f"set{n}" for n in range(30)]}, ()),
    ],
)
def test_many_curves_are_shared_out(axes: dict[str, Sequence[Any]], across: tuple[str, ...]) -> None:
    assert facets.facets(grid(**axes)).across == across


def test_panels_are_in_the_order_of_values() -> None:
    found = shape(grid(dataset=("b", "a"), seed=(10, 9, 8), batch_size=(1, 2, 3, 4)))
    titles = [f"{name} · seed={seed}" for name in ("b", "a") for seed in (8, 9, 10)]
    assert [title for title, _ in found] == titles


def test_values_ascend_as_numbers_and_what_is_none_comes_first() -> None:
    found = facets.values(grid(prefetch_factor=(16, 2, None), batch_size=(256, 64)))
    assert found == {"batch_size": ("64", "256"), "prefetch_factor": ("null", "2", "16")}


def test_a_table_has_the_columns_with_the_most_values() -> None:
    found = grid(batch_size=(1, 2, 3), pin_memory=(False, True), seed=(1, 2, 3))
    assert facets.columns(found, 2) == ("batch_size", "seed")
    assert facets.columns(summary_of_run(search_result()), 2) == ("dataset",)
