"""What killed processes leave in the temporary folder."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nws_sweep import processes, temporary

_KILLED = """
import os, signal, sys, tempfile
from pathlib import Path
from nws_sweep import temporary
tempfile.tempdir = sys.argv[1]
with temporary.folder() as path:
    Path(path, "socket").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_process_left_is_removed_and_nothing_else(place: Path) -> None:
    left = left_by_a_killed_program(place)
    for name in ("nws_sweep-2024-11-05", "nws_sweep-arm-of-mine"):  # as people may call their own
        (place / name).mkdir()
    with temporary.folder() as mine:
        temporary.remove_left()
        assert not left.exists()
        assert Path(mine).is_dir()
        assert {path.name for path in place.iterdir()} == {
            "nws_sweep-2024-11-05", "nws_sweep-arm-of-mine", Path(mine).name,
        }  # fmt: skip
    assert not Path(mine).exists()


def test_one_that_is_just_being_made_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def others_come_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        temporary.remove_left()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", others_come_first)
    with temporary.folder() as mine:
        assert fcntl.flock is lock
        temporary.remove_left()
        assert Path(mine).is_dir()


def test_shared_memory_of_noted_processes_goes_with_it(place: Path) -> None:
    """One that is killed between making a segment and unlinking it leaves it; nobody may have waited for it yet."""
    left = left_by_a_killed_program(place)
    with subprocess.Popen(["true"]) as gone:
        pass
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        segments = [note_and_make_segment(left, pid) for pid in (gone.pid, zombie.pid)]
        temporary.remove_left()
        assert not any(segment.exists() for segment in segments)
        assert not left.exists()


def test_a_noted_process_that_still_runs_is_left_for_a_later_program(place: Path) -> None:
    left = left_by_a_killed_program(place)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as dying:
        segment = note_and_make_segment(left, dying.pid)
        temporary.remove_left()
        before = segment.exists()
    temporary.remove_left()
    assert (before, segment.exists()) == (True, False)
    assert not left.exists()


def test_a_folder_waits_for_the_end_of_its_processes(place: Path) -> None:
    with subprocess.Popen(["sleep", "0.3"]) as dying:
        with temporary.folder() as mine:
            segment = note_and_make_segment(Path(mine), dying.pid)
        assert not processes.running([dying.pid])
    assert not segment.exists()
    assert not Path(mine).exists()


def left_by_a_killed_program(place: Path) -> Path:
    subprocess.run([sys.executable, "-c", _KILLED, str(place)], check=False)
    (left,) = place.iterdir()
    return left


def note_and_make_segment(folder: Path, pid: int) -> Path:
    (folder / f"{pid}.process").touch()
    segment = Path(f"/dev/shm/torch_{pid}_test")
    segment.touch()
    return segment


def test_a_program_that_lives_keeps_its_folder_whatever_its_number_is(place: Path) -> None:
    """In another container of the same machine process numbers mean nothing."""
    code = _KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "print(path, flush=True); input()")
    with subprocess.Popen(
        [sys.executable, "-c", code, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as living:
        assert living.stdout is not None
        path = Path(living.stdout.readline().strip())
        temporary.remove_left()
        assert (path / "socket").exists()
        living.communicate("\n")
    assert not path.exists()
