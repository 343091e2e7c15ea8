from __future__ import annotations

from nws_sweep import bar_plots
from nws_sweep.bar_plots import Bar, Bars, Cost, Costs
from nws_sweep.records import SearchCost
from tests.factories import failed_trial, search_result, summary_of_grid, trial


def bar(index: int) -> Bar:
    rate = 1000 / (1 + index)
    return Bar(cells=(str(index),), samples_per_s=rate, ends=(rate, rate), num_workers=1, gain=None)


def test_bars_are_the_best_settings_the_fastest_first_with_their_intervals_and_gains() -> None:
    found = summary_of_grid(
        search_result(trial(0, 32.0), trial(4, 16.0), columns={"batch_size": 64}),
        search_result(trial(0, 4.0), trial(4, 8.0), columns={"batch_size": 128}),
        search_result(failed_trial(0), columns={"batch_size": 512}),
    )
    slower = found.configurations[0]
    assert str(slower.gain_over_zero) == "2.0x"
    first = Bar(cells=("128",), samples_per_s=2048.0, ends=(2048 / 1.5, 2048 / 0.75), num_workers=0, gain=None)
    second = Bar(
        cells=("64",), samples_per_s=512.0, ends=(512 / 1.5, 512 / 0.75), num_workers=4, gain=slower.gain_over_zero
    )
    assert bar_plots.bars(found) == Bars(columns=("batch_size",), bars=(first, second))


def test_of_many_the_fastest_are_shown_and_what_is_left_out_if_it_is_more_than_one() -> None:
    chart = Bars(columns=("seed",), bars=tuple(bar(n) for n in range(200)))
    (axes,) = bar_plots.draw_bars(chart, "Best").axes
    texts = [text.get_text() for text in axes.texts]
    assert axes.get_title(loc="left") == "seed: samples/s (num_workers), of 0 workers"
    assert (len(texts), texts[0], texts[-1]) == (25, "1000 (1)", "5.00 to 40.0")
    assert axes.get_yticklabels()[-1].get_text() == "176 more"
    assert [len(part) for part in bar_plots.split(chart.bars[:25])] == [25, 0]


def test_costs_are_those_of_searches_that_ended_the_dearest_first() -> None:
    cost = SearchCost(profile_s=1.0, startup_s=2.0, warm_up_s=3.0, measuring_s=4.0, other_s=5.0, waiting_s=99.0)
    found = summary_of_grid(
        search_result(trial(0, 8.0), columns={"seed": 1}, cost=SearchCost(profile_s=1.0)),
        search_result(trial(0, 8.0), columns={"seed": 2}, cost=cost),
        search_result(trial(0, 8.0), columns={"seed": 3}),
        search_result(trial(0, 8.0), columns={"seed": 4}, cost=SearchCost()),  # measured before
    )
    dear, cheap = Cost(("2",), (1.0, 2.0, 3.0, 4.0, 5.0)), Cost(("1",), (1.0, 0.0, 0.0, 0.0, 0.0))
    chart = bar_plots.costs(found)
    assert chart == Costs(columns=("seed",), costs=(dear, cheap))
    assert bar_plots.summed(chart.costs) == (2.0, 2.0, 3.0, 4.0, 5.0)


def test_of_many_costs_the_last_row_is_the_mean_of_the_others() -> None:
    chart = Costs(columns=("seed",), costs=tuple(Cost((str(n),), (100.0 - n, 0.0, 0.0, 0.0, 1.0)) for n in range(30)))
    (axes,) = bar_plots.draw_costs(chart, "Costs").axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [*map(str, range(24)), "mean of 6 more"]
    assert axes.texts[-1].get_text() == "74.5 s"


def test_a_bar_has_the_parts_of_a_cost_and_its_sum() -> None:
    chart = Costs(columns=("seed",), costs=(Cost(("1",), (600.0, 0.0, 0.0, 0.0, 600.0)),))
    figure = bar_plots.draw_costs(chart, "Costs")
    (axes,) = figure.axes
    assert axes.get_xlabel() == "time of the search, min"
    assert max(patch.get_x() + patch.get_width() for patch in axes.patches) == 20.0  # type: ignore[attr-defined]
    assert [text.get_text() for text in axes.texts] == ["20.0 min"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(bar_plots.PARTS)
