"""The output of a grid without a terminal."""

import sys
import time

import pytest

from nws_sweep import verbosity
from nws_sweep.hydra_app.grid import Plan
from nws_sweep.hydra_app.terminal import View
from tests.factories import (
    configuration,
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
    view.announce(
        Plan(configurations=5, candidates=(0, 2), tried=2, at_most_s=60.0, varying=())
    )
    view.configuration_finished("known", found)
    for label, took_s in (("first", 10.0), ("second", 20.0)):
        view.configuration_started(label)
        now[0] += took_s
        view.trial_finished(found.trials[0], configuration())
        view.search_finished(found)
    view.configuration_started("third")
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0]
        == "5 configurations, up to 2 candidates each (num_workers 0, 2), at most about 60.0 s"
    )
    assert [line for line in lines if line.startswith("[")] == [
        "[1/5] known: measured before, best: num_workers=2 (measured)",
        "[2/5] first",
        "[3/5] second  (about 30.0 s left)",
        "[4/5] third  (about 30.0 s left)",
    ]
    for label in ("fifth", "another point that a sweeper such as Optuna's has chosen"):
        view.configuration_started(label)
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .startswith("[6/6] another point that a sweeper such as Optuna's")
    )


def test_many_candidates_are_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    candidates = tuple(2**power for power in range(11))
    View().announce(
        Plan(
            configurations=1, candidates=candidates, tried=3, at_most_s=None, varying=()
        )
    )
    line = "1 configuration, up to 3 of 11 candidates each (num_workers 1 to 1024)"
    assert capsys.readouterr().out.startswith(line)


def test_quiet_leaves_the_first_lines_of_answers_and_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(verbosity.VARIABLE, "quiet")
    view, result = View(), search_result(trial(2, 4.0))
    view.announce(
        Plan(configurations=1, candidates=(0, 2), tried=2, at_most_s=60.0, varying=())
    )
    view.status("preparing")
    view.configuration_started("a label")
    view.trial_finished(result.trials[0], configuration())
    view.search_finished(result)
    assert not capsys.readouterr().out
    view.note("the report could not be written")
    view.conclude(summary_of_run(result), [])
    assert capsys.readouterr().out.splitlines() == [
        "note: the report could not be written",
        "best: num_workers=2 (measured)",
    ]
    measured = search_result(trial(2, 4.0), columns={"batch_size": 32})
    failed = search_result(failed_trial(0), columns={"batch_size": 64})
    view.conclude(summary_of_grid(measured, failed), [])
    first, second, failure = capsys.readouterr().out.splitlines()
    assert first == "dataset=photos batch_size=32: best: num_workers=2 (measured)"
    assert second.startswith("dataset=photos batch_size=64: ")
    assert failure.startswith("failed: dataset=photos batch_size=64")


def test_the_bar_of_a_grid_shows_the_time_that_is_left_at_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    view = View()
    view.announce(
        Plan(configurations=2, candidates=(0, 2), tried=2, at_most_s=90.0, varying=())
    )
    for now[0], left in ((30.0, "1:30"), (70.0, "0:50")):
        view.slice_started(2)
        view._progress.refresh()
        assert f"at most {left} left" in capsys.readouterr().out
    view.stop()
