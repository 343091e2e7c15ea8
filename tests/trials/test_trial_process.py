"""Real processes: faults end only their trial process, and nothing of it is left."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
)

from nws_sweep.dataloading.loaders import Source
from nws_sweep.dataloading.orders import TimedBatches
from nws_sweep.dataloading.recording import WorkerStart
from nws_sweep.errors import (
    ConfigurationError,
    DatasetError,
    TimeLimitReached,
    TrialError,
    TrialInterrupted,
    TrialTimeout,
)
from nws_sweep.records import LoaderSettings, ProcessSpec, WindowKind, WindowRequest
from nws_sweep.system import fork_server, processes, torch_internals
from nws_sweep.trials import trial_process
from nws_sweep.trials.commands import TrialCommands
from tests.conftest import ROOT
from tests.dataloading.test_loaders import DATA, collate
from tests.factories import process_spec as spec
from tests.fakes import FakeClock
from tests.user_datasets import Endless

pytestmark = pytest.mark.usefixtures("no_leftovers")

ROWS = TensorDataset(torch.zeros(4, 3))
WHOLE_EPOCH = WindowRequest(kind=WindowKind.EPOCH)
USERS = "tests.user_datasets"


def settings(num_workers: int, **changes: Any) -> LoaderSettings:
    return LoaderSettings(batch_size=8, num_workers=num_workers, **changes)


class TwoRows(IterableDataset[torch.Tensor]):
    """Gives two batches of two samples."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.zeros(2, 2, 3))


def one_epoch(chosen: ProcessSpec, used: LoaderSettings) -> Any:
    with trial_process.start(
        chosen, trial_process.Supervision(kill_after_s=60.0)
    ) as process:
        process.open(used)
        return process.window(WHOLE_EPOCH)


@pytest.mark.parametrize(
    ("num_workers", "context"), [(0, None), (3, None), (1, "spawn"), (1, "forkserver")]
)
def test_an_epoch_is_complete_with_each_start_method(
    num_workers: int, context: str | None
) -> None:
    """The dataset raises an exception unless the fork server's modules are excluded
    from garbage collection."""
    node = {"_target_": f"{USERS}.ragged", "_partial_": True}
    chosen = spec("Frozen", changes={"collate_fn": node}, length=50)
    window = one_epoch(chosen, settings(num_workers, multiprocessing_context=context))
    assert (window.batches, window.samples, window.ended_epoch) == (7, 50, True)


def test_a_kept_iterator_is_made_once_with_all_that_a_trial_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: Any = TrialCommands(spec("Plain"), str(tmp_path))
    data = SimpleNamespace(source=Source(Endless(DATA, batch_size=8), seed=0), files={})
    vars(commands).update(_data=data, _training_step=len, _collate_fn=collate)
    made: list[Any] = []
    monkeypatch.setattr(
        torch_internals, "new_iterator", lambda loader: made.append({**vars(loader)})
    )
    commands.open(settings(2), 0.5)
    (found,) = made
    kinds = (
        type(found["worker_init_fn"]),
        type(found["batch_sampler"]),
        found["collate_fn"],
    )
    assert kinds == (WorkerStart, TimedBatches, collate)
    assert found["batch_sampler"].order == []  # of the runs
    # it makes batches before their epoch begins
    assert commands._loader._session.produced() is None


@pytest.mark.parametrize(
    ("loader", "batches"),
    [
        (DataLoader(ROWS, batch_size=None, shuffle=True), 4),
        (
            DataLoader(
                ROWS,
                batch_size=None,
                sampler=BatchSampler(SequentialSampler(ROWS), 2, False),
            ),
            2,
        ),
        (DataLoader(ROWS, batch_sampler=[[0, 1], [2, 3]]), 2),
        (DataLoader(TwoRows(), batch_size=None), 2),  # makes batches
    ],
)
def test_without_a_batch_size_an_item_is_a_sample_unless_it_is_a_batch(
    loader: Any, batches: int
) -> None:
    """Samples are rows of three numbers."""
    commands: Any = TrialCommands(spec("Plain"), "")
    vars(commands).update(
        _data=SimpleNamespace(source=Source(loader, seed=0), files={}), _collate_fn=None
    )
    commands._training_step, random_state = id, torch.get_rng_state()
    commands.open(LoaderSettings(batch_size=None), 0.0)
    assert torch.equal(torch.get_rng_state(), random_state)
    window = commands.window(WHOLE_EPOCH)
    assert (window.batches, window.samples) == (batches, 4)


def test_workers_have_the_platforms_start_method() -> None:
    with trial_process.start(spec("Plain")) as process:
        process.open(settings(33, pin_memory=True))
        process.window(WindowRequest(kind=WindowKind.STEADY))
        server = int(processes.start_method() == "forkserver")
        assert len(psutil.Process(process.pid).children(recursive=True)) == 33 + server
        assert process.warned() == ()  # torch warns about so many workers


AT_LENGTH = (
    "^RuntimeError: shape mismatch: expected 3 See the documentation "
    r"in fail \(user_datasets.py:\d+\)$"
)


@pytest.mark.parametrize(
    ("name", "num_workers", "reason"),
    [
        ("RaisesAtLength", 0, AT_LENGTH),
        ("RaisesAtLength", 1, AT_LENGTH),
        ("Killed", 0, "^the trial process was killed by SIGKILL$"),
        ("Exits", 0, "^the trial process ended with exit status 3$"),
    ],
)
def test_the_reason_of_a_failed_sample_is_reported(
    name: str, num_workers: int, reason: str
) -> None:
    with pytest.raises(TrialError, match=reason):
        one_epoch(spec(name), settings(num_workers))


def test_a_command_to_a_process_that_hangs_ends_with_the_limit_of_the_search() -> None:
    limits = trial_process.Supervision(kill_after_s=600.0)
    with trial_process.start(spec("Hangs"), limits) as process:
        process.open(settings(1))
        process.deadline_s = time.perf_counter() + 0.5
        for _ in range(2):  # its later answers would be those of the first command
            with pytest.raises(TimeLimitReached):
                process.window(WHOLE_EPOCH)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (EOFError(), "^the fork server has exited: something has ended it$"),
        # on macOS
        (
            RuntimeError("did not receive acknowledgement of fd"),
            "^the fork server has exited",
        ),
        (
            BlockingIOError(11, "unavailable"),
            r"^the trial process could not be started: \[Errno 11\] unavailable$",
        ),
    ],
)
def test_the_reason_of_a_failed_start_is_reported(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, reason: str
) -> None:
    monkeypatch.setattr(fork_server, "fork", Mock(side_effect=failure))
    with pytest.raises(TrialError, match=reason):
        trial_process.start(spec("Plain")).__enter__()


def test_the_limit_of_the_search_holds_while_the_fork_server_imports_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        fork_server.ForkServer, "is_ready", lambda server, within_s: within_s > 0
    )
    monkeypatch.setattr(fork_server, "fork", Mock(side_effect=AssertionError))
    with pytest.raises(TimeLimitReached):
        trial_process.start(
            spec("Plain"), trial_process.Supervision(deadline_s=0.0)
        ).__enter__()


def answering(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], **limits: Any
) -> trial_process.ChildProcess:
    """A simulated trial process that gives these answers at these moments."""
    clock = FakeClock()
    connection = SimpleNamespace(
        send=lambda command: None, recv=lambda: answers.pop(0)[1]
    )

    def wait(objects: Any, timeout_s: float) -> list[Any]:
        clock.advance(timeout_s)
        return [connection] if clock.now >= answers[0][0] else []

    monkeypatch.setattr(trial_process, "wait", wait)
    monkeypatch.setattr(trial_process, "time", SimpleNamespace(perf_counter=clock))
    child: Any = SimpleNamespace(pid=0, connection=connection, sentinel=None)
    return trial_process.ChildProcess(
        child, "fork", trial_process.Supervision(**limits), None
    )


@pytest.mark.parametrize(
    ("progress_s", "stalls"),
    [((5.0, 10.0, 15.0, 20.0, 25.0), 0), ((15.0,), 2), ((), 1)],
)
def test_a_command_stalls_if_no_progress_is_reported_for_10_s(
    progress_s: tuple[float, ...], stalls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_stall, lines = Mock(), list[str]()
    answers = [
        *((at_s, ("progress", "")) for at_s in progress_s),
        (27.0, ("result", ("old",))),
    ]
    process = answering(monkeypatch, answers, on_progress=lines.append)
    process.on_stall = on_stall
    assert process.warned() == ("old",)
    assert (on_stall.call_count, lines) == (stalls, [])


def test_the_time_limit_holds_for_all_commands_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = answering(
        monkeypatch, [(3.0, ("result", ())), (6.0, ("result", ()))], kill_after_s=5.0
    )
    assert process.warned() == ()
    with pytest.raises(
        TrialTimeout,
        match=r"^not finished within measure.kill_after_s=5 s; it was killed$",
    ):
        process.warned()


NEGATIVE_SLEEP = {
    "_target_": "nws_sweep.dataloading.training_steps.Sleep",
    "seconds_per_batch": -1,
}
NO_FILES = {"_target_": "torchvision.datasets.MNIST", "root": "nowhere"}
PIXELS = {
    "_target_": "nws_sweep.datasets.synthetic.pixels",
    "dataset": NO_FILES | {"root": "~no_such_user/data"},
}
REMEDY = r" needs \+\+training_step._partial_=true"


@pytest.mark.parametrize(
    ("dataset", "training_step", "kind", "message"),
    [
        (
            {"_target_": f"{USERS}.Plain", "length": 0},
            {},
            DatasetError,
            "is empty: 0 samples",
        ),
        (
            {"_target_": "no_such_module.Dataset"},
            {},
            DatasetError,
            "No module named 'no_such_module'",
        ),
        (
            NO_FILES,
            {},
            DatasetError,
            r"RuntimeError: .*; put its files into /.*/nowhere/MNIST/raw$",
        ),
        (
            PIXELS,
            {},
            DatasetError,
            "pixels: .*; put its files into /.*/~no_such_user/data/MNIST/raw$",
        ),
        (
            {},
            NEGATIVE_SLEEP,
            ConfigurationError,
            "^training_step.seconds_per_batch=-1: must be a",
        ),
        (
            {},
            {"_target_": "builtins.dict"},
            ConfigurationError,
            rf"dict: .*got dict, which cannot be called.*{REMEDY}",
        ),
        (
            {},
            {"_target_": f"{USERS}.step"},
            ConfigurationError,
            rf"step: .*missing 1 required.*{REMEDY}",
        ),
    ],
)
def test_invalid_datasets_and_training_steps_are_reported_in_one_line(
    dataset: dict[str, Any],
    training_step: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    changes = {
        key: node
        for key, node in (("dataset", dataset), ("training_step", training_step))
        if node
    }
    with (
        pytest.raises(kind, match=message) as caught,
        trial_process.start(spec("Plain", changes=changes)),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_output_of_a_dataset_is_logged_and_its_warnings_recorded(
    tmp_path: Path, capfd: Any
) -> None:
    with trial_process.start(spec("Talks", tmp_path / "trial.log")) as process:
        assert process.warned() == ("this dataset is old",)
    assert (tmp_path / "trial.log").read_text() == "hello from the dataset\n"
    assert capfd.readouterr() == ("", "")


def test_at_most_five_warnings_are_recorded() -> None:
    commands = TrialCommands(spec("Plain"), "")
    for index in range(7):
        commands.record_warning(f"bad sample {index}")
    assert commands.warned() == (
        *(f"bad sample {index}" for index in range(5)),
        "further warnings omitted",
    )


def test_a_worker_killed_between_commands_fails_the_next_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Paused workers are likely victims of the out-of-memory killer."""
    monkeypatch.setattr(processes, "out_of_memory_kills", itertools.count().__next__)
    with trial_process.start(spec("Plain", length=4000)) as process:
        process.open(settings(2))
        process.window(WindowRequest(kind=WindowKind.STEADY))
        for worker in psutil.Process(process._child.pid).children():
            worker.kill()
        time.sleep(0.3)
        with pytest.raises(
            TrialInterrupted, match=r"DataLoader worker.*the kernel ran out of memory"
        ):
            process.window(WindowRequest(kind=WindowKind.STEADY, min_batches=400))


def test_persistent_workers_finish_an_epoch_before_the_next_one_is_timed() -> None:
    with trial_process.start(spec("Slow", length=48, seconds=0.02)) as process:
        process.open(settings(2, persistent_workers=True, prefetch_factor=2))
        process.window(WindowRequest(kind=WindowKind.STEADY, min_batches=2))
        again = process.window(
            WindowRequest(kind=WindowKind.WARM_UP, min_batches=6, fresh=True)
        )
    assert again.startup_s is not None
    assert (again.batches, again.produced) == (6, 48)  # none of the previous epoch


def test_an_interruption_during_an_orderly_exit_kills_a_hanging_trial_process() -> None:
    with (
        contextlib.suppress(KeyboardInterrupt),
        trial_process.start(spec("Hangs")) as process,
    ):
        process.open(settings(1, multiprocessing_context="spawn"))
        process.connection.send(("window", WHOLE_EPOCH))
        pid = process._child.pid
        timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        timer.join()
    assert pid is not None
    assert not processes.running([pid])


_IN_SMALL_SHM = """
from nws_sweep.trials import trial_process
from nws_sweep.records import LoaderSettings, WindowKind, WindowRequest
from tests.factories import process_spec
with trial_process.start(process_spec("Heavy", length=4000, values=32768)) as process:
    process.open(LoaderSettings(batch_size=8, num_workers=8))
    process.window(WindowRequest(kind=WindowKind.EPOCH))
"""


def test_too_little_shared_memory_is_the_reason_of_a_failure() -> None:
    """In a mount namespace whose /dev/shm has 8 MB; of batches of 1 MB, 8 workers have
    17 in flight."""
    mount = 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$0" -c "$1"'
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        mount,
        sys.executable,
        _IN_SMALL_SHM,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    *_, reason = done.stderr.splitlines()
    if reason.startswith(("unshare:", "mount:")):
        pytest.skip(f"no mount namespaces here: {reason}")
    assert re.match(
        r"nws_sweep\.errors\.TrialError: .*(/dev/shm|shared memory)", reason
    ), done.stderr
