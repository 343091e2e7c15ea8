import contextlib
import os
import stat
from pathlib import Path

import pytest

from nws_sweep.errors import ConfigurationError
from nws_sweep.system import host_lock
from tests.children import child, line_of, tell

HOLDER = """
import sys
from nws_sweep.system import host_lock
with host_lock.held(sys.argv[1], print):
    print("ready", flush=True)
    input()
"""


def test_a_second_measurement_waits_and_says_so_once(tmp_path: Path) -> None:
    lock_file = tmp_path / "nws.lock"
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        lines: list[str] = []

        def waiting(text: str) -> None:
            lines.append(text)
            assert holder.poll() is None
            tell(holder)  # the holder releases the lock now

        with host_lock.held(str(lock_file), waiting):
            pass
        (line,) = lines
        assert line.endswith(f": one at a time on this machine (`fuser {lock_file}` names it)")
        holder.wait()


def test_without_a_path_there_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with host_lock.held(None, pytest.fail), host_lock.held(None, pytest.fail):
        assert not list(tmp_path.iterdir())


def test_an_impossible_lock_file_is_reported_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file/nws.lock", tmp_path / "file/folder/nws.lock", tmp_path):
        line = rf"^paths\.lock_file={path}: .*must be.*$"
        with pytest.raises(ConfigurationError, match=line), host_lock.held(str(path), pytest.fail):
            pytest.fail("the block was entered")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_all_users_can_open_the_lock_and_an_exception_releases_it(tmp_path: Path) -> None:
    lock_file, before = tmp_path / "nws.lock", os.umask(0o077)
    try:
        with contextlib.suppress(ZeroDivisionError), host_lock.held(str(lock_file)):
            assert stat.S_IMODE(lock_file.stat().st_mode) == 0o666
            raise ZeroDivisionError
    finally:
        os.umask(before)
    with child(HOLDER, lock_file) as other:
        assert line_of(other) == "ready"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_lock_file_of_another_user_in_a_shared_folder_can_be_locked(tmp_path: Path) -> None:
    lock_file, shared, another = tmp_path / "shared/nws.lock", 0o1777, 12345
    lock_file.parent.mkdir()
    lock_file.parent.chmod(shared)
    with host_lock.held(str(lock_file)):
        os.chown(lock_file, another, another)
    with host_lock.held(str(lock_file), pytest.fail):
        pass
