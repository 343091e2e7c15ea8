from __future__ import annotations

import itertools
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler
from torch.utils.data import dataloader as torchs_module

from nws_sweep.dataloading import watching
from nws_sweep.dataloading.watching import LoaderWatch
from nws_sweep.measurement.timeline import Epoch
from nws_sweep.results import LoaderSettings
from tests.conftest import ROOT
from tests.user_datasets import Plain

ORIGINAL = (DataLoader.__iter__, torchs_module._BaseDataLoaderIter.__next__)


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return itertools.count()

    def __len__(self) -> int:
        raise AssertionError("a call makes torch warn later")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoaderWatch]:
    """Its clock advances by 1 s per call."""
    monkeypatch.setattr(watching, "_clock", itertools.count(8.0, 1.0).__next__)
    watch = LoaderWatch()
    watch.start()
    yield watch
    watch.stop()
    assert (DataLoader.__iter__, torchs_module._BaseDataLoaderIter.__next__) == ORIGINAL


def test_times_of_request_and_receipt_of_each_batch_are_recorded(watch: LoaderWatch) -> None:
    batches = [batch.tolist() for batch in DataLoader(Plain(6), batch_size=4)]
    assert batches == [[0, 1, 2, 3], [4, 5]]
    (line,) = watch.stop()
    assert line.epochs == [
        Epoch(began_s=8.0, iter_s=1.0, asked_s=[10.0, 12.0], given_s=[11.0, 13.0], over_s=(14.0, 15.0), batch_length=4)
    ]


def test_each_iteration_is_an_epoch_and_an_unfinished_one_has_no_end(watch: LoaderWatch) -> None:
    loader = DataLoader(Plain(6), batch_size=2, num_workers=1, persistent_workers=True)
    next(iter(loader))
    assert [len(list(loader)) for _ in range(2)] == [3, 3]
    (line,) = watch.stop()
    assert [(epoch.batches, epoch.over_s is None) for epoch in line.epochs] == [(1, True), (3, False), (3, False)]
    assert line.settings == LoaderSettings(batch_size=2, num_workers=1, prefetch_factor=2, persistent_workers=True)


def test_loaders_are_distinguished_and_described_without_calling_len_of_an_iterable_dataset(watch: LoaderWatch) -> None:
    dataset = Plain(6)
    list(DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True))
    for _ in zip(range(2), DataLoader(Endless(), batch_size=3), strict=False):
        pass
    list(DataLoader(dataset, batch_sampler=list(BatchSampler(SequentialSampler(dataset), 3, False))))
    list(DataLoader(dataset, batch_size=None))
    first, endless, others, single = watch.stop()
    assert first.settings == LoaderSettings(batch_size=2, shuffle=True, drop_last=True)
    assert (first.facts.type, first.facts.samples, first.length) == ("tests.user_datasets.Plain", 6, 3)
    assert (endless.facts.iterable, endless.facts.samples, endless.length) == (True, None, None)
    # Unknown batch sizes are taken from the first batch.
    assert (others.settings.batch_size, others.length, single.settings.batch_size) == (3, None, 1)


def test_random_numbers_do_not_change(watch: LoaderWatch) -> None:
    def drawn() -> list[list[int]]:
        torch.manual_seed(7)
        return [batch.tolist() for batch in DataLoader(Plain(6), batch_size=4, shuffle=True)]

    watched = drawn()
    watch.stop()
    assert watched == drawn()


def test_errors_reach_the_program_and_loaders_can_be_collected_and_unhashable_loaders_work(watch: LoaderWatch) -> None:
    class Unhashable(DataLoader[Any]):
        __hash__ = None  # type: ignore[assignment]

    def broken(samples: list[Any]) -> None:
        raise OSError("no such sample")

    assert len(list(Unhashable(Plain(6)))) == 6
    loader = DataLoader(Plain(6), collate_fn=broken)
    iterator = iter(loader)
    with pytest.raises(OSError, match="no such sample"):
        next(iterator)
    gone = weakref.ref(loader), weakref.ref(iterator)
    del loader, iterator
    assert [reference() for reference in gone] == [None, None]
    (line,) = watch.stop()
    assert line.epochs[0].batches == 0


def test_a_program_that_wraps_the_loader_too_keeps_working(watch: LoaderWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, wrapped = [], DataLoader.__iter__

    def wrapper(loader: DataLoader[Any]) -> Any:
        calls.append(loader)
        return wrapped(loader)

    with monkeypatch.context() as patch:
        patch.setattr(DataLoader, "__iter__", wrapper)
        assert len(list(DataLoader(Plain(6)))) == 6
        (line,) = watch.stop()
        assert DataLoader.__iter__ is wrapper
        assert len(list(DataLoader(Plain(6)))) == 6  # the remaining wrapper records nothing
    assert (len(calls), line.epochs[0].batches) == (2, 6)
    setattr(DataLoader, "__iter__", ORIGINAL[0])  # noqa: B010


def test_the_number_of_recorded_batches_is_limited(watch: LoaderWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_MOST_BATCHES", 8)
    loader = DataLoader(Plain(6))
    for _ in range(3):
        list(loader)
    (line,) = watch.stop()
    assert [epoch.batches for epoch in line.epochs] == [6, 2, 0]
    assert [epoch.over_s is None for epoch in line.epochs] == [False, True, True]


def test_watching_costs_microseconds_a_batch() -> None:
    """Least CPU time of alternating runs; the limit is ten times the usual cost."""
    loader = DataLoader(Plain(2000), batch_size=None)

    def seconds() -> float:
        began = time.thread_time()
        for _ in loader:
            pass
        return time.thread_time() - began

    plain, watched = [], []
    for _ in range(5):
        plain.append(seconds())
        watch = LoaderWatch()
        watch.start()
        watched.append(seconds())
        watch.stop()
    assert (min(watched) - min(plain)) / 2000 < 20e-6


def test_torch_is_wrapped_when_the_program_imports_it() -> None:
    program = """if True:
        import sys
        from nws_sweep.dataloading.watching import LoaderWatch
        unused, watch = LoaderWatch(), LoaderWatch()
        unused.start()
        assert unused.stop() == []
        watch.start()
        assert 'torch' not in sys.modules
        from torch.utils.data import DataLoader
        list(DataLoader([1, 2, 3]))
        (line,) = watch.stop()
        print(line.epochs[0].batches, DataLoader.__iter__.__module__, {unused, watch} & {*sys.meta_path})
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["3", "torch.utils.data.dataloader", "set()"]
