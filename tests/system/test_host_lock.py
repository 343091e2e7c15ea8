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


def cards(lock_file: Path) -> list[str]:
    return [path.name for path in lock_file.parent.glob("*.by-*")]


@pytest.mark.parametrize("has_card", [True, False])
def test_a_second_measurement_waits_and_says_for_whom(lock_file: Path, has_card: bool) -> None:
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        said: list[str] = []
        if not has_card:
            lock_file.with_name(*cards(lock_file)).unlink()

        def waiting(text: str) -> None:
            said.append(text)
            assert holder.poll() is None
            tell(holder)  # only now does it let go

        with host_lock.held(str(lock_file), "mine", waiting):
            (line,) = said
        names = (f"process {holder.pid} of user {os.getuid()}", "the other sweep")
        for words in (str(lock_file), *(names if has_card else ["waiting for another measurement"])):
            assert words in line
        holder.wait()


def test_a_holder_that_is_killed_blocks_nobody(lock_file: Path) -> None:
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        holder.kill()
        holder.wait()
        assert cards(lock_file)
        with host_lock.held(str(lock_file), "mine", pytest.fail):
            assert "mine" in next(lock_file.parent.glob("*.by-*")).read_text()
        assert not cards(lock_file)


def test_without_a_path_nothing_is_locked_and_nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with host_lock.held(None, "first", pytest.fail), host_lock.held(None, "second", pytest.fail):
        assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_made_is_one_line_that_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file/nws.lock", tmp_path / "file/folder/nws.lock", tmp_path):
        with pytest.raises(ConfigurationError) as caught, host_lock.held(str(path), "mine", pytest.fail):
            pytest.fail("the block was entered")
        assert str(caught.value).startswith(f"paths.lock_file={path}: ")
        assert "allowed is" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_all_users_may_open_the_lock_and_read_who_holds_it_and_an_exception_releases_it(lock_file: Path) -> None:
    before = os.umask(0o077)
    try:
        with contextlib.suppress(ZeroDivisionError), host_lock.held(str(lock_file), "mine"):
            assert stat.S_IMODE(lock_file.stat().st_mode) == 0o666
            (card,) = cards(lock_file)
            assert stat.S_IMODE(lock_file.with_name(card).stat().st_mode) == 0o644
            raise ZeroDivisionError
    finally:
        os.umask(before)
    assert not cards(lock_file)
    with child(HOLDER, lock_file) as other:
        assert line_of(other) == "ready"


def test_what_others_put_where_the_card_belongs_does_no_harm(lock_file: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    precious.chmod(0o600)
    card = lock_file.with_name(f"{lock_file.name}.by-{os.getuid()}")
    card.symlink_to(precious)
    with host_lock.held(str(lock_file), "mine"):
        card.unlink()
        card.mkdir()  # can neither be removed
    with host_lock.held(str(lock_file), "mine", pytest.fail):  # nor written
        assert (precious.read_text(), stat.S_IMODE(precious.stat().st_mode)) == ("kept", 0o600)
