"""The host's lock between real processes."""

from __future__ import annotations

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
with host_lock.held(sys.argv[1], "the other sweep", print):
    print("ready", flush=True)
    input()
"""


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    return tmp_path / "nws.lock"


def notes(lock_file: Path) -> list[str]:
    return [path.name for path in lock_file.parent.glob("*.by-*")]


@pytest.mark.parametrize("has_note", [True, False])
def test_a_second_measurement_waits_and_names_the_holder(lock_file: Path, has_note: bool) -> None:
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        lines: list[str] = []
        if not has_note:
            lock_file.with_name(*notes(lock_file)).unlink()

        def waiting(text: str) -> None:
            lines.append(text)
            assert holder.poll() is None
            tell(holder)  # the holder releases the lock now

        with host_lock.held(str(lock_file), "mine", waiting):
            (line,) = lines
        names = (f"process {holder.pid} of user {os.getuid()}", "the other sweep")
        for words in (str(lock_file), *(names if has_note else ["waiting for another measurement"])):
            assert words in line
        holder.wait()


def test_a_killed_holder_releases_the_lock(lock_file: Path) -> None:
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        holder.kill()
        holder.wait()
        assert notes(lock_file)
        with host_lock.held(str(lock_file), "mine", pytest.fail):
            assert "mine" in next(lock_file.parent.glob("*.by-*")).read_text()
        assert not notes(lock_file)


def test_without_a_path_there_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with host_lock.held(None, "first", pytest.fail), host_lock.held(None, "second", pytest.fail):
        assert not list(tmp_path.iterdir())


def test_an_impossible_lock_file_is_reported_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file/nws.lock", tmp_path / "file/folder/nws.lock", tmp_path):
        with pytest.raises(ConfigurationError) as caught, host_lock.held(str(path), "mine", pytest.fail):
            pytest.fail("the block was entered")
        assert str(caught.value).startswith(f"paths.lock_file={path}: ")
        assert "allowed is" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_all_users_can_open_the_lock_and_an_exception_releases_it(lock_file: Path) -> None:
    before = os.umask(0o077)
    try:
        with contextlib.suppress(ZeroDivisionError), host_lock.held(str(lock_file), "mine"):
            assert stat.S_IMODE(lock_file.stat().st_mode) == 0o666
            (note,) = notes(lock_file)
            assert stat.S_IMODE(lock_file.with_name(note).stat().st_mode) == 0o644
            raise ZeroDivisionError
    finally:
        os.umask(before)
    assert not notes(lock_file)
    with child(HOLDER, lock_file) as other:
        assert line_of(other) == "ready"


def test_links_and_folders_in_place_of_the_note_do_no_harm(lock_file: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    precious.chmod(0o600)
    note = lock_file.with_name(f"{lock_file.name}.by-{os.getuid()}")
    note.symlink_to(precious)
    with host_lock.held(str(lock_file), "mine"):
        note.unlink()
        note.mkdir()  # cannot be removed
    with host_lock.held(str(lock_file), "mine", pytest.fail):  # nor written
        assert (precious.read_text(), stat.S_IMODE(precious.stat().st_mode)) == ("kept", 0o600)
