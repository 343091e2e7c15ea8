import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hydra import compose, initialize_config_dir

from nws_sweep.analysis.summary import Summary, summarise
from nws_sweep.cli import select
from nws_sweep.config import hydra_versions
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import LoaderSettings, ProjectFacts
from nws_sweep.report import formats, snippets
from tests.factories import (
    COLUMNS,
    FACTS,
    configuration,
    failed_trial,
    loader_settings,
    search_result,
    search_rules,
    summary_of_grid,
    summary_of_run,
    trial,
)

SETTINGS = loader_settings(
    4, prefetch_factor=4, persistent_workers=True, pin_memory=True
)
BEST = {
    "batch_size": 64,
    "num_workers": 4,
    "pin_memory": True,
    "prefetch_factor": 4,
    "persistent_workers": True,
}
# of a grid of pin_memory
ZERO = {"batch_size": 64, "num_workers": 0, "pin_memory": False}


def run() -> Summary:
    return summary_of_run(
        search_result(trial(0, 32.0), trial(4, 16.0, settings=SETTINGS))
    )


def grid() -> Summary:
    """One configuration whose best has 4 workers, one whose best has none, and one that
    failed."""
    return summary_of_grid(
        search_result(
            trial(0, 32.0),
            trial(4, 16.0, settings=SETTINGS),
            columns={"pin_memory": True},
        ),
        search_result(trial(0, 8.0), trial(4, 16.0), columns={"pin_memory": False}),
        search_result(failed_trial(0), columns={"pin_memory": "x"}),
    )


TYPED = "batch_size=64 num_workers=4 pin_memory=true prefetch_factor=4 persistent_workers=true"


@pytest.mark.parametrize(
    ("form", "key", "text"),
    [
        # whether or not the keys exist
        ("overrides", None, "++" + TYPED.replace(" ", " ++")),
        ("overrides", "data", "++data." + TYPED.replace(" ", " ++data.")),
        ("lightning", None, "--data." + TYPED.replace(" ", " --data.")),
        ("lightning", "", "--" + TYPED.replace(" ", " --")),
        ("lightning", "a.b", "--a.b." + TYPED.replace(" ", " --a.b.")),
        ("yaml", "a.b", "# @package a.b\n" + TYPED.replace("=", ": ").replace(" p", "\np").replace(" n", "\nn")),
        ("kwargs", None, TYPED.replace(" ", ", ").replace("true", "True")),
        ("transformers", None,
         "per_device_train_batch_size=64, dataloader_num_workers=4, dataloader_pin_memory=True, "
         "dataloader_prefetch_factor=4, dataloader_persistent_workers=True"),
    ],
)  # fmt: skip
def test_what_is_pasted_is_spelt_as_its_reader_takes_it(
    form: str, key: str | None, text: str
) -> None:
    assert formats.render(run(), form, key) == formats.Snippet(text=f"{text}\n")


@pytest.mark.parametrize(
    ("changed", "pasted"),
    [
        ({}, "batch_size=64, num_workers=4"),
        ({"facts": replace(FACTS, loader=loader_settings(2))}, "num_workers=4"),
        (
            {"facts": replace(FACTS, loader=loader_settings(4, pin_memory=True))},
            "num_workers=4, pin_memory=False",
        ),
        (
            {
                "configuration": configuration(
                    search=search_rules(settings=("pin_memory", "in_order"))
                )
            },
            "batch_size=64, num_workers=4, pin_memory=False, in_order=True",
        ),
    ],
)
def test_only_what_was_searched_or_differs_from_the_receivers_is_pasted(
    changed: dict[str, Any], pasted: str
) -> None:
    found = trial(4, 16.0, settings=loader_settings(4, prefetch_factor=2))
    assert (
        formats.render(summary_of_run(search_result(found, **changed)), "kwargs").text
        == f"{pasted}\n"
    )


def test_what_varies_in_a_grid_is_pasted_also_of_one_that_was_picked() -> None:
    both = summary_of_grid(
        *(
            search_result(trial(4, 16.0), columns={"pin_memory": value})
            for value in (False, True)
        )
    )
    picked = summarise(select(both.stored, ["pin_memory=false"]))
    assert formats.render(picked, "transformers").text.endswith(
        "num_workers=4, dataloader_pin_memory=False\n"
    )


PROJECT = ProjectFacts(
    keys={
        "num_workers": "data.num_workers.train",
        "prefetch_factor": "data.prefetch_factor",
    }
)


def of_project(best: int, project: ProjectFacts = PROJECT, **changed: Any) -> Summary:
    own = LoaderSettings(batch_size=8)
    found = trial(best, 16.0, settings=loader_settings(best, **changed))
    return summary_of_run(
        search_result(found, facts=replace(FACTS, project=project, loader=own))
    )


def test_settings_stand_at_the_keys_of_the_project_and_what_has_none_is_a_comment() -> (
    None
):
    placed = {"data": {"num_workers": {"train": 4}}}
    assert yaml.safe_load(formats.render(of_project(4), "yaml").text) == placed
    rendered = formats.render(of_project(4), "overrides")
    assert rendered.text == "++data.num_workers.train=4\n"
    assert rendered.comments == (
        "batch_size=64 is left out: the project's config has no key for it; "
        "set it where the DataLoader is made",
    )
    without = formats.render(of_project(0), "overrides").text
    assert without == "++data.num_workers.train=0 ++data.prefetch_factor=null\n", (
        "or a DataLoader refuses it"
    )


def test_hydra_composes_a_saved_answer_in_place_or_below_a_key(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    for name, summary in (("mine", of_project(4)), ("other", run())):
        (tmp_path / "best" / f"{name}.yaml").write_text(
            formats.render(summary, "yaml").text
        )
    with initialize_config_dir(str(tmp_path), **hydra_versions.BASE):
        assert compose(overrides=["+best@_global_=mine"]) == {
            "data": {"num_workers": {"train": 4}}
        }
        assert compose(overrides=["+best@data.loader=other"]) == {
            "data": {"loader": BEST}
        }


def test_no_mapping_of_the_project_is_replaced_by_a_number() -> None:
    keys = ("data.num_workers.a", "data.num_workers.b")
    line = (
        f"num_workers=4 is left out: the project's config has {', '.join(keys)}; add the key of the measured loader, "
        "such as ++data.num_workers.a=4"
    )
    found = of_project(
        4, replace(PROJECT, keys={}, unclear={"num_workers": keys}), batch_size=8
    )
    assert formats.render(found, "overrides") == formats.Snippet(
        text="", comments=(line,)
    )
    assert formats.render(found, "yaml") == formats.Snippet(
        text="{}\n", comments=("measured", line)
    )
    assert formats.render(found, "yaml").file == f"# measured\n# {line}\n{{}}\n"


def test_a_key_below_which_a_mapping_would_be_replaced_is_refused() -> None:
    for form in ("overrides", "yaml"):
        with pytest.raises(
            ConfigurationError,
            match=r"^--key data: data.num_workers is a mapping in the project's",
        ):
            formats.render(of_project(4), form, "data")
        assert "num_workers" in formats.render(of_project(4), form, "elsewhere").text


def test_what_is_open_about_an_answer_is_a_comment_in_each_format() -> None:
    alone = search_result(
        trial(4, 16.0), configuration=configuration(search=search_rules((4,)))
    )
    ended = replace(run().stored.runs[0].result, stop_reason="")
    only = "num_workers=4   no other num_workers was measured"
    unfinished = "not certain: the search did not finish"
    for form in formats.FORMATS:
        for record, line in ((alone, only), (ended, unfinished)):
            rendered = formats.render(summary_of_run(record), form)
            if form == "table":
                assert line in rendered.text
            else:
                assert rendered.comments[-1].endswith(line)
    assert formats.render(summary_of_run(alone), "yaml").file.startswith(
        "# measured\n# num_workers=4 no other num_workers was measured\n"
    )


def test_an_undecided_run_has_settings_in_no_format(tmp_path: Path) -> None:
    undecided = search_result(trial(0, 8.0), stop_reason="")
    line = "undecided   only num_workers=0 was measured: the search did not finish"
    for form in formats.FORMATS:
        rendered = formats.render(summary_of_run(undecided), form)
        lines = [*rendered.text.splitlines(), *rendered.comments]
        assert any(text.endswith(line) for text in lines), form
        assert not re.search(r"num_workers\D{1,4}0", rendered.text.replace(line, "")), (
            form
        )
    assert (
        json.loads(formats.render(summary_of_run(undecided), "json").text)["status"]
        == "undecided"
    )
    both = summary_of_grid(
        undecided,
        search_result(trial(0, 32.0), trial(4, 16.0), columns={"batch_size": 8}),
    )
    # the fastest with an answer
    assert formats.render(both, "kwargs").text == "batch_size=64, num_workers=4\n"
    assert [row[1] for row in snippets.best_table(both)[1:]] == ["undecided", "4"]


@pytest.mark.parametrize(
    "form", ["overrides", "kwargs", "lightning", "transformers", "yaml"]
)
def test_no_workers_are_not_pasted_from_a_search_that_was_cut_short(form: str) -> None:
    ended = search_result(trial(0, 8.0), trial(4, 16.0), stop_reason="")
    rendered = formats.render(summary_of_run(ended), form)
    assert rendered.text == ""
    (line,) = rendered.comments
    assert "num_workers=0 so far   1.2 to 3.3 times as fast as 4; not certain: " in line
    assert line.endswith(f"; {formats.TOO_EARLY}")


def test_settings_that_transformers_lacks_are_in_a_comment() -> None:
    settings = {
        "num_workers": 2,
        "multiprocessing_context": "spawn",
        "in_order": False,
        "sampler": None,
    }
    assert list(formats.unknown_to_transformers(settings)) == [
        "not an argument of TrainingArguments in every version: multiprocessing_context='spawn', in_order=False, "
        "sampler=None"
    ]
    assert formats.transformers(settings) == "dataloader_num_workers=2"
    refused = {"num_workers": 0, "prefetch_factor": None}
    assert formats.transformers(refused) == "dataloader_num_workers=0"


def test_a_batch_size_that_something_else_decides_is_in_no_format() -> None:
    without_size = trial(
        4, 16.0, settings=loader_settings(4, batch_size=cast("int", None))
    )
    found = summary_of_run(
        search_result(without_size, facts=replace(FACTS, samples=None))
    )
    for form in set(formats.FORMATS) - {"table", "json"}:
        text = formats.render(found, form).text
        assert ("batch_size" in text, "num_workers" in text) == (False, True)


@pytest.mark.parametrize("key", ["data.", "a..b", "a=b", "data\n"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^--key .*: must be names joined by dots"
    ):
        formats.render(run(), "overrides", key)


@pytest.mark.parametrize(
    ("form", "read"), [("yaml", yaml.safe_load), ("json", json.loads)]
)
def test_yaml_and_json_hold_a_run_or_name_each_configuration(
    form: str, read: Any
) -> None:
    failed = summary_of_run(search_result(failed_trial(0)))
    of_runs = [read(formats.render(summary, form).text) for summary in (run(), failed)]
    if form == "json":
        assert [mapping["status"] for mapping in of_runs] == ["measured", None]
        of_runs = [mapping["loader"] for mapping in of_runs]
    assert of_runs == [BEST, None]
    assert read(formats.render(grid(), form).text) == [
        {
            "configuration": {**COLUMNS, "pin_memory": value},
            "status": status,
            "loader": loader,
        }
        for value, status, loader in (
            (True, "measured", BEST),
            (False, "measured", ZERO),
            ("x", None, None),
        )
    ]


@pytest.mark.parametrize(
    "form",
    [("overrides",), ("kwargs",), ("lightning",), ("transformers",), ("yaml", "data")],
)
def test_formats_to_paste_hold_the_chosen_or_the_fastest_configuration_of_a_dataset(
    form: tuple[str, ...],
) -> None:
    chosen, other = (
        summarise(select(grid().stored, [f"pin_memory={value}"]))
        for value in ("true", "false")
    )
    assert formats.render(chosen, *form).text == formats.render(run(), *form).text
    fastest = formats.render(grid(), *form)
    assert fastest.text == formats.render(other, *form).text
    why = "of 3 combinations, dataset=photos pin_memory=false loads the most samples per second of an epoch; --"
    assert fastest.comments[0].startswith(why)
    datasets = summary_of_grid(
        *(
            search_result(trial(0, 8.0), columns={"dataset": name})
            for name in ("a", "b")
        )
    )
    line = rf"^--format {form[0]}: holds one combination, but there are 2; pick one with --where KEY=VALUE \(dataset"
    with pytest.raises(ConfigurationError, match=line):
        formats.render(datasets, *form)


def test_the_table_has_a_row_per_configuration_with_times_and_gains() -> None:
    searched = configuration(search=search_rules((0, 2, 4), reference=4))
    found = summary_of_run(
        search_result(
            trial(0, 32.0), trial(2, 8.0), trial(4, 16.0), configuration=searched
        )
    )
    first, _, header, _, row = formats.render(found, "table").text.splitlines()
    assert first == "num_workers=2   2.5 to 7 times as fast as 0"
    assert [cell.strip() for cell in header.split("|")[1:-1]] == [
        "dataset",
        "num_workers",
        "samples/s",
        "per batch",
        "epoch",
        "vs 0 workers",
        "vs CPU count (4)",
    ]
    assert [cell.strip() for cell in row.split("|")[1:-1]] == [
        "photos",
        "2",
        "about 700 to 1400",
        "about 50 to 90 ms",
        "about 6 to 12 s",
        "2.5x to 7x",
        "1.2x to 3.3x",
    ]
