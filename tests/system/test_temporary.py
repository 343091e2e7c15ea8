"""What killed processes leave in the temporary folder."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from nws_sweep.system import processes, temporary
from tests.children import child, line_of

_PROGRAM = """
import sys, tempfile
from pathlib import Path
from nws_sweep.system import temporary
tempfile.tempdir = sys.argv[1]
with temporary.folder() as path:
    Path(path, "socket").touch()
    print(path, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_process_left_is_removed_and_nothing_else(place: Path) -> None:
    left = left_by_a_killed_program(place)
    theirs = {"nws_sweep-2024-11-05", "nws_sweep-trial-of-mine"}  # as people may call their own
    for name in theirs:
        (place / name).mkdir()
    with temporary.folder() as mine:
        temporary.remove_stale()
        assert not left.exists()
        assert {path.name for path in place.iterdir()} == {*theirs, Path(mine).name}
    assert not Path(mine).exists()


def test_one_that_is_just_being_made_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def others_come_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        temporary.remove_stale()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", others_come_first)
    with temporary.folder() as mine:
        assert fcntl.flock is lock
        temporary.remove_stale()
        assert Path(mine).is_dir()


def test_shared_memory_of_noted_processes_goes_with_it_and_waits_for_one_that_still_runs(place: Path) -> None:
    """One that is killed between making a segment and unlinking it leaves it; no process may have waited for it yet."""
    left = left_by_a_killed_program(place)
    with subprocess.Popen(["true"]) as gone:
        pass
    with subprocess.Popen(["true"]) as zombie, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as dying:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        segments = [note_and_make_segment(left, pid) for pid in (gone.pid, zombie.pid, dying.pid)]
        temporary.remove_stale()
        assert [segment.exists() for segment in segments] == [False, False, True]
    temporary.remove_stale()
    assert not segments[-1].exists()
    assert not left.exists()


def test_a_folder_waits_for_the_end_of_its_processes(place: Path) -> None:
    with subprocess.Popen(["sleep", "0.3"]) as dying:
        with temporary.folder() as mine:
            segment = note_and_make_segment(Path(mine), dying.pid)
        assert not processes.running([dying.pid])
    assert not segment.exists()
    assert not Path(mine).exists()


def left_by_a_killed_program(place: Path) -> Path:
    with child(_PROGRAM, place) as program:
        return Path(line_of(program))


def note_and_make_segment(folder: Path, pid: int) -> Path:
    (folder / f"{pid}.process").touch()
    segment = Path(f"/dev/shm/torch_{pid}_test")
    segment.touch()
    return segment


def test_a_program_that_lives_keeps_its_folder_whatever_its_number_is(place: Path) -> None:
    """In another container of the same machine process numbers mean nothing."""
    with child(_PROGRAM, place) as living:
        path = Path(line_of(living))
        temporary.remove_stale()
        assert (path / "socket").exists()
