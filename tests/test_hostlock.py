"""The host's lock between real processes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nws_sweep import hostlock
from nws_sweep.errors import ConfigurationError
from tests.children import child, line_of, tell

HOLDER = """
import sys
from nws_sweep import hostlock
with hostlock.held(sys.argv[1], "the other sweep", print):
    print("ready", flush=True)
    input()
"""


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    return tmp_path / "nws.lock"


def cards(lock_file: Path) -> list[str]:
    return [path.name for path in lock_file.parent.glob("*.by-*")]


def test_a_second_measurement_waits_and_says_for_whom(lock_file: Path) -> None:
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        said: list[str] = []

        def waiting(text: str) -> None:
            said.append(text)
            assert holder.poll() is None
            tell(holder)  # only now does it let go

        with hostlock.held(str(lock_file), "mine", waiting):
            assert said
        assert len(said) == 1
        assert "\n" not in said[0]
        for words in (f"process {holder.pid}", f"user {os.getuid()}", "the other sweep", str(lock_file)):
            assert words in said[0]
        holder.wait()


def test_another_waits_while_this_one_measures(lock_file: Path) -> None:
    with hostlock.held(str(lock_file), "mine"), child(HOLDER, lock_file) as other:
        assert f"process {os.getpid()}" in line_of(other)
        assert other.poll() is None
    assert not cards(lock_file)


def test_a_holder_that_is_killed_blocks_nobody(lock_file: Path) -> None:
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        holder.kill()
        holder.wait()
        assert cards(lock_file)
        with hostlock.held(str(lock_file), "mine", pytest.fail):
            assert "mine" in next(lock_file.parent.glob("*.by-*")).read_text()
        assert not cards(lock_file)


def test_a_holder_without_a_card_is_another_measurement(lock_file: Path) -> None:
    with child(HOLDER, lock_file) as holder:
        line_of(holder)
        for path in lock_file.parent.glob("*.by-*"):
            path.unlink()
        said: list[str] = []

        def waiting(text: str) -> None:
            said.append(text)
            tell(holder)

        with hostlock.held(str(lock_file), "mine", waiting):
            pass
        assert "waiting for another measurement" in said[0]


def test_without_a_path_nothing_is_locked_and_nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with hostlock.held(None, "first", pytest.fail), hostlock.held(None, "second", pytest.fail):
        assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_made_is_one_line_that_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file/nws.lock", tmp_path / "file/folder/nws.lock", tmp_path):
        with (
            pytest.raises(ConfigurationError) as caught,
            hostlock.held(str(path), "mine", pytest.fail),
        ):
            pytest.fail("the block was entered")
        assert str(caught.value).startswith(f"paths.lock_file={path}: ")
        assert "allowed is" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_all_users_may_open_the_lock_and_read_who_holds_it(lock_file: Path) -> None:
    before = os.umask(0o077)
    try:
        with hostlock.held(str(lock_file), "mine"):
            assert stat.S_IMODE(lock_file.stat().st_mode) == 0o666
            card = lock_file.with_name(f"{lock_file.name}.by-{os.getuid()}")
            assert stat.S_IMODE(card.stat().st_mode) == 0o644
    finally:
        os.umask(before)


def test_the_card_is_gone_afterwards(lock_file: Path) -> None:
    with hostlock.held(str(lock_file), "mine"):
        assert cards(lock_file) == [f"{lock_file.name}.by-{os.getuid()}"]
    assert not cards(lock_file)


def test_an_exception_passes_through_and_releases_the_lock(lock_file: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="in the block"), hostlock.held(str(lock_file), "mine"):
        raise ZeroDivisionError("in the block")
    assert not cards(lock_file)
    with child(HOLDER, lock_file) as other:
        assert line_of(other) == "ready"


def test_a_card_that_cannot_be_written_or_removed_does_no_harm(lock_file: Path) -> None:
    card = lock_file.with_name(f"{lock_file.name}.by-{os.getuid()}")
    card.mkdir()
    with hostlock.held(str(lock_file), "mine"):
        pass
    with child(HOLDER, lock_file) as other:
        assert line_of(other) == "ready"


def test_a_link_where_the_card_belongs_is_not_followed(lock_file: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    precious.chmod(0o600)
    lock_file.with_name(f"{lock_file.name}.by-{os.getuid()}").symlink_to(precious)
    with hostlock.held(str(lock_file), "mine"):
        pass
    assert precious.read_text() == "kept"
    assert stat.S_IMODE(precious.stat().st_mode) == 0o600


def test_the_lock_can_be_taken_again_and_again(lock_file: Path) -> None:
    for _ in range(3):
        with hostlock.held(str(lock_file), "mine", pytest.fail):
            pass
