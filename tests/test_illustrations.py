from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageChops

from nws_sweep import drawing, illustrations, storage, vector
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.batch_table import BatchTime
from nws_sweep.illustrations import Illustration
from nws_sweep.records import Estimate, SearchCost, SearchRecord, Trial
from tests.factories import (
    failed_trial,
    loader_settings,
    measurement,
    search_result,
    summary_of_grid,
    summary_of_run,
    trial,
)

Axes = Mapping[str, Sequence[Any]]
FOUR: Axes = {"batch_size": (64, 256), "pin_memory": (False, True)}
TWENTY_FOUR: Axes = {"dataset": ("photos", "tensor"), "batch_size": (32, 64, 128), **FOUR, "prefetch_factor": (2, 4, 8)}
TWO_HUNDRED: Axes = {
    "dataset": ("photos", "tensor"),
    "batch_size": (32, 64, 128, 256, 512),
    "pin_memory": (False, True),
    "prefetch_factor": (None, 2, 4, 8, 16),
    "patience": (2, 3),
}
AWKWARD: Axes = {
    "dataset": ("<script>alert(1)</script>", "", r"$x$ \$y_1$ & 'z' \"", "very long " * 30, "数据\n☃"),
    "transform": ("Compose(RandomResizedCrop(224), RandomHorizontalFlip(), " * 4, None),
}
GRIDS = {"4": FOUR, "24": TWENTY_FOUR, "200": TWO_HUNDRED, "awkward": AWKWARD, "one column": {"seed": range(60)}}


def measured(num_workers: int, pace: float, held: int = 2**30) -> Trial:
    batch_s = 0.4 * pace / max(1, min(num_workers, 6)) + 0.001 * num_workers
    found = measurement(
        65 * batch_s,
        batch_s=Estimate(value=batch_s, low=0.9 * batch_s, high=1.1 * batch_s, n=5),
        samples_per_s=64 / batch_s,
        stall_fraction=0.8 / max(1, num_workers),
        memory_bytes=held + num_workers * 2**27,
    )
    return trial(num_workers, 65 * batch_s, settings=loader_settings(num_workers), measurement=found)


def searched(columns: Mapping[str, Any], pace: float = 1.0) -> SearchRecord:
    cost = SearchCost(profile_s=1.0, startup_s=2.0, warm_up_s=4.0, measuring_s=8.0, other_s=1.0)
    held = int(pace * 2**30)
    return search_result(*(measured(n, pace, held) for n in (0, 1, 2, 4, 8)), columns=columns, cost=cost, cost_s=16.0)


def grid(axes: Axes) -> Summary:
    chance = random.Random(0)
    points = itertools.product(*axes.values())
    results = [searched(dict(zip(axes, point, strict=True)), chance.uniform(0.5, 2.0)) for point in points]
    return summary_of_grid(*results)


def batches(_: ConfigurationSummary) -> list[BatchTime]:
    return [BatchTime(n, 0, index, index < 8, 0.1 + 0.01 * (index % 3), 0.02) for n in (0, 1, 4) for index in range(90)]


def of_grid(name: str) -> tuple[Illustration, ...]:
    return illustrations.of(grid(GRIDS[name]), batches)


def no_batches(_: ConfigurationSummary) -> list[BatchTime]:
    return []


def test_a_run_has_its_scaling_first_then_what_each_candidate_takes_and_where_the_time_went() -> None:
    names = [each.name for each in illustrations.of(summary_of_run(searched({})), batches)]
    assert names == ["scaling", "time_vs_num_workers", "waiting_vs_num_workers", "batch_times", "search_cost"]


def test_a_grid_has_the_comparison_first_and_batches_of_the_fastest_only() -> None:
    assert [each.name for each in of_grid("4")] == [
        "throughput_vs_num_workers",
        "best_per_configuration",
        "best_throughput",
        "waiting_vs_num_workers",
        "time_vs_memory",
        "batch_times",
        "search_cost",
    ]


def test_the_batches_are_those_of_the_fastest_configuration() -> None:
    asked = []

    def batches_of(configuration: ConfigurationSummary) -> list[BatchTime]:
        asked.append(configuration.label)
        return batches(configuration)

    slow, fast = searched({"seed": 1}, 2.0), searched({"seed": 2}, 1.0)
    illustrations.of(summary_of_grid(slow, fast), batches_of)
    assert asked == ["dataset=photos seed=2"]


def test_a_configuration_of_a_grid_has_those_that_are_only_of_it() -> None:
    first = grid(FOUR).configurations[0]
    assert [each.name for each in illustrations.of_configuration(first, batches)] == ["scaling", "batch_times"]
    assert [each.name for each in illustrations.of_configuration(first, no_batches)] == ["scaling"]


def test_where_nothing_was_measured_there_is_nothing_to_see() -> None:
    nothing = search_result(failed_trial(0))
    assert illustrations.of(summary_of_run(nothing), no_batches) == ()
    assert illustrations.of(summary_of_grid(nothing, nothing), no_batches) == ()
    assert illustrations.of(summary_of_grid(search_result(error="no such folder")), no_batches) == ()


def test_a_single_trial_is_shown_as_far_as_it_goes() -> None:
    names = [each.name for each in illustrations.of(summary_of_run(search_result(trial(0, 8.0))), no_batches)]
    assert names == ["time_vs_num_workers", "waiting_vs_num_workers"]


def test_each_says_what_it_shows_with_its_main_figures() -> None:
    told = {each.name: each.alt for each in of_grid("4")}
    assert told["search_cost"] == (
        "4 searches took 64.0 s: profile 6 %, start-up 12 %, warm-up 25 %, measuring 50 %, other 6 %."
    )
    assert told["waiting_vs_num_workers"].endswith("At the best settings 10 %.")
    assert told["best_throughput"].startswith("A map of the best throughput over batch_size and pin_memory: ")
    assert "with num_workers=8 (256 · true)." in told["throughput_vs_num_workers"]


@pytest.mark.parametrize("name", GRIDS)
def test_any_number_of_configurations_of_any_name_is_drawn_and_fits_in_one_page(name: str, tmp_path: Path) -> None:
    identifiers = []
    for each in of_grid(name):
        png, svg = each.save(tmp_path)
        assert png.read_bytes().startswith(b"\x89PNG")
        text = svg.read_text("utf-8")
        assert len(text) < 150_000
        assert not _is_cut(png), each.name
        root = ElementTree.fromstring(vector.inline(text, each.name, each.title, each.alt))
        assert {element.tag.rpartition("}")[2] for element in root.iter()} <= ELEMENTS
        identifiers += [element.get("id") for element in root.iter() if element.get("id")]
        # The ink of the page, and what is fixed in the cells of the map.
        texts = [element.get("style", "") for element in root.iter() if element.tag.endswith("}text")]
        assert texts
        assert all(re.search("currentColor|#101418|#fdfdfd", style) for style in texts)
    assert len(identifiers) == len(set(identifiers))
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".svg"}


ELEMENTS = {"svg", "title", "desc", "defs", "g", "path", "use", "text", "clipPath", "rect", "image"}


def _is_cut(png: Path) -> bool:
    """Whether anything reaches to an edge of the picture."""
    with Image.open(png) as image:
        ink = ImageChops.invert(image.convert("L"))
        left, upper, right, lower = ink.getbbox() or (0, 0, 0, 0)
        return bool(min(left, upper, image.width - right, image.height - lower) < 3)


@pytest.mark.parametrize("name", AWKWARD["dataset"])
def test_a_run_of_an_awkward_name_is_drawn(name: str) -> None:
    for each in illustrations.of(summary_of_run(searched({"dataset": name})), batches):
        assert ElementTree.fromstring(drawing.rendered(each.draw(), "svg").decode()).tag.endswith("svg")


def test_the_names_of_files_are_those_of_the_storage() -> None:
    named = {getattr(storage, name) for name in dir(storage) if name.endswith("_PLOT")}
    found = [*of_grid("4"), *illustrations.of(summary_of_run(searched({})), batches)]
    assert {each.name for each in found} == named
