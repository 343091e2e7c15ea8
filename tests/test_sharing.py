"""What of a process a fork would not take along."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nws_sweep import sharing


def test_threads_that_end_meanwhile_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    before, tasks = sharing.footprint(), Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        yield from tasks(path)
        yield path / "4194305"  # more than any process ID: it ended just after the threads were listed

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert sharing.obstacle_since(before) == ""


def test_a_thread_that_is_just_ending_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    before, done = sharing.footprint(), threading.Event()
    monkeypatch.setattr(time, "sleep", lambda seconds: done.set())
    threading.Thread(target=done.wait).start()
    assert sharing.obstacle_since(before) == ""
    assert done.is_set()


def test_what_stays_is_an_obstacle(tmp_path: Path) -> None:
    before, done = sharing.footprint(), threading.Event()
    with (tmp_path / "data").open("w"), subprocess.Popen(["sleep", "60"]) as process:
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            assert sharing.obstacle_since(before) == "threads, open files, child processes"
        finally:
            process.kill()
            done.set()
            thread.join()
    assert sharing.obstacle_since(before) == ""
