from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from nws_sweep import formats
from nws_sweep.analysis import Summary
from nws_sweep.records import SearchCost, Verdict
from tests.factories import (
    COLUMNS,
    configuration,
    failed_trial,
    loader_settings,
    search_result,
    search_rules,
    summary_of_grid,
    summary_of_run,
    trial,
)

SETTINGS = loader_settings(4, prefetch_factor=2, persistent_workers=True, pin_memory=True)
BEST = {"batch_size": 64, "num_workers": 4, "pin_memory": True, "prefetch_factor": 2, "persistent_workers": True}
ZERO = {"batch_size": 64, "num_workers": 0, "pin_memory": False, "prefetch_factor": None, "persistent_workers": False}


def run() -> Summary:
    return summary_of_run(search_result(trial(0, 32.0), trial(4, 16.0, settings=SETTINGS)))


def grid() -> Summary:
    """One configuration whose best has 4 workers, one whose best has none, and one that failed."""
    return summary_of_grid(
        search_result(trial(0, 32.0), trial(4, 16.0, settings=SETTINGS), columns={"pin_memory": True}),
        search_result(trial(0, 8.0), trial(4, 16.0), columns={"pin_memory": False}),
        search_result(failed_trial(0), columns={"pin_memory": "x"}),
    )


def test_overrides_set_keys_whether_or_not_they_exist_and_are_spelt_as_on_a_command_line() -> None:
    assert formats.render(run(), "overrides") == (
        "++batch_size=64 ++num_workers=4 ++pin_memory=true ++prefetch_factor=2 ++persistent_workers=true\n"
    )


def test_overrides_take_a_prefix_and_null_for_none() -> None:
    settings: dict[str, Any] = {"num_workers": 0, "prefetch_factor": None}
    assert (
        formats.overrides(settings, "data.loader") == "++data.loader.num_workers=0 ++data.loader.prefetch_factor=null"
    )
    assert formats.render(run(), "overrides", key="data").startswith("++data.batch_size=64 ++data.num_workers=4 ")


def test_keywords_are_python_that_gives_the_same_settings() -> None:
    text = formats.render(run(), "kwargs")
    assert text.startswith("batch_size=64, num_workers=4, pin_memory=True, ")
    assert eval(f"dict({text})") == BEST
    assert eval(f"dict({formats.kwargs(ZERO)})") == ZERO


@pytest.mark.parametrize("form", ["overrides", "kwargs"])
def test_lines_of_a_grid_name_each_configuration_in_a_comment(form: str) -> None:
    lines = formats.render(grid(), form).splitlines()
    assert lines[0::2] == [
        "# dataset=photos pin_memory=true",
        "# dataset=photos pin_memory=false",
        "# dataset=photos pin_memory=x",
    ]
    write = formats.overrides if form == "overrides" else formats.kwargs
    assert lines[1::2] == [write(BEST), write(ZERO), "# nothing could be measured for dataset=photos pin_memory=x"]


@pytest.mark.parametrize(("form", "read"), [("yaml", yaml.safe_load), ("json", json.loads)])
def test_yaml_and_json_of_a_run_are_its_keywords(form: str, read: Any) -> None:
    assert read(formats.render(run(), form)) == BEST
    assert read(formats.render(summary_of_run(search_result(failed_trial(0))), form)) is None


@pytest.mark.parametrize(("form", "read"), [("yaml", yaml.safe_load), ("json", json.loads)])
def test_yaml_and_json_of_a_grid_name_each_configuration(form: str, read: Any) -> None:
    assert read(formats.render(grid(), form)) == [
        {"configuration": {**COLUMNS, "pin_memory": True}, "loader": BEST},
        {"configuration": {**COLUMNS, "pin_memory": False}, "loader": ZERO},
        {"configuration": {**COLUMNS, "pin_memory": "x"}, "loader": None},
    ]


def test_yaml_keeps_the_order_of_the_keywords_and_letters_of_any_script() -> None:
    assert formats.as_yaml({"num_workers": 1, "batch_size": 2, "name": "größe"}) == (
        "num_workers: 1\nbatch_size: 2\nname: größe\n"
    )


def test_the_table_has_a_row_per_configuration_with_times_and_gains() -> None:
    rules = search_rules((0, 2, 4), reference=4)
    found = summary_of_run(
        search_result(trial(0, 32.0), trial(2, 8.0), trial(4, 16.0), configuration=configuration(search=rules))
    )
    assert formats.render(found, "table").splitlines() == [
        "| dataset | num_workers | samples/s | per batch     | epoch  | vs 0 workers | vs CPU count (4) |",
        "|---------|-------------|-----------|---------------|--------|--------------|------------------|",
        "| photos  | 2           | 1024      | 62.5 ms ±38 % | 8.00 s | 4.00x        | 2.00x            |",
    ]


def test_the_table_names_no_cpu_count_where_none_was_measured() -> None:
    assert formats.best_header(grid())[-1] == "vs CPU count"
    assert formats.best_cells(run(), run().configurations[0])[-1] == "-"


def test_a_configuration_with_nothing_measured_has_a_row_that_says_so() -> None:
    found = grid()
    cells = formats.best_cells(found, found.configurations[2])
    assert cells == ["photos", "x", "failed", "-", "-", "-", "-", "-"]
    assert len(cells) == len(formats.best_header(found))


def test_a_column_that_a_configuration_does_not_have_is_a_dash() -> None:
    found = summary_of_grid(search_result(trial(0, 8.0)), search_result(trial(0, 8.0), columns={"consumer.ms": 5}))
    assert [formats.best_cells(found, each)[:2] for each in found.configurations] == [["photos", "-"], ["photos", "5"]]


def test_cells_of_a_markdown_table_are_escaped_and_stay_on_one_line() -> None:
    assert formats.markdown_table(["a|b"], [["<script>"], ["two\nlines"]]).splitlines() == [
        "| a\\|b        |",
        "|-------------|",
        "| &lt;script> |",
        "| two lines   |",
    ]


def test_cells_of_a_markdown_table_are_aligned() -> None:
    assert (
        formats.markdown_table(["a", "long"], [["wide", "b"]]) == "| a    | long |\n|------|------|\n| wide | b    |\n"
    )


def test_the_cost_of_a_search_is_told_with_its_parts_and_in_epochs() -> None:
    cost = SearchCost(profile_s=0.5, startup_s=1.5, warm_up_s=0.01, measuring_s=5.0, other_s=1.0, waiting_s=30.0)
    assert formats.cost_line(search_result(trial(2, 4.0), cost_s=8.0, cost=cost)) == (
        "search took 8.00 s, 2.00 epochs at the best setting (profile 500 ms, start-up 1.50 s, measuring 5.00 s, "
        "other 1.00 s, before that waiting 30.0 s)"
    )
    assert formats.cost_line(search_result(cost_s=8.0)) == "search took 8.00 s"


def test_what_was_found_besides_the_workers_has_a_column_of_its_own() -> None:
    better = trial(2, 6.0, settings=loader_settings(2, prefetch_factor=4))
    found = Verdict(recommended=better.settings, fastest=better.settings)
    chosen = configuration(search=search_rules(also=("prefetch_factor",)))
    summary = summary_of_run(search_result(trial(2, 8.0), better, configuration=chosen, verdict=found))
    header = formats.best_header(summary)
    cells = formats.best_cells(summary, summary.configurations[0])
    assert dict(zip(header, cells, strict=True))["also"] == "prefetch_factor=4"
