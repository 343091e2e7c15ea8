from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from nws_sweep import facets
from nws_sweep.analysis import Summary
from nws_sweep.facets import Facets
from tests.factories import failed_trial, search_result, summary_of_grid, summary_of_run, trial


def grid(**axes: Sequence[Any]) -> Summary:
    points = itertools.product(*axes.values())
    return summary_of_grid(*(search_result(trial(0, 8.0), columns=dict(zip(axes, p, strict=True))) for p in points))


def shape(found: Facets) -> list[tuple[str, list[str]]]:
    return [(panel.title, [member.label for member in panel.members]) for panel in found.panels]


def test_a_run_is_one_panel_without_a_title_and_a_label() -> None:
    assert shape(facets.facets(summary_of_run(search_result(trial(0, 8.0))))) == [("", [""])]


def test_each_dataset_has_a_panel_and_labels_are_the_values_of_the_rest() -> None:
    found = facets.facets(grid(dataset=("photos", "tensor"), batch_size=(64, 256)))
    assert shape(found) == [("photos", ["64", "256"]), ("tensor", ["64", "256"])]
    assert (found.across, found.within, found.key) == (("dataset",), ("batch_size",), "batch_size")


def test_many_curves_are_shared_out_by_the_column_that_makes_few_of_them_with_the_fewest_panels() -> None:
    found = facets.facets(grid(batch_size=(32, 64, 128), pin_memory=(False, True), prefetch_factor=(None, 2, 4)))
    assert found.across == ("batch_size",)
    assert [title for title, _ in shape(found)] == ["batch_size=32", "batch_size=64", "batch_size=128"]
    assert shape(found)[0][1][:2] == ["false · null", "false · 2"]


def test_a_column_that_would_leave_one_curve_in_a_panel_shares_nothing_out() -> None:
    found = facets.facets(grid(seed=range(9)))
    assert found.across == ()
    assert len(found.members) == 9


def test_very_many_datasets_are_labels() -> None:
    assert facets.facets(grid(dataset=[f"set{n}" for n in range(30)])).across == ()


def test_what_has_nothing_measured_has_no_place() -> None:
    one = search_result(trial(0, 8.0), failed_trial(1), columns={"seed": 1})
    found = facets.facets(summary_of_grid(one, search_result(failed_trial(0), columns={"seed": 2})))
    assert shape(found) == [("", ["1"])]
    assert [t.num_workers for t in found.members[0].trials] == [0]


def test_values_ascend_as_numbers_and_what_is_none_comes_first() -> None:
    found = facets.values(grid(prefetch_factor=(16, 2, None), batch_size=(256, 64)))
    assert found == {"batch_size": ("64", "256"), "prefetch_factor": ("null", "2", "16")}


def test_a_table_has_the_columns_with_the_most_values() -> None:
    found = grid(batch_size=(1, 2, 3), pin_memory=(False, True), seed=(1, 2, 3))
    assert facets.columns(found, 2) == ("batch_size", "seed")
    assert facets.columns(summary_of_run(search_result()), 2) == ("dataset",)


def test_an_empty_value_can_be_seen() -> None:
    (c,) = summary_of_run(search_result(columns={"dataset": ""})).configurations
    assert (facets.cell(c, "dataset"), facets.cell(c, "nothing")) == ('""', "-")
