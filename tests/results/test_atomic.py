"""Files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from nws_sweep.results import atomic


def test_writing_replaces_a_file_whole_with_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old and longer")
    old_mask = os.umask(0o027)
    try:
        atomic.write_text(path, "ä\r\n")
    finally:
        os.umask(old_mask)
    assert path.read_bytes() == "ä\r\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_when_renaming_is_interrupted_the_old_content_stays_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Path, target: Path) -> Path:
        assert (self.read_text(), target.read_text()) == ("new", "old")
        raise KeyboardInterrupt

    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure after the renaming must find the content, and the renaming itself."""
    synced: list[str] = []
    path = tmp_path / "result.json"

    def sync(descriptor: int) -> None:
        synced.append(f"{'folder' if Path(f'/proc/self/fd/{descriptor}').is_dir() else 'file'}, there: {path.exists()}")

    monkeypatch.setattr(os, "fsync", sync)
    atomic.write_text(tmp_path / "plot.svg", "others cost no wait for the disk")
    atomic.write_text(path, "all of it", durable=True)
    assert synced == ["file, there: False", "folder, there: True"]


def test_a_home_is_put_in_and_without_one_a_folder_of_that_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert atomic.expand_user("~/.cache/x") == Path("/home/me/.cache/x")
    assert atomic.expand_user("data/~x") == Path("data/~x")

    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", unknown)
    instead = Path(tempfile.gettempdir()) / f"nws_sweep_home_of_{os.getuid()}"
    assert atomic.expand_user("~/.cache/x") == instead / ".cache" / "x"


def test_what_is_set_aside_gets_a_number_that_is_free(tmp_path: Path) -> None:
    path = tmp_path / "batches.csv"
    for content in ("one", "two"):
        path.write_text(content)
        atomic.set_aside(path, "interrupted")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        "batches.csv.interrupted-1": "one",
        "batches.csv.interrupted-2": "two",
    }


def test_what_is_left_of_a_write_that_was_killed_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {".nws_sweep", ".result.json-abc", "result.json", "nws_sweep-result.json-abc"}
    for name in kept:
        (tmp_path / name).touch()
    monkeypatch.setattr(Path, "replace", lambda temporary, path: os._exit(0))
    if (pid := os.fork()) == 0:
        atomic.write_text(tmp_path / "report.html", "half of it")
    os.waitpid(pid, 0)
    assert len(list(tmp_path.iterdir())) == len(kept) + 1
    atomic.remove_temporary(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == kept


def test_the_names_of_new_folders_last_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, synced = tmp_path / "grid" / "job", []
    folder.mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").resolve()))
    atomic.sync_parents(folder)
    assert synced[:2] == [tmp_path / "grid", tmp_path]
