from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import Collection, LineCollection
from matplotlib.patches import Rectangle

from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import Quantity
from nws_sweep.records import Account, BatchTime, Estimate, Trial
from nws_sweep.report.plots import account_bars, batch_times, facets, line_charts, style
from nws_sweep.report.plots.line_charts import Chart, Curve, Panel
from tests.factories import (
    configuration,
    endless_trial,
    estimate,
    failed_trial,
    loader_settings,
    measurement,
    points,
    search_result,
    steady,
    summary_of_grid,
    summary_of_run,
    trial,
)


def grid(**axes: Sequence[Any]) -> Summary:
    return summary_of_grid(
        *(search_result(trial(0, 8.0), columns=columns) for columns in points(**axes))
    )


def shape(summary: Summary) -> dict[str, list[str]]:
    within = facets.within_dataset(summary)
    return {
        name: [facets.label(one, within) for one in configurations]
        for name, configurations in facets.by_dataset(summary).items()
    }


def test_configurations_are_divided_by_dataset_and_labels_are_the_values_of_the_rest() -> (
    None
):
    found = grid(dataset=("photos", ""), batch_size=(64, 256))
    assert shape(found) == {"photos": ["64", "256"], '""': ["64", "256"]}
    sizes = grid(**{"dataset.count": (10, 20)}, batch_size=(64, 256))
    assert shape(sizes) == {"10": ["64", "256"], "20": ["64", "256"]}
    one = search_result(trial(0, 8.0), failed_trial(1), columns={"seed": 1})
    assert shape(summary_of_run(one)) == {"": [""]}
    # Configurations without measurements are left out.
    failed = search_result(failed_trial(0), columns={"seed": 2})
    assert shape(summary_of_grid(one, failed)) == {"": ["1"]}


def curves_of(**axes: Sequence[Any]) -> Chart:
    """A chart in which each configuration is slower than the previous one."""
    each = enumerate(points(**axes))
    results = (
        search_result(trial(0, 8.0 + n), trial(2, 4.0 + n), columns=columns)
        for n, columns in each
    )
    return line_charts.times(summary_of_grid(*results))


def test_of_many_datasets_the_first_are_drawn_and_the_title_says_so() -> None:
    names = [f"data{number}" for number in range(facets.MOST_DATASETS + 3)]
    chart = curves_of(dataset=names)
    assert list(chart.panels) == names[: facets.MOST_DATASETS]
    assert chart.left_out == " (12 of 15 datasets)"
    assert curves_of(dataset=names[:2]).left_out == ""


def test_times_of_a_run_are_one_curve_with_the_ends_of_its_intervals() -> None:
    chart = line_charts.times(
        summary_of_run(search_result(trial(4, 8.0), failed_trial(2), trial(0, 32.0)))
    )
    found = {0: estimate(32.0), 4: estimate(8.0)}
    curve = Curve(label="", points=found, best=4, value=found[4])
    assert chart == Chart(legend_title="", panels={"": Panel(Quantity.EPOCH, [curve])})
    (axes,) = line_charts.draw(chart, "Time").axes
    assert (axes.get_ylabel(), axes.get_xlabel()) == (
        "s per epoch",
        "num_workers (each step doubles; ring: answer;\nlines: 95 % intervals)",
    )
    assert [np.asarray(line.get_xdata()).tolist() for line in axes.lines] == [
        [0, 4],
        [4],
    ]
    (intervals,) = axes.collections
    assert heights(intervals) == [one.ends for one in found.values()]


def heights(intervals: Collection) -> list[tuple[float, ...]]:
    """The ends of error bars."""
    assert isinstance(intervals, LineCollection)
    paths = intervals.get_paths()
    return [tuple(np.asarray(path.vertices)[:, 1]) for path in paths]


def test_what_was_measured_with_a_single_number_of_workers_has_no_curve() -> None:
    single = search_result(trial(2, 8.0), columns={"dataset": "a"})
    assert line_charts.times(summary_of_run(single)).panels == {}
    several = search_result(trial(0, 8.0), trial(2, 4.0), columns={"dataset": "b"})
    assert [*line_charts.times(summary_of_grid(single, several)).panels] == ["b"]


def test_the_ring_is_at_the_time_of_the_recommended_settings() -> None:
    better = trial(3, 2.0, settings=loader_settings(3, prefetch_factor=4))
    found = summary_of_run(search_result(trial(0, 8.0), trial(2, 4.0), better))
    (axes,) = line_charts.draw(line_charts.times(found), "Time").axes
    assert [
        (*np.asarray(line.get_xdata()), *np.asarray(line.get_ydata()))
        for line in axes.lines
    ] == [
        (0, 2, 8.0, 4.0),
        (3, 2.0),
        (3, 2.0),  # its point, which is beside the curve
    ]
    assert heights(axes.collections[-1]) == [estimate(2.0).ends]
    ring = "ring: answer, with prefetch_factor=4, beside the curve;"
    assert ring in axes.get_xlabel().replace("\n", " ")
    runs = [
        search_result(trial(0, 8.0), trial(1, 6.0), *more, columns={"seed": len(more)})
        for more in ([], [better])
    ]
    (axes,) = line_charts.draw(line_charts.times(summary_of_grid(*runs)), "Time").axes
    ring = "ring: answer, some with prefetch_factor=4, beside the curve;"
    assert ring in axes.get_xlabel().replace("\n", " ")


EIGHT_S = Estimate(value=8.0, low=None, high=None, n=1)


@pytest.mark.parametrize(
    ("measured", "quantity", "first"),
    [
        ([trial(0, 8.0), trial(4, 2.0)], Quantity.EPOCH, estimate(8.0)),
        # with its start
        ([trial(0, 8.0, measurement=measurement(8.0, epoch_s=16.0))], Quantity.EPOCH, estimate(16.0)),
        ([endless_trial(0, 0.0625)], Quantity.BATCH, estimate(0.0625)),
        ([steady(0, 0.0625, None)], Quantity.EPOCH, EIGHT_S),
    ],
)  # fmt: skip
def test_values_are_those_of_an_epoch_with_its_start_or_of_a_batch_if_its_length_is_unknown(
    measured: list[Trial], quantity: Quantity, first: Estimate
) -> None:
    interrupted = trial(1, 8.0, measurement=None, finished=False)
    found = summary_of_run(search_result(*measured, interrupted)).configurations
    assert facets.quantity_of(found) is quantity
    assert facets.time_with_interval(measured[0], quantity) == first


def test_batches_of_several_sizes_are_compared_by_sample() -> None:
    results = []
    for size in (64, 256):
        settings = loader_settings(batch_size=size)
        measured = replace(endless_trial(0, 0.0625), settings=settings)
        columns = {"batch_size": size}
        searched = configuration(columns, loader=settings)
        results.append(search_result(measured, configuration=searched))
    assert facets.quantity_of(summary_of_grid(*results).configurations) is (
        Quantity.SAMPLE
    )


def test_curves_differ_in_colour_then_in_dash_and_of_many_only_the_best_have_names() -> (
    None
):
    chart = curves_of(seed=range(20))
    assert [curve.look for curve in chart.panels[""].curves] == [
        *range(8),
        *[None] * 12,
    ]
    figure = line_charts.draw(chart, "Time")
    named = [
        line
        for line in figure.axes[0].lines
        if line.get_zorder() > 1 and line.get_markersize() < 11
    ]
    assert [line.get_color() for line in named] == [*style.COLOURS, *style.COLOURS[:2]]
    assert [line.get_linestyle() for line in named] == ["-"] * 6 + ["--"] * 2
    assert len(figure.axes[0].lines) == 20 + 8
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *map(str, range(8)),
        "12 more",
    ]


def test_the_fastest_curves_of_each_dataset_have_names() -> None:
    results = (
        search_result(
            trial(0, seconds),
            trial(2, seconds),
            columns={"dataset": name, "seed": seed},
        )
        for seed in range(12)
        for name, seconds in (("fast", 1.0 + seed), ("slow", 100.0 * (12 - seed)))
    )
    panels = line_charts.times(summary_of_grid(*results)).panels
    found = {
        name: (panel.curves[0].label, panel.curves[0].look is None)
        for name, panel in panels.items()
    }
    assert found == {"fast": ("0", False), "slow": ("11", False)}


def test_curves_that_differ_little_are_one_with_the_intervals_of_all() -> None:
    results = (
        search_result(
            trial(0, 8.0 * times), trial(4, 2.0 * times), columns={"seed": seed}
        )
        for seed, times in enumerate((1.0, 1.04, 1.08))
    )
    first, last = line_charts.times(summary_of_grid(*results)).panels[""].curves
    assert (first.label, last.label) == ("0, 1", "2")
    assert first.points[0].ends == pytest.approx((0.75 * 8, 1.5 * 8 * 1.04))


@pytest.mark.parametrize(
    ("slow", "scale"), [(100.0, "log"), (25.0, "log"), (2.0, "linear"), (1.0, "linear")]
)
@pytest.mark.parametrize("numbers", [(0, 1), (0, 2), (3, 5), (0, 31, 63, 1000)])
def test_every_axis_has_three_labels_and_times_of_very_different_size_are_logarithmic(
    slow: float, scale: str, numbers: tuple[int, ...]
) -> None:
    trials = [trial(number, 1.0) for number in numbers[:-1]]
    found = search_result(*trials, trial(numbers[-1], slow))
    figure = line_charts.draw(line_charts.times(summary_of_run(found)), "Time")
    style.rendered(figure, "png")
    (axes,) = figure.axes
    assert axes.get_yscale() == scale
    for axis, ends in ((axes.yaxis, axes.get_ylim()), (axes.xaxis, axes.get_xlim())):
        assert (
            sum(min(ends) <= place <= max(ends) for place in axis.get_majorticklocs())
            >= 3
        )
    assert {numbers[-1]} <= {*axes.get_xticks()}


@pytest.mark.parametrize(
    ("times_s", "ticks"), [((2.0, 4.0), "12"), ((0.5, 20.0), "500 ms, 10 s")]
)
def test_an_axis_holds_whole_intervals_and_a_logarithmic_one_has_a_unit_at_each_tick(
    times_s: tuple[float, float], ticks: str
) -> None:
    points = {
        number: Estimate(value=time_s, low=time_s / 3, high=3 * time_s, n=5)
        for number, time_s in enumerate(times_s)
    }
    curve = Curve(label="", points=points, best=0, value=points[0])
    chart = Chart(legend_title="", panels={"": Panel(Quantity.EPOCH, [curve])})
    figure = line_charts.draw(chart, "Time")
    style.rendered(figure, "png")
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    assert low <= min(times_s) / 3
    assert high >= 3 * max(times_s)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert {*ticks.split(", ")} <= {*labels}


def test_names_have_room_in_two_lines_or_lose_their_packages() -> None:
    name = "6 (answer) persistent_workers=true"
    assert style.in_two_lines(name, 2.1) == "6 (answer)\npersistent_workers=true"
    name = "torch.utils.data.default_collate"
    assert style.ending(name, 2.1) == "data.default_collate"


def test_all_datasets_have_the_same_axis_of_num_workers_and_the_unit_of_their_answer() -> (
    None
):
    results = (
        search_result(trial(0, 2 * least_s), trial(number, least_s), columns={"dataset": name})
        for name, least_s, number in (("a", 0.001, 2), ("b", 3.0, 4), ("c", 600.0, 64))
    )  # fmt: skip
    figure = line_charts.draw(line_charts.times(summary_of_grid(*results)), "Time")
    units = ["ms per epoch", "s per epoch", "min per epoch"]
    assert [axes.get_ylabel() for axes in figure.axes] == units
    first, *others = (axes.get_xlim() for axes in figure.axes)
    assert others == [first] * 2
    assert first[0] < 0
    assert first[1] > 64


def accounted(num_workers: int, epoch_s: float, step_s: float) -> Trial:
    account = Account(step_s=step_s, making_s=epoch_s - step_s)
    return trial(
        num_workers, epoch_s, measurement=measurement(epoch_s, account=account)
    )


def test_the_time_goes_into_the_parts_of_the_account_of_each_candidate() -> None:
    found = search_result(
        accounted(0, 8.0, 2.0), accounted(2, 4.0, 2.0), trial(4, 16.0)
    )
    panels = account_bars.panels_of(summary_of_run(found))
    rows = [(row.name, row.account.making_s, row.total) for row in panels[""].rows]
    assert rows == [("0", 6.0, "8.0 s"), ("2 (answer)", 2.0, "4.0 s")]
    figure = account_bars.draw(panels, "Where the time goes")
    (axes,) = figure.axes
    lengths = [
        patch.get_width() for patch in axes.patches if isinstance(patch, Rectangle)
    ]
    assert lengths[:4] == [2.0, 2.0, 6.0, 2.0]  # steps, then making samples
    assert {*lengths[4:]} == {0.0}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "training step",
        "making samples",
    ]


def test_of_a_grid_the_time_goes_by_dataset_and_of_many_configurations_the_fastest_are_shown() -> (
    None
):
    results = [
        search_result(
            accounted(0, 8.0 + seed, 2.0), columns={"dataset": name, "seed": seed}
        )
        for name, seeds in (("a", 14), ("b", 2))
        for seed in range(seeds)
    ]
    panels = account_bars.panels_of(summary_of_grid(*results))
    assert [(len(panel.rows), panel.left_out) for panel in panels.values()] == [
        (12, 2),
        (2, 0),
    ]
    assert [row.name for row in panels["b"].rows] == ["0: 0", "1: 0"]
    first, last = account_bars.draw(panels, "Where the time goes").axes
    assert first.get_xlabel() == "s per epoch (2 slower rows left out)"
    assert last.get_title(loc="left") == "b\nseed: num_workers"


def timeline(num_workers: int, *wait_s: float, settings: str = "") -> list[BatchTime]:
    """Two batches of warm-up, and others."""
    return [
        BatchTime(num_workers, 0, index, index < 2, one, 0.5, settings)
        for index, one in enumerate(wait_s)
    ]


def test_timelines_are_the_batches_of_each_candidate() -> None:
    four, other, none = (
        timeline(4, 1.0, 2.0),
        timeline(4, 3.0, settings="prefetch_factor=4"),
        timeline(0, 3.0),
    )
    found = batch_times.timelines([*four, *other, *none])
    assert list(found.items()) == [
        ((0, ""), none),
        ((4, ""), four),
        ((4, "prefetch_factor=4"), other),
    ]
    titles = [
        axes.get_title(loc="left")
        for axes in batch_times.draw_timelines(found, "", [*found][2]).axes
    ]
    assert titles == ["no workers", "4 workers", "4 workers prefetch_factor=4 (answer)"]


def test_of_many_candidates_the_ends_and_the_recommended_one_are_shown() -> None:
    figure = batch_times.draw_timelines(
        {(n, ""): timeline(n, *[0.1] * 1000) for n in range(30)}, "Times", (3, "")
    )
    assert (len(figure.axes), figure.get_suptitle()) == (
        6,
        "Times (6 of 30 settings)",
    )
    titles = [
        "no workers",
        "3 workers (answer)",
        *(f"{n} workers" for n in (7, 14, 22, 29)),
    ]
    assert [axes.get_title(loc="left") for axes in figure.axes] == titles
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "waiting for the loader, s (means of up to 4 batches)",
        "training step, s",
        "warm-up, not counted",
    ]
    assert len(style.rendered(figure, "svg").decode()) < 150_000
