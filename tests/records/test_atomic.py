import os
import tempfile
from pathlib import Path

import pytest

from nws_sweep.errors import ConfigurationError
from nws_sweep.records import atomic


def test_writing_replaces_the_whole_file_with_the_mode_of_the_umask(
    tmp_path: Path,
) -> None:
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


def test_an_interrupted_rename_keeps_the_old_file_and_no_temporary_file(
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


def test_a_durable_file_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    path = tmp_path / "result.json"

    def sync(descriptor: int) -> None:
        synced.append(
            f"{'folder' if Path(f'/proc/self/fd/{descriptor}').is_dir() else 'file'}, there: {path.exists()}"
        )

    monkeypatch.setattr(os, "fsync", sync)
    atomic.write_text(tmp_path / "plot.svg", "not synced")
    atomic.write_text(path, "all of it", durable=True)
    assert synced == ["file, there: False"]


def test_the_home_folder_is_expanded_or_replaced_by_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert atomic.expand_user("~/.cache/x") == Path("/home/me/.cache/x")
    assert atomic.expand_user("data/~x") == Path("data/~x")

    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    name = f"nws_sweep_home_of_{os.getuid()}"
    (tmp_path / name).symlink_to(tmp_path)  # anybody could have made these
    (tmp_path / f"{name}-2").mkdir(0o755)
    for _ in range(2):
        assert (
            atomic.expand_user("~/.cache/x") == tmp_path / f"{name}-3" / ".cache" / "x"
        )
    assert atomic.is_private(tmp_path / f"{name}-3")
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    assert atomic.expand_user("~/x") == Path("/dev/null", name, "x"), (
        "who needs it says that it cannot be made"
    )
    with pytest.raises(
        ConfigurationError,
        match=r"^~anna/x: there is no user anna; use ~ or a whole path$",
    ):
        atomic.expand_user("~anna/x")


def test_only_temporary_files_of_killed_writers_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {
        ".nws_sweep",
        ".result.json-abc",
        "result.json",
        "nws_sweep-result.json-abc",
    }
    for name in kept:
        (tmp_path / name).touch()
    monkeypatch.setattr(Path, "replace", lambda temporary, path: os._exit(0))
    if (pid := os.fork()) == 0:
        atomic.write_text(tmp_path / "report.html", "half of it")
    os.waitpid(pid, 0)
    assert len(list(tmp_path.iterdir())) == len(kept) + 1
    atomic.remove_temporary(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == kept
