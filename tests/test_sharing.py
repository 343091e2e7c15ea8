"""What of a process a fork would not take along."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
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
    assert sharing.footprint().obstacle(before) == ""
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


def test_a_thread_that_is_just_ending_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_ENDED_WITHIN_S", 60.0)
    before, done = sharing.footprint(), threading.Event()
    threading.Thread(target=done.wait).start()
    try:
        assert "threads" in sharing.footprint().obstacle(before)
    finally:
        done.set()
    assert sharing.obstacle_since(before) == ""


def test_a_process_that_stood_still_itself_looks_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_ENDED_WITHIN_S", 0.0)
    looks = iter([2, 1])
    nothing = sharing.Footprint(threads=1, files=frozenset(), children=frozenset())
    monkeypatch.setattr(sharing, "footprint", lambda: replace(nothing, threads=next(looks)))
    assert sharing.obstacle_since(nothing) == ""


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
