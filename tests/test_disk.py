"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nws_sweep import disk


def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure after the renaming must find the content, and the renaming itself."""
    synced: list[str] = []
    path = tmp_path / "result.json"

    def sync(descriptor: int) -> None:
        synced.append(f"{'folder' if Path(f'/proc/self/fd/{descriptor}').is_dir() else 'file'}, there: {path.exists()}")

    monkeypatch.setattr(os, "fsync", sync)
    disk.write_text(path, "all of it", durable=True)
    assert synced == ["file, there: False", "folder, there: True"]
    assert path.read_text() == "all of it"


def test_other_files_cost_no_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("waited for the disk"))
    disk.write_text(tmp_path / "plot.svg", "quick")


def test_what_is_set_aside_gets_a_number_that_is_free(tmp_path: Path) -> None:
    path = tmp_path / "batches.csv"
    for content in ("one", "two"):
        path.write_text(content)
        disk.set_aside(path, "interrupted")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        "batches.csv.interrupted-1": "one",
        "batches.csv.interrupted-2": "two",
    }


def test_only_what_a_killed_program_left_is_removed(tmp_path: Path) -> None:
    kept = {".nws_sweep", ".result.json-abc", "result.json", "nws_sweep-result.json-abc"}
    for name in (".nws_sweep-result.json-abc123", ".nws_sweep-report.html-1", *kept):
        (tmp_path / name).touch()
    disk.remove_temporary(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == kept


def test_what_is_left_of_a_write_that_was_killed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", lambda temporary, path: os._exit(0))
    if (pid := os.fork()) == 0:
        disk.write_text(tmp_path / "report.html", "half of it")
    os.waitpid(pid, 0)
    assert len(list(tmp_path.iterdir())) == 1
    disk.remove_temporary(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_names_of_new_folders_last_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, synced = tmp_path / "grid" / "job", []
    folder.mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").resolve()))
    disk.keep_folder(folder)
    assert synced[:2] == [tmp_path / "grid", tmp_path]
