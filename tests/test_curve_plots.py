from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nws_sweep import curve_plots
from nws_sweep.analysis import Summary
from nws_sweep.curve_plots import Chart, Curve, Point
from nws_sweep.records import Trial
from tests.factories import (
    endless_trial,
    failed_trial,
    measurement,
    points,
    search_result,
    summary_of_grid,
    summary_of_run,
    trial,
)


def throughput(summary: Summary) -> Chart:
    chart = curve_plots.throughput(summary)
    assert chart is not None
    return chart


def grid(**axes: Sequence[Any]) -> Chart:
    """Each configuration is slower than the one before."""
    results = (
        search_result(trial(0, 8.0 + n), trial(2, 4.0 + n), columns=columns) for n, columns in enumerate(points(**axes))
    )
    return throughput(summary_of_grid(*results))


def test_throughput_of_a_run_is_one_curve_with_the_ends_of_its_intervals() -> None:
    chart = throughput(summary_of_run(search_result(trial(4, 8.0), failed_trial(2), trial(0, 32.0))))
    found = (Point(0, 256.0, 256 / 1.5, 256 / 0.75), Point(4, 1024.0, 1024 / 1.5, 1024 / 0.75))
    curve = Curve(label="", points=found, best=4)
    assert chart == Chart(quantity="samples per second", key="", panels={"": [curve]}, comparable=True)
    assert chart.recommended == [("", curve, found[1])]
    (axes,) = curve_plots.draw(chart, "Throughput").axes
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("samples per second", "num_workers (ring: recommended)")
    assert [np.asarray(line.get_xdata()).tolist() for line in axes.lines[1:]] == [[0, 4], [4]]
    (intervals,) = axes.collections
    heights = [np.asarray(path.vertices)[:, 1].tolist() for path in intervals.get_paths()]
    assert heights == [[point.low, point.high] for point in found]


@pytest.mark.parametrize(
    ("of", "trials", "quantity", "first"),
    [
        (curve_plots.times, [trial(0, 8.0)], "seconds per epoch", (8.0, 6.0, 12.0)),
        (curve_plots.times, [endless_trial(0, 0.064), trial(1, 8.0)], "seconds per 1000 samples", (1.0, 0.75, 1.5)),
        (curve_plots.waiting, [trial(0, 8.0)], "time spent waiting for data, %", (75.0, 75.0, 75.0)),
    ],
)
def test_time_is_that_of_an_epoch_or_of_1000_samples_and_waiting_in_per_cent(
    of: Callable[[Summary], Chart | None], trials: list[Trial], quantity: str, first: tuple[float, float, float]
) -> None:
    chart = of(summary_of_run(search_result(*trials)))
    assert chart is not None
    point = chart.panels[""][0].points[0]
    assert (chart.quantity, point.value, point.low, point.high) == (quantity, *map(pytest.approx, first))


def test_without_a_pace_there_is_nothing_to_draw() -> None:
    start_only = trial(0, 8.0, measurement=measurement(8.0, batch_s=None, samples_per_s=None))
    assert curve_plots.throughput(summary_of_run(search_result(start_only))) is None
    assert curve_plots.draw(None, "Time").get_suptitle() == "Time"


def test_a_column_of_few_values_is_shown_by_the_style_of_the_lines() -> None:
    (curves,) = grid(batch_size=(32, 64, 128), pin_memory=(False, True)).panels.values()
    looks = {
        f"{size} · {pin}": (n, d) for n, size in enumerate((32, 64, 128)) for d, pin in enumerate(("false", "true"))
    }
    assert {curve.label: curve.look for curve in curves} == looks
    assert [curve.look for curve in grid(seed=range(8)).panels[""]] == [*((n, 0) for n in range(6)), (0, 1), (1, 1)]


def test_of_many_the_best_have_names_and_the_others_are_thin_lines() -> None:
    chart = grid(seed=range(20))
    assert [curve.look for curve in chart.panels[""]] == [(n, 0) if n < 6 else None for n in range(20)]
    assert len(chart.recommended) == 6
    others = curve_plots.draw(chart, "Throughput").axes[0].lines[0].get_ydata()
    assert np.isnan(others).sum() == 14
    assert np.nanmin(others) == pytest.approx(8192 / 27)
    texts = [text.get_text() for text in curve_plots.draw(chart, "Throughput").legends[0].get_texts()]
    assert texts == ["0", "1", "2", "3", "4", "5", "14 more"]


@pytest.mark.parametrize(
    ("axes", "panels", "different"),
    [
        ({"batch_size": (32, 64, 128), "prefetch_factor": (2, 4, 8)}, 3, 1),
        ({"dataset": ("a", "b"), "batch_size": (64, 256)}, 2, 2),
    ],
)
def test_panels_of_one_dataset_have_the_same_axis(axes: dict[str, Any], panels: int, different: int) -> None:
    drawn = curve_plots.draw(grid(**axes), "Throughput").axes
    assert (len(drawn), len({each.get_ylim() for each in drawn})) == (panels, different)
    assert {each.get_ylim()[0] for each in drawn} == {0}
    assert [bool(each.get_ylabel()) for each in drawn] == [True, *[False] * (panels - 1)]


def test_rates_of_very_different_size_are_on_a_logarithmic_axis() -> None:
    wide, narrow = (throughput(summary_of_run(search_result(trial(0, 1.0), trial(1, slow)))) for slow in (100.0, 2.0))
    assert (wide.is_log, narrow.is_log) == (True, False)
    assert curve_plots.draw(wide, "Throughput").axes[0].get_yscale() == "log"
    (curve,) = wide.panels[""]
    apart = replace(wide, panels={str(point): [replace(curve, points=(point,))] for point in curve.points})
    assert (apart.is_log, replace(apart, comparable=False).is_log) == (True, False)
