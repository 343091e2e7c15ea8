"""Errors, loaders that are dropped, and changes that are not possible: the training
goes on as without tuning."""

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch.utils.data import DataLoader

import nws_sweep
from nws_sweep.online import observation, pool, pool_sequence
from nws_sweep.online.pool import Pool
from nws_sweep.records import LoaderSettings
from nws_sweep.system import processes
from tests.children import child, line_of
from tests.conftest import becomes, rounds
from tests.online.test_iterator import Items, scripted

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.usefixtures("forked_workers"),
    # After an exception torch's queues are collected in any order, descriptors before
    # the threads that use them.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Special(Items):
    """A function is called before each sample is made."""

    def __init__(self, count: int, before: Callable[[int], None]) -> None:
        super().__init__(count)
        self.before = before

    def __getitem__(self, index: int) -> tuple[int, float]:
        self.before(index)
        return super().__getitem__(index)


def fails(index: int) -> None:
    if index == 21:
        raise KeyError("no such sample")


def kills_one_of_three_workers(index: int) -> None:
    worker = torch.utils.data.get_worker_info()
    if index == 41 and worker is not None and worker.num_workers == 3:
        os.kill(os.getpid(), signal.SIGKILL)


def refuses_workers(_: int) -> None:
    if torch.utils.data.get_worker_info() is not None:
        raise RuntimeError("no device in a worker")


def with_a_function(samples: list[Any]) -> Any:
    """A batch that cannot be sent by a worker."""
    return torch.tensor([index for index, _ in samples]), lambda: None


@pytest.fixture(autouse=True)
def no_children() -> Iterator[None]:
    """Fails if a worker is left that the test has started; torch names them."""
    before = workers()
    yield
    gc.collect()
    assert becomes(lambda: not workers() - before, within_s=10), workers() - before


def workers() -> set[psutil.Process]:
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "pt_data_worker" in process.name():
                found.add(process)
    return found


@pytest.mark.parametrize("script", [{}, {(0, 2): 3}, {(0, 5): 0}, {(0, 9): 4}])
def test_a_sample_raises_at_the_same_batch_and_the_others_follow(
    script: dict[tuple[int, int], int],
) -> None:
    def taken(loader: Any) -> list[Any]:
        iterator, found = iter(loader), []
        for _ in range(30):
            try:
                found.append(next(iterator)[0].tolist())
            except KeyError as error:
                found.append("no such sample")
                # ends the workers, which a cycle of torch's would keep
                traceback.clear_frames(error.__traceback__)
        return found

    plain = DataLoader(Special(60, fails), batch_size=2, num_workers=2)
    assert taken(scripted(plain, script)) == taken(plain)


def test_a_worker_that_is_killed_raises_torchs_own_error_and_the_program_gets_its_own_workers_back() -> (
    None
):
    # Without tensors: receiving one from a killed worker may fail with a
    # ConnectionResetError before torch notices.
    plain = DataLoader(
        Special(60, kills_one_of_three_workers),
        batch_size=2,
        num_workers=2,
        collate_fn=repr,
    )
    tuned = scripted(plain, {(1, 0): 3})
    list(tuned)
    with pytest.raises(RuntimeError, match=r"killed by signal|exited unexpectedly"):
        list(tuned)
    assert tuned.num_workers == 2
    assert tuned.tuning.reason.startswith(
        "RuntimeError with num_workers=3: DataLoader worker"
    )


@pytest.mark.parametrize("change", [(0, 4), (1, 0)])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"dataset": Special(40, refuses_workers)},
            "RuntimeError: no device in a worker",
        ),
        ({"dataset": Items(40), "collate_fn": with_a_function}, "lambda"),
    ],
)
def test_batches_that_no_worker_can_make_or_send_are_still_made_without_workers(
    options: dict[str, Any], reason: str, change: tuple[int, int]
) -> None:
    tuned = scripted(DataLoader(**options, batch_size=2), {change: 2})
    assert [
        torch.cat([indices for indices, _ in tuned]).tolist() for _ in range(2)
    ] == [list(range(40))] * 2
    assert (tuned.tuning.is_decided, tuned.tuning.after.num_workers) == (True, 0)
    assert reason in tuned.tuning.reason


def test_a_daemonic_process_may_not_start_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        vars(multiprocessing.current_process())["_config"], "daemon", True
    )
    reason = "this process is daemonic, and multiprocessing lets such a process start no workers"
    tuned: Any = nws_sweep.autotune(
        DataLoader(Items(8), batch_size=2), reuse=False, progress=False
    )
    assert len(list(tuned)) == 4
    assert (tuned.tuning.after.num_workers, tuned.tuning.reason) == (0, reason)
    searched: Any = nws_sweep.tune(DataLoader(Items(8), batch_size=2), progress=False)
    assert (searched.num_workers, searched.tuning.reason) == (0, reason)


def test_new_workers_leave_the_start_method_of_the_program_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        multiprocessing.context._default_context, "_actual_context", None
    )
    # far longer than workers take to start
    tuned = scripted(DataLoader(Items(120), batch_size=2), {(0, 4): 2})
    assert len(list(tuned)) == 60
    assert [one.after.num_workers for one in tuned.tuning.switches] == [2]
    assert multiprocessing.get_start_method(allow_none=True) is None


@pytest.mark.parametrize("batches", [1, 5, 9])
def test_iterators_that_are_dropped_leave_no_process_at_random_moments(
    batches: int,
) -> None:
    for number in range(rounds(2)):
        tuned = scripted(
            DataLoader(Items(80), batch_size=2, num_workers=1),
            {(0, 3 + number % 5): 2, (1, 4): 3},
        )
        for _ in range(2):
            for count, _ in enumerate(tuned):
                if count == batches:
                    break


def test_two_iterators_at_once_each_have_all_batches() -> None:
    tuned = scripted(
        DataLoader(Items(40), batch_size=2, num_workers=1), {(0, 4): 2, (1, 4): 3}
    )
    pairs = [
        (one.tolist(), other.tolist())
        for (one, _), (other, _) in zip(tuned, tuned, strict=True)
    ]
    assert pairs == [([n, n + 1], [n, n + 1]) for n in range(0, 40, 2)]


def test_an_epoch_begins_with_the_programs_workers_if_others_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(
        loader: Any, settings: LoaderSettings, *arguments: Any, **keywords: Any
    ) -> Pool:
        if settings.num_workers == 3:
            raise OSError("no more processes")
        return Pool(loader, settings, *arguments, **keywords)

    monkeypatch.setattr(pool_sequence, "Pool", made)
    plain = DataLoader(Items(20), batch_size=2, num_workers=1, persistent_workers=True)
    tuned = scripted(plain, {(1, 0): 3})
    assert [
        torch.cat([indices for indices, _ in tuned]).tolist() for _ in range(3)
    ] == [list(range(20))] * 3
    assert (tuned.num_workers, tuned._own_tuner().epoch) == (1, 2)
    assert tuned.tuning.reason == "an epoch could not begin: OSError: no more processes"


def test_workers_in_use_stay_if_others_cannot_be_started_within_an_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failure(made: Pool) -> str:
        return "no more processes" if made.settings.num_workers == 3 else ""

    monkeypatch.setattr(Pool, "failure", property(failure))
    plain = DataLoader(Items(60), batch_size=2, num_workers=1)
    tuned = scripted(plain, {(0, 2): 2, (0, 12): 3})
    assert torch.cat([indices for indices, _ in tuned]).tolist() == list(range(60))
    assert tuned.num_workers == 2
    reason = "num_workers=3 could not be started: no more processes"
    assert tuned.tuning.reason == reason


@pytest.mark.parametrize(
    "clock",
    [
        "dataloading.device_clock.of_training",
        "online.loader_clock.LoaderClock.others_and_calls_s",
    ],
)
def test_an_epoch_begins_if_a_clock_of_the_tuning_fails(
    clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_clock(*_: Any) -> Any:
        raise OSError("no clock")

    plain = DataLoader(Items(20), batch_size=2, num_workers=1, persistent_workers=True)
    tuned: Any = nws_sweep.autotune(plain, reuse="never", progress=False)
    list(tuned)
    monkeypatch.setattr(f"nws_sweep.{clock}", no_clock)
    assert torch.cat([indices for indices, _ in tuned]).tolist() == list(range(20))
    assert tuned.tuning.reason == "tuning failed: OSError: no clock"


@pytest.mark.extended
@pytest.mark.parametrize("is_persistent", [False, True])
@pytest.mark.parametrize(
    "part",
    [
        "dataloading.loaders.order_restorer",
        "dataloading.inputs.fingerprint",
        "records.result_cache.ResultStore.find",
        "online.autotune.batches_of",
        "online.pool.Pool.__init__",
        "online.worker_probe.WorkerProbe._tell_state",
        "online.safeguards.Safeguards.note_start",
        "dataloading.recording.BatchTimer.start",
        "dataloading.recording.BatchLog.new",
        "online.tuner.Tuner.observe",
        "online.observation.TrainingTrial.given",
        "online.tuner.decide",
        "online.tuner.Tuner.switched",
        "online.tuner.Tuner.end_epoch",
    ],
)
def test_a_training_has_the_same_batches_whatever_part_of_the_tuning_fails(
    part: str, is_persistent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any, **__: Any) -> Any:
        (tmp_path / "broken").touch()  # also in a worker
        raise RuntimeError("a part is broken")

    def trained(loader: Any) -> list[Any]:
        torch.manual_seed(0)
        return [[indices.tolist() for indices, _ in loader] for _ in range(3)]

    monkeypatch.setattr(pool, "_START_WITHIN_S", 0.5)
    for name in ("_LONG_S", "_WINDOW_S"):
        monkeypatch.setattr(observation, name, 0.01)
    plain = DataLoader(
        Items(40), 2, shuffle=True, num_workers=1, persistent_workers=is_persistent
    )
    expected = trained(plain)
    tuned = nws_sweep.autotune(plain, reuse="never", progress=False, max_workers=3)
    monkeypatch.setattr(f"nws_sweep.{part}", breaks)
    assert trained(tuned) == expected
    assert (tmp_path / "broken").exists()


INTERRUPTED = """
from torch.utils.data import DataLoader
from tests.online.test_iterator import scripted
from tests.user_datasets import Slow
script = {(0, n): 1 + n % 5 for n in range(1, 200)}
loader = scripted(DataLoader(Slow(400, seconds=0.01), 2, num_workers=2, multiprocessing_context="fork"), script)
for number, batch in enumerate(loader):
    print(number, flush=True)
"""


@pytest.mark.extended
def test_a_training_that_is_interrupted_in_a_change_leaves_no_process_at_random() -> (
    None
):
    for number in range(rounds(2)):
        with child(INTERRUPTED) as process:
            while line_of(process) != "3":
                pass
            time.sleep(0.037 * (number % 9))
            family = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == -signal.SIGINT
            # before the rest of the group is killed
            _, alive = psutil.wait_procs(family, 10)
            assert not alive


def test_workers_that_would_run_the_whole_script_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys.modules["__main__"], "__file__", str(tmp_path / "train.py"), raising=False
    )
    monkeypatch.setattr(processes, "start_method", lambda: "spawn")

    def reason(source: str) -> str:
        (tmp_path / "train.py").write_text(source)
        loader: Any = nws_sweep.autotune(
            DataLoader(Items(8)), reuse="never", progress=False
        )
        return str(loader.tuning.reason)

    assert "would run the main script" in reason("train()")
    assert not reason('if __name__ == "__main__": train()')
