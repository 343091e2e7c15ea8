"""The pictures of a report, as files and as parts of pages."""

from __future__ import annotations

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
from nws_sweep.report import figures
from nws_sweep.report.figures import Illustration
from nws_sweep.report.plots import style
from nws_sweep.report.plots.style import Picture
from nws_sweep.results import BatchCost, BatchTime, SearchCost, SearchRecord, storage
from tests import sample_pages
from tests.factories import failed_trial, points, recorded_trial, search_result, summary_of_grid, summary_of_run, trial

Axes = Mapping[str, Sequence[Any]]
FOUR: Axes = {"batch_size": (64, 256), "pin_memory": (False, True)}
MANY: Axes = {"dataset": ("photos", "tensor"), **FOUR, "prefetch_factor": (None, 2, 4, 8, 16), "patience": range(5)}
AWKWARD: Axes = {
    "dataset": ("<script>alert(1)</script>", "", r"$x$ \$y_1$ & 'z' \"", "very long " * 30, "数据\n☃"),
    "transform": ("Compose(RandomResizedCrop(224), RandomHorizontalFlip(), " * 4, None),
}
GRIDS = {"4": FOUR, "200": MANY, "awkward": AWKWARD, "one column": {"seed": range(60)}}


COST = SearchCost(profile_s=1.0, startup_s=2.0, warm_up_s=4.0, measuring_s=8.0, other_s=1.0)


def searched(columns: Mapping[str, Any], pace: float = 1.0) -> SearchRecord:
    """With the records of one trial: batches of 80 ms of CPU time, 8 CPUs."""
    result = sample_pages.searched(0.4 * pace, columns=columns, cost=COST, cost_s=16.0)
    recorded = recorded_trial(4, BatchCost(cpu_s=0.08, wait_s=0.0))
    trials = (replace(one, records=recorded.records, loop=recorded.loop) for one in result.trials)
    return replace(result, trials=tuple(trials))


def grid(axes: Axes) -> Summary:
    chance = random.Random(0)
    return summary_of_grid(*(searched(columns, chance.uniform(0.5, 2.0)) for columns in points(**axes)))


def batches(_: ConfigurationSummary) -> list[BatchTime]:
    return [BatchTime(n, 0, index, index < 8, 0.1 + 0.01 * (index % 3), 0.02) for n in (0, 1, 4) for index in range(90)]


def of_grid(name: str) -> tuple[Illustration, ...]:
    return figures.of(grid(GRIDS[name]), batches)


RUN = ["time_vs_num_workers", "what_if", "waiting_vs_num_workers", "batch_times", "search_cost"]
GRID = [
    "throughput_vs_num_workers", "best_per_configuration", "best_throughput", "waiting_vs_num_workers",
    "time_vs_memory", "batch_times", "search_cost",
]  # fmt: skip


def test_the_most_important_pictures_come_first_and_have_the_names_of_the_storage() -> None:
    assert [each.name for each in figures.of(summary_of_run(searched({})), batches)] == RUN
    assert [each.name for each in of_grid("4")] == GRID
    assert {getattr(storage, name) for name in dir(storage) if name.endswith("_PLOT")} == {*RUN, *GRID}


def test_pictures_without_data_are_left_out() -> None:
    first = grid(FOUR).configurations[0]
    assert [each.name for each in figures.of_configuration(first, batches)] == ["what_if", "batch_times"]
    single = figures.of(summary_of_run(search_result(trial(0, 8.0))), lambda _: [])
    assert [each.name for each in single] == ["time_vs_num_workers", "waiting_vs_num_workers"]
    nothing = search_result(failed_trial(0))
    assert figures.of(summary_of_run(nothing), lambda _: []) == ()
    assert figures.of(summary_of_grid(nothing, search_result(error="no such folder")), lambda _: []) == ()


def test_the_batches_are_those_of_the_fastest_configuration() -> None:
    asked: list[ConfigurationSummary] = []
    slow, fast = searched({"seed": 1}, 2.0), searched({"seed": 2}, 1.0)

    def batches_of(configuration: ConfigurationSummary) -> list[BatchTime]:
        asked.append(configuration)
        return []

    figures.of(summary_of_grid(slow, fast), batches_of)
    assert [one.label for one in asked] == ["dataset=photos seed=2"]


def test_descriptions_have_the_main_figures() -> None:
    of_run = {each.name: each.alt for each in figures.of(summary_of_run(searched({})), batches)}
    assert of_run["what_if"] == (
        "Predicted seconds per epoch against num_workers: "
        "at least 6.91 s on 8 CPUs, 3.95 s on 16 CPUs, 1.58 s on 64 CPUs."
    )
    assert of_run["time_vs_num_workers"].endswith(" 6.91 with the recommended 4.")
    of_four = {each.name: each.alt for each in of_grid("4")}
    assert of_four["throughput_vs_num_workers"].endswith(" 3460 samples per second with num_workers=4 (256 · true).")
    assert of_four["best_per_configuration"].endswith("fastest has num_workers=4 (batch_size=256, pin_memory=true).")
    assert of_four["best_throughput"].endswith("over batch_size and pin_memory: 435 to 3460 samples per second.")
    assert of_four["waiting_vs_num_workers"].endswith("At the best settings 18 %.")
    assert of_four["time_vs_memory"].endswith("the fastest holds 4.03 GB and takes 289 ms.")
    assert of_four["batch_times"].endswith("A batch of the best waits 13.3 ms and the step takes 60.6 ms.")
    assert of_four["search_cost"].startswith("4 searches took 64.0 s: profile 6 %, start-up 12 %, warm-up 25 %, ")


@pytest.mark.parametrize("name", [*GRIDS, "run"])
def test_any_number_of_configurations_of_any_name_is_drawn_and_fits_in_one_page(name: str, tmp_path: Path) -> None:
    identifiers = []
    run = summary_of_run(searched({"dataset": " ".join(AWKWARD["dataset"])}))
    for each in figures.of(run, batches) if name == "run" else of_grid(name):
        png, drawn = each.save(tmp_path)
        assert png.read_bytes().startswith(b"\x89PNG")
        text = drawn.read_text("utf-8")
        assert len(text) < 150_000
        assert not _is_cut(png), each.name
        root = ElementTree.fromstring(style.inline(text, each.name, each.title, each.alt))
        assert {element.tag.rpartition("}")[2] for element in root.iter()} <= ELEMENTS
        identifiers += [element.get("id") for element in root.iter() if element.get("id")]
        # Ink of the page, or fixed colours in cells of the heat map.
        texts = [element.get("style", "") for element in root.iter() if element.tag.endswith("}text")]
        assert texts
        assert all(re.search("currentColor|#101418|#fdfdfd", style) for style in texts)
    assert len(identifiers) == len(set(identifiers))
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".svg"}


ELEMENTS = {"svg", "title", "desc", "defs", "g", "path", "use", "text", "clipPath", "rect", "image"}


def _is_cut(png: Path) -> bool:
    """Whether any ink touches an edge of the picture."""
    with Image.open(png) as image:
        ink = ImageChops.invert(image.convert("L"))
        left, upper, right, lower = ink.getbbox() or (0, 0, 0, 0)
        return bool(min(left, upper, image.width - right, image.height - lower) < 3)


@style.styled
def figure() -> Picture:
    made, (axes,) = style.panels("What <script>alert(1)</script> $took$", 1, 1, 1.0)
    style.legend(made, axes.plot([0, 1], [1.0, 1 / 3], "o-", label="数"), "key")
    return made


def test_a_long_name_keeps_its_ends() -> None:
    assert style.shortened("abcdefghij", 10) == "abcdefghij"
    assert style.shortened("abcdefghijk", 7) == "abc…ijk"
    assert style.fitting("a\n$x$\tb" + 80 * "c", 7 * style.LETTER) == "a $…ccc"


def test_a_figure_is_saved_as_png_and_svg_beside_each_other(tmp_path: Path) -> None:
    paths = style.save(figure(), tmp_path / "what_if")
    assert [path.name for path in paths] == ["what_if.png", "what_if.svg"]
    assert [path.read_bytes()[:5] for path in paths] == [b"\x89PNG\r", b"<?xml"]
    assert figure()._repr_png_() == paths[0].read_bytes()


def test_a_document_has_text_as_text_without_dates_and_is_the_same_again() -> None:
    text = style.rendered(figure(), "svg").decode()
    assert "What &lt;script&gt;alert(1)&lt;/script&gt; $took$" in text
    assert "'DejaVu Sans', 'Verdana', sans-serif" in text
    assert not re.search(r"<dc:date>|Matplotlib v|<metadata", text)
    assert text == style.rendered(figure(), "svg").decode()


DOCUMENT = """<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="30pt" height="15pt" viewBox="0 0 30 15"
 xmlns="http://www.w3.org/2000/svg" version="1.1">
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="background"><path d="M 0 0" style="fill: #ffffff"/></g>
 <defs><path id="m1" d="M 1 1"/></defs>
 <g id="axes_1" clip-path="url(#c1)"><use xlink:href="#m1" x="1" style="fill: #0072b2; stroke: #1f2328"/></g>
 <text style="fill: #1f2328">a &lt; b #1f2328</text>
 <clipPath id="c1"><rect style="stroke: #dddddd"/></clipPath>
</svg>"""


def test_a_document_becomes_a_part_of_a_page() -> None:
    text = style.inline(DOCUMENT, "first", "A <title>", "It & that")
    assert text.startswith("<svg ")
    assert not re.search(r"<\?xml|<!DOCTYPE|<style|<metadata|background", text)  # would affect the whole page
    root = ElementTree.fromstring(text)
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "first-title first-desc")
    assert [child.text for child in list(root)[:2]] == ["A <title>", "It & that"]
    assert root.get("viewBox") == "0 0 30 15"
    assert root.get("style") == "--wide:40px;width:100%;max-width:var(--wide);height:auto"
    assert (root.get("width"), root.get("height")) == (None, None)
    found = re.findall(r'\bid="([^"]+)"', text)
    assert found == ["first-title", "first-desc", "first-m1", "first-axes_1", "first-c1"]
    assert 'href="#first-m1"' in text
    assert 'clip-path="url(#first-c1)"' in text
    # Colours follow the page.
    assert "fill: var(--series-1, #0072b2); stroke: currentColor" in text
    assert "stroke: var(--grid, #ddd)" in text
    assert "a &lt; b #1f2328<" in text


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("paper", ["#ffffff", "#14161a"])
@pytest.mark.parametrize("colour", [*style.COLOURS[:-1], style.MUTED])
def test_data_can_be_seen_on_white_and_on_dark_paper(colour: str, paper: str) -> None:
    dark, light = sorted((luminance(colour), luminance(paper)))
    assert (light + 0.05) / (dark + 0.05) >= 3
