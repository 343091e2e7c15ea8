import abc
import copy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, get_worker_info

from nws_sweep.dataloading import counting
from nws_sweep.dataloading.counting import count_samples
from nws_sweep.dataloading.digests import SampleLog, parts_of
from nws_sweep.dataloading.recording import BatchLog, BatchTimer, WorkerStart
from nws_sweep.records import BatchCost
from tests.fakes import FakeClock
from tests.user_datasets import Plain, Raises, SizedStream, Stream

CHEAP_S, DEAR_S = 1e-6, 1e-3
UNCOUNTED = -1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(counting, "time", SimpleNamespace(perf_counter=clock))
    return clock


class Watching(Plain):
    """Each sample takes a fixed time and is the count at that time."""

    def __init__(
        self, clock: FakeClock, slots: list[int], sample_s: float = DEAR_S
    ) -> None:
        self.clock, self.slots, self.sample_s = clock, slots, sample_s

    def __getitem__(self, index: int) -> Any:
        self.clock.advance(self.sample_s)
        return self.slots[0]


class WatchingStream(IterableDataset[int]):
    """Its ``__iter__`` returns itself."""

    def __init__(
        self, clock: FakeClock, slots: list[int], sample_s: float, length: int
    ) -> None:
        self.clock, self.slots, self.sample_s, self.length = (
            clock,
            slots,
            sample_s,
            length,
        )
        self.seen: list[int] = []

    def __iter__(self) -> Iterator[int]:
        self.numbers = iter(range(self.length))
        return self

    def __next__(self) -> int:
        number = next(self.numbers)
        self.clock.advance(self.sample_s)
        self.seen.append(self.slots[0])
        return number


def fetch(dataset: Any, indices: list[int]) -> list[Any]:
    """A batch, as DataLoader's fetcher loads it."""
    return list(dataset.__getitems__(indices))


def test_a_counting_dataset_keeps_its_identity_class_name_and_attributes() -> None:
    dataset: Any = Plain(12)
    dataset.extra = [1, 2]
    count_samples(dataset, [0], 0)
    assert (len(dataset), dataset[3]) == (12, 3)
    names = ("__name__", "__qualname__", "__module__", "__doc__")
    assert all(getattr(type(dataset), name) == getattr(Plain, name) for name in names)
    assert isinstance(dataset, Plain)
    assert vars(dataset) == {"length": 12, "extra": [1, 2]}
    assert copy.deepcopy(dataset)[3] == 3
    assert not hasattr(Plain, "__getitems__")  # the class is unchanged
    stream = SizedStream(5)
    count_samples(stream, [0], 0)
    assert (len(stream), list(stream), isinstance(stream, SizedStream)) == (
        5,
        [0, 1, 2, 3, 4],
        True,
    )


@pytest.mark.parametrize(
    ("times_s", "batches"),
    [
        (
            [DEAR_S, DEAR_S],
            [[0, 1, 2], [3, 4, 5]],
        ),  # one by one, while the batch is loaded
        (
            [CHEAP_S, CHEAP_S, CHEAP_S],
            [[0, 1, 2], [3, 3, 3], [6, 6, 6]],
        ),  # per batch, from the second on
        ([CHEAP_S, DEAR_S, DEAR_S], [[0, 1, 2], [3, 3, 3], [6, 7, 8]]),  # slow again
    ],
)
def test_only_slow_samples_are_counted_singly(
    clock: FakeClock, times_s: list[float], batches: list[list[int]]
) -> None:
    slots = [0]
    dataset = Watching(clock, slots)
    count_samples(dataset, slots, 0)
    for dataset.sample_s, seen in zip(times_s, batches, strict=True):
        assert fetch(dataset, [7, 8, 9]) == seen
    assert slots == [3 * len(batches)]


def test_samples_before_an_exception_are_counted_in_the_slot_of_the_worker() -> None:
    slots = [5, 7]
    dataset = Raises()
    count_samples(dataset, slots, 1)
    assert fetch(dataset, []) == []
    with pytest.raises(ValueError, match=r"^bad sample 40$"):
        fetch(dataset, [38, 39, 40, 41])
    assert slots == [5, 9]


@pytest.mark.parametrize(
    ("sample_s", "length", "count"),
    [
        (CHEAP_S, 0, 0),
        (CHEAP_S, 63, 63),
        (CHEAP_S, 64, UNCOUNTED),
        (CHEAP_S, 200, UNCOUNTED),
        (DEAR_S, 200, 200),
    ],
)
def test_streams_of_cheap_samples_become_uncounted(
    clock: FakeClock, sample_s: float, length: int, count: int
) -> None:
    slots = [0]
    dataset = WatchingStream(clock, slots, sample_s, length)
    count_samples(dataset, slots, 0)
    for _ in dataset:
        clock.advance(1.0)  # the time between requests does not count
    assert dataset.seen == [
        number if number < 64 or count > 0 else UNCOUNTED for number in range(length)
    ]
    assert slots == [count]
    assert list(dataset) == list(range(length))  # the next epoch of a persistent worker
    assert slots == [2 * count if count > 0 else count]
    assert count > 0 or set(dataset.seen[length:]) <= {UNCOUNTED}


class Slotted(abc.ABC):  # noqa: B024 - for its metaclass
    __slots__ = ("length",)

    def __init__(self) -> None:
        self.length = 9

    def __getitem__(self, index: int) -> int:
        return self.length - index


@pytest.mark.parametrize("dataset", [Slotted(), Subset(Plain(10), [9, 8, 7])], ids=type)
def test_classes_with_slots_or_getitems_are_counted(dataset: Any) -> None:
    slots, kind = [0], type(dataset)
    count_samples(dataset, slots, 0)
    assert fetch(dataset, [1, 2]) == [8, 7]
    assert slots == [2]
    assert isinstance(dataset, kind)


@pytest.mark.parametrize("dataset", [list(range(9)), torch.arange(9)], ids=type)
def test_classes_that_cannot_be_subclassed_are_uncounted_and_unchanged(
    dataset: Any,
) -> None:
    kind, slots = type(dataset), [0, 0]
    count_samples(dataset, slots, 1)
    assert slots == [0, UNCOUNTED]
    assert type(dataset) is kind
    plain = Plain()  # in a new worker with the same number
    count_samples(plain, slots, 1)
    assert type(plain) is Plain


def test_the_count_is_unknown_if_a_worker_cannot_count() -> None:
    log = BatchLog(3)
    assert log.produced() == 0
    log.samples[0], log.samples[2] = 4, 6
    assert log.produced() == 10
    log.samples[1] = UNCOUNTED
    assert log.produced() is None


def test_a_worker_whose_part_of_the_stream_ends_before_its_first_batch_is_unfed() -> (
    None
):
    log = BatchLog(3)
    log.add(0, 0.0, 1.0, BatchCost(0.1, 0.0))
    log.add_end(0)
    log.add_end(1)
    assert log.unfed() == 1
    log.begin_epoch()
    assert log.unfed() == 0
    log.add_end(0)  # it had a batch in the epoch before
    assert log.unfed() == 1


class Started(Plain):
    """Each sample is the worker in which the user's function ran."""

    worker_id = -1

    def __getitem__(self, index: int) -> Any:
        return self.worker_id


def started_by_user(worker_id: int) -> None:
    """A user's worker_init_fn, importable for spawned workers; it runs before the samples are counted."""
    worker = get_worker_info()
    assert worker is not None
    assert type(worker.dataset) is Started
    worker.dataset.worker_id = worker_id


# Since Python 3.12, a fork of a process with threads warns; pytest-xdist has threads.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_all_samples_of_real_workers_are_counted() -> None:
    timer = BatchTimer(BatchLog(2))
    start = WorkerStart(timer, started_by_user)
    loader = DataLoader(Started(48), batch_size=8, num_workers=2, worker_init_fn=start)
    for epoch in (1, 2):  # counting continues in the second epoch
        assert sorted(torch.cat(list(loader)).tolist()) == [0] * 24 + [1] * 24
        assert timer.log.produced() == 48 * epoch
    assert min(timer.log.samples) > 0


def test_some_samples_of_a_worker_are_logged_in_its_first_epoch(tmp_path: Path) -> None:
    log, slots = SampleLog(str(tmp_path)), [0, 0]
    dataset = Plain(100)
    count_samples(dataset, slots, 1, log)
    for first in range(0, 100, 10):
        fetch(dataset, list(range(first, first + 10)))
    logged = log.read()
    assert [sample.key for sample in logged] == [
        0,
        9,
        10,
        19,
        30,
        39,
        70,
        79,
    ]  # of batches 0, 1, 3, 7
    assert {sample.worker for sample in logged} == {1}
    assert logged[1].parts == tuple(parts_of(torch.tensor(9)))
    again = Plain(100)
    count_samples(again, slots, 1, log)
    fetch(again, [3])
    assert log.read() == logged
    stream = Stream(200)
    count_samples(stream, slots, 0, log)
    assert len(list(stream)) == 200
    assert [sample.key for sample in log.read() if sample.worker == 0] == list(
        range(64)
    )


@pytest.mark.parametrize(
    ("sample", "count"),
    [
        ({"ids": [7] * 65, "mask": (True, 0.5) * 40}, 2),
        ([7] * 64, 64),
        ([*[7] * 64, "text"], 65),
        ([[7, 8], []], 3),
    ],
)
def test_a_long_list_of_numbers_is_one_part_of_a_sample(
    sample: Any, count: int
) -> None:
    assert len(list(parts_of(sample))) == count
    assert (
        list(parts_of([7] * 65))
        == list(parts_of([7] * 65))
        != list(parts_of([*[7] * 64, 8]))
    )


def test_samples_that_cannot_be_logged_are_skipped(tmp_path: Path) -> None:
    log = SampleLog(str(tmp_path))
    log.note(0, [1, 2], "a key that is a list")
    log.note(0, "a name", "text")
    with (tmp_path / "samples-0").open("ab") as file:
        file.write(b'{"worker": 0, "ke')  # being written
    assert [sample.key for sample in log.read()] == ["a name"]
    SampleLog(str(tmp_path / "gone")).note(0, 1, 1)
