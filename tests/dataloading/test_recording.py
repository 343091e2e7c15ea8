import itertools
import statistics
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, SequentialSampler, TensorDataset

from nws_sweep.dataloading import clocks, loaders, recording
from nws_sweep.dataloading.clocks import Clocks
from nws_sweep.dataloading.recording import BatchLog, BatchTimer, WorkerStart, cost_of
from nws_sweep.records import BatchCost, StageTime
from tests.user_datasets import Stream

BATCHES = 12


class Planted(Dataset[Any]):
    """Sample i waits i ms and computes for 2 ms."""

    def __len__(self) -> int:
        return 2 * BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(index / 1000)
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass
        return torch.zeros(4)


class PlantedStream(Stream):
    """The same samples, shared among the workers."""

    def __iter__(self) -> Any:
        return map(Planted().__getitem__, super().__iter__())


@pytest.mark.parametrize("dataset", [Planted(), PlantedStream(2 * BATCHES)])
def test_each_batch_is_recorded_with_its_cost_in_the_order_of_the_epoch(
    dataset: Any,
) -> None:
    """A persistent worker waits for the next epoch after the end of a stream, which is no batch."""
    loader = DataLoader(dataset, batch_size=2, num_workers=2, persistent_workers=True)
    log = BatchLog(2)
    loader.worker_init_fn = WorkerStart(BatchTimer(log))
    for _ in range(2):
        log.begin_epoch()
        began_s = time.perf_counter()
        assert len(list(loader)) == BATCHES
        found = log.new()
        assert [record.number for record in found] == list(range(BATCHES))
        assert min(record.began_s for record in found) >= began_s
        # On a busy machine the kernel counts a part of some sleeps as waiting for a CPU.
        planted_s = sum((4 * number + 1) / 1000 for number in range(BATCHES))
        assert sum(record.cost.wait_s for record in found) >= 0.7 * planted_s
        for record in found:
            assert record.cost.cpu_s >= 0.004
            assert (
                record.ended_s - record.began_s
                >= record.cost.cpu_s + record.cost.wait_s - 1e-6
            )
        assert log.times.start
        assert log.times.start.cpu_s > 0
        assert log.new() == ()


def test_records_end_before_the_first_batch_that_is_not_finished_unless_the_epoch_has_ended() -> (
    None
):
    """As of an iterable dataset, or with batches out of order: worker 0 had two batches, worker 1 had four."""
    log = BatchLog(2)
    for worker, began_s in ((1, 1.0), (1, 2.0), (1, 5.0), (1, 6.0), (0, 3.0)):
        log.add(worker, began_s, began_s + 1, BatchCost(0.25, 0.5))
    assert [(one.number, one.began_s) for one in log.new()] == [(0, 3.0), (1, 1.0)]
    log.add(0, 4.0, 5.0, BatchCost(0.25, 0.5))
    assert [(one.number, one.began_s) for one in log.new()] == [(2, 4.0), (3, 2.0)]
    assert [one.began_s for one in log.new(has_ended=True)] == [5.0, 6.0]
    assert log.new(has_ended=True) == ()


def test_rows_that_were_overwritten_leave_a_gap() -> None:
    log = BatchLog(1)
    for number in range(3000):
        log.add(0, float(number), number + 1.0, BatchCost(0.0, 0.0))
    numbers = [record.number for record in log.new()]
    assert numbers == list(
        range(3000 - 1023, 3000)
    )  # the oldest may be about to be overwritten
    unreadable = (StageTime(name="\udcff"),)  # as in a folder whose name is not UTF-8
    log.add(0, 3000.0, 3001.0, BatchCost(0.0, 0.0), unreadable)
    assert [record.number for record in log.new()] == [3000]


def test_what_the_first_transfer_of_a_worker_takes_longer_is_start() -> None:
    log = BatchLog(2)
    log.times.starts.add(0, 0.5)
    log.times.starts.add(1, 1.5)
    assert (log.times.start, log.times.copy_s) == (BatchCost(1.0, 0.0), 0.0)
    log.times.add_transfer(0, 20.0)  # imports a module
    assert (log.times.start, log.times.copy_s) == (
        BatchCost(1.0, 0.0),
        20.0,
    )  # no other transfer is known
    for worker, cpu_s in ((0, 3.0), (1, 6.0), (1, 1.0)):
        log.times.add_transfer(worker, cpu_s)
    log.add(0, 0.0, 1.0, BatchCost(0.25, 0.5))
    (record,) = log.new()
    assert (record.cost.copy_s, log.times.start) == (
        2.0,
        BatchCost(1.0 + 13.0 - 2.0, 0.0),
    )


@pytest.mark.parametrize(
    ("spent", "cost"),
    [
        (
            Clocks(wall_s=10.0, cpu_s=4.0, all_cpu_s=4.0, delay_s=1.0),
            BatchCost(4.0, 5.0),
        ),
        (Clocks(wall_s=10.0, cpu_s=1.0, all_cpu_s=7.0), BatchCost(7.0, 3.0)),
        (
            Clocks(wall_s=10.0, cpu_s=1.0, all_cpu_s=31.0, delay_s=2.0),
            BatchCost(31.0, 0.0, threads=31 / 8),
        ),
        (Clocks(wall_s=0.0, cpu_s=0.0, all_cpu_s=-1e-9), BatchCost(0.0, 0.0)),
    ],
)
def test_threads_of_the_dataset_compute_while_the_thread_that_makes_the_batch_waits(
    spent: Clocks, cost: BatchCost
) -> None:
    assert cost_of(spent) == cost


def _compute(seconds: float) -> None:
    """Threads that are named take as much CPU time, and no more."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def test_cpu_time_of_other_threads_is_of_the_transfer_only_in_threads_that_transfer_batches() -> (
    None
):
    log = BatchLog(1)
    timer = BatchTimer(log)
    has_batch, is_last = threading.Event(), threading.Event()

    def feed() -> None:
        has_batch.wait()
        _compute(0.03)
        is_last.wait()

    timer.begin()
    timer.end()
    feeder = threading.Thread(target=feed, name="QueueFeederThread")
    feeder.start()
    timer.begin()
    has_batch.set()
    of_dataset = threading.Thread(target=_compute, args=(0.02,))
    of_dataset.start()
    of_dataset.join()
    timer.end()
    is_last.set()
    feeder.join()
    cost = [record.cost for record in log.new()][1]
    assert 0.019 <= cost.cpu_s < 0.03
    timer.begin()
    assert log.times.copy_s >= 0.029


@pytest.mark.parametrize(("queued_batches", "run_length"), [(0, 4), (16, 16)])
def test_batches_of_a_sequential_sampler_come_in_runs_from_the_whole_epoch(
    queued_batches: int, run_length: int
) -> None:
    loader = DataLoader(TensorDataset(torch.arange(800)), batch_size=2)
    before = list(loader.batch_sampler or ())
    found = loaders.in_runs(loader, queued_batches)
    assert found is not None
    count = 6 * run_length
    given = list(itertools.islice(loader.batch_sampler or (), count))
    assert [before[number] for number in found.order[:count]] == given
    starts = found.order[:count:run_length]
    assert found.order[:count] == [
        start + place for start in starts for place in range(run_length)
    ]
    gaps = [
        later - earlier
        for earlier, later in itertools.pairwise([0, *sorted(starts), 400])
    ]
    assert max(gaps) <= 2 * 400 / len(
        starts
    )  # no part of the epoch is missing, however few batches are taken
    # of a cost that rises with the number, the mean is right
    assert statistics.fmean(found.order[:count]) == pytest.approx(200, rel=0.1)
    assert sorted(loader.batch_sampler or ()) == before
    found.is_whole = True
    assert list(loader.batch_sampler or ()) == before

    in_order = DataLoader(
        Planted(), sampler=SequentialSampler(Planted()), batch_size=None
    )
    for kept in (DataLoader(Planted(), shuffle=True), in_order):
        assert loaders.in_runs(kept, queued_batches=2) is None


@pytest.mark.parametrize(("dataset", "listed"), [(Stream(), 0), (Planted(), 11)])
def test_batches_of_an_iterable_dataset_or_of_too_many_samples_are_not_listed(
    dataset: Any, listed: int
) -> None:
    loader: DataLoader[Any] = DataLoader(dataset)
    numbers = itertools.count()
    vars(loader)["batch_sampler"] = (
        range(number, number + 400_000) for number in numbers
    )
    assert loaders.in_runs(loader, queued_batches=2) is None
    assert next(numbers) == listed


@pytest.mark.parametrize(("slow_s", "is_listed"), [(0.01, True), (0.2, False)])
def test_a_sampler_that_takes_long_is_not_listed_since_its_time_counts(
    slow_s: float, is_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0

    def slow() -> Iterator[list[int]]:
        nonlocal now_s
        for number in range(4):
            now_s += slow_s
            yield [number]

    monkeypatch.setattr(time, "perf_counter", lambda: now_s)
    loader: DataLoader[Any] = DataLoader(Planted())
    vars(loader)["batch_sampler"] = slow()
    assert (loaders.in_runs(loader, queued_batches=2) is not None) == is_listed


@pytest.mark.parametrize("batch_size", [2, None])
def test_epochs_begin_at_a_place_and_have_all_batches(batch_size: int | None) -> None:
    loader = DataLoader(Planted(), batch_size=batch_size)
    plain: Any = loaders.index_sampler(loader)
    whole = list(plain)
    order = loaders.begin_at(loader, 0.3)
    assert loaders.index_sampler(loader).sampler is getattr(
        plain, "sampler", None
    )  # that some classes read
    first = int(0.3 * len(whole))
    for _ in range(2):
        assert (
            list(loaders.index_sampler(loader))
            == [*whole[first:], *whole[:first]]
            == [whole[n] for n in order]
        )
    assert len(loader) == len(whole)
    stream = DataLoader(Stream())
    assert list(loaders.begin_at(stream, 0.3)) == []


def test_clocks_are_read_again_if_the_thread_loses_its_cpu_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is stopped for 0.3 s while it reads them."""
    delays_s, times_s = iter([0.0, 0.3, 0.3]), iter([10.0, 10.3])
    monkeypatch.setattr(
        clocks,
        "time",
        SimpleNamespace(**vars(time) | {"perf_counter": lambda: next(times_s)}),
    )
    found = clocks.read_clocks(lambda: next(delays_s))
    assert (found.wall_s, found.delay_s) == (10.3, 0.3)


def test_batches_are_made_where_no_clock_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "read_clocks", lambda *_: 1 // 0)
    log = BatchLog(1)
    loader = DataLoader(Planted(), batch_size=2, num_workers=1)
    loader.worker_init_fn = WorkerStart(BatchTimer(log))
    assert len(list(loader)) == BATCHES
    assert log.new() == ()


def test_a_worker_init_fn_is_called_where_no_clock_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "run_delay_clock", lambda: 1 // 0)
    called: list[int] = []
    BatchTimer(BatchLog(1)).initialise(called.append, 0)
    assert called == [0]
