"""Whether the workers of an iterable dataset share its samples."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import nws_sweep
from nws_sweep import sample_check
from nws_sweep.identities import digest_of, identify, identify_one
from nws_sweep.records import LoaderSettings, MeasureRules, SampleCheck, SamplesSeen


def seen(*names: str | None, workers: int = 2, complete: bool = True) -> SamplesSeen:
    digests = tuple(None if name is None else name.encode() for name in names)
    return SamplesSeen(digests=digests, workers=frozenset(range(workers)), complete=complete)


def told(alone: SamplesSeen, shared: SamplesSeen, num_workers: int = 2) -> str:
    return "; ".join(
        sample_check.remarks(sample_check.judged(alone, shared, LoaderSettings(batch_size=1, num_workers=num_workers)))
    )


def test_shared_samples_are_nothing_to_tell() -> None:
    assert told(seen("a", "b", workers=1), seen("b", "a")) == ""
    assert told(seen("a", "a", workers=1), seen("a", "a")) == ""  # it has them twice by itself
    assert told(seen(None, None, workers=1), seen(None, None)) == ""


def test_samples_that_come_twice_are_told_even_if_they_are_changed_at_random() -> None:
    assert "4 in an epoch instead of 2" in told(seen("a", "b", workers=1), seen("c", "d", "e", "f"))
    assert "4 in an epoch instead of 2" in told(seen("a", "b", workers=1), seen("a", "b", "a", "b"))


def test_of_an_epoch_without_end_the_repeated_ones_are_told() -> None:
    endless = seen("a", "b", "c", "d", workers=1, complete=False)
    assert "2 of those looked at had come before" in told(endless, seen("a", "b", "a", "b", complete=False))


def test_lost_samples_and_idle_workers_are_told() -> None:
    assert "samples are lost with num_workers=2: 1 in an epoch instead of 2" in told(
        seen("a", "b", workers=1), seen("a")
    )
    assert "3 of 4 workers get no samples" in told(seen("a", workers=1), seen("a", workers=1), num_workers=4)


def test_a_failure_is_told() -> None:
    (line,) = sample_check.remarks(SampleCheck(num_workers=2, error="OSError: gone"))
    assert line == "check_samples: the samples could not be counted (OSError: gone)"


SAME: list[Any] = [
    lambda: (torch.arange(6).reshape(2, 3).t(), 3),
    lambda: {"a": np.arange(3), "b": ["x", b"y", None, 1.5]},
    lambda: Image.new("RGB", (4, 4)),
    lambda: torch.ones(2, dtype=torch.float64)[:1],
]


@pytest.mark.parametrize("make", SAME)
def test_equal_samples_have_equal_digests(make: Any) -> None:
    assert digest_of(make()) == digest_of(make()) is not None


def test_different_samples_have_different_digests() -> None:
    samples = [1, 1.0, "1", b"1", [1], (1,), {1: 1}, {"a": 1}, torch.tensor(1), torch.tensor(1.0), torch.tensor(2)]
    assert len({digest_of(sample) for sample in samples}) == len(samples)


def test_a_sample_that_cannot_be_told_has_none() -> None:
    assert digest_of(lambda: None) is None
    assert identify_one(lambda: None).digests == [None]
    assert len(identify([1, 2]).digests) == 2


class Stream(IterableDataset[int]):
    """Shares its samples among workers by shards, or not at all."""

    def __init__(self, shards: int | None) -> None:
        self.shards = shards

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        if worker is None or self.shards is None:
            yield from range(60)
            return
        for shard in range(worker.id, self.shards, worker.num_workers):
            yield from range(shard, 60, self.shards)


class SharedFile(Dataset[Any]):
    """Reads all samples through one open file; the label says which of them it is."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb", buffering=0)

    def __len__(self) -> int:
        return 600

    def __getitem__(self, index: int) -> tuple[int, int]:
        self.file.seek(4 * index)
        time.sleep(0.001)
        return int.from_bytes(self.file.read(4), "little"), index


class OwnFile(SharedFile):
    """Each worker opens a file of its own."""

    def __init__(self, path: Path) -> None:
        self.path, self.opened_by = path, 0

    def __getitem__(self, index: int) -> tuple[int, int]:
        if self.opened_by != os.getpid():
            self.file, self.opened_by = self.path.open("rb", buffering=0), os.getpid()
        return super().__getitem__(index)


class Augmented(Dataset[Any]):
    def __len__(self) -> int:
        return 600

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = torch.full((3, 8, 8), float(index))
        image[0, 0] = 0.0
        time.sleep(0.001)
        return image.flip(-2) if torch.rand(()) < 0.5 else image, index


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., nws_sweep.SearchResult]:
    monkeypatch.setenv("NWS_SWEEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NWS_SWEEP_LOCK_FILE", str(tmp_path / "lock"))
    rules = MeasureRules(window_s=0.02, max_seconds=2.0)
    return functools.partial(nws_sweep.search, batch_size=5, measure=rules, progress=False)


@pytest.mark.parametrize("check_samples", [None, True])
def test_a_stream_that_is_not_shared_is_loaded_without_workers(
    measured: Callable[..., nws_sweep.SearchResult], check_samples: bool | None
) -> None:
    with pytest.warns(
        UserWarning, match=r"nws_sweep: num_workers=\d is no choice: .*torch\.utils\.data\.get_worker_info"
    ):
        result = measured(Stream(None), candidates=[0, 2, 4], check_samples=check_samples)
    assert result.num_workers == 0
    assert {trial.state.value for trial in result.trials if trial.num_workers} == {"wrong_samples"}
    loader = DataLoader(Stream(None), batch_size=5)
    with pytest.warns(UserWarning, match="is no choice"):  # a remembered answer too
        tuned = nws_sweep.tune(loader, candidates=[0, 2, 4], measure=result.record.configuration.measure)
    assert (tuned.num_workers, sum(map(len, tuned))) == (0, 60)


def test_workers_that_share_an_open_file_are_no_choice(
    measured: Callable[..., nws_sweep.SearchResult], tmp_path: Path
) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"".join(index.to_bytes(4, "little") for index in range(600)))
    lines: list[str] = []
    with pytest.warns(UserWarning, match="through one open file, whose position all of them move"):
        result = measured(lambda: SharedFile(path), candidates=[0, 1, 3], progress=lines.append, strategy="exhaustive")
    states = {trial.num_workers: trial.state.value for trial in result.trials}
    assert states == {0: "ok", 1: "ok", 3: "wrong_samples"}
    named = [
        number for number, line in enumerate(lines) if line.startswith("forked workers share dataset.file (FileIO")
    ]
    assert len(named) == 1
    assert not any("a batch" in line for line in lines[: named[0]])
    own = measured(lambda: OwnFile(path), candidates=[3])
    assert [trial.state.value for trial in own.trials] == ["ok"]
    assert not [line for line in own.warnings if "share" in line]


def test_random_transforms_are_no_wrong_samples(measured: Callable[..., nws_sweep.SearchResult]) -> None:
    result = measured(Augmented(), candidates=[0, 2, 4], strategy="exhaustive", shuffle=True)
    assert {trial.state.value for trial in result.trials} == {"ok"}
    assert result.record.cost is not None
    assert 0 < result.record.cost.samples_s < result.cost_s


@pytest.mark.parametrize(("shards", "remark"), [(3, "1 of 4 workers get no samples"), (4, "")])
def test_real_workers_are_looked_at(
    measured: Callable[..., nws_sweep.SearchResult], shards: int | None, remark: str
) -> None:
    result = measured(Stream(shards), candidates=[4], check_samples=True)
    told = [line for line in result.warnings if "samples" in line]
    assert any(remark in line for line in told) if remark else not told
    idle = [line for line in result.warnings if "1 of 4 workers got no samples in an epoch" in line]
    assert bool(idle) == (shards == 3)  # seen without being asked for, since the epoch came to its end
