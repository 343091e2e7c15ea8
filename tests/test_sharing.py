"""What of a process a fork would not take along."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nws_sweep import sharing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

NOBODY = 2**22 + 1  # more than any process ID


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each of these names a thread that has ended just after the threads were listed, once."""
    names: list[str] = []
    really = os.scandir

    def scandir(path: str) -> Iterator[Any]:
        yield from (SimpleNamespace(path=f"{path}/{names.pop()}") for _ in names[:1])
        yield from really(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return names


def test_threads_that_end_meanwhile_are_not_counted(ended: list[str]) -> None:
    before = sharing.footprint()
    ended += [str(NOBODY), str(NOBODY + 1)]
    assert sharing.footprint() == before
    assert not ended


def test_a_system_that_does_not_tell_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without the children of a thread."""
    really = Path.read_text

    def read_text(path: Path, **how: Any) -> str:
        if path.name == "children":
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return really(path, **how)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert not sharing.can_be_told()


def test_a_thread_that_is_just_ending_is_no_obstacle() -> None:
    before = sharing.footprint()
    threading.Thread(target=time.sleep, args=(0.03,)).start()
    assert "threads" in sharing.footprint().obstacle(before)
    assert sharing.obstacle_since(before) == ""


def test_what_stays_is_an_obstacle(tmp_path: Path) -> None:
    before, done = sharing.footprint(), threading.Event()
    with (tmp_path / "data").open("w"), subprocess.Popen(["sleep", "60"]) as process:
        threading.Thread(target=done.wait).start()
        try:
            assert sharing.obstacle_since(before) == "threads, open files, child processes"
        finally:
            process.kill()
            done.set()
    assert sharing.obstacle_since(before) == ""
