"""What of a process a fork would not take along."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from nws_sweep.executor import forking


def test_threads_that_are_just_ending_and_files_that_are_just_closed_are_no_obstacle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, done, listed = forking.footprint(), threading.Event(), Path.iterdir
    # The last one, a larger number than any has, was gone just after it was listed.
    monkeypatch.setattr(Path, "iterdir", lambda folder: [*listed(folder), folder / "4194305"])
    monkeypatch.setattr(time, "sleep", lambda seconds: done.set())
    threading.Thread(target=done.wait).start()
    assert forking.obstacle_since(before) == ""
    assert done.is_set()


def test_what_stays_is_an_obstacle(tmp_path: Path) -> None:
    before, done = forking.footprint(), threading.Event()
    with (tmp_path / "data").open("w"), subprocess.Popen(["sleep", "60"]) as process:
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            assert forking.obstacle_since(before) == "threads, open files, child processes"
        finally:
            process.kill()
            done.set()
            thread.join()
    assert forking.obstacle_since(before) == ""
