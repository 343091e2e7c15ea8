import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from nws_sweep.system import page_cache, usage


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "photos/more").mkdir(parents=True)
    paths = [tmp_path / f"photos/{name}" for name in ("a.jpg", "b.jpg", "more/c.jpg")]
    for path in paths:
        path.write_bytes(b"x")
    return [str(path) for path in paths]


def test_files_below_are_absolute_and_sorted(
    tmp_path: Path, files: list[str], monkeypatch: Any
) -> None:
    assert page_cache.files_below([str(tmp_path / "photos")]) == tuple(files)
    monkeypatch.chdir(tmp_path)
    assert page_cache.files_below([files[1], "photos", files[1]]) == (
        files[1],
        files[0],
        files[2],
    )
    assert page_cache.files_below([str(tmp_path / "gone")]) == ()


def bytes_from_storage(path: Path) -> int:
    before = usage.of_tree(os.getpid()).disk_bytes or 0
    path.read_bytes()
    return (usage.of_tree(os.getpid()).disk_bytes or 0) - before


def test_dropped_files_are_read_from_storage(tmp_path: Path) -> None:
    size, path = 2 * 2**20, tmp_path / "samples"
    path.write_bytes(os.urandom(size))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if bytes_from_storage(path) < size:
        pytest.skip("this file system does not say what it read")
    # the counter includes the process's own code
    assert bytes_from_storage(path) < size // 2
    page_cache.drop([str(path)])
    assert bytes_from_storage(path) >= size
    path.write_bytes(os.urandom(size))  # not yet written to storage
    page_cache.drop([str(path)])
    assert bytes_from_storage(path) >= size


def test_what_cannot_be_dropped_is_skipped(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(descriptor: int) -> None:
        raise OSError(22, "Invalid argument")  # as on squashfs and ISO images

    before = {*Path("/proc/self/fd").iterdir()}
    advised = Mock(spec=os.posix_fadvise)
    monkeypatch.setattr(os, "posix_fadvise", advised)
    os.mkfifo(tmp_path / "pipe")  # opening it would block
    monkeypatch.setattr(os, "fdatasync", refused)
    page_cache.drop([str(tmp_path / "gone"), str(tmp_path / "pipe"), *files])
    assert advised.call_count == 4  # the pipe too
    # earlier tests may have left descriptors, which are closed at any time
    assert {*Path("/proc/self/fd").iterdir()} <= before
