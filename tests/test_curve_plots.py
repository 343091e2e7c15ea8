from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from nws_sweep import curve_plots, facets
from nws_sweep.analysis import Summary
from nws_sweep.curve_plots import Chart, Curve, Panel, Point
from tests.factories import endless_trial, failed_trial, measurement, search_result, summary_of_grid, summary_of_run
from tests.factories import trial as trial_of


def throughput(summary: Summary) -> Chart:
    chart = curve_plots.throughput(facets.facets(summary))
    assert chart is not None
    return chart


def test_throughput_of_a_run_is_one_curve_with_the_ends_of_its_intervals() -> None:
    chart = throughput(summary_of_run(search_result(trial_of(4, 8.0), failed_trial(2), trial_of(0, 32.0))))
    points = (Point(0, 256.0, 256 / 1.5, 256 / 0.75), Point(4, 1024.0, 1024 / 1.5, 1024 / 0.75))
    curve = Curve(label="", points=points, best=4)
    panel = Panel(title="", curves=(curve,))
    assert chart == Chart(quantity="samples per second", key="", panels=(panel,), comparable=True)
    assert chart.recommended == [(panel, curve, points[1])]


def test_time_is_that_of_an_epoch_or_of_1000_samples_where_its_length_is_unknown() -> None:
    known = curve_plots.times(facets.facets(summary_of_run(search_result(trial_of(0, 8.0)))))
    assert known is not None
    assert (known.quantity, known.panels[0].curves[0].points) == ("seconds per epoch", (Point(0, 8.0, 6.0, 12.0),))
    mixed = search_result(endless_trial(0, 0.064), trial_of(1, 8.0))
    unknown = curve_plots.times(facets.facets(summary_of_run(mixed)))
    assert unknown is not None
    assert unknown.quantity == "seconds per 1000 samples"
    point = unknown.panels[0].curves[0].points[0]
    assert (point.value, point.low, point.high) == pytest.approx((1.0, 0.75, 1.5))


def test_waiting_is_in_per_cent_of_all_of_it() -> None:
    chart = curve_plots.waiting(facets.facets(summary_of_run(search_result(trial_of(0, 8.0)))))
    assert chart is not None
    (panel,) = chart.panels
    assert (chart.top, panel.curves[0].points) == (100.0, (Point(0, 75.0, 75.0, 75.0),))


def test_without_a_pace_there_is_nothing_to_draw() -> None:
    start_only = trial_of(0, 8.0, measurement=measurement(8.0, batch_s=None, samples_per_s=None))
    found = facets.facets(summary_of_run(search_result(start_only)))
    assert curve_plots.throughput(found) is None


def grid(**axes: object) -> Summary:
    points = itertools.product(*axes.values())  # type: ignore[call-overload]
    columns = [dict(zip(axes, point, strict=True)) for point in points]
    return summary_of_grid(
        *(search_result(trial_of(0, 8.0 + n), trial_of(2, 4.0 + n), columns=c) for n, c in enumerate(columns))
    )


def test_a_column_of_two_values_is_shown_by_the_style_of_the_lines() -> None:
    (panel,) = throughput(grid(batch_size=(32, 64, 128), pin_memory=(False, True))).panels
    assert [(curve.label, curve.look) for curve in panel.curves] == [
        ("32 · false", (0, 0)),
        ("32 · true", (0, 1)),
        ("64 · false", (1, 0)),
        ("64 · true", (1, 1)),
        ("128 · false", (2, 0)),
        ("128 · true", (2, 1)),
    ]


def test_of_many_the_best_have_names_and_the_others_are_thin_lines() -> None:
    chart = throughput(grid(seed=range(20)))
    (panel,) = chart.panels
    assert [(curve.label, curve.look) for curve in panel.named] == [(str(n), (n, 0)) for n in range(6)]
    figure = curve_plots.draw(chart, "Throughput")
    others = figure.axes[0].lines[0].get_ydata()
    assert np.isnan(others).sum() == 14
    assert np.nanmin(others) == pytest.approx(8192 / 27)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["0", "1", "2", "3", "4", "5", "14 more"]


def test_names_are_in_the_order_of_the_ends_of_their_curves() -> None:
    chart = throughput(grid(batch_size=(64, 256)))
    assert [curve.label for curve in chart.panels[0].curves] == ["64", "256"]
    slower_first = replace(chart.panels[0], curves=chart.panels[0].curves[::-1])
    figure = curve_plots.draw(replace(chart, panels=(slower_first,)), "Throughput")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["64", "256"]


def test_a_curve_has_the_same_look_in_all_panels() -> None:
    first, second = throughput(grid(dataset=("a", "b"), batch_size=(64, 256))).panels
    assert [(c.label, c.look) for c in first.curves] == [(c.label, c.look) for c in second.curves]


def test_panels_of_one_dataset_have_the_same_axis_and_those_of_several_their_own() -> None:
    for chart, panels, axes in (
        (throughput(grid(batch_size=(32, 64, 128), prefetch_factor=(2, 4, 8))), 3, 1),
        (throughput(grid(dataset=("a", "b"), batch_size=(64, 256))), 2, 2),
    ):
        drawn = curve_plots.draw(chart, "Throughput").axes
        assert (len(drawn), len({each.get_ylim() for each in drawn})) == (panels, axes)
        assert all(each.get_ylim()[0] == 0 for each in drawn)


def test_rates_of_very_different_size_are_on_a_logarithmic_axis() -> None:
    wide, narrow = (
        throughput(summary_of_run(search_result(trial_of(0, 1.0), trial_of(1, slow)))) for slow in (100.0, 2.0)
    )
    assert (wide.is_log, narrow.is_log) == (True, False)
    (axes,) = curve_plots.draw(wide, "Throughput").axes
    assert axes.get_yscale() == "log"
    apart = replace(wide, panels=tuple(Panel(title="", curves=(c,)) for c in _each_alone(wide)))
    assert (apart.is_log, replace(apart, comparable=False).is_log) == (True, False)


def _each_alone(chart: Chart) -> list[Curve]:
    (curve,) = chart.panels[0].curves
    return [replace(curve, points=(point,)) for point in curve.points]


def test_candidates_have_marks_and_whole_numbers_have_labels() -> None:
    chart = throughput(summary_of_run(search_result(*(trial_of(n, 8.0) for n in (0, 1, 63)))))
    (axes,) = curve_plots.draw(chart, "Throughput").axes
    assert list(axes.get_xticks(minor=True)) == [1, 63]
    assert set(axes.get_xticks()) >= {0, 20, 40, 60}


def test_without_anything_to_draw_there_is_a_title() -> None:
    assert curve_plots.draw(None, "Time").get_suptitle() == "Time"
