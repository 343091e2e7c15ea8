import io
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from nws_sweep import verbosity
from nws_sweep.report import progress
from nws_sweep.report.progress_bar import NotebookBar, TerminalBar
from nws_sweep.system import streams
from nws_sweep.verbosity import Verbosity
from tests.factories import search_result, trial

RESULT = search_result(trial(0, 8.0), trial(2, 4.0))


Terminal = pytest.CaptureFixture[str]  # its standard error


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(verbosity.VARIABLE, "")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: Terminal) -> Terminal:
    # pytest replaces sys.stderr between a fixture and the test
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda file: True)
    monkeypatch.setattr(streams, "has_bars", lambda: False)
    return capsys


def search(progress_: Any = None) -> None:
    """The events of a search."""
    reporter = progress.ProgressReporter(progress_)
    reporter.note("waiting for another search")
    reporter.begin(60.0)
    reporter.slice_started(2)
    reporter.trial_finished(RESULT, RESULT.trials[1])
    reporter.search_finished(RESULT)


def test_the_bar_shows_the_time_that_is_left_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    output = io.StringIO()
    bar = TerminalBar(75.0, Console(file=output, force_terminal=True, width=80))
    threads = {*threading.enumerate()}
    for after_s in (0.0, 14.5, 90.0):
        now_s[0] = 100.0 + after_s
        bar.show("measuring num_workers=4")
    # none draws while a window is timed
    assert {*threading.enumerate()} <= threads
    bar.print_line("a line [bold]of ours")
    bar.close()
    shown = output.getvalue()
    positions = [
        shown.index(f"at most {left} left") for left in ("1:15", "1:01", "0:00")
    ]
    assert positions == sorted(positions)
    assert "nws_sweep: a line [bold]of ours\n" in shown


def test_without_a_limit_no_time_is_left() -> None:
    output = io.StringIO()
    bar = TerminalBar(float("inf"), Console(file=output, force_terminal=True, width=80))
    bar.show("measuring num_workers=4")
    bar.close()
    assert "num_workers=4" in output.getvalue()
    assert "left" not in output.getvalue()


@pytest.mark.parametrize(
    ("chosen", "has_note", "has_bar", "has_row"),
    [
        (Verbosity.QUIET, False, False, False),
        (Verbosity.NORMAL, True, True, False),
        (Verbosity.VERBOSE, True, True, True),
    ],
)
def test_what_a_search_prints_on_a_terminal(
    chosen: Verbosity, has_note: bool, has_bar: bool, has_row: bool, terminal: Terminal
) -> None:
    verbosity.choose(chosen)
    search()
    shown = terminal.readouterr().err
    assert ("waiting for another search" in shown) == has_note
    assert ("measuring num_workers=2" in shown) == has_bar
    assert ("measured num_workers=2" in shown) == has_row
    assert "num_workers=2   1.2 to 3.3 times as fast as 0" in shown


def test_verbose_prints_each_candidate_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    search()
    assert len(capsys.readouterr().err.splitlines()) == 2
    verbosity.choose(Verbosity.VERBOSE)
    search()
    assert "measured num_workers=2" in capsys.readouterr().err


def test_an_argument_counts_before_the_environment(terminal: Terminal) -> None:
    verbosity.choose(Verbosity.QUIET)
    search(True)
    assert "waiting for another search" in terminal.readouterr().err
    lines: list[str] = []
    search(lines.append)
    assert len(lines) == 3
    assert not terminal.readouterr().err


def test_quiet_is_the_first_line_of_an_answer(terminal: Terminal) -> None:
    verbosity.choose(Verbosity.QUIET)
    progress.announcer(None)("num_workers=2\nwhy the CPUs are busy")
    assert terminal.readouterr().err == "nws_sweep: num_workers=2\n"


@pytest.mark.parametrize("reason", ["dumb", "bars", "file"])
def test_lines_are_printed_where_no_bar_can_be_drawn(
    reason: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    if reason == "bars":
        monkeypatch.setattr(streams, "has_bars", lambda: True)
    if reason == "file":
        monkeypatch.setattr(type(sys.stderr), "isatty", lambda file: False)
    search(True)
    note, row, answer = terminal.readouterr().err.splitlines()
    assert note.endswith("waiting for another search")
    assert "measured num_workers=2" in row
    assert "times as fast as 0" in answer


def test_a_notebook_shows_the_bar_in_its_cell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    def display(bar: Any, display_id: bool) -> Any:
        assert display_id
        update(bar)
        return SimpleNamespace(update=update)

    def update(bar: Any) -> None:
        shown.append(bar._repr_mimebundle_((), ())["text/plain"])

    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(
        sys.modules, "IPython.display", SimpleNamespace(display=display)
    )
    search()
    drawn, emptied = shown
    assert "measuring num_workers=2" in drawn
    assert "at most 1:00 left" in drawn
    assert not emptied.strip()
    assert "times as fast as 0" in capsys.readouterr().out
    assert NotebookBar(60.0).is_drawn


def test_an_answer_is_left_to_the_report_that_follows() -> None:
    lines: list[str] = []
    with progress.report_to_follow():
        search(lines.append)
    assert [line for line in lines if " times as fast as " in line] == []


def test_lines_are_in_the_notation_of_python() -> None:
    lines: list[str] = []
    reporter = progress.ProgressReporter(lines.append)
    for tell in (reporter.print_line, reporter.note, reporter.answer):
        tell("num_workers=2 persistent_workers=true")
    assert lines == ["num_workers=2 persistent_workers=True"] * 3
