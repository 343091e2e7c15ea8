import contextlib
import fcntl
import os
import re
import stat
from pathlib import Path

import pytest

from nws_sweep.errors import ConfigurationError
from nws_sweep.system import host_lock
from tests.children import as_user, child, line_of, shared_folder, tell

HOLDER = """
import sys
from nws_sweep.system import host_lock
with host_lock.held(sys.argv[1], print):
    print("ready", flush=True)
    input()
"""


def test_a_second_measurement_waits_and_says_so_with_the_length_of_the_wait(
    tmp_path: Path,
) -> None:
    lock_file = tmp_path / "nws.lock"
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        lines: list[str] = []

        def waiting(text: str) -> None:
            lines.append(text)
            if len(lines) == 1:
                assert holder.poll() is None
                tell(holder)  # the holder releases the lock now

        with host_lock.held(str(lock_file), waiting):
            pass
        line, waited = lines
        assert re.fullmatch(r"waited [\d.]+ \S+ for another measurement", waited)
        assert line.endswith(
            f": one at a time on this machine (`fuser {lock_file}` names it)"
        )
        holder.wait()


def test_without_a_path_there_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with host_lock.held(None, pytest.fail), host_lock.held(None, pytest.fail):
        assert not list(tmp_path.iterdir())


def test_an_impossible_lock_file_is_reported_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (
        tmp_path / "file/nws.lock",
        tmp_path / "file/folder/nws.lock",
        tmp_path / "missing/nws.lock",
    ):
        line = rf"^paths\.lock_file={path}: .*must be.*$"
        with (
            pytest.raises(ConfigurationError, match=line),
            host_lock.held(str(path), pytest.fail),
        ):
            pytest.fail("the block was entered")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_all_users_can_open_the_lock_and_an_exception_releases_it(
    tmp_path: Path,
) -> None:
    lock_file, before = tmp_path / "nws.lock", os.umask(0o077)
    try:
        with contextlib.suppress(ZeroDivisionError), host_lock.held(str(lock_file)):
            assert stat.S_IMODE(lock_file.stat().st_mode) == 0o666
            raise ZeroDivisionError
    finally:
        os.umask(before)
    with child(HOLDER, lock_file) as other:
        assert line_of(other) == "ready"


@pytest.mark.parametrize("kind", ["a directory", "a pipe", "a link", "a dangling link"])
def test_something_else_in_the_place_of_the_lock_stops_no_search_and_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("NWS_SWEEP_CACHE_DIR", str(tmp_path / "cache"))
    lock_file, target = tmp_path / "nws.lock", tmp_path / "target"
    if kind == "a directory":
        lock_file.mkdir()
    elif kind == "a pipe":
        os.mkfifo(lock_file)
    else:
        lock_file.symlink_to(target)
    if kind == "a link":
        target.touch(0o600)
    lines: list[str] = []
    own = tmp_path / "cache/nws_sweep.lock"
    with (
        host_lock.held(str(lock_file), pytest.fail, lines.append),
        own.open() as second,
        pytest.raises(BlockingIOError),  # other programs of the user wait
    ):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (line,) = lines
    assert re.fullmatch(
        rf"{lock_file} cannot be locked \(.*\): waits only .* by {tmp_path}/cache/nws_sweep.lock",
        line,
    )
    if kind == "a link":
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    else:
        assert not target.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
@pytest.mark.parametrize(("mode", "lines"), [(0o600, 1), (0o644, 0)])
def test_a_lock_file_that_another_user_has_closed_stops_no_search(
    monkeypatch: pytest.MonkeyPatch, mode: int, lines: int
) -> None:
    with shared_folder() as shared:
        monkeypatch.setenv("NWS_SWEEP_CACHE_DIR", str(shared / "cache"))
        lock_file = shared / "nws.lock"
        lock_file.touch(mode)
        said: list[str] = []

        def lock() -> None:
            with host_lock.held(str(lock_file), pytest.fail, said.append):
                assert len(said) == lines

        assert as_user(12345, lock) == 0


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a file to another user"
)
def test_a_lock_file_of_another_user_in_a_shared_folder_can_be_locked(
    tmp_path: Path,
) -> None:
    lock_file, shared, another = tmp_path / "shared/nws.lock", 0o1777, 12345
    lock_file.parent.mkdir()
    lock_file.parent.chmod(shared)
    with host_lock.held(str(lock_file)):
        os.chown(lock_file, another, another)
    with host_lock.held(str(lock_file), pytest.fail):
        pass
