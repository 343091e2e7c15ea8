"""Several ranks: merged windows, root causes of failures, and real processes that fail."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, DistributedSampler

import nws_sweep
from nws_sweep.errors import DatasetError, RankLost, TrialError, TrialTimeout
from nws_sweep.executor import ranks
from nws_sweep.executor.ranks import RankedProcesses, merged_usage, merged_window, root_cause
from nws_sweep.executor.trial_process import Supervision
from nws_sweep.measurement.quantities import summarise, violation
from nws_sweep.measurement.schedule import Conditions
from nws_sweep.results import LoaderSettings, MeasureRules, Rank, TimeSlice, Usage, WindowKind, WindowRequest
from nws_sweep.system import temporary
from tests import factories
from tests.user_datasets import Plain

pytestmark = pytest.mark.usefixtures("no_leftovers")

STEPS: dict[str, Any] = {"samples": 32, "produced": 32}
QUICK = factories.window(wait_s=(0.25,) * 4, step_s=(0.25,) * 4, barrier_s=(0.5,) * 4, **STEPS)
SLOW = factories.window(wait_s=(0.5,) * 4, step_s=(0.5,) * 4, barrier_s=(0.0,) * 4, **STEPS)
FEW = WindowRequest(kind=WindowKind.STEADY, min_batches=8)


def test_a_step_lasts_from_barrier_to_barrier_and_samples_add_up() -> None:
    merged = merged_window([QUICK, SLOW])
    assert merged.step_s == (0.375,) * 4
    assert merged.wait_s == (0.625,) * 4
    assert merged.elapsed_s == QUICK.elapsed_s == SLOW.elapsed_s == 4.0
    assert (merged.samples, merged.produced, merged.batches) == (64, 64, 4)
    assert merged.ranks == (QUICK, SLOW)
    assert merged.barrier_s == ()


def test_the_largest_startup_and_batch_count_and_unknown_values_stay_unknown() -> None:
    first = replace(QUICK, startup_s=0.25, end_s=0.5, batch_bytes=10, batch_tensors=2)
    merged = merged_window([first, replace(SLOW, startup_s=2.0, end_s=0.25, batch_bytes=20, produced=None)])
    assert (merged.startup_s, merged.end_s, merged.batch_bytes, merged.batch_tensors) == (2.0, 0.5, 20, 2)
    assert merged.produced is None


def test_usage_adds_up_and_the_shortest_epoch_counts() -> None:
    one, other = Usage(cpu_s=1.0, memory_bytes=100, shm_bytes=1), Usage(cpu_s=2.0, memory_bytes=50, disk_bytes=7)
    assert merged_usage([one, other]) == Usage(cpu_s=3.0, memory_bytes=150, shm_bytes=1, disk_bytes=7)
    merged = ranks._MERGED
    assert (merged["open"]([10, 9, 10]), merged["open"]([10, None])) == (9, None)
    assert merged["warned"]([("a", "b"), ("b", "c")]) == ("a", "b", "c")


def conditions(**rules: Any) -> Conditions:
    settings = factories.loader_settings(1, batch_size=8)
    return Conditions(settings=settings, rules=MeasureRules(**rules), batches_per_epoch=None, cores=2.0, ranks=2)


def slices(cpu_s: float = 0.0) -> list[TimeSlice]:
    start = merged_window([replace(each, kind=WindowKind.WARM_UP, startup_s=1.0) for each in (QUICK, SLOW)])
    taken = TimeSlice(windows=(merged_window([QUICK, SLOW]),), after=Usage(cpu_s=cpu_s), elapsed_s=4.0)
    return [TimeSlice(windows=(start,)), taken, replace(taken, before=taken.after), replace(taken, before=taken.after)]


def test_rates_and_cpu_time_are_sums_over_ranks() -> None:
    found = summarise(slices(cpu_s=4.0), conditions())
    assert found.batch_s is not None
    assert found.batch_s.value == 1.0
    assert found.samples_per_s == 16.0
    assert found.cpu_s == pytest.approx(4.0 / 12)  # of the first window only, over three
    assert [rank.samples_per_s for rank in found.ranks] == [8.0, 8.0]
    assert [rank.own_s.value for rank in found.ranks] == [0.5, 1.0]
    assert [rank.own_s.n for rank in found.ranks] == [3, 3]
    assert [rank.barrier_s for rank in found.ranks] == [0.5, 0.0]
    assert [(rank.wait_s, rank.step_s, rank.startup_s) for rank in found.ranks] == [(0.25, 0.25, 1), (0.5, 0.5, 1)]


def test_the_roofline_counts_all_ranks_on_all_cores() -> None:
    assert violation(slices(cpu_s=12 * 1.9), conditions()) == ""
    assert "2.50 s of CPU time" in violation(slices(cpu_s=12 * 2.5), conditions())


def test_epochs_exclude_the_first_multiple_of_the_workers_in_every_rank() -> None:
    epoch = merged_window([replace(each, kind=WindowKind.EPOCH, startup_s=0.25, end_s=0.0) for each in (QUICK, SLOW)])
    found = summarise([TimeSlice(windows=(epoch,))], conditions(mode="epoch"))
    assert found.samples_per_s == 16.0
    assert [rank.own_s.value for rank in found.ranks] == [0.5, 1.0]


LOST, LATE = RankLost("lost"), TrialTimeout("not done")


@pytest.mark.parametrize(
    ("failures", "ranks", "missing", "reported"),
    [
        ({0: LOST, 2: TrialError("bad sample"), 3: LOST}, 4, (), TrialError("rank 2: bad sample")),
        ({1: LOST, 0: LOST}, 4, (), RankLost("rank 0: lost")),
        ({0: TrialError("same"), 1: TrialError("same")}, 2, (), TrialError("same")),
        ({0: LATE, 1: LATE, 2: LATE}, 3, (0, 2), TrialTimeout("ranks 0, 2: not done")),
        ({0: LATE, 1: LATE, 2: LATE}, 3, (), LATE),
        ({1: OSError("no room")}, 2, (), OSError("no room")),  # other errors are unchanged
    ],
)
def test_the_root_cause_is_reported(
    failures: dict[int, BaseException], ranks: int, missing: tuple[int, ...], reported: BaseException
) -> None:
    error = root_cause(failures, ranks, missing)
    assert (type(error), str(error)) == (type(reported), str(reported))


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    prefix = f"nws_sweep-trial-two words {os.getpid()}-"  # the path is no URL
    monkeypatch.setattr(temporary, "_PREFIX", prefix)
    yield
    assert not list(Path(tempfile.gettempdir()).glob(f"{prefix}*"))


def started(
    dataset: str, count: int = 2, kill_after_s: float = 60.0, **arguments: Any
) -> AbstractContextManager[RankedProcesses]:
    return ranks.start(factories.process_spec(dataset, **arguments), count, Supervision(kill_after_s=kill_after_s))


def opened(process: RankedProcesses, num_workers: int = 0) -> None:
    process.open(LoaderSettings(batch_size=8, num_workers=num_workers))


def test_the_environment_and_process_group_exist_before_the_dataset() -> None:
    with started("KnowsItsRank", 2) as process:
        reported = sorted(process.warned())
    assert reported == [
        f"RANK={n} LOCAL_RANK={n} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
        f"group={n}/2 threads=1 leads=True"
        for n in range(2)
    ]


def test_a_rank_replaces_the_launchers_variables_only() -> None:
    outside = {"RANK": "7", "WORLD_SIZE": "64", "HOME": "/home", "OMP_NUM_THREADS": "3", "GLOO_SOCKET_IFNAME": "eth0"}
    made = ranks.environment_of(Rank(number=1, ranks=4, folder=""), 12345, outside)
    assert (made["RANK"], made["WORLD_SIZE"], made["MASTER_PORT"]) == ("1", "4", "12345")
    assert (made["HOME"], made["OMP_NUM_THREADS"], made["GLOO_SOCKET_IFNAME"]) == ("/home", "3", "eth0")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_samples_are_distributed_over_ranks_and_counted_together(num_workers: int) -> None:
    with started("Plain", 3, length=100) as process:
        assert process.facts.samples == 100
        opened(process, num_workers)
        assert process.batches_per_epoch == 5  # of 34 samples each
        epoch = process.window(WindowRequest(kind=WindowKind.EPOCH))
        assert (epoch.batches, epoch.samples) == (5, 3 * 34)
        assert epoch.ended_epoch
        assert [rank.samples for rank in epoch.ranks] == [34, 34, 34]
        assert epoch.produced == (3 * 34 if num_workers else None)
        process.pause()
        process.resume()
        assert process.window(WindowRequest(kind=WindowKind.EPOCH)).samples == 3 * 34
        assert process.usage().cpu_s > 0


def test_a_rank_that_fails_ends_all_and_is_named() -> None:
    with started("OfRank", 3, rank=1, does="kill") as process:
        opened(process)
        with pytest.raises(TrialError, match=r"^rank 1: the trial process was killed by SIGKILL$"):
            process.window(FEW)
        with pytest.raises(TrialError):  # none is left
            process.wait_until_idle()


def test_a_rank_that_hangs_is_named() -> None:
    with started("OfRank", 3, kill_after_s=4.0, rank=2, does="hang") as process:
        opened(process)
        with pytest.raises(TrialTimeout, match=r"^rank 2: not finished within measure.kill_after_s=4 s"):
            process.window(FEW)


def test_a_dataset_that_one_rank_cannot_make_is_reported_with_its_number() -> None:
    wrong = pytest.raises(DatasetError, match=r"^rank 1: dataset .*no data here")
    with wrong, started("OfRank", 2, rank=1, does="no dataset"):
        pass


def test_the_memory_budget_holds_for_all_ranks_together() -> None:
    with started("OfRank", 2, seconds=0.05) as process:
        opened(process)
        held = process.usage().memory_bytes
        assert held is not None
        process.memory_limit_bytes = held // 2 + held // 10  # enough for one
        with pytest.raises(TrialError, match=r"^its processes held .* of memory"):
            process.window(replace(FEW, min_batches=100))


def test_the_training_step_of_a_model_on_the_cpu_is_a_barrier() -> None:
    training_step = {
        "_target_": "nws_sweep.dataloading.training_steps.Train",
        "model": {"_target_": "torch.nn.Linear", "in_features": 4, "out_features": 1},
        "loss": {"_target_": "torch.nn.MSELoss"},
        "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 0.1},
        "device": "cpu",
    }
    made = factories.process_spec("SlowPairs", slow_rank=1, seconds=0.01)
    with ranks.start(replace(made, training_step=training_step), 2) as process:
        opened(process)
        window = process.window(FEW)
    quick, slow = window.ranks
    assert statistics.median(quick.barrier_s) > 5 * statistics.median(slow.barrier_s)
    assert quick.step_s == slow.step_s


def test_a_search_over_several_ranks_in_a_program_of_a_launcher(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NWS_SWEEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NWS_SWEEP_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    rules = MeasureRules(window_s=0.05, windows=3, trial_limit_s=0.5)
    dataset = Plain(4000)
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, 1, 0))
    result = nws_sweep.search(loader, num_workers=[0, 1], ranks=2, measure=rules, progress=False)
    assert result.num_workers in (0, 1)
    for trial in result.trials:
        assert trial.measurement is not None
        assert len(trial.measurement.ranks) == 2
