import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
import tqdm
from rich.console import Console
from rich.progress import Progress

from nws_sweep.system import streams
from tests.conftest import becomes

_CODE = """
import os, subprocess, sys
from nws_sweep.system import streams
streams.prepare()
print("5.0 ms ±8 % … 世")
file = open(os.devnull)
child = subprocess.run([sys.executable, "-c", "import os; os.fstat(0), os.fstat(1), os.fstat(2)"])
sys.stdout.flush(); os._exit(10 * (file.fileno() > 2) + (child.returncode == 0))
"""


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_opened_here_and_in_children(closed: str) -> None:
    """A file with the number of standard output would get the printed text."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, _CODE], check=False
    )
    assert done.returncode == 11


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_no_log_is_written_through_a_link_or_waits_for_a_reader(
    tmp_path: Path, kind: str
) -> None:
    log, target = tmp_path / "trial.log", tmp_path / "target"
    target.touch()
    if kind == "link":
        log.symlink_to(target)
    else:
        os.mkfifo(log)
    if (process := os.fork()) == 0:
        streams.redirect(str(log))
        os.write(1, b"output")
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
    assert target.read_bytes() == b""


def test_characters_that_an_encoding_lacks_become_question_marks() -> None:
    command = [sys.executable, "-X", "utf8=0", "-c", _CODE]
    done = subprocess.run(
        command, env={"PYTHONIOENCODING": "latin-1"}, capture_output=True, check=False
    )
    assert done.stdout == b"5.0 ms \xb18 % ? ?\n"


def fails(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("Set changed size during iteration")


def redrawing() -> set[str]:
    """Returns the classes of the threads that redraw bars; other tests may have left
    other threads, which end at any time."""
    classes = {type(thread).__name__ for thread in threading.enumerate()}
    return classes & {"TMonitor", "_RefreshThread"}


def test_threads_that_redraw_bars_end() -> None:
    with (
        tqdm.tqdm(total=2, file=io.StringIO()),
        Progress(console=Console(file=io.StringIO())),
    ):
        assert redrawing() == {"TMonitor", "_RefreshThread"}
        streams.end_redrawing()
        assert not redrawing()


@pytest.mark.parametrize("module", ["tqdm", "rich"])
def test_bars_of_the_program_are_known(module: str) -> None:
    assert becomes(lambda: not streams.has_bars())
    bar: Any = Progress(console=Console(file=io.StringIO()))
    if module == "tqdm":
        bar = tqdm.tqdm(total=2, file=io.StringIO())
    with bar:
        assert streams.has_bars()
    # the thread of tqdm stays, that of rich ends a moment later
    assert becomes(lambda: not streams.has_bars())


@pytest.mark.parametrize("is_disturbed", [False, True])
def test_a_line_is_not_glued_to_a_bar(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_disturbed: bool,
) -> None:
    if is_disturbed:
        monkeypatch.setattr(tqdm.tqdm, "write", fails)
    with tqdm.tqdm(total=2, file=sys.stderr):
        streams.print_line("found")
    streams.print_line("no bar is shown")
    lines = re.split(r"[\r\n]+", capsys.readouterr().err)
    assert {"nws_sweep: found", "nws_sweep: no bar is shown"} < {*lines}
