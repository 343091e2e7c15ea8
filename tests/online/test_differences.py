"""What workers would change in the samples of a program: prevented, undone, or told in
the line."""

import contextlib
import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from nws_sweep.online.autotune import autotune, watch
from tests.online.test_iterator import Items, scripted

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.usefixtures("forked_workers"),
]


class Numbers(Dataset[Any]):
    """Each sample is its index and what ``draw`` gives."""

    def __init__(self, draw: Any = lambda: 0.0) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, float(self.draw())


def loader_of(dataset: Any, **keywords: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=2, **keywords)


def taken(loader: Any, epochs: int = 3) -> list[Any]:
    """The indices and the other parts of each epoch."""
    found = []
    for _ in range(epochs):
        indices, others = zip(*loader, strict=True)
        found.append((torch.cat(indices).tolist(), torch.cat(others).tolist()))
    return found


def lines_of(tuned: Any) -> list[str]:
    lines: list[str] = []
    tuned._own_tuner().note = lines.append
    return lines


def test_augmentations_with_a_generator_of_the_datasets_own_do_not_repeat() -> None:
    tuned = scripted(
        loader_of(Numbers(np.random.RandomState(0).random)), {(1, 0): 3, (2, 5): 5}
    )
    lines = lines_of(tuned)
    drawn = [number for _, numbers in taken(tuned) for number in numbers]
    assert len(set(drawn)) == 3 * 48
    told = "Numbers: num_workers=3 from batch 0 of epoch 1 on: workers seed the random number generators"
    assert lines[0] == f"{told} of the dataset (draw)"


def test_a_file_that_the_program_has_opened_is_not_shared_by_workers(
    tmp_path: Path,
) -> None:
    class Lazy(Numbers):
        file: Any = None

        def __getitem__(self, index: int) -> tuple[int, float]:
            self.file = self.file or path.open("rb")
            self.file.seek(index)
            return index, float(self.file.read(1)[0])

    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(48)))
    dataset = Lazy()
    tuned = scripted(loader_of(dataset), {(0, 4): 2, (1, 0): 2})
    assert taken(tuned, 2) == [(list(range(48)), list(range(48)))] * 2
    shared = f"forked workers would share dataset.file (BufferedReader of {path}): it was opened or made with the first"
    assert tuned.tuning.reason.startswith(shared)
    dataset.file.close()


@pytest.mark.parametrize(("most", "workers"), [(200, 0), (6, 2)])
def test_a_dataset_that_keeps_its_samples_has_no_workers_until_it_keeps_no_more(
    most: int, workers: int
) -> None:
    """Workers would begin with few of the samples."""

    class Keeping(Numbers):
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[Any] = []

        def __getitem__(self, index: int) -> tuple[int, float]:
            self.kept.append(index)
            del self.kept[most:]
            time.sleep(0.005)
            return super().__getitem__(index)

    tuned = scripted(
        loader_of(Keeping()), {(0, batch): 2 for batch in range(4, 24)} | {(1, 0): 2}
    )
    assert taken(tuned, 2) == taken(loader_of(Numbers()), 2)
    assert tuned.num_workers == workers
    if not workers:
        held = "making samples changes the dataset (dataset.kept), which workers would not share"
        assert tuned._own_tuner().held == held


class Counting(Numbers):
    """Each sample has a number."""

    made = 0

    def __getitem__(self, index: int) -> tuple[int, float]:
        self.made += 1
        return index, float(self.made)


def test_a_dataset_that_counts_its_samples_has_no_workers() -> None:
    plan = {(0, batch): 2 for batch in range(4, 24)} | {(1, 0): 2, (2, 0): 2}
    tuned = scripted(loader_of(Counting()), plan)
    assert taken(tuned) == taken(loader_of(Counting()))
    assert (tuned.num_workers, tuned._own_tuner().held) == (
        0,
        "making samples changes the dataset, which workers would not share",
    )


def test_after_an_epoch_in_which_the_program_changes_the_dataset_it_has_no_workers() -> (
    None
):
    class Labelled(Numbers):
        label = 0.0

        def __getitem__(self, index: int) -> tuple[int, float]:
            return index, self.label

    dataset = Labelled()
    tuned = scripted(loader_of(dataset), {(1, 0): 2})
    seen = []
    for epoch in range(4):
        labels = set()
        for batch, (_, label) in enumerate(tuned):
            labels.update(label.tolist())
            if epoch > 1 and batch == 12:
                dataset.label += 1
        seen.append(labels)
    assert seen == [{0.0}, {0.0}, {0.0}, {1.0, 2.0}]
    assert tuned.tuning.reason.startswith("the dataset is changed within an epoch")


def test_a_descriptor_that_no_search_finds_has_a_position_in_each_worker(
    tmp_path: Path,
) -> None:
    class Descriptor(Numbers):
        def __getitem__(self, index: int) -> tuple[int, float]:
            os.lseek(descriptor, index, os.SEEK_SET)
            time.sleep(0.002)
            return index, float(os.read(descriptor, 1)[0])

    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(48)))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        tuned = scripted(loader_of(Descriptor()), {(1, 0): 4})
        assert taken(tuned, 2) == [(list(range(48)), list(range(48)))] * 2
        assert tuned.num_workers == 4
    finally:
        os.close(descriptor)


def test_a_lock_that_a_thread_holds_is_not_copied_into_workers() -> None:
    class Locked(Numbers):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    dataset = Locked()
    may_end, has_lock = threading.Event(), threading.Event()

    def hold() -> None:
        with dataset.lock:
            has_lock.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    has_lock.wait()
    try:
        tuned = scripted(loader_of(dataset), {(1, 0): 2})
        assert taken(tuned, 2) == taken(loader_of(Numbers()), 2)
    finally:
        may_end.set()
        thread.join()
    assert (tuned.num_workers, tuned.tuning.reason) == (
        0,
        "another thread of the program uses a lock of the dataset",
    )


class CorruptError(Exception):
    """Pickling does not make it again, so that torch raises RuntimeError for it."""

    def __init__(self, index: int, code: int) -> None:
        super().__init__(f"sample {index}")
        self.code = code


def test_a_program_without_workers_has_its_own_errors() -> None:
    class Partly(Numbers):
        def __getitem__(self, index: int) -> tuple[int, float]:
            if index in {9, 30, 31}:
                raise CorruptError(index, 7)
            return super().__getitem__(index)

    def run(loader: Any) -> list[Any]:
        found: list[Any] = []
        for _ in range(2):
            batches = iter(loader)
            while True:
                try:
                    indices, _ = next(batches)
                    found.append(indices.tolist())
                except CorruptError as error:
                    found.append((str(error), error.code, error.__context__))
                except StopIteration:
                    break
        return found

    tuned = scripted(loader_of(Partly()), {(1, 0): 2})
    assert run(tuned) == run(loader_of(Partly()))
    assert tuned.tuning.reason.startswith("RuntimeError with num_workers=2: ")


def test_workers_of_a_stream_do_not_leave_out_incomplete_batches_each() -> None:
    stream = EachWorkerHasAnEpoch()
    tuned = scripted(loader_of(stream, drop_last=True), {(1, 0): 2})
    assert [sum(1 for _ in tuned) for _ in range(2)] == [10, 10]
    assert tuned.tuning.reason.startswith("with drop_last=True each worker leaves out")


@pytest.mark.parametrize("is_persistent", [False, True])
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_change_of_the_dataset_reaches_the_workers_that_it_reaches_without_tuning(
    is_persistent: bool, epoch: int
) -> None:
    def run(*, is_tuned: bool) -> list[Any]:
        dataset = Items(24)
        plain = loader_of(dataset, num_workers=1, persistent_workers=is_persistent)
        loader = (
            scripted(plain, {(epoch, 5): 3, (epoch + 1, 0): 3}) if is_tuned else plain
        )
        found: list[Any] = []
        for number in range(3):
            for batch, (indices, _) in enumerate(loader):
                found.append(indices.tolist())
                if (number, batch) == (epoch, 2):
                    dataset.count = 12
        return found

    assert run(is_tuned=True) == run(is_tuned=False)


def warned() -> float:
    """1 if warnings are errors, as in these tests."""
    with contextlib.suppress(UserWarning):
        warnings.warn("an odd sample", stacklevel=1)
        return 0.0
    return 1.0


def is_handled() -> bool:
    return callable(signal.getsignal(signal.SIGUSR1))


@pytest.mark.parametrize(
    ("draw", "own", "others"),
    [(is_handled, 0, 0.0), (is_handled, 1, 1.0), (warned, 0, 1.0)],
)
def test_new_workers_have_the_warning_filters_of_the_program_and_its_signal_handlers_only_if_it_has_workers(
    draw: Any, own: int, others: float
) -> None:
    """Handlers would save a checkpoint with the weights as they were at the fork, for
    example."""
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        seen = [
            set(drawn)
            for _, drawn in taken(
                scripted(loader_of(Numbers(draw), num_workers=own), {(1, 0): 3}), 2
            )
        ]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [{1.0}, {others}]


def test_another_order_of_later_epochs_is_told() -> None:
    def shuffled(draw: Any) -> Any:
        return scripted(loader_of(Numbers(draw), shuffle=True), {(1, 0): 2})

    drawing, other = shuffled(lambda: torch.rand(())), shuffled(random.random)
    lines, none = lines_of(drawing), lines_of(other)
    assert [
        len(set(indices)) for loader in (drawing, other) for indices, _ in taken(loader)
    ] == [48] * 6
    assert [
        ("later epochs have a different order than without workers" in line)
        for line in lines
    ] == [True]
    assert not none


class EachWorkerHasAnEpoch(IterableDataset[Any]):
    """20 samples of each worker, as of a resampled stream."""

    def __iter__(self) -> Iterator[tuple[int, float]]:
        worker = get_worker_info()
        return (
            (20 * (worker.id, worker.num_workers)[0] + n if worker else n, 0.0)
            for n in range(20)
        )


@pytest.mark.parametrize(
    ("workers", "wanted", "longest"), [(0, 8, 21), (2, 8, 34), (2, 1, 20)]
)
def test_epochs_whose_length_depends_on_the_workers_get_their_length_back(
    workers: int, wanted: int, longest: int
) -> None:
    tuned = scripted(
        loader_of(EachWorkerHasAnEpoch(), num_workers=workers), {(1, 0): wanted}
    )
    plain = 10 * max(1, workers)
    lengths = [sum(1 for _ in tuned) for _ in range(4)]
    assert (lengths[0], lengths[2:], max(lengths)) == (plain, [plain] * 2, longest)
    assert tuned.tuning.reason.startswith(
        "the length of an epoch depends on num_workers: "
    )


class CountsOnWorkers(DataLoader[Any]):
    def state_dict(self) -> Any:
        return {"num_workers": self.num_workers}


class SavedByIterators(DataLoader[Any]):
    """In the layout of torchdata's StatefulDataLoader."""

    next_iter_state: Any

    def _get_iterator(self) -> Any:
        made, self.begun_with = (
            super()._get_iterator(),
            (self.next_iter_state, self.num_workers),
        )
        vars(made)["state_dict"] = lambda: {
            "_snapshot": {"_main_snapshot": {"_num_workers": self.num_workers}}
        }
        begun.append(self.begun_with)
        return made

    def state_dict(self) -> Any:
        return self._iterator.state_dict()  # type: ignore[union-attr]


begun: list[Any] = []


class Wrapping:
    """In the layout of PyTorch Geometric's iterator."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator

    def __next__(self) -> Any:
        return next(self.iterator)

    def _reset(self, loader: Any) -> None:
        self.iterator._reset(loader)


class WrapsIterators(DataLoader[Any]):
    def _get_iterator(self) -> Any:
        return Wrapping(super()._get_iterator())


def test_iterators_that_wrap_those_of_torch_serve_later_epochs_too() -> None:
    plain = WrapsIterators(
        Numbers(), batch_size=2, shuffle=True, num_workers=1, persistent_workers=True
    )
    tuned = scripted(plain, {(2, 0): 2})
    torch.manual_seed(0)
    expected = taken(plain, 4)
    torch.manual_seed(0)
    assert taken(tuned, 4) == expected
    assert (tuned.num_workers, len(tuned._own_tuner().worker_pids)) == (2, 2)


def test_a_loader_whose_own_state_counts_on_its_workers_keeps_them() -> None:
    tuned: Any = autotune(
        CountsOnWorkers(Numbers(), batch_size=2), reuse="never", progress=False
    )
    assert taken(tuned, 1) == taken(loader_of(Numbers()), 1)
    assert tuned.tuning.reason.startswith(
        "the state_dict() of CountsOnWorkers needs the same num_workers; tune()"
    )


def test_a_state_of_an_iterator_is_loaded_with_its_number_of_workers_and_once() -> None:
    def stateful(script: Any, state: Any = None) -> Any:
        plain = SavedByIterators(Numbers(), batch_size=2)
        plain.next_iter_state = state
        return scripted(plain, script)

    begun.clear()
    saving = stateful({(1, 0): 3})
    lines = lines_of(saving)
    taken(saving, 1)
    saving._iterator = iter(saving)
    state = saving.state_dict()
    loading = stateful({}, state)
    assert taken(loading, 2) == taken(loader_of(Numbers()), 2)
    assert begun[-2:] == [(state, 3), (None, 3)]
    assert "a state_dict() saved with num_workers=3 needs this" in lines[0]


def test_a_state_that_is_loaded_after_watching_has_ended_is_loaded_once() -> None:
    watched: Any = watch(SavedByIterators(Numbers(), batch_size=2), progress=False)
    watched._own_tuner().decide("watched for long enough")
    watched.next_iter_state = {"_snapshot": None}
    begun.clear()
    taken(watched, 2)
    assert begun == [({"_snapshot": None}, 0), (None, 0)]
