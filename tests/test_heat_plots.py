from __future__ import annotations

import pytest

from nws_sweep import heat_plots
from nws_sweep.heat_plots import Heat, HeatMap, Sheet
from tests.factories import failed_trial, search_result, summary_of_grid, summary_of_run, trial


@pytest.mark.parametrize(
    ("counts", "chosen"),
    [
        ({"a": 2, "b": 5, "c": 3}, ("b", "c", "a")),
        ({"dataset": 2, "a": 5, "b": 4, "c": 3}, ("a", "b", "dataset")),
        ({"dataset": 6, "a": 9, "b": 8, "c": 2}, ("a", "dataset", "c")),
        ({"a": 9, "b": 8, "c": 7}, ("a", "b", "")),
        ({"a": 2, "b": 2}, ("a", "b", "")),
    ],
)
def test_the_columns_with_the_most_values_are_the_axes(counts: dict[str, int], chosen: tuple[str, str, str]) -> None:
    assert heat_plots.axes_of(counts) == chosen


def test_cells_have_the_best_over_what_is_no_axis_and_nothing_where_nothing_was_measured() -> None:
    found = summary_of_grid(
        search_result(trial(4, 8.0), columns={"batch_size": 64, "patience": 1}),
        search_result(trial(2, 4.0), columns={"batch_size": 64, "patience": 2}),
        search_result(failed_trial(2), columns={"batch_size": 128, "patience": 1}),
        search_result(trial(1, 16.0), columns={"batch_size": 128, "patience": 2}),
    )
    rows = ((Heat(1024.0, 4, 0.375), None), (Heat(2048.0, 2, 0.375), Heat(512.0, 1, 0.375)))
    assert heat_plots.heat_map(found) == HeatMap(
        across="batch_size", down="patience", third="", columns=("64", "128"), rows=("1", "2"),
        sheets=(Sheet(title="", rows=rows),), over=(), left_out=0,
    )  # fmt: skip


def test_more_values_than_can_be_told_apart_are_left_out_and_counted() -> None:
    points = [(seed, size) for seed in range(100) for size in (1, 2)]
    results = (search_result(trial(0, 8.0), columns={"seed": seed, "batch_size": size}) for seed, size in points)
    chart = heat_plots.heat_map(summary_of_grid(*results))
    assert chart is not None
    assert (len(chart.columns), len(chart.rows), chart.left_out) == (40, 2, 60)
    assert (
        heat_plots.draw_heat_map(chart, "Best")
        .get_supxlabel()
        .endswith("in brackets num_workers; 60 more values are not shown")
    )


def test_one_column_makes_no_map() -> None:
    assert heat_plots.heat_map(summary_of_run(search_result(trial(0, 8.0)))) is None
    results = (search_result(trial(0, 8.0), columns={"seed": seed}) for seed in (1, 2))
    assert heat_plots.heat_map(summary_of_grid(*results)) is None


@pytest.mark.parametrize(
    ("columns", "told", "ticks"),
    [(2, ["1234 (4)", "1000 (2)"], 2), (16, ["1234", "1000"] * 8, 16), (40, [], 20)],
)
def test_cells_say_as_much_as_fits_on_any_colour(columns: int, told: list[str], ticks: int) -> None:
    row = (Heat(1234.0, 4), Heat(1000.0, 2)) * (columns // 2)
    names = tuple(f"{n:03}" for n in range(columns))
    chart = HeatMap(
        across="batch_size", down="patience", third="", columns=names, rows=("1", "2"),
        sheets=(Sheet(title="", rows=(row, (None,) * columns)),), over=(), left_out=0,
    )  # fmt: skip
    (axes,) = heat_plots.draw_heat_map(chart, "Best").axes
    assert [text.get_text() for text in axes.texts] == told
    assert [text.get_color() for text in axes.texts[:2]] == ["#fdfdfd", "#101418"][: len(told)]
    assert len(axes.get_xticks()) == ticks


def test_each_dataset_has_a_scale_of_its_own() -> None:
    sheets = tuple(
        Sheet(title=name, rows=((Heat(rate, 1), Heat(rate / 2, 1)),)) for name, rate in (("a", 10), ("b", 99))
    )
    for third, expected in (("dataset", [(5, 10), (49.5, 99)]), ("patience", [(5, 99), (5, 99)])):
        chart = HeatMap(
            across="x", down="y", third=third, columns=("1", "2"), rows=("1",), sheets=sheets, over=(), left_out=0,
        )  # fmt: skip
        figure = heat_plots.draw_heat_map(chart, "Best")
        assert [axes.images[0].get_clim() for axes in figure.axes] == expected
