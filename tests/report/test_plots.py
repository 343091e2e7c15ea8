from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from nws_sweep.analysis.summary import Summary
from nws_sweep.records import BatchTime, Estimate, Trial
from nws_sweep.report.plots import bars, batch_times, facets, line_charts, style
from nws_sweep.report.plots.bars import Best
from nws_sweep.report.plots.line_charts import Chart, Curve
from tests.factories import (
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


def shape(summary: Summary) -> list[tuple[str, str]]:
    within, measured = facets.facets(summary)
    return [(title, facets.label(c, within)) for title, c in measured]


def test_each_dataset_has_a_panel_and_labels_are_the_values_of_the_rest() -> None:
    found = grid(dataset=("photos", ""), batch_size=(64, 256))
    assert shape(found) == [
        ("photos", "64"),
        ("photos", "256"),
        ('""', "64"),
        ('""', "256"),
    ]
    one = search_result(trial(0, 8.0), failed_trial(1), columns={"seed": 1})
    assert shape(summary_of_run(one)) == [("", "")]
    # Configurations without measurements are left out.
    assert shape(
        summary_of_grid(one, search_result(failed_trial(0), columns={"seed": 2}))
    ) == [("", "1")]


def curves_of(**axes: Sequence[Any]) -> Chart:
    """A chart in which each configuration is slower than the previous one."""
    each = enumerate(points(**axes))
    results = (
        search_result(trial(0, 8.0 + n), trial(2, 4.0 + n), columns=columns)
        for n, columns in each
    )
    return line_charts.throughput(summary_of_grid(*results))


def test_of_many_datasets_the_fastest_are_drawn_and_the_title_says_so() -> None:
    names = [f"data{number}" for number in range(line_charts.MOST_PANELS + 3)]
    chart = curves_of(dataset=names)
    assert list(chart.panels) == names[: line_charts.MOST_PANELS]
    assert chart.left_out == " (the 24 fastest of 27 datasets)"
    assert curves_of(dataset=names[:2]).left_out == ""


def test_throughput_of_a_run_is_one_curve_with_the_ends_of_its_intervals() -> None:
    chart = line_charts.throughput(
        summary_of_run(search_result(trial(4, 8.0), failed_trial(2), trial(0, 32.0)))
    )
    found = {
        n: Estimate(value=rate, low=rate / 1.5, high=rate / 0.75, n=5)
        for n, rate in ((0, 256.0), (4, 1024.0))
    }
    curve = Curve(label="", points=found, best=4, value=found[4])
    assert chart == Chart(
        quantity="samples per second of an epoch", legend_title="", panels={"": [curve]}
    )
    assert chart.recommended == [("", curve, found[4])]
    (axes,) = line_charts.draw(chart, "Throughput").axes
    assert (axes.get_ylabel(), axes.get_xlabel()) == (
        "samples per second of an epoch",
        "num_workers (ring: recommended)",
    )
    assert [np.asarray(line.get_xdata()).tolist() for line in axes.lines] == [
        [0, 4],
        [4],
    ]
    (intervals,) = axes.collections
    heights = [tuple(np.asarray(path.vertices)[:, 1]) for path in intervals.get_paths()]
    assert heights == [one.ends for one in found.values()]


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
    ]
    assert axes.get_xlabel() == "num_workers (ring: recommended, prefetch_factor=4)"
    runs = [
        search_result(trial(0, 8.0), *more, columns={"seed": len(more)})
        for more in ([], [better])
    ]
    (axes,) = line_charts.draw(line_charts.times(summary_of_grid(*runs)), "Time").axes
    assert (
        axes.get_xlabel() == "num_workers (ring: recommended, some with other settings)"
    )


SLOW_START = trial(0, 8.0, measurement=measurement(8.0, epoch_s=16.0))
EIGHT_S = Estimate(value=8.0, low=None, high=None, n=1)
RATE = Estimate(value=1024.0, low=1024 / 1.5, high=1024 / 0.75, n=5)


@pytest.mark.parametrize(
    ("chart", "measured", "quantity", "first"),
    [
        (
            line_charts.times,
            trial(0, 8.0),
            "seconds per epoch",
            Estimate(value=8.0, low=6.0, high=12.0, n=5),
        ),
        (
            line_charts.times,
            endless_trial(0, 0.064),
            "seconds per batch",
            estimate(0.064),
        ),
        (line_charts.times, steady(0, 0.0625, None), "seconds per epoch", EIGHT_S),
        (
            line_charts.throughput,
            SLOW_START,
            "samples per second of an epoch",
            RATE.scaled(0.5),
        ),
        (line_charts.throughput, endless_trial(0, 0.0625), "samples per second", RATE),
    ],
)
def test_values_are_those_of_an_epoch_with_its_start_or_of_a_batch_if_its_length_is_unknown(
    chart: Callable[[Summary], Chart], measured: Trial, quantity: str, first: Estimate
) -> None:
    interrupted = trial(1, 8.0, measurement=None, finished=False)
    found = chart(summary_of_run(search_result(measured, interrupted)))
    assert (found.quantity, found.panels[""][0].points) == (quantity, {0: first})


def test_curves_differ_in_colour_then_in_dash_and_of_many_only_the_best_have_names() -> (
    None
):
    chart = curves_of(seed=range(20))
    assert [curve.look for curve in chart.panels[""]] == [*range(8), *[None] * 12]
    assert len(chart.recommended) == 8
    figure = line_charts.draw(chart, "Throughput")
    named = [
        line
        for line in figure.axes[0].lines
        if line.get_zorder() > 1 and line.get_markersize() < 11
    ]
    assert [line.get_color() for line in named] == [*style.COLOURS, *style.COLOURS[:2]]
    assert [line.get_linestyle() for line in named] == ["-"] * 6 + ["--"] * 2
    assert len(figure.axes[0].lines) == 20 + len(chart.recommended)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *map(str, range(8)),
        "12 more",
    ]


def test_the_fastest_curves_of_each_dataset_have_names() -> None:
    results = (
        search_result(trial(0, seconds), columns={"dataset": name, "seed": seed})
        for seed in range(12)
        for name, seconds in (("fast", 1.0 + seed), ("slow", 100.0 * (12 - seed)))
    )
    panels = line_charts.throughput(summary_of_grid(*results)).panels
    assert [(title, first.label, first.look is None) for title, (first, *_) in panels.items()] == [
        ("fast", "0", False), ("slow", "11", False)
    ]  # fmt: skip


def test_curves_that_differ_little_are_one_with_the_intervals_of_all() -> None:
    results = (
        search_result(
            trial(0, 8.0 * times), trial(4, 2.0 * times), columns={"seed": seed}
        )
        for seed, times in enumerate((1.0, 1.04, 1.08))
    )
    first, last = line_charts.throughput(summary_of_grid(*results)).panels[""]
    assert (first.label, last.label) == ("0, 1", "2")
    assert first.points[0].ends == pytest.approx((1024 / 1.5 / 1.04, 1024 / 0.75))


def test_rates_of_very_different_size_are_on_a_logarithmic_axis_and_every_axis_has_three_labels() -> (
    None
):
    for slow, scale in (
        (100.0, "log"),
        (25.0, "log"),
        (2.0, "linear"),
        (1.0, "linear"),
    ):
        found = summary_of_run(search_result(trial(0, 1.0), trial(3, slow)))
        figure = line_charts.draw(line_charts.throughput(found), "Throughput")
        style.rendered(figure, "png")
        (axes,) = figure.axes
        assert axes.get_yscale() == scale
        for axis, ends in (
            (axes.yaxis, axes.get_ylim()),
            (axes.xaxis, axes.get_xlim()),
        ):
            assert (
                sum(
                    min(ends) <= place <= max(ends)
                    for place in axis.get_majorticklocs()
                )
                >= 3
            )


def best(rate: float, num_workers: int = 1, seed: int = 0) -> Best:
    return Best(
        {"seed": str(seed)},
        Estimate(value=rate, low=rate, high=rate, n=5),
        num_workers,
        gain=None,
    )


def test_bars_are_the_best_settings_the_fastest_first_with_their_intervals_and_gains() -> (
    None
):
    found = summary_of_grid(
        search_result(trial(0, 32.0), trial(4, 16.0), columns={"batch_size": 64}),
        search_result(trial(0, 4.0), trial(4, 8.0), columns={"batch_size": 128}),
        search_result(failed_trial(0), columns={"batch_size": 512}),
    )
    rates = [
        Estimate(value=rate, low=rate / 1.5, high=rate / 0.75, n=5)
        for rate in (2048.0, 512.0)
    ]
    gain = found.configurations[0].gain_over_zero
    expected = [
        Best({"batch_size": "128"}, rates[0], 0, None),
        Best({"batch_size": "64"}, rates[1], 4, gain),
    ]
    assert bars.best_of_each(found) == expected


def test_of_many_the_fastest_are_shown_and_the_range_of_the_others() -> None:
    rows = [best(1000 / (1 + n), seed=n) for n in range(200)]
    (axes,) = bars.draw_best(rows, "Best", "samples per second of an epoch").axes
    texts = [text.get_text() for text in axes.texts]
    assert axes.get_title(loc="left") == "seed: samples/s (num_workers), vs 0 workers"
    assert (len(texts), texts[0], texts[-1]) == (24, "1000 (1)", "41.7 (1)")
    assert axes.get_xlabel().endswith(" (line: 95 % interval); 176 more: 5.00 to 40.0")


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
    assert titles == ["no workers", "4 workers", "4 workers prefetch_factor=4 (best)"]


def test_of_many_candidates_the_ends_and_the_recommended_one_are_shown() -> None:
    figure = batch_times.draw_timelines(
        {(n, ""): timeline(n, *[0.1] * 1000) for n in range(30)}, "Times", (3, "")
    )
    assert (len(figure.axes), figure.get_suptitle()) == (
        6,
        "Times (6 of 30 candidates)",
    )
    titles = [
        "no workers",
        "3 workers (best)",
        *(f"{n} workers" for n in (7, 14, 22, 29)),
    ]
    assert [axes.get_title(loc="left") for axes in figure.axes] == titles
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "waiting for the loader, s (means of up to 4 batches)",
        "training step, s",
        "warm-up, not counted",
    ]
    assert len(style.rendered(figure, "svg").decode()) < 150_000
