import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from nws_sweep.system import processes, temporary
from tests.children import as_user, child, line_of, shared_folder

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


def test_only_folders_of_killed_programs_are_removed(place: Path) -> None:
    left = left_by_a_killed_program(place)
    theirs = {"nws_sweep-2024-11-05", "nws_sweep-trial-of-mine"}
    for name in theirs:
        (place / name).mkdir()
    with temporary.folder() as mine:
        # A socket below macOS's own folder.
        assert 48 + len(f"/{Path(mine).name}/pymp-12345678/listener-12345678") <= 103
        temporary.remove_stale()
        assert not left.exists()
        assert {path.name for path in place.iterdir()} == {*theirs, Path(mine).name}
    assert not Path(mine).exists()


def test_a_folder_that_others_may_enter_is_not_looked_at(place: Path) -> None:
    """Another user could name the shared memory that is removed."""
    left = left_by_a_killed_program(place)
    segment = register_with_segment(left, 4_000_000)
    left.chmod(0o701)
    (place / "nws_sweep-link").symlink_to(left)
    temporary.remove_stale()
    assert (left.exists(), segment.exists()) == (True, True)
    left.chmod(0o700)
    for name in ("foo", "-1", "0", "9" * 30, "²"):
        (left / f"{name}.process").touch()
    temporary.remove_stale()
    assert (left.exists(), segment.exists()) == (False, False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
def test_folders_of_another_user_disturb_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segment = Path("/dev/shm/torch_4000001_test")
    with shared_folder() as shared:
        monkeypatch.setattr(tempfile, "tempdir", str(shared))

        names = "foo", "-1", "4000001"

        def plant() -> None:
            os.umask(0)
            for name in names:
                folder = shared / f"nws_sweep-{name}"
                folder.mkdir()
                for file in (".in_use", f"{name}.process"):
                    (folder / file).touch()

        assert as_user(12345, plant) == 0
        assert as_user(12346, segment.touch) == 0
        for user in (0, 12346):  # root may remove any file
            assert as_user(user, temporary.remove_stale) == 0
        processes.remove_shared_memory([4000001])
        assert (segment.exists(), len([*shared.iterdir()])) == (True, len(names))
    segment.unlink()


def test_a_folder_that_is_being_made_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_shared_memory_of_exited_processes_is_removed_with_the_folder(
    place: Path,
) -> None:
    left = left_by_a_killed_program(place)
    with subprocess.Popen(["true"]) as gone:
        pass
    with (
        subprocess.Popen(["true"]) as zombie,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as dying,
    ):
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        segments = [
            register_with_segment(left, pid)
            for pid in (gone.pid, zombie.pid, dying.pid)
        ]
        temporary.remove_stale()
        assert [segment.exists() for segment in segments] == [False, False, True]
    temporary.remove_stale()
    assert not segments[-1].exists()
    assert not left.exists()


def test_shared_memory_that_a_process_of_another_container_uses_stays(
    place: Path,
) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    segment = register_with_segment(left_by_a_killed_program(place), gone.pid)
    with (
        segment.open("rb") as opened,
        subprocess.Popen(["sleep", "60"], stdin=opened) as other,
    ):
        opened.close()
        temporary.remove_stale()
        assert segment.exists()
        other.kill()
    processes.remove_shared_memory([gone.pid])
    assert not segment.exists()


def test_a_folder_is_removed_after_the_exit_of_its_processes(place: Path) -> None:
    with subprocess.Popen(["sleep", "0.3"]) as dying:
        with temporary.folder() as mine:
            segment = register_with_segment(Path(mine), dying.pid)
        assert not processes.running([dying.pid])
    assert not segment.exists()
    assert not Path(mine).exists()


def left_by_a_killed_program(place: Path) -> Path:
    with child(_PROGRAM, place) as program:
        return Path(line_of(program))


def register_with_segment(folder: Path, pid: int) -> Path:
    (folder / f"{pid}.process").touch()
    segment = Path(f"/dev/shm/torch_{pid}_test")
    segment.touch()
    return segment
