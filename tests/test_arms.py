"""Real processes: what happens to an arm stays in the arm, and nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from nws_sweep import arms
from nws_sweep.errors import ConfigurationError, DatasetError, TrialError, TrialTimeout
from nws_sweep.records import ArmSpec, BurstKind, BurstRequest, LoaderSettings

pytestmark = pytest.mark.usefixtures("no_leftovers")

WHOLE_EPOCH = BurstRequest(kind=BurstKind.EPOCH)
GONE_WITHIN_S = 10.0


def spec(name: str, log_path: Path | None = None, **arguments: Any) -> ArmSpec:
    return ArmSpec(
        dataset={"_target_": f"tests.user_datasets.{name}", **arguments},
        consumer={"_target_": "nws_sweep.consumers.Nothing"},
        log_path=str(log_path) if log_path else None,
    )


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
    import multiprocessing

    if multiprocessing.get_start_method() != "fork":
        pytest.skip("the platform's own start method is not fork")
    with arms.start(spec("ParentPid")) as arm:
        arm.open(settings(1))
        arm.burst(BurstRequest(kind=BurstKind.STEADY))
        family = psutil.Process(arm._process.pid).children()
        assert [process.ppid() for process in family] == [arm._process.pid]


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_the_workers_start_method_can_be_chosen(context: str) -> None:
    burst = one_epoch(spec("Plain"), settings(1, multiprocessing_context=context))
    assert burst.samples == 64


@pytest.mark.parametrize(("num_workers", "where"), [(0, ""), (2, " (in a worker)")])
def test_a_sample_that_raises_is_the_reason(num_workers: int, where: str) -> None:
    with pytest.raises(TrialError, match=r"^ValueError: bad sample 40") as caught:
        one_epoch(spec("Raises"), settings(num_workers))
    assert str(caught.value) == f"ValueError: bad sample 40{where}"


def test_the_traceback_of_a_failure_is_in_the_log(tmp_path: Path) -> None:
    with pytest.raises(TrialError):
        one_epoch(spec("Raises", tmp_path / "arms.log"), settings(2))
    assert "user_datasets.py" in (tmp_path / "arms.log").read_text()


def test_a_worker_that_is_killed_is_the_reason() -> None:
    with pytest.raises(TrialError, match=r"worker \(pid\(?s?\)? [\d, ]+\).* (killed by signal: Killed|exited unexp)"):
        one_epoch(spec("Killed"), settings(2))


def test_a_process_that_is_killed_is_the_reason() -> None:
    with pytest.raises(TrialError, match="the loading process was killed by SIGKILL"):
        one_epoch(spec("Killed"), settings(0))


def test_a_dataset_that_exits_does_not_end_the_search() -> None:
    with pytest.raises(TrialError, match="exit status 3"):
        one_epoch(spec("Exits"), settings(0))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_time_limit_holds_even_when_signals_are_ignored(num_workers: int) -> None:
    began = time.monotonic()
    with pytest.raises(TrialTimeout, match=r"measure\.timeout_s=0\.5 s"):
        one_epoch(spec("Hangs"), settings(num_workers), timeout_s=0.5)
    assert time.monotonic() - began < 120  # it hangs for ever


def test_a_collate_fn_is_used_and_its_failure_is_the_reason() -> None:
    good = ArmSpec(**{**_fields(spec("Plain")), "collate_fn": _partial("ragged")})
    assert one_epoch(good, settings(1)).samples == 64
    bad = ArmSpec(**{**_fields(spec("Plain")), "collate_fn": _partial("broken_collate")})
    with pytest.raises(TrialError, match="KeyError: 'label'"):
        one_epoch(bad, settings(1))


def _fields(chosen: ArmSpec) -> dict[str, Any]:
    return {"dataset": chosen.dataset, "consumer": chosen.consumer}


def _partial(name: str) -> dict[str, Any]:
    return {"_target_": f"tests.user_datasets.{name}", "_partial_": True}


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"_target_": "tests.user_datasets.Plain", "length": 0}, "is empty: 0 samples"),
        ({"_target_": "tests.user_datasets.not_a_dataset"}, "got int, which has neither"),
        ({"_target_": "no_such_module.Dataset"}, "No module named 'no_such_module'"),
        ({"_target_": "tests.user_datasets.Plain", "size": 3}, "unexpected keyword argument 'size'"),
    ],
)
def test_a_dataset_that_cannot_be_used_is_told_in_one_line(dataset: dict[str, Any], message: str) -> None:
    with (
        pytest.raises(DatasetError) as caught,
        arms.start(ArmSpec(dataset=dataset, consumer={"_target_": "nws_sweep.consumers.Nothing"})),
    ):
        pass
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_consumer_that_cannot_be_made_is_told_before_anything_is_measured() -> None:
    consumer = {"_target_": "nws_sweep.consumers.Sleep", "seconds_per_batch": -1}
    with (
        pytest.raises(ConfigurationError, match=r"consumer.seconds_per_batch=-1: allowed is a number of at least 0"),
        arms.start(ArmSpec(dataset=spec("Plain").dataset, consumer=consumer)),
    ):
        pass


@pytest.mark.parametrize(
    ("target", "trouble"),
    [("builtins.dict", "got dict, which cannot be called"), ("tests.user_datasets.step", "missing 1 required")],
)
def test_a_consumer_that_cannot_be_called_or_made_is_told_with_the_remedy(target: str, trouble: str) -> None:
    with (
        pytest.raises(ConfigurationError, match=rf"consumer {target}: .*{trouble}.* needs \+\+consumer._partial_=true"),
        arms.start(ArmSpec(dataset=spec("Plain").dataset, consumer={"_target_": target})),
    ):
        pass


def test_a_dataset_that_kills_its_process_when_made_is_a_failure_with_a_reason() -> None:
    with pytest.raises(TrialError, match="killed by SIGKILL"), arms.start(spec("DiesWhenMade")):
        pass


def test_what_a_dataset_prints_goes_to_the_log_and_its_warnings_are_noted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with arms.start(spec("Talks", tmp_path / "arms.log")) as arm:
        assert arm.warned() == ("this dataset is old",)
    assert (tmp_path / "arms.log").read_text() == "hello from the dataset\n"
    assert capfd.readouterr() == ("", "")


def test_a_message_of_several_lines_is_kept_whole() -> None:
    for num_workers, where in ((0, ""), (1, " (in a worker)")):
        with pytest.raises(TrialError) as caught:
            one_epoch(spec("RaisesAtLength"), settings(num_workers))
        assert str(caught.value) == f"RuntimeError: shape mismatch: expected 3 See the documentation{where}"


def test_a_warning_for_each_sample_does_not_flood_the_notes() -> None:
    with arms.start(spec("WarnsForEachSample")) as arm:
        arm.open(settings(0))
        arm.burst(WHOLE_EPOCH)
        warned = arm.warned()
    assert len(warned) == 6
    assert warned[0] == "bad sample 0"
    assert warned[-1] == "further warnings are left out"


def test_torchs_advice_on_the_number_of_workers_is_not_noted() -> None:
    with arms.start(spec("Plain")) as arm:
        arm.open(settings(33, pin_memory=True))
        arm.burst(BurstRequest(kind=BurstKind.STEADY))
        assert arm.warned() == ()


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
        import torch
        from nws_sweep import arms
        from nws_sweep.records import ArmSpec, BurstKind, BurstRequest, LoaderSettings

        torch.ones(500, 500) @ torch.ones(500, 500)  # a fork of this process could hang at its first operation
        print("training")
        spec = ArmSpec(
            dataset={"_target_": "nws_sweep.datasets.synthetic.tensor", "length": 6000},
            consumer={"_target_": "nws_sweep.consumers.Nothing"},
        )
        with arms.start(spec, arms.Supervision(timeout_s=60)) as arm:
            arm.open(LoaderSettings(batch_size=3000, num_workers=1))
            print(arm.burst(BurstRequest(kind=BurstKind.EPOCH)).samples)
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("training\n6000\n", "", 0)


@pytest.mark.parametrize("last_words", ["", "arm.pause()"])
def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path, last_words: str) -> None:
    """Not even what stands still."""
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent("""
        import psutil, time
        from nws_sweep import arms
        from nws_sweep.records import ArmSpec, BurstKind, BurstRequest, LoaderSettings

        spec = ArmSpec(
            dataset={"_target_": "nws_sweep.datasets.synthetic.Sleep", "length": 1000, "seconds_per_sample": 0.01},
            consumer={"_target_": "nws_sweep.consumers.Nothing"},
        )
        with arms.start(spec) as arm:
            arm.open(LoaderSettings(batch_size=1, num_workers=2))
            arm.burst(BurstRequest(kind=BurstKind.STEADY))
            LAST_WORDS
            print(*[process.pid for process in psutil.Process().children(recursive=True)], flush=True)
            time.sleep(60)
        """).replace("LAST_WORDS", last_words)
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        os.kill(parent.pid, signal.SIGKILL)
    assert len(pids) >= 4  # resource tracker, fork server, arm, two workers
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := [pid for pid in pids if _is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


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
    assert not _is_running(pid)
