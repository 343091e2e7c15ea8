import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageChops

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.records import BatchCost, BatchTime, SearchRecord
from nws_sweep.report import figures
from nws_sweep.report.figures import Illustration
from nws_sweep.report.plots import style
from nws_sweep.report.plots.style import Picture
from tests import sample_pages
from tests.factories import (
    failed_trial,
    points,
    recorded_trial,
    search_result,
    summary_of_grid,
    summary_of_run,
    trial,
)

Axes = Mapping[str, Sequence[Any]]
FOUR: Axes = {"batch_size": (64, 256), "pin_memory": (False, True)}
MANY: Axes = {
    "dataset": ("photos", "tensor"),
    **FOUR,
    "prefetch_factor": (None, 2, 4, 8, 16),
    "patience": range(5),
}
AWKWARD: Axes = {
    "dataset": (
        "<script>alert(1)</script>",
        "",
        r"$x$ \$y_1$ & 'z' \"",
        "very long " * 30,
        "数据\n☃",
    ),
    "transform": ("Compose(RandomResizedCrop(224), RandomHorizontalFlip(), " * 4, None),
}
GRIDS = {"4": FOUR, "200": MANY, "awkward": AWKWARD}


def searched(columns: Mapping[str, Any], pace: float = 1.0) -> SearchRecord:
    """With the records of one trial: batches of 80 ms of CPU time, 8 CPUs."""
    result = sample_pages.searched(0.4 * pace, columns=columns)
    recorded = recorded_trial(4, BatchCost(cpu_s=0.08, wait_s=0.0))
    trials = (
        replace(one, records=recorded.records, loop=recorded.loop)
        for one in result.trials
    )
    return replace(result, trials=tuple(trials))


def grid(axes: Axes) -> Summary:
    chance = random.Random(0)
    return summary_of_grid(
        *(searched(columns, chance.uniform(0.5, 2.0)) for columns in points(**axes))
    )


def batches(_: ConfigurationSummary) -> list[BatchTime]:
    return [
        BatchTime(n, 0, index, index < 8, 0.1 + 0.01 * (index % 3), 0.02)
        for n in (0, 1, 4)
        for index in range(90)
    ]


def of_grid(name: str) -> tuple[Illustration, ...]:
    return figures.of(grid(GRIDS[name]), batches)


def test_pictures_without_data_are_left_out() -> None:
    two = search_result(trial(0, 8.0), trial(2, 4.0))
    single = figures.of(summary_of_run(two), lambda _: [])
    assert [each.name for each in single] == ["time_vs_num_workers"]
    nothing = search_result(failed_trial(0))
    for found in (
        summary_of_run(nothing),
        summary_of_run(search_result(trial(0, 8.0))),
        summary_of_grid(nothing, search_result(error="no such folder")),
    ):
        assert figures.of(found, lambda _: []) == ()


def test_the_most_important_pictures_come_first_and_their_descriptions_have_the_main_figures() -> (
    None
):
    of_run = {
        each.name: each.alt
        for each in figures.of(summary_of_run(searched({})), batches)
    }
    of_four = {each.name: each.alt for each in of_grid("4")}
    of_all = ["time_vs_num_workers", "where_the_time_goes"]
    assert list(of_run) == [*of_all, "batch_times"]
    assert list(of_four) == of_all
    assert of_run["time_vs_num_workers"] == (
        "Time against num_workers: num_workers=4 takes 6.91 s ±2.0 % per epoch."
    )
    assert of_four["time_vs_num_workers"] == (
        "Time against num_workers: num_workers=4 (256 · true) takes 6.30 s ±2.0 % per epoch."
    )
    assert of_four["where_the_time_goes"] == (
        "Where the time goes: training step 62 % with num_workers=4 (256 · true)."
    )


def test_a_description_has_the_answer_of_each_of_the_first_datasets() -> None:
    found = grid({"dataset": "abcde"})
    times, accounts = (each.alt for each in figures.of(found, batches))
    assert times.startswith("Time against num_workers: a: num_workers=4 takes ")
    assert times.count("; ") == 4
    assert times.endswith("; and 1 more.")
    assert "; d: training step " in accounts


def test_a_description_without_an_answer_has_the_largest_part_of_the_fastest() -> None:
    measured = searched({})
    undecided = replace(measured, trials=measured.trials[:1], stop_reason="")
    accounts, *_ = figures.of(summary_of_run(undecided), batches)
    assert accounts.alt.startswith("Where the time goes: making samples ")
    assert accounts.alt.endswith(" with num_workers=0.")


@pytest.mark.parametrize("name", ["200", "awkward", "run"])
def test_any_number_of_configurations_of_any_name_is_drawn_and_fits_in_a_page(
    name: str, tmp_path: Path
) -> None:
    run = summary_of_run(searched({"dataset": " ".join(AWKWARD["dataset"])}))
    for each in figures.of(run, batches) if name == "run" else of_grid(name):
        png = each.save(tmp_path)
        assert png == tmp_path / f"{each.name}.png"
        assert png.read_bytes().startswith(b"\x89PNG")
        text = png.with_suffix(".svg").read_text("utf-8")
        assert len(text) < 150_000
        assert not _is_cut(png), each.name
        assert ElementTree.fromstring(text).tag.endswith("}svg")


def _is_cut(png: Path) -> bool:
    """Whether any ink touches an edge of the picture."""
    with Image.open(png) as image:
        ink = ImageChops.invert(image.convert("L"))
        left, upper, right, lower = ink.getbbox() or (0, 0, 0, 0)
        return bool(min(left, upper, image.width - right, image.height - lower) < 3)


@style.styled()
def figure() -> Picture:
    made, (axes,) = style.panels("What <script>alert(1)</script> $took$", 1, 1.0)
    style.legend(made, axes.plot([0, 1], [1.0, 1 / 3], "o-", label="数"), "key")
    return made


def test_a_long_name_keeps_its_ends() -> None:
    assert style.shortened("abcdefghij", 10) == "abcdefghij"
    assert style.shortened("abcdefghijk", 7) == "abc…ijk"
    assert style.fitting("a\n$x$\tb" + 80 * "c", 7 * style.LETTER) == "a $…ccc"


def test_a_document_has_text_as_text_without_dates_and_is_the_same_again() -> None:
    assert figure()._repr_png_() == style.rendered(figure(), "png")
    text = style.rendered(figure(), "svg").decode()
    assert "What &lt;script&gt;alert(1)&lt;/script&gt; $took$" in text
    assert "'DejaVu Sans', 'Verdana', sans-serif" in text
    assert not re.search(r"<dc:date>|Matplotlib v|<metadata", text)
    assert text == style.rendered(figure(), "svg").decode()
