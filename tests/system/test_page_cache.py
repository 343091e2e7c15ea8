import os
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from nws_sweep.system import page_cache, usage


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "photos/more").mkdir(parents=True)
    paths = [tmp_path / f"photos/{name}" for name in ("a.jpg", "b.jpg", "more/c.jpg")]
    for path in paths:
        path.write_bytes(b"x")
    return [str(path) for path in paths]


def test_paths_are_found_in_attributes_of_all_kinds(tmp_path: Path, files: list[str]) -> None:
    samples = [(path, label) for label, path in enumerate(files)]
    inner: Any = Made(samples=samples)
    assert page_cache.paths_in(Made(root=str(tmp_path), split="train", again=tmp_path)) == (str(tmp_path),)
    assert page_cache.paths_in(Made(samples={"train": samples[:1], "test": tuple(samples[1:])})) == tuple(files)
    assert page_cache.paths_in(torch.utils.data.Subset(inner, [0, 1])) == tuple(files)
    for kind in "US":
        row = np.array(files).astype(kind)
        assert page_cache.paths_in(Made(first=row[:1].reshape(1, 1), second=row[1:], last=row[2])) == tuple(files)


def test_bare_names_and_missing_paths_are_excluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train").write_text("a file with the name of a split")
    monkeypatch.chdir(tmp_path)
    dataset = Made(split="train", gone=str(tmp_path / "gone"), null="a/\0", long="/" + "x" * 5000, url="http://x/y")
    assert page_cache.paths_in(dataset) == ()
    assert page_cache.paths_in(Made(split="./train", odd=[7, b"/tmp", len, torch.zeros(3)])) == ("./train",)
    assert page_cache.paths_in(Made(delimiter=os.sep, other=os.sep * 2)) == ()  # delimiters


def test_cycles_end(files: list[str]) -> None:
    dataset, inner = Made(path=files[0]), Made(path=files[1])
    inner.__dict__.update(outer=dataset, both=[dataset, inner])
    samples: list[Any] = [files[2]]
    samples.append(samples)
    crowd: list[Any] = []  # visiting each path through it would never end
    crowd.extend(Made(all=crowd) for _ in range(2000))
    dataset.__dict__.update(inner=inner, me=dataset, samples=samples, crowd=crowd)
    assert sorted(page_cache.paths_in(dataset)) == sorted(files)


def test_files_below_are_absolute_and_sorted(tmp_path: Path, files: list[str], monkeypatch: Any) -> None:
    assert page_cache.files_below([str(tmp_path / "photos")]) == tuple(files)
    monkeypatch.chdir(tmp_path)
    assert page_cache.files_below([files[1], "photos", files[1]]) == (files[1], files[0], files[2])
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
    assert bytes_from_storage(path) < size // 2  # the counter includes the process's own code
    page_cache.drop([str(path)])
    assert bytes_from_storage(path) >= size
    path.write_bytes(os.urandom(size))  # not yet written to storage
    page_cache.drop([str(path)])
    assert bytes_from_storage(path) >= size


def test_what_cannot_be_dropped_is_skipped(tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int) -> None:
        raise OSError(22, "Invalid argument")  # as on squashfs and ISO images

    before, advised = len(list(Path("/proc/self/fd").iterdir())), Mock(spec=os.posix_fadvise)
    monkeypatch.setattr(os, "posix_fadvise", advised)
    os.mkfifo(tmp_path / "pipe")  # opening it would block
    monkeypatch.setattr(os, "fdatasync", refused)
    page_cache.drop([str(tmp_path / "gone"), str(tmp_path / "pipe"), *files])
    assert advised.call_count == 4  # the pipe too
    assert len(list(Path("/proc/self/fd").iterdir())) == before
