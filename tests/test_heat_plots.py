from __future__ import annotations

import pytest

from nws_sweep import heat_plots
from nws_sweep.heat_plots import Heat, HeatMap
from tests.factories import failed_trial, points, search_result, summary_of_grid, trial


@pytest.mark.parametrize(
    ("counts", "chosen"),
    [
        ({"a": 2, "b": 5, "c": 3}, ("b", "c", "")),
        ({"dataset": 2, "a": 5, "b": 4, "c": 3}, ("a", "b", "dataset")),
        ({"dataset": 6, "a": 9, "b": 8, "c": 2}, ("a", "dataset", "")),
        ({"dataset": 2, "a": 2}, ("a", "dataset", "")),
    ],
)
def test_the_columns_with_the_most_values_are_the_axes(counts: dict[str, int], chosen: tuple[str, str, str]) -> None:
    assert heat_plots.axes_of(counts) == chosen


def test_cells_have_the_best_over_what_is_no_axis_and_nothing_where_nothing_was_measured() -> None:
    found = summary_of_grid(
        search_result(trial(4, 8.0), columns={"batch_size": 64, "patience": 1, "seed": 1}),
        search_result(trial(2, 4.0), columns={"batch_size": 64, "patience": 2, "seed": 1}),
        search_result(trial(3, 5.0), columns={"batch_size": 64, "patience": 2, "seed": 2}),
        search_result(failed_trial(2), columns={"batch_size": 128, "patience": 1, "seed": 2}),
        search_result(trial(1, 16.0), columns={"batch_size": 128, "patience": 2, "seed": 2}),
    )
    assert heat_plots.heat_map(found) == HeatMap(
        across="batch_size", down="patience", columns=("64", "128"), rows=("1", "2"), over=("seed",), left_out=0,
        sheets={"": [[Heat(1024.0, 4, 0.375), None], [Heat(2048.0, 2, 0.375), Heat(512.0, 1, 0.375)]]},
    )  # fmt: skip

    failed = [search_result(failed_trial(0), columns=each) for each in points(seed=(1, 2), batch_size=(1, 2))]
    assert heat_plots.heat_map(summary_of_grid(*failed)) is None
    one_column = [search_result(trial(0, 8.0), columns={"seed": seed}) for seed in range(2)]
    assert heat_plots.heat_map(summary_of_grid(*one_column)) is None


def test_each_dataset_has_a_sheet_and_a_scale_of_its_own() -> None:
    results = [
        search_result(trial(0, 8.0 / (1 + n)), columns=columns)
        for n, columns in enumerate(points(dataset=("a", "b"), seed=(1, 2), batch_size=range(50)))
    ]
    chart = heat_plots.heat_map(summary_of_grid(*results, search_result(failed_trial(0), columns={"dataset": "c"})))
    assert chart is not None
    assert list(chart.sheets) == ["dataset=a", "dataset=b"]
    assert (len(chart.columns), len(chart.rows), chart.left_out) == (40, 3, 11)
    figure = heat_plots.draw_heat_map(chart, "Best")
    clims = [axes.images[0].get_clim() for axes in figure.axes]
    assert clims == [(1024, 1024 * 90), (1024 * 101, 1024 * 190)]
    assert figure.get_supxlabel().endswith("; 11 more values are not shown")


@pytest.mark.parametrize(
    ("columns", "told", "ticks"),
    [(2, ["1234 (4)", "1000 (2)"], 2), (16, ["1234", "1000"] * 8, 16), (40, [], 20)],
)
def test_cells_say_as_much_as_fits_on_any_colour(columns: int, told: list[str], ticks: int) -> None:
    row = (Heat(1234.0, 4), Heat(1000.0, 2)) * (columns // 2)
    chart = HeatMap(
        across="batch_size", down="patience", columns=tuple(f"{n:03}" for n in range(columns)), rows=("1", "2"),
        sheets={"": [row, (None,) * columns]}, over=(), left_out=0,
    )  # fmt: skip
    (axes,) = heat_plots.draw_heat_map(chart, "Best").axes
    assert [text.get_text() for text in axes.texts] == told
    assert [text.get_color() for text in axes.texts[:2]] == ["#fdfdfd", "#101418"][: len(told)]
    assert len(axes.get_xticks()) == ticks
