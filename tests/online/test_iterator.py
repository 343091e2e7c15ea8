"""Changes of settings inside and between epochs of real DataLoaders: the batches are
the same, and their order."""

import copy
import os
import pickle
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
)

from nws_sweep.dataloading import device_clock
from nws_sweep.dataloading.windows import Device
from nws_sweep.online import observation
from nws_sweep.online.autotune import autotune, watch
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.online.plan import Plan
from nws_sweep.online.tuner import Tuner
from nws_sweep.records import Configuration
from nws_sweep.records.result_cache import ResultStore
from tests.conftest import rounds
from tests.user_datasets import Repeating, Stream

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


class Items(Dataset[Any]):
    """Draws random numbers of the worker that makes a sample; without workers, those of
    the program would be used."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, float]:
        time.sleep(0.003)
        has_worker = torch.utils.data.get_worker_info() is not None
        return index, torch.rand(()).item() + random.random() + float(
            np.random.normal()
        ) if has_worker else 0.0


class EveryBatch(TrainingTrial):
    """Asks for a plan at each batch."""

    @property
    def ends_window(self) -> bool:
        return bool(self.batches.step_s)


class Scripted(Tuner):
    """Changes num_workers at given batches of given epochs, whatever was measured."""

    script: Mapping[tuple[int, int], int]

    def observe(self) -> TrainingTrial:
        return EveryBatch(self.current, self.batches_per_epoch)

    def plan(self, batch: int) -> Plan | None:
        workers = self.script.get(
            (self.epoch + (not batch), batch), self.current.num_workers
        )
        settings = replace(
            self.base, num_workers=workers, prefetch_factor=2
        ).canonical()
        return (
            None
            if workers == self.current.num_workers
            else Plan(settings, "scripted", self.epoch + (not batch))
        )


def scripted(loader: DataLoader[Any], script: Mapping[tuple[int, int], int]) -> Any:
    """A tuned loader that follows the script."""
    tuned: Any = autotune(loader, reuse="never", progress=False)
    own = {
        each.name: getattr(tuned._own_tuner(), each.name)
        for each in fields(Tuner)
        if each.init
    }
    vars(tuned)["_tuner"] = tuner = Scripted(**own)
    tuner.script = script
    return tuned


class Counting(RandomSampler):
    """Counts how often it is iterated."""

    iterated = 0

    def __iter__(self) -> Iterator[int]:
        self.iterated += 1
        return super().__iter__()


def loader_of(draw: random.Random) -> tuple[DataLoader[Any], Counting]:
    """A loader as a program may make it."""
    items = Items(draw.randint(1, 60))
    sampler = Counting(items, replacement=draw.random() < 0.3)
    workers = draw.choice([1, 2])
    common: dict[str, Any] = {
        "num_workers": workers,
        "persistent_workers": draw.random() < 0.4,
        "prefetch_factor": draw.choice([1, 2]),
    }
    kind = draw.choice(["batch_size", "batch_size", "batch_sampler", "no batches"])
    if kind == "batch_size":
        own: dict[str, Any] = {
            "batch_size": draw.randint(1, 7),
            "drop_last": draw.random() < 0.5,
            "sampler": sampler,
        }
    elif kind == "batch_sampler":
        own = {"batch_sampler": BatchSampler(sampler, 3, drop_last=False)}
    else:
        own = {"batch_size": None, "sampler": sampler}
    return DataLoader(items, **common, **own), sampler


def epochs(loader: Any, sampler: Counting, count: int = 3) -> list[Any]:
    """The indices of each batch, and random numbers of this process meanwhile and after
    each epoch."""
    found: list[Any] = []
    for _ in range(count):
        found += [
            (torch.as_tensor(indices).tolist(), float(np.random.normal()))
            for indices, _ in loader
        ]
        found.append(
            (
                torch.rand(()).item(),
                random.random(),
                float(np.random.normal()),
                sampler.iterated,
            )
        )
    return found


@pytest.mark.parametrize("seed", range(rounds(6)))
def test_batches_and_random_numbers_are_those_of_the_plain_loader_with_changes_at_random(
    seed: int,
) -> None:
    draw = random.Random(seed)
    plans = [(draw.randrange(3), draw.randrange(12)) for _ in range(6)]
    script = {plan: draw.choice([0, 1, 2, 3, 5, 8]) for plan in plans}

    def run(*, is_tuned: bool) -> tuple[list[Any], Any]:
        loader, sampler = loader_of(random.Random(seed))
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        made = scripted(loader, script) if is_tuned else loader
        return epochs(made, sampler), made

    (expected, _), (found, tuned) = run(is_tuned=False), run(is_tuned=True)
    assert found == expected
    assert all(switch.before != switch.after for switch in tuned.tuning.switches)


def test_the_observation_after_a_change_within_an_epoch_knows_what_the_pool_has_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[tuple[int, int]] = []

    def begin(trial: TrainingTrial, first: int, *times: Any, **details: Any) -> None:
        begun.append((first, details["earlier_batches"]))
        TrainingTrial.begin(trial, first, *times, **details)

    monkeypatch.setattr(EveryBatch, "begin", begin)
    tuned = scripted(DataLoader(Items(200), num_workers=1), {(0, 3): 2})
    for _ in tuned:
        pass
    (switch,) = tuned.tuning.switches
    (first, earlier_batches) = begun[-1]
    assert first - earlier_batches == switch.batch > 3


@pytest.mark.usefixtures("forked_workers")
def test_workers_of_two_pools_never_have_the_same_random_numbers() -> None:
    tuned = scripted(
        DataLoader(Items(64), batch_size=2, num_workers=2),
        {(0, 4): 4, (0, 12): 2, (0, 20): 3},
    )
    drawn = torch.cat([numbers for _, numbers in tuned]).tolist()
    assert len(set(drawn)) == 64
    assert tuned.tuning.switches


TWO_OF_SIX = "2 of 6 workers could make batches"


@pytest.mark.parametrize(
    ("dataset", "num_workers", "script", "switched", "most", "reason"),
    [
        (Stream(48), 1, {(1, 0): 2, (2, 0): 0}, [(1, 2), (2, 0)], None, ""),
        (Stream(48, 3), 1, {(1, 0): 6}, [(1, 3)], 3, ""),
        (Stream(48, 3, raises=True), 1, {(1, 0): 6}, [(1, 3)], 3, ""),
        (Stream(48, 2), 2, {(1, 0): 6}, [], 2, TWO_OF_SIX),
        (
            Stream(48, 2, raises=True),
            2,
            {(1, 0): 6},
            [],
            2,
            f"{TWO_OF_SIX} (ValueError: no shard)",
        ),
        (Repeating(48), 0, {(1, 0): 4}, [(1, 1)], 1, ""),
        (Stream(48), -1, {(1, 0): 0}, [(1, 0)], None, ""),  # with persistent workers
    ],
)
def test_an_iterable_dataset_has_all_samples_in_each_epoch_with_no_more_workers_than_share_them(
    dataset: Any,
    num_workers: int,
    script: Any,
    switched: list[tuple[int, int]],
    most: int | None,
    reason: str,
) -> None:
    plain = DataLoader(
        dataset,
        batch_size=4,
        num_workers=abs(num_workers),
        persistent_workers=num_workers < 0,
    )
    tuned = scripted(plain, script)
    assert not tuned._own_tuner().changes_within_epochs
    assert [sorted(torch.cat(list(tuned)).tolist()) for _ in range(3)] == [
        list(range(48))
    ] * 3
    assert [
        (one.epoch, one.after.num_workers) for one in tuned.tuning.switches
    ] == switched
    assert (tuned._own_tuner().most_workers, tuned.tuning.reason) == (most, reason)


@pytest.mark.parametrize(
    ("dataset", "limits", "workers"),
    [
        (Items(8), {}, 3),
        (Stream(), {}, 0),
        (Items(8), {"max_workers": 2}, 0),
        (Items(8), {"settings": ()}, 0),
    ],
)
def test_a_training_begins_with_an_earlier_answer_except_over_a_stream_or_beyond_its_limits(
    monkeypatch: pytest.MonkeyPatch, dataset: Any, limits: dict[str, Any], workers: int
) -> None:
    def find(_: object, configuration: Configuration, __: object, reuse: str) -> Any:
        recommended = replace(configuration.loader.with_workers(3), prefetch_factor=4)
        return (
            None
            if reuse == "never"
            else SimpleNamespace(verdict=SimpleNamespace(recommended=recommended))
        )

    monkeypatch.setattr(ResultStore, "find", find)
    tuned: Any = autotune(DataLoader(dataset), progress=False, **limits)
    assert tuned._own_tuner().current.num_workers == workers


def test_a_tuned_loader_is_one_of_its_class_and_can_be_pickled_and_copied() -> None:
    plain = DataLoader(Items(6), batch_size=2)
    tuned: Any = autotune(plain, reuse="never", progress=False)
    for other in (pickle.loads(pickle.dumps(tuned)), copy.copy(tuned), autotune(tuned)):
        assert isinstance(other, type(tuned))
        assert isinstance(other, DataLoader)
        assert (len(other), other.batch_size, [one.tolist() for one, _ in other]) == (
            3,
            2,
            [[0, 1], [2, 3], [4, 5]],
        )
    assert type(plain) is DataLoader
    assert vars(plain).keys() >= vars(DataLoader(Items(6))).keys()


def test_a_loader_that_another_one_is_tuned_instead_of_is_not_observed_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observation, "_WINDOW_S", 0.0)
    monkeypatch.setattr(observation, "_LONGEST_S", 0.0)
    tuned: Any = autotune(DataLoader(Items(40)), reuse="never", progress=False)
    tuned._own_tuner().may_change = lambda: False
    list(tuned)
    assert len(tuned._own_tuner().observation.windows) == 1


def test_a_program_that_counts_batches_is_watched_too() -> None:
    """As Lightning does: no batch is requested after the last one of an epoch."""
    lines: list[str] = []
    watched = watch(
        DataLoader(Items(20), batch_size=4, num_workers=2), progress=lines.append
    )
    for _ in range(2):
        batches = iter(watched)
        assert [next(batches)[0][0].item() for _ in range(5)] == list(range(0, 20, 4))
    assert len(lines) == 1


def test_a_program_that_makes_an_iterator_for_each_batch_is_told_to_keep_it() -> None:
    lines: list[str] = []
    watched = watch(
        DataLoader(Items(64), batch_size=4, shuffle=True, num_workers=2),
        progress=lines.append,
    )
    for _ in range(9):
        next(iter(watched))
    assert len(lines) == 1
    assert " s), 8 times for 8 batches\n" in lines[0].replace(" ms)", " s)")
    assert "next   keep the iterator of the DataLoader for the next batch\n" in lines[0]
    assert "\n  starting and ending workers  " in lines[0]


def test_batches_that_a_thread_takes_are_said_to_be() -> None:
    lines: list[str] = []
    for take in (list, lambda batches: _in_thread(list, batches)):
        take(
            watch(
                DataLoader(Items(64), batch_size=4, num_workers=1),
                progress=lines.append,
            )
        )
    assert [
        "another thread than the main one takes the batches" in line for line in lines
    ] == [False, True]


def _in_thread(take: Callable[[Any], object], batches: Any) -> None:
    thread = threading.Thread(target=take, args=(batches,))
    thread.start()
    thread.join()


class Busy(Device):
    """Is busy with each step for another 20 ms."""

    def pace(self) -> None:
        time.sleep(0.02)


def test_a_step_lasts_until_its_accelerator_has_finished_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_clock, "of_training", Busy)
    tuned: Any = autotune(
        DataLoader(Items(16), batch_size=4), reuse="never", progress=False
    )
    list(tuned)
    steps_s = [
        step_s
        for window in tuned._own_tuner().observation.windows
        for step_s in window.step_s
    ]
    assert len(steps_s) == 4
    assert min(steps_s) >= 0.02


def test_the_end_of_workers_of_an_epoch_that_is_left_is_a_part_of_the_time() -> None:
    watched: Any = watch(
        DataLoader(Items(64), batch_size=4, num_workers=2), progress=False
    )
    for number, _ in enumerate(watched):
        if number == 2:
            break
    timed = watched._own_tuner().time
    assert 0 < timed.dropped_s < timed.starting_s < timed.spent_s


class Uneven(IterableDataset[int]):
    """The first worker has most of the samples."""

    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        for number in range(4 if info and info.id else 40):
            time.sleep(0.01)
            yield number


def test_a_worker_with_more_than_its_share_of_a_stream_is_named_and_nothing_predicted() -> (
    None
):
    lines: list[str] = []
    batches = watch(
        DataLoader(Uneven(), batch_size=2, num_workers=2), progress=lines.append
    )
    assert len(list(batches)) == 22
    assert "shards of equal cost would let all workers end together" in lines[0]
    assert "predicted" not in lines[0]


def test_epochs_leave_no_file_open() -> None:
    tuned: Any = autotune(
        DataLoader(Items(4), batch_size=2), reuse="never", progress=False
    )
    list(tuned)
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names
    for _ in range(3):
        list(tuned)
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


class Advising(DataLoader[Any]):
    """Warns of many workers in a module of its own, as torchdata's StatefulDataLoader
    does."""

    def _get_iterator(self) -> Any:
        if self.num_workers > 1:
            warnings.warn(
                "This DataLoader will create 2 worker processes in total. Our suggested",
                stacklevel=1,
            )
        return super()._get_iterator()


def test_advice_against_workers_that_the_program_did_not_ask_for_is_not_shown() -> None:
    tuned = scripted(Advising(Items(8), batch_size=2), {(1, 0): 2})
    for _ in range(2):
        assert len(list(tuned)) == 4
    assert tuned.tuning.after.num_workers == 2
