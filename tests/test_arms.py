"""Real processes: what happens to an arm stays in the arm, and nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from nws_sweep import arms, processes
from nws_sweep.errors import ConfigurationError, DatasetError, TrialError, TrialTimeout
from nws_sweep.records import ArmSpec, BurstKind, BurstRequest, LoaderSettings
from tests.children import child, line_of
from tests.factories import arm_spec as spec

pytestmark = pytest.mark.usefixtures("no_leftovers")

WHOLE_EPOCH = BurstRequest(kind=BurstKind.EPOCH)
GONE_WITHIN_S = 30.0


def settings(num_workers: int, **changes: Any) -> LoaderSettings:
    return LoaderSettings(batch_size=8, num_workers=num_workers, **changes)


def one_epoch(chosen: ArmSpec, used: LoaderSettings, timeout_s: float | None = 60.0) -> Any:
    with arms.start(chosen, arms.Supervision(timeout_s=timeout_s)) as arm:
        arm.open(used)
        return arm.burst(WHOLE_EPOCH)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_an_epoch_is_counted_whole(num_workers: int) -> None:
    burst = one_epoch(spec("Plain", length=50), settings(num_workers))
    assert (burst.batches, burst.samples, burst.ended_epoch) == (7, 50, True)
    assert all(wait > 0 for wait in burst.wait_s)


def test_what_the_fork_server_has_loaded_is_left_out_of_garbage_collections() -> None:
    assert one_epoch(spec("Frozen"), settings(0)).samples == 64


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("nws_sweep.datasets.vision.cifar10", True),
        ("tests.user_datasets.Plain", False),
        ("nowhere.to.be.Found", False),
        ("Plain", False),
    ],
)
def test_torchvision_is_loaded_beforehand_where_the_datasets_source_names_it(target: str, expected: bool) -> None:
    assert arms.mentions(target.rpartition(".")[0], "torchvision") is expected


@pytest.mark.parametrize(
    ("name", "iterable", "samples", "batches"),
    [("Plain", False, 64, 8), ("Stream", True, None, None), ("SizedStream", True, 64, 8)],
)
def test_facts_tell_the_kind_and_length_of_a_dataset(
    name: str, iterable: bool, samples: int | None, batches: int | None
) -> None:
    with arms.start(spec(name)) as arm:
        assert (arm.facts.iterable, arm.facts.samples) == (iterable, samples)
        assert arm.facts.type == f"tests.user_datasets.{name}"
        arm.open(settings(0, shuffle=True))  # an iterable dataset has its own order; DataLoader refuses shuffle for it
        assert arm.batches_per_epoch == batches
        assert arm.burst(WHOLE_EPOCH).samples == 64


def test_workers_are_started_as_the_users_own_program_would_start_them() -> None:
    """Arms come from a fork server, but their workers must not: DataLoader's default is the platform's own."""
    with arms.start(spec("ParentPid")) as arm:
        arm.open(settings(1))
        arm.burst(BurstRequest(kind=BurstKind.STEADY))
        family = psutil.Process(arm._process.pid).children()
        assert [process.ppid() for process in family] == [arm._process.pid]


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_the_workers_start_method_can_be_chosen(context: str) -> None:
    assert one_epoch(spec("Plain"), settings(1, multiprocessing_context=context)).samples == 64


IN_WORKER = r"worker \(pid\(?s?\)? [\d, ]+\).* (killed by signal: Killed|exited unexp)"
AT_LENGTH = "^RuntimeError: shape mismatch: expected 3 See the documentation"


@pytest.mark.parametrize(
    ("name", "num_workers", "reason"),
    [
        ("Raises", 0, "^ValueError: bad sample 40$"),
        ("Raises", 2, r"^ValueError: bad sample 40 \(in a worker\)$"),
        ("RaisesAtLength", 0, f"{AT_LENGTH}$"),
        ("RaisesAtLength", 1, rf"{AT_LENGTH} \(in a worker\)$"),
        ("Killed", 0, "^the loading process was killed by SIGKILL$"),
        ("Killed", 2, IN_WORKER),
        ("Exits", 0, "^the loading process ended with exit status 3$"),
    ],
)
def test_why_a_sample_could_not_be_loaded_is_told(name: str, num_workers: int, reason: str) -> None:
    with pytest.raises(TrialError, match=reason):
        one_epoch(spec(name), settings(num_workers))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_time_limit_holds_even_when_signals_are_ignored(num_workers: int) -> None:
    began = time.monotonic()
    with pytest.raises(TrialTimeout, match=r"measure\.timeout_s=0\.5 s"):
        one_epoch(spec("Hangs"), settings(num_workers), timeout_s=0.5)
    assert time.monotonic() - began < 120  # it hangs for ever


@pytest.mark.parametrize(("collate_fn", "reason"), [("ragged", ""), ("broken_collate", "KeyError: 'label'")])
def test_a_collate_fn_is_used_and_its_failure_is_the_reason(collate_fn: str, reason: str) -> None:
    node = {"_target_": f"tests.user_datasets.{collate_fn}", "_partial_": True}
    with pytest.raises(TrialError, match=reason) if reason else contextlib.nullcontext():
        assert one_epoch(replace(spec("Plain"), collate_fn=node), settings(1)).samples == 64


USERS, REMEDY = "tests.user_datasets", r" needs \+\+consumer._partial_=true"


@pytest.mark.parametrize(
    ("dataset", "consumer", "kind", "message"),
    [
        ({"_target_": f"{USERS}.Plain", "length": 0}, {}, DatasetError, "is empty: 0 samples"),
        ({"_target_": f"{USERS}.not_a_dataset"}, {}, DatasetError, "got int, which has neither"),
        ({"_target_": "no_such_module.Dataset"}, {}, DatasetError, "No module named 'no_such_module'"),
        ({"_target_": f"{USERS}.Plain", "size": 3}, {}, DatasetError, "unexpected keyword argument 'size'"),
        ({"_target_": f"{USERS}.DiesWhenMade"}, {}, TrialError, "killed by SIGKILL"),
        (
            {},
            {"_target_": "nws_sweep.consumers.Sleep", "seconds_per_batch": -1},
            ConfigurationError,
            "=-1: allowed is a",
        ),
        ({}, {"_target_": "builtins.dict"}, ConfigurationError, rf"dict: .*got dict, which cannot be called.*{REMEDY}"),
        ({}, {"_target_": f"{USERS}.step"}, ConfigurationError, rf"step: .*missing 1 required.*{REMEDY}"),
    ],
)
def test_what_cannot_be_made_or_used_is_told_in_one_line(
    dataset: dict[str, Any], consumer: dict[str, Any], kind: type[Exception], message: str
) -> None:
    usual = spec("Plain")
    chosen = replace(usual, dataset=dataset or usual.dataset, consumer=consumer or usual.consumer)
    with pytest.raises(kind, match=message) as caught, arms.start(chosen):
        pass
    assert "\n" not in str(caught.value)


def test_what_a_dataset_prints_goes_to_the_log_and_its_warnings_are_noted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with arms.start(spec("Talks", tmp_path / "arms.log")) as arm:
        assert arm.warned() == ("this dataset is old",)
    assert (tmp_path / "arms.log").read_text() == "hello from the dataset\n"
    assert capfd.readouterr() == ("", "")


def test_a_warning_for_each_sample_does_not_flood_the_notes() -> None:
    with arms.start(spec("WarnsForEachSample")) as arm:
        arm.open(settings(0))
        arm.burst(WHOLE_EPOCH)
        assert arm.warned() == (*(f"bad sample {index}" for index in range(5)), "further warnings are left out")


def test_torchs_advice_on_the_number_of_workers_is_not_noted() -> None:
    with arms.start(spec("Plain")) as arm:
        arm.open(settings(33, pin_memory=True))
        arm.burst(BurstRequest(kind=BurstKind.STEADY))
        assert arm.warned() == ()


SCRIPT = """
import psutil, torch
from nws_sweep import arms
from nws_sweep.records import ArmSpec, BurstKind, BurstRequest, LoaderSettings

torch.ones(500, 500) @ torch.ones(500, 500)  # a fork of this process could hang at its first operation
print("training", flush=True)
spec = ArmSpec(
    dataset={"_target_": "nws_sweep.datasets.synthetic.tensor", "length": 6000},
    consumer={"_target_": "nws_sweep.consumers.Nothing"},
)
with arms.start(spec, arms.Supervision(timeout_s=60)) as arm:
    arm.open(LoaderSettings(batch_size=3000, num_workers=2, persistent_workers=True))
    print(arm.burst(BurstRequest(kind=BurstKind.EPOCH)).samples, flush=True)
"""


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "train.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("training\n6000\n", "", 0)


@pytest.mark.parametrize("last_words", ["", "    arm.pause()\n"])
def test_nothing_outlives_a_parent_that_is_killed(last_words: str) -> None:
    """Not even what stands still."""
    family = "    print(*[each.pid for each in psutil.Process().children(recursive=True)], flush=True)\n    input()"
    with child(f"{SCRIPT}{last_words}{family}") as parent:
        assert [line_of(parent) for _ in range(2)] == ["training", "6000"]
        pids = [int(pid) for pid in line_of(parent).split()]
        parent.kill()
        assert len(pids) >= 5  # resource tracker, fork server, arm, two workers
        assert not processes.running(pids, GONE_WITHIN_S)


def test_a_worker_that_dies_while_nothing_is_asked_is_the_reason_of_the_next_command() -> None:
    """Paused workers are likely victims of the out-of-memory killer."""
    with arms.start(spec("Plain", length=4000)) as arm:
        arm.open(settings(2))
        arm.burst(BurstRequest(kind=BurstKind.STEADY))
        for worker in psutil.Process(arm._process.pid).children():
            worker.kill()
        time.sleep(0.3)
        with pytest.raises(TrialError, match="DataLoader worker"):
            arm.burst(BurstRequest(kind=BurstKind.STEADY, min_batches=400))


def test_a_paused_arm_uses_no_cpu_time_and_goes_on_where_it_was() -> None:
    with arms.start(spec("Busy", length=100_000)) as arm:
        arm.open(settings(2))
        arm.burst(BurstRequest(kind=BurstKind.STEADY, min_batches=4))
        arm.pause()
        time.sleep(0.1)  # a signal takes a moment
        before = arm.usage()
        time.sleep(0.5)
        assert arm.usage().cpu_s - before.cpu_s < 0.05
        arm.resume()
        assert arm.burst(BurstRequest(kind=BurstKind.STEADY, min_batches=4)).batches == 4
        assert arm.usage().cpu_s > before.cpu_s


def test_the_workers_sockets_are_removed_with_the_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    # The name of a socket has room for 107 characters, which pytest's own folders use up.
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        with arms.start(spec("Plain")) as arm:
            arm.open(settings(2))
            arm.burst(WHOLE_EPOCH)
            assert list(Path(temporary).glob("nws_sweep-*"))
        assert not list(Path(temporary).iterdir())


def test_persistent_workers_finish_an_epoch_before_the_next_one_is_timed() -> None:
    """Or what was still to be made would be booked as its start-up."""
    with arms.start(spec("Slow", length=48, seconds=0.02)) as arm:
        arm.open(settings(2, persistent_workers=True, prefetch_factor=2))
        arm.burst(BurstRequest(kind=BurstKind.STEADY, min_batches=2))
        again = arm.burst(BurstRequest(kind=BurstKind.WARM_UP, min_batches=6, fresh=True))
    assert again.startup_s is not None
    assert (again.batches, again.produced) == (6, 48)  # none of the epoch before


def test_an_interruption_while_a_hanging_arm_may_end_in_order_kills_it_all_the_same() -> None:
    with contextlib.suppress(KeyboardInterrupt), arms.start(spec("Hangs"), arms.Supervision(timeout_s=30)) as arm:
        arm.open(settings(1, multiprocessing_context="spawn"))
        arm._connection.send(("burst", WHOLE_EPOCH))
        pid = arm._process.pid
        timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        timer.join()
    assert pid is not None
    assert not processes.running([pid])
