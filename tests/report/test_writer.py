import html
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from nws_sweep.analysis.summary import Summary
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import (
    BatchCost,
    Noise,
    TrialState,
    Verdict,
    codec,
    storage,
)
from nws_sweep.report import formats, page, snippets, tables, writer
from nws_sweep.report.sweep_result import SweepResult
from nws_sweep.report.tables import Rows
from tests.factories import (
    COLUMNS,
    configuration,
    endless_trial,
    failed_trial,
    loader_settings,
    measurement,
    recorded_trial,
    search_result,
    search_rules,
    steady,
    store_grid,
    store_run,
    summary_of_grid,
    summary_of_run,
    trial,
)


def read_back(table: Rows) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(table.text))


def test_the_trials_of_all_configurations_are_rows_in_the_order_of_measuring_with_all_digits() -> (
    None
):
    first = search_result(trial(8, 4.0), failed_trial(0), columns={"batch_size": 256})
    table = tables.trials(
        summary_of_grid(
            first, search_result(endless_trial(1, 1 / 3), columns={"batch_size": 64})
        )
    )
    assert table.columns == (*COLUMNS, *codec.TIMING_COLUMNS)
    frame = read_back(table)
    rows = frame[["batch_size", "num_workers", "state"]].to_numpy().tolist()
    assert rows == [[256, 8, "ok"], [256, 0, "failed"], [64, 1, "ok"]]
    assert frame["epoch_s"].isna().tolist() == [False, True, True]
    assert (frame["epoch_s"][0], frame["batch_s"][2]) == (4.0, 1 / 3)
    # Integers stay integers beside empty cells.
    mixed = summary_of_grid(
        *(
            search_result(trial(0, 8.0), columns={"prefetch_factor": n})
            for n in (None, 4)
        )
    )
    assert tables.trials(mixed).frame()["prefetch_factor"].dtype == "Int64"
    rows = [line.split(",")[1:6] for line in tables.trials(mixed).text.splitlines()[1:]]
    assert rows == [["64", "False", "", "3", "0"], ["64", "False", "4", "3", "0"]]


def test_the_best_of_each_configuration_is_read_back_as_it_was_found() -> None:
    settings = loader_settings(2, persistent_workers=True)
    columns = {"batch_size": 256, "dataset.sizes": [500, 375]}
    searched = configuration(columns, search=search_rules((0, 2, 8), reference=8))
    trials = trial(8, 4.0), failed_trial(0), trial(2, 4.0625, settings=settings)
    verdict = Verdict(recommended=settings, fastest=trials[0].settings)
    measured = search_result(*trials, configuration=searched, verdict=verdict)
    failed = search_result(columns={"batch_size": 64}, error="it, too", stop_reason="")
    first, second = read_back(tables.best(summary_of_grid(measured, failed))).to_dict(
        "records"
    )
    assert list(first)[: len(COLUMNS) + 2] == [*COLUMNS, "dataset.sizes", "num_workers"]
    expected = {
        "num_workers": 2, "settings": "persistent_workers=true", "epoch_s": 4.0625, "batch_s_low": 0.75 * 4.0625 / 128,
        "gain_over_cpu_count": pytest.approx(4.0 / 4.0625), "fastest_num_workers": 8, "dataset.sizes": "[500, 375]",
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert (second["batch_size"], second["error"]) == (64, "it, too")
    assert pd.isna(
        [
            first["gain_over_zero"],
            second["num_workers"],
            second["epoch_s"],
            second["dataset.sizes"],
        ]
    ).all()


def test_no_column_replaces_a_value_that_identifies_a_configuration() -> None:
    columns = {
        "num_workers": "[0, 2]",
        "settings": "[pin_memory]",
        "persistent_workers": True,
    }
    found = summary_of_grid(search_result(trial(0, 8.0), columns=columns))
    expected = {
        "given_num_workers": "[0, 2]",
        "given_settings": "[pin_memory]",
        "persistent_workers": True,
    }
    for table in (tables.best(found), tables.trials(found)):
        (row,) = table.rows
        assert {**expected, "num_workers": 0, "settings": ""}.items() <= row.items()


@pytest.mark.parametrize(
    ("num_workers", "keywords"),
    [
        (0, {"persistent_workers": False}),
        (2, {"persistent_workers": True, "prefetch_factor": 4}),
    ],
)
def test_the_keywords_of_a_grid_are_accepted_by_dataloader(
    num_workers: int, keywords: dict[str, Any]
) -> None:
    axes = {"prefetch_factor": 4, "persistent_workers": True, "drop_last": True}
    loader = loader_settings(**axes)
    fast = search_result(
        trial(num_workers, 1.0, settings=loader.with_workers(num_workers)),
        configuration=configuration(axes, loader=loader),
    )
    slow = search_result(trial(0, 9.0), columns=dict.fromkeys(axes))
    grid = SweepResult(summary_of_grid(fast, slow))
    assert grid.best_params == {**axes, "num_workers": num_workers}
    assert grid.loader_kwargs == {
        **keywords,
        "drop_last": True,
        "num_workers": num_workers,
    }


EVIL = "</script><script>alert('&')</script>"


def evil_grid() -> Summary:
    return summary_of_grid(
        search_result(
            trial(0, 8.0),
            trial(2, 4.0),
            failed_trial(4, EVIL),
            columns={**COLUMNS, "batch_size": 64},
        ),
        search_result(
            trial(0, 2.0),
            trial(2, 1.0, warnings=(EVIL,)),
            columns={"batch_size": 128, "dataset": EVIL},
        ),
        search_result(failed_trial(0), columns={**COLUMNS, "batch_size": 256}),
    )


def test_the_page_of_a_grid_begins_with_the_fastest_of_each_dataset_and_batch_size() -> (
    None
):
    found = evil_grid()
    text = page.report(found, ())
    assert page.heading(found) == (
        "The fastest settings for 2 of 3 datasets and batch sizes"
    )
    cards = re.findall(r'<div class="card">\s*<p class="label">(.*?)</p>', text)
    assert [html.unescape(card) for card in cards] == [
        "dataset=photos, batch_size=64",
        f"dataset={EVIL}, batch_size=128",
    ]
    settings = [page.setting(one) for one in found.configurations]
    assert settings == ["num_workers=2", "num_workers=2", ""]
    assert "Failed: nothing could be measured" in text
    nothing = summary_of_run(search_result(failed_trial(0, "it broke")))
    assert re.search(
        "Nothing could be measured(?s:.)*it broke", page.report(nothing, ())
    )


def test_points_that_are_as_fast_are_told_together_and_batch_sizes_apart() -> None:
    found = summary_of_grid(
        *(
            search_result(
                steady(2, epoch_s, settings=loader_settings(2, pin_memory=pinned)),
                columns={"batch_size": size, "pin_memory": pinned},
                configuration=configuration(
                    {"batch_size": size, "pin_memory": pinned},
                    loader=loader_settings(pin_memory=pinned),
                ),
            )
            for size, epoch_s in ((64, 2.0), (128, 1.0))
            for pinned in (True, False)
        )
    )
    assert page.heading(found) == "The fastest settings for each batch size"
    first, second = page.cards(found)
    assert first.label.endswith("batch_size=64, pin_memory true or false")
    assert second.label.endswith("batch_size=128, pin_memory true or false")
    assert not first.configuration.configuration.loader.pin_memory


def test_two_folders_of_one_kind_are_two_datasets() -> None:
    both = summary_of_grid(
        *(
            search_result(
                trial(0, 8.0), columns={"dataset": "image_folder", "dataset.root": root}
            )
            for root in "ab"
        )
    )
    assert page.heading(both) == "The fastest settings for each dataset"
    assert len(page.cards(both)) == 2
    with pytest.raises(ConfigurationError, match="there are 2; pick one with --where"):
        formats.render(both, "kwargs")


def test_of_many_datasets_the_first_ones_have_a_card() -> None:
    many = summary_of_grid(
        *(
            search_result(trial(0, 8.0), columns={"dataset": f"data{number}"})
            for number in range(20)
        )
    )
    assert page.heading(many) == "The fastest settings for 12 of 20 datasets"
    assert page.report(many, ()).count('class="card"') == 12


def test_names_from_outside_are_text_only(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("<svg/>")
    text = page.report(evil_grid(), [(EVIL, EVIL, tmp_path / "a.png")])
    assert EVIL not in text
    assert "alert(" not in re.sub(
        r"&lt;/script&gt;&lt;script&gt;alert\(|\\u003cscript\\u003ealert\(", "", text
    )
    data = '<script type="application/json">'
    assert re.findall("<script.*?>", text) == [data, data, "<script>"]
    text = page.markdown(evil_grid())
    assert re.findall(r"<[a-z/]+>", text) == []
    assert (
        "\n## dataset=&lt;/script>&lt;script>alert('&')&lt;/script> batch_size=128\n"
        in text
    )


def test_the_page_loads_nothing_and_its_references_exist() -> None:
    text = page.report(evil_grid(), [])
    assert re.search(r"<(link|img|iframe|form)\b|<[^>]* src=", text) is None
    assert (
        """http-equiv="Content-Security-Policy" content="default-src 'none'""" in text
    )
    ids = re.findall(r'<[^>]* id="([^"]*)"', text)
    assert len(ids) == len({*ids})
    references = re.findall(r'<[^>]* (?:href="#|aria-labelledby="|for=")([^"]*)"', text)
    assert references
    assert {*references} <= {*ids}


def test_the_page_begins_with_the_lines_of_the_answer_and_the_load() -> None:
    noise = Noise(other_cpus=1.7)
    trials = [trial(n, 8.0 / (1 + n), noise=noise) for n in (0, 2)]
    load = "other programs used 1.7 of 8 CPUs: measure again without them"
    for record, heading in (
        (search_result(*trials), "Set this"),
        (search_result(*trials, stop_reason=""), "Set this"),
        (
            search_result(trials[0], trial(4, 16.0, noise=noise), stop_reason=""),
            "Not certain yet",
        ),
        (search_result(trials[0], stop_reason=""), "Undecided"),
    ):
        found = summary_of_run(record)
        lines = found.configurations[0].conclusion
        text = page.report(found, [])
        start = html.unescape(text[text.index(f"{heading}</h2>") :])
        settings, gain = lines.answer.split("   ")
        parts = f'"setting">{settings}</span> <span class="gain">{gain}</span>'
        assert start.index("<dt>answer</dt>") < start.index(parts) < 500
        for name, line in lines.rows[1:]:
            assert f"<dt>{name}</dt><dd>{line}</dd>" in start
        assert text.count(load) == 1
        assert page.markdown(found).count(load) == 1
        assert ("DataLoader settings" in text) == (heading == "Set this")


BEST_OF_4 = {"batch_size": 64, "num_workers": 4}


def write(folder: Path) -> str:
    """Writes the report and returns its text; checks that all its files exist."""
    _, paths = writer.write(folder)
    assert paths[:2] == [folder / "report.html", folder / "report.md"]
    assert [path for path in paths if not path.exists()] == []
    text = paths[1].read_text()
    assert [name for name in pictures_of(text) if not (folder / name).is_file()] == []
    return text


def pictures_of(text: str) -> list[str]:
    return [
        bracketed or plain
        for bracketed, plain in re.findall(r"!\[[^]]*\]\((?:<(.+?)>|(\S+?))\)", text)
    ]


def section(text: str, title: str) -> str:
    """The body of the section of this title."""
    (body,) = re.findall(
        rf"^## {re.escape(title)}\n\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    return str(body)


def files_in(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
    )


# Of the grid; those of its configurations are not the report's.
PICTURES = ("time_vs_num_workers",)


def test_the_report_of_a_run_is_written_with_all_its_files_and_shows_what_was_measured_since(
    tmp_path: Path,
) -> None:
    folder = store_run(tmp_path, search_result(trial(0, 32.0), stop_reason=""))
    assert "the search did not finish" in write(folder)
    picture = (folder / "batch_times.png").read_bytes()
    recorded = recorded_trial(4, BatchCost(cpu_s=0.08, wait_s=0.0))
    storage.save(
        folder,
        search_result(trial(0, 32.0), replace(recorded, measurement=measurement(8.0))),
    )
    text = write(folder)
    assert "the search did not finish" not in text
    assert (folder / "batch_times.png").read_bytes() != picture
    pictures = ["time_vs_num_workers", "batch_times"]
    assert pictures_of(text) == [f"{name}.png" for name in pictures]
    assert files_in(folder) == sorted(
        [
            *(f"{name}.{suffix}" for name in pictures for suffix in ("png", "svg")),
            *("batches.csv", "best.yaml", "costs.csv"),
            *("report.html", "report.md", "result.json", "timings.csv"),
        ]
    )
    assert yaml.safe_load((folder / "best.yaml").read_text()) == BEST_OF_4
    assert text.startswith(
        "# Run run\n\n## Best settings\n\n- num_workers=4 2.5 to 7 times as fast as 0\n- why: "
    )


def test_the_report_of_a_run_names_its_host_every_trial_and_why_the_search_stopped() -> (
    None
):
    slow = failed_trial(2, "no |", TrialState.TIMEOUT)
    noisy = replace(
        recorded_trial(4, BatchCost(cpu_s=0.08, wait_s=0.0)), noise=Noise(steal=0.3)
    )
    text = page.markdown(
        summary_of_run(
            search_result(replace(noisy, measurement=measurement(8.0)), slow)
        )
    )
    host = section(text, "Host and method")
    assert (
        "node1: Example CPU, 8 usable of 16 CPUs, 68.7 GB memory, Linux-6.1-x86_64"
        in host
    )
    assert "Python 3.11.7, torch 2.4.0, torchvision 0.19.0, nws_sweep 0.1.0" in host
    assert (
        "\n- why: hidden by noise: the hypervisor took 30 % of the CPU time\n" in text
    )
    details, _, listed = section(text, "dataset=photos").partition("\n\n")
    assert "- stopped: all 4 candidates were measured" in details.splitlines()
    table = [line.split("|")[1:-1] for line in listed.splitlines()[:4]]
    header, _, failed, best = [[cell.strip() for cell in row] for row in table]
    assert header == [*snippets.TRIAL_HEADER]
    assert failed == ["2", *["-"] * 7, "timeout: no \\", ""]
    assert best == [
        *(
            "4",
            "about 50 to 90 ms",
            "about 700 to 1400",
            "4.0 s",
            "about 6 to 12 s",
            "75 %",
            "1.05 MB",
            "5",
            "ok",
        ),
    ]


def test_the_report_of_a_failed_run_has_the_reason(tmp_path: Path) -> None:
    folder = store_run(
        tmp_path,
        search_result(error="no such folder: <data>", stop_reason="", facts=None),
    )
    text = write(folder)
    assert "| photos  | failed " in section(text, "Best settings")
    assert (
        section(text, "Failures").strip()
        == "- dataset=photos: no such folder: &lt;data>"
    )
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    # and no empty sections
    assert titles == ["Best settings", "Failures", "dataset=photos", "Host and method"]
    body = section(text, "dataset=photos")
    assert body.startswith("Failed: no such folder: &lt;data>\n\n")
    assert pictures_of(text) == []
    assert yaml.safe_load((folder / "best.yaml").read_text()) is None


@pytest.mark.usefixtures("undrawn")
def test_the_report_of_a_grid_is_written_with_all_its_files(tmp_path: Path) -> None:
    """One configuration with a failed trial, one that was interrupted, one without a
    successful trial."""
    timeout = failed_trial(0, "no answer for 600 s", TrialState.TIMEOUT)
    grid = store_grid(
        tmp_path,
        search_result(
            trial(0, 32.0),
            failed_trial(2, "a < b"),
            trial(4, 8.0),
            columns={"batch_size": 64},
        ),
        search_result(trial(0, 16.0), columns={"batch_size": 128}, stop_reason=""),
        search_result(timeout, failed_trial(1), columns={"batch_size": 256}),
    )
    text = write(grid)
    own = ["batches.csv", "best.yaml", "costs.csv", "result.json", "timings.csv"]
    assert {*files_in(grid)} == {
        *("best.csv", "best.yaml", "report.html", "report.md"),
        *(
            "results.csv",
            *(
                f"{run.folder.name}/{file}"
                for run in storage.find(grid).runs
                for file in own
            ),
        ),
        *(
            f"plots/{picture}.{suffix}"
            for picture in PICTURES
            for suffix in ("png", "svg")
        ),
    }
    assert pictures_of(text) == [f"plots/{picture}.png" for picture in PICTURES]
    assert section(text, "Failures").splitlines()[:3] == [
        "- dataset=photos batch_size=64 num_workers=2: failed: a &lt; b",
        "- dataset=photos batch_size=256 num_workers=0: timeout: no answer for 600 s",
        "- dataset=photos batch_size=256 num_workers=1: failed: it broke",
    ]
    unfinished = section(text, "Best settings").split("\n\n")[0]
    assert unfinished.startswith(
        "- note: batch_size=128: undecided only num_workers=0 was measured: the search"
    )
    assert pd.read_csv(grid / "results.csv")["state"].tolist() == [
        "ok",
        "failed",
        "ok",
        "ok",
        "timeout",
        "failed",
    ]
    rows = pd.read_csv(grid / "best.csv")
    assert rows["num_workers"].dropna().tolist() == [4]
    assert rows["status"].tolist()[:2] == ["measured", "undecided"]
    best = yaml.safe_load((grid / "best.yaml").read_text())
    assert best[0] == {
        "configuration": {**COLUMNS, "batch_size": 64},
        "status": "measured",
        "loader": BEST_OF_4,
    }
    own = [
        yaml.safe_load((run.folder / "best.yaml").read_text())
        for run in storage.find(grid).runs
    ]
    assert own == [each["loader"] for each in best] == [BEST_OF_4, None, None]


def test_pictures_are_those_of_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer.try_pictures(tmp_path)
    assert re.search("could not be drawn(?s:.)*NotARunError", caplog.text)
    # without stages, so that one picture is not drawn
    recorded = recorded_trial(4, BatchCost(cpu_s=0.08, wait_s=0.0))
    folder = store_grid(
        tmp_path, *(search_result(recorded, columns={"seed": seed}) for seed in (1, 2))
    )
    first, second = (run.folder for run in storage.find(folder).runs)
    writer.try_pictures(first)
    assert {"batch_times.png", "batch_times.svg"} <= {*files_in(first)}
    (first / "batch_times.png").write_bytes(b"as it was")
    _, paths = writer.write(folder)
    assert (first / "batch_times.png").read_bytes() == b"as it was"
    assert f"{first.name}/batch_times.png" in pictures_of(
        (folder / "report.md").read_text()
    )
    assert not (second / "batch_times.png").exists()
    assert [path for path in paths if "plots" in path.relative_to(folder).parts] == [
        folder / "plots"
    ]
