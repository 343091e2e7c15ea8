from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from nws_sweep import drawing, plots, storage
from nws_sweep.plots import Bar, Comparison, Curve, Point, Timeline
from nws_sweep.records import BurstKind
from tests.factories import (
    burst,
    bursts,
    endless_trial,
    failed_trial,
    measurement,
    search_result,
    store_run,
    summary_of_grid,
    summary_of_run,
    trial,
)

LONG = " pin_memory=true prefetch_factor=2 patience=3 loader.persistent_workers=true dataset.path=/data/imagenet/train"


def curve(index: int, extra: str = "") -> Curve:
    points = tuple(Point(n, (1 + index) / (1 + n), 0.05, 0.1) for n in (0, 1, 2, 4))
    return Curve(f"batch_size={index}{extra}", points, best=4)


def bar(index: int, extra: str = "") -> Bar:
    return Bar(f"batch_size={index}{extra}", 1000 / (1 + index), "num_workers=4, 1.94x of 0 workers")


def timeline(num_workers: int) -> Timeline:
    return Timeline(num_workers, (0.1, 0.2) * 10, (0.05,) * 20, (True, True, *(False,) * 18))


def assert_is_drawn(figure: Figure, path: Path) -> None:
    drawing.save(figure, path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.size == pytest.approx(120 * figure.get_size_inches(), abs=1)
        darkest, lightest = image.convert("L").getextrema()
    assert (darkest, lightest) == (0, 255)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_run_is_one_curve_of_epochs_with_its_intervals_and_the_recommended_candidate() -> None:
    found = summary_of_run(search_result(trial(4, 8.0), failed_trial(2), trial(0, 32.0)))
    points = (Point(0, 32.0, 8.0, 16.0), Point(4, 8.0, 2.0, 4.0))
    assert plots.comparisons(found) == [Comparison("photos", "seconds per epoch", (Curve("photos", points, 4),))]


def test_a_time_without_an_interval_is_a_point_without_bars() -> None:
    bare = trial(0, 8.0, measurement=measurement(8.0, batch_s=None, samples_per_s=None))
    (panel,) = plots.comparisons(summary_of_run(search_result(bare)))
    assert panel.curves[0].points == (Point(0, 8.0, 0.0, 0.0),)


def test_every_dataset_has_its_panel_and_every_configuration_its_curve() -> None:
    found = summary_of_grid(
        search_result(trial(0, 8.0), columns={"batch_size": 64}),
        search_result(trial(0, 4.0), columns={"batch_size": 256}),
        search_result(trial(1, 2.0), columns={"dataset": "tensor"}),
    )
    assert plots.comparisons(found) == [
        Comparison(
            "photos",
            "seconds per epoch",
            (
                Curve("batch_size=64", (Point(0, 8.0, 2.0, 4.0),), 0),
                Curve("batch_size=256", (Point(0, 4.0, 1.0, 2.0),), 0),
            ),
        ),
        Comparison("tensor", "seconds per epoch", (Curve("batch_size=64", (Point(1, 2.0, 0.5, 1.0),), 1),)),
    ]


def test_where_the_length_of_an_epoch_is_unknown_the_panel_shows_seconds_per_1000_samples() -> None:
    found = summary_of_grid(
        search_result(endless_trial(0, 0.0625), trial(1, 4.0), columns={"batch_size": 64}),
        search_result(trial(0, 8.0), columns={"batch_size": 256}),
        search_result(trial(0, 8.0), columns={"dataset": "tensor"}),
    )
    photos, tensor = plots.comparisons(found)
    slow, fast = 1000 * 0.0625 / 64, 1000 * 0.03125 / 64
    assert photos.quantity == "seconds per 1000 samples"
    assert [each.points for each in photos.curves] == [
        (Point(0, slow, slow / 4, slow / 2), Point(1, fast, fast / 4, fast / 2)),
        (Point(0, slow, slow / 4, slow / 2),),
    ]
    assert tensor.quantity == "seconds per epoch"
    assert tensor.curves[0].points == (Point(0, 8.0, 2.0, 4.0),)


def test_where_neither_epochs_nor_rates_are_known_there_is_no_point() -> None:
    start_only = trial(0, 8.0, measurement=measurement(8.0, epoch_s=None, batch_s=None, samples_per_s=None))
    (panel,) = plots.comparisons(summary_of_run(search_result(start_only, endless_trial(1, 0.0625))))
    assert [point.num_workers for point in panel.curves[0].points] == [1]


def test_what_has_nothing_measured_has_no_curve_and_no_panel() -> None:
    found = summary_of_grid(
        search_result(trial(0, 8.0), columns={"batch_size": 64}),
        search_result(failed_trial(0), columns={"batch_size": 256}),
        search_result(columns={"dataset": "tensor"}, error="no such folder"),
    )
    assert [(panel.dataset, len(panel.curves)) for panel in plots.comparisons(found)] == [("photos", 1)]


def test_bars_are_the_best_settings_the_fastest_first_with_the_gain_over_zero_workers() -> None:
    found = summary_of_grid(
        search_result(trial(0, 32.0), trial(4, 16.0), columns={"batch_size": 64}),
        search_result(trial(0, 4.0), trial(4, 8.0), columns={"batch_size": 128}),
        search_result(failed_trial(0), trial(2, 8.0), columns={"batch_size": 256}),
        search_result(failed_trial(0), columns={"batch_size": 512}),
    )
    assert plots.bars(found) == [
        Bar("batch_size=128", 2048.0, "num_workers=0"),
        Bar("batch_size=256", 1024.0, "num_workers=2"),
        Bar("batch_size=64", 512.0, "num_workers=4, 2.00x of 0 workers"),
    ]


def test_bars_name_the_dataset_where_there_are_several() -> None:
    found = summary_of_grid(search_result(trial(0, 8.0)), search_result(trial(0, 4.0), columns={"dataset": "tensor"}))
    assert [each.label for each in plots.bars(found)] == ["dataset=tensor", "dataset=photos"]
    assert [each.label for each in plots.bars(summary_of_run(search_result(trial(0, 8.0))))] == ["dataset=photos"]


def test_timelines_are_the_batches_of_each_candidate_with_what_was_warm_up(tmp_path: Path) -> None:
    epoch = burst(BurstKind.EPOCH, 2, startup_s=0.25, end_s=0.5)
    folder = store_run(tmp_path, search_result(trial(4, 8.0, bursts=bursts()[:2]), trial(0, 8.0, bursts=(epoch,))))
    assert plots.timelines(storage.read_batches(folder)) == [
        Timeline(0, (0.25, 1.25), (0.125, 0.125), (False, False)),
        Timeline(
            4,
            (0.25, 1.25, 0.25, 1.25, 2.25),
            (0.125,) * 5,
            (True, True, False, False, False),
        ),
    ]
    assert plots.timelines([]) == []


@pytest.mark.parametrize(("count", "extra"), [(1, LONG), (4, ""), (4, LONG), (30, ""), (200, LONG)])
def test_any_number_of_configurations_is_drawn(tmp_path: Path, count: int, extra: str) -> None:
    curves = tuple(curve(index, extra) for index in range(count))
    panel = Comparison("photos", "seconds per epoch", curves)
    assert_is_drawn(plots.draw_comparison([panel], "Time"), tmp_path / "plot.png")
    assert_is_drawn(plots.draw_bars([bar(index, extra) for index in range(count)], "Best"), tmp_path / "plot.png")


@pytest.mark.parametrize("count", [1, 30])
def test_any_number_of_candidates_is_drawn(tmp_path: Path, count: int) -> None:
    figure = plots.draw_timelines([timeline(n) for n in range(count)], f"Per-batch times, dataset=photos{LONG}")
    assert_is_drawn(figure, tmp_path / "plot.png")


def test_lines_beyond_those_that_can_be_told_apart_have_no_name() -> None:
    panel = Comparison("photos", "seconds per epoch", tuple(curve(index) for index in range(30)))
    legend = plots.draw_comparison([panel], "Time").axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [f"batch_size={index}" for index in range(14)]


def test_a_single_curve_has_no_legend() -> None:
    (axes,) = plots.draw_comparison([Comparison("photos", "seconds per epoch", (curve(0),))], "Time").axes
    assert axes.get_legend() is None
    assert (axes.get_title(), axes.get_ylabel()) == ("photos", "seconds per epoch")


def test_times_of_very_different_size_are_drawn_on_a_log_scale_and_others_from_zero() -> None:
    wide = Comparison("a", "s", (Curve("a", (Point(0, 1.0, 0.0, 0.0), Point(1, 0.01, 0.0, 0.0)), 1),))
    narrow = Comparison("b", "s", (Curve("b", (Point(0, 1.0, 0.0, 0.0), Point(1, 0.5, 0.0, 0.0)), 1),))
    first, second = plots.draw_comparison([wide, narrow], "Time").axes
    assert (first.get_yscale(), second.get_yscale()) == ("log", "linear")
    assert second.get_ylim()[0] == 0


def test_datasets_and_candidates_beyond_a_page_are_left_out_and_the_title_says_so() -> None:
    panels = [Comparison(f"set{index}", "s", (curve(0),)) for index in range(200)]
    figure = plots.draw_comparison(panels, "Time")
    assert (len(figure.axes), figure.get_suptitle()) == (12, "Time (the first 12 of 200 datasets)")
    figure = plots.draw_timelines([timeline(n) for n in range(30)], "Times")
    assert (len(figure.axes), figure.get_suptitle()) == (12, "Times (the first 12 of 30 candidates)")
    (axes,) = plots.draw_bars([bar(index) for index in range(200)], "Best").axes
    assert (len(axes.patches), axes.get_title()) == (30, "Best (the 30 fastest, 170 more)")


def test_the_text_of_a_bar_stands_at_its_end_and_its_name_beside_it() -> None:
    (axes,) = plots.draw_bars([bar(0), bar(1)], "Best").axes
    assert [(text.get_text(), getattr(text, "xy", None)) for text in axes.texts] == [
        ("1000  num_workers=4, 1.94x of 0 workers", (1000.0, 0)),
        ("500  num_workers=4, 1.94x of 0 workers", (500.0, 1)),
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["batch_size=0", "batch_size=1"]


def test_bars_of_the_same_name_stay_apart() -> None:
    (axes,) = plots.draw_bars([bar(0), bar(0)], "Best").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["batch_size=0", "batch_size=0"]


def test_dollar_signs_in_names_are_no_formulas(tmp_path: Path) -> None:
    name = r"path=$\data$"
    panel = Comparison(name, "s", (Curve(name, curve(0).points, 4), curve(1)))
    assert_is_drawn(plots.draw_comparison([panel], name), tmp_path / "plot.png")
    assert_is_drawn(plots.draw_bars([Bar(name, 1.0, "num_workers=0")], "Best"), tmp_path / "plot.png")
    assert_is_drawn(plots.draw_timelines([timeline(1)], name), tmp_path / "plot.png")
