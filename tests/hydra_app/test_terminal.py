"""The output of a grid without a terminal."""

import sys
import time
from pathlib import Path

import pytest

from nws_sweep import verbosity
from nws_sweep.analysis.summary import Summary
from nws_sweep.hydra_app import terminal
from nws_sweep.hydra_app.grid import Plan
from nws_sweep.hydra_app.terminal import View
from tests.factories import (
    failed_trial,
    search_result,
    summary_of_grid,
    summary_of_run,
    trial,
)


def test_reused_results_take_no_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    view, found = View(), search_result(trial(2, 4.0))
    view.announce(Plan(configurations=5, tried=2, at_most_s=60.0, varying=()))
    view.configuration_finished("known", found)
    for label, took_s in (("first", 10.0), ("second", 20.0)):
        view.configuration_started(label)
        now[0] += took_s
        view.trial_finished(found.trials[0], found)
        view.search_finished(found)
    view.configuration_started("third")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5 searches, at most about 60 s"
    assert [line for line in lines if line.startswith("[")] == [
        "[1/5] known: measured before, num_workers=2   nothing else could be measured",
        "[2/5] first",
        "[3/5] second  (about 30 s left)",
        "[4/5] third  (about 30 s left)",
    ]
    for label in ("fifth", "another point that a sweeper such as Optuna's has chosen"):
        view.configuration_started(label)
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .startswith("[6/6] another point that a sweeper such as Optuna's")
    )


def shown(
    summary: Summary,
    level: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    """The lines of the last screen without those of tables."""
    monkeypatch.setenv(verbosity.VARIABLE, level)
    View().conclude(summary, [Path("runs/one/report.html"), Path("runs/one/best.yaml")])
    lines = capsys.readouterr().out.splitlines()
    return [
        line
        for line in lines
        if line and line[0] not in " ─|" and "   per batch" not in line
    ]


def test_a_run_shows_the_answer_its_failures_and_the_report_and_verbose_the_details(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = summary_of_run(
        search_result(trial(0, 32.0), trial(2, 8.0), failed_trial(4))
    )
    answer = "num_workers=2   2.5 to 7 times as fast as 0"
    failed = "failed dataset=photos num_workers=4: failed: it broke"
    usual = [answer, "cost   8.0 s, 1.0 epochs", failed, "report runs/one/report.html"]
    assert shown(found, "normal", monkeypatch, capsys) == usual
    assert shown(found, "quiet", monkeypatch, capsys) == [answer, failed]
    verbose = shown(found, "verbose", monkeypatch, capsys)
    assert verbose == [
        *usual[:-1],
        "stopped: all 4 candidates were measured",
        usual[-1],
    ]


def test_a_grid_shows_a_table_with_twins_in_a_row_and_what_stands_below_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = summary_of_grid(
        *(
            search_result(trial(0, 8.0), columns={"pin_memory": pinned})
            for pinned in (True, False)
        )
    )
    View().conclude(found, [])
    text = capsys.readouterr().out
    assert "true or false" in text
    assert text.rstrip().endswith("cost   16 s")


def test_a_narrow_table_leaves_out_names_and_figures_and_breaks_no_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = summary_of_grid(
        *(
            search_result(
                trial(0, 8.0),
                trial(workers, 4.0),
                columns={"dataset": name, "batch_size": 64 * workers},
            )
            for workers, name in ((1, "photos"), (2, "objects"))
        )
    )
    monkeypatch.setattr(terminal, "_PLAIN_WIDTH", 40)
    View().conclude(found, [])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["dataset", "num_workers", "vs", "0", "workers"],
        ["─" * len(lines[2])],
        ["photos", "1", "1.2x", "to", "3.3x"],
        ["objects", "2", "1.2x", "to", "3.3x"],
    ]


def test_quiet_leaves_the_first_lines_of_answers_and_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(verbosity.VARIABLE, "quiet")
    view, result = View(), search_result(trial(2, 4.0))
    view.announce(Plan(configurations=1, tried=2, at_most_s=60.0, varying=()))
    view.status("preparing")
    view.configuration_started("a label")
    view.trial_finished(result.trials[0], result)
    view.search_finished(result)
    assert not capsys.readouterr().out
    view.note("the report could not be written")
    view.conclude(summary_of_run(result), [])
    assert capsys.readouterr().out.splitlines() == [
        "note: the report could not be written",
        "num_workers=2   nothing else could be measured",
    ]
    measured = search_result(trial(2, 4.0), columns={"batch_size": 32})
    failed = search_result(failed_trial(0), columns={"batch_size": 64})
    view.conclude(summary_of_grid(measured, failed), [])
    first, second, failure = capsys.readouterr().out.splitlines()
    assert (
        first
        == "dataset=photos batch_size=32: num_workers=2   nothing else could be measured"
    )
    assert second.startswith("dataset=photos batch_size=64: ")
    assert failure.startswith("failed dataset=photos batch_size=64")


def test_the_bar_of_a_grid_shows_the_time_that_is_left_at_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    view = View()
    view.announce(Plan(configurations=2, tried=2, at_most_s=90.0, varying=()))
    for now[0], left in ((30.0, "1:30"), (70.0, "0:50")):
        view.slice_started(2)
        view._progress.refresh()
        assert f"at most {left} left" in capsys.readouterr().out
    view.stop()
