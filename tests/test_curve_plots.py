from __future__ import annotations

import itertools

import pytest

from nws_sweep import curve_plots, facets
from nws_sweep.analysis import Summary
from nws_sweep.curve_plots import Chart, Curve, Panel, Point, Rest
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
    top = 1.06 * 1024 / 0.75
    panel = Panel(title="", curves=(curve,), rest=None, bottom=0.0, top=top)
    assert chart == Chart(quantity="samples per second", key="", panels=(panel,))


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
    assert (panel.top, panel.curves[0].points) == (100.0, (Point(0, 75.0, 75.0, 75.0),))


def test_without_a_pace_there_is_nothing_to_draw() -> None:
    start_only = trial_of(0, 8.0, measurement=measurement(8.0, batch_s=None, samples_per_s=None))
    found = facets.facets(summary_of_run(search_result(start_only)))
    assert curve_plots.throughput(found) is None
    assert curve_plots.best_of(throughput(summary_of_run(search_result(trial_of(0, 8.0))))) is not None


def grid(**axes: object) -> Summary:
    points = itertools.product(*axes.values())  # type: ignore[call-overload]
    columns = [dict(zip(axes, point, strict=True)) for point in points]
    return summary_of_grid(
        *(search_result(trial_of(0, 8.0 + n), trial_of(2, 4.0 + n), columns=c) for n, c in enumerate(columns))
    )


def test_a_column_of_two_values_is_shown_by_the_style_of_the_lines() -> None:
    (panel,) = throughput(grid(batch_size=(32, 64, 128), pin_memory=(False, True))).panels
    assert [(curve.label, curve.colour, curve.dash) for curve in panel.curves] == [
        ("32 · false", 0, 0),
        ("32 · true", 0, 1),
        ("64 · false", 1, 0),
        ("64 · true", 1, 1),
        ("128 · false", 2, 0),
        ("128 · true", 2, 1),
    ]


def test_of_many_the_best_have_names_and_the_rest_is_an_area() -> None:
    (panel,) = throughput(grid(seed=range(20))).panels
    assert [curve.label for curve in panel.curves] == ["0", "1", "2", "3", "4", "5"]
    assert panel.rest is not None
    assert panel.rest.count == 14
    first, last = panel.rest.edges
    assert (first.num_workers, first.low, first.high) == pytest.approx((0, 8192 / 27, 8192 / 14))
    assert (last.num_workers, last.low, last.high) == pytest.approx((2, 8192 / 23, 8192 / 10))


def test_a_curve_has_the_same_look_in_all_panels() -> None:
    first, second = throughput(grid(dataset=("a", "b"), batch_size=(64, 256))).panels
    assert [(c.label, c.colour) for c in first.curves] == [(c.label, c.colour) for c in second.curves]


def test_panels_of_one_dataset_have_the_same_axis_and_those_of_several_their_own() -> None:
    same = throughput(grid(batch_size=(32, 64, 128), prefetch_factor=(2, 4, 8)))
    assert len(same.panels) == 3
    assert len({panel.top for panel in same.panels}) == 1
    other = throughput(grid(dataset=("a", "b"), batch_size=(64, 256)))
    assert len({panel.top for panel in other.panels}) == 2


def test_rates_of_very_different_size_are_on_a_logarithmic_axis() -> None:
    wide, narrow = (
        throughput(summary_of_run(search_result(trial_of(0, 1.0), trial_of(1, slow)))).panels[0]
        for slow in (100.0, 2.0)
    )
    assert (wide.is_log, narrow.is_log, narrow.bottom) == (True, False, 0.0)


def test_the_rest_reaches_only_as_far_as_its_curves_and_between_candidates_on_straight_lines() -> None:
    long = (Point(0, 1.0, 1.0, 1.0), Point(4, 5.0, 5.0, 5.0))
    short = (Point(0, 2.0, 2.0, 2.0), Point(2, 2.0, 2.0, 2.0))
    edges = (Point(0, 2.0, 1.0, 2.0), Point(2, 3.0, 2.0, 3.0), Point(4, 5.0, 5.0, 5.0))
    assert curve_plots.rest_of([long, short]) == Rest(2, edges)


def test_names_that_would_cover_each_other_move_apart_and_stay_within() -> None:
    assert curve_plots.spread([1.0, 1.0, 3.0], 0.5, 0.0, 4.0) == [1.0, 1.5, 3.0]
    assert curve_plots.spread([3.9, 4.0], 0.5, 0.0, 4.0) == [3.5, 4.0]
    assert curve_plots.spread([0.0] * 3, 1.0, 0.0, 1.0) == [0.0, 1.0, 2.0]


def test_candidates_have_ticks_where_these_have_room() -> None:
    assert curve_plots.ticks([0, 1, 2, 4], 5.0) == [0, 1, 2, 4]
    assert curve_plots.ticks([0, 1, 2, 4, 8, 16, 32, 64], 2.0) == [0, 8, 16, 32, 64]
    assert curve_plots.ticks([3], 2.0) == [3]
