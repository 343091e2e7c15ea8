"""Several ranks in real processes: what each is given, what they are told as, and what becomes of one that fails."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, DistributedSampler

import nws_sweep
from nws_sweep import attendance, rank_environment, ranks
from nws_sweep.arms import Supervision
from nws_sweep.errors import ConfigurationError, DatasetError, TrialError, TrialTimeout
from nws_sweep.nursery import Nursery, spec_of
from nws_sweep.ranks import RankedArm
from nws_sweep.records import (
    ArmSpec,
    BurstKind,
    BurstRequest,
    LoaderSettings,
    MeasureRules,
    Rank,
    SearchRecord,
    SearchRules,
    TrialState,
)
from nws_sweep.runner import search
from nws_sweep.surroundings import Surroundings
from tests import factories
from tests.searching import Recorder
from tests.user_datasets import Plain

pytestmark = pytest.mark.usefixtures("no_leftovers")

FEW = BurstRequest(kind=BurstKind.STEADY, min_batches=8)


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails if a folder of the ranks stays."""
    made: list[str] = []
    create = attendance.create

    def noted(folder: str, count: int) -> None:
        made.append(folder)
        create(folder, count)

    monkeypatch.setattr(attendance, "create", noted)
    yield
    assert not [folder for folder in made if Path(folder).exists()]


def spec(dataset: str, **arguments: Any) -> ArmSpec:
    configuration = factories.configuration(
        dataset={"_target_": f"tests.user_datasets.{dataset}", **arguments},
        consumer={"_target_": "nws_sweep.consumers.Nothing"},
    )
    return spec_of(configuration, ".")


@contextmanager
def started(dataset: str, count: int = 2, timeout_s: float | None = 60.0, **arguments: Any) -> Iterator[RankedArm]:
    with ranks.start(spec(dataset, **arguments), count, Supervision(timeout_s=timeout_s)) as arm:
        yield arm


def opened(arm: RankedArm, num_workers: int = 0, **settings: Any) -> None:
    arm.open(LoaderSettings(**{"batch_size": 8, "num_workers": num_workers, **settings}).canonical())


def test_each_rank_has_torchruns_environment_and_a_process_group_when_its_dataset_is_made() -> None:
    with started("KnowsItsRank", 2) as arm:
        told = sorted(arm.warned())
    assert told == [
        f"RANK={n} LOCAL_RANK={n} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
        f"group={n}/2 threads=1 leads=True"
        for n in range(2)
    ]


def test_the_ranks_replace_those_of_a_launcher_and_keep_all_else() -> None:
    outside = {"RANK": "7", "WORLD_SIZE": "64", "HOME": "/home", "OMP_NUM_THREADS": "3", "GLOO_SOCKET_IFNAME": "eth0"}
    made = rank_environment.of_rank(Rank(number=1, ranks=4, folder=""), 12345, outside)
    assert (made["RANK"], made["WORLD_SIZE"], made["MASTER_PORT"]) == ("1", "4", "12345")
    assert (made["HOME"], made["OMP_NUM_THREADS"], made["GLOO_SOCKET_IFNAME"]) == ("/home", "3", "eth0")
    assert rank_environment.of_rank(Rank(number=0, ranks=2, folder=""), 1, {})["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("num_workers", [0, 1])
def test_samples_are_shared_out_and_counted_together(num_workers: int) -> None:
    with started("Plain", 3, length=100) as arm:
        assert arm.facts.samples == 100
        opened(arm, num_workers)
        assert arm.batches_per_epoch == 5  # of 34 samples each
        epoch = arm.burst(BurstRequest(kind=BurstKind.EPOCH))
        assert (epoch.batches, epoch.samples) == (5, 3 * 34)
        assert epoch.ended_epoch
        assert [rank.samples for rank in epoch.ranks] == [34, 34, 34]
        assert epoch.produced == (3 * 34 if num_workers else None)
        arm.pause()
        arm.resume()
        assert arm.burst(BurstRequest(kind=BurstKind.EPOCH)).samples == 3 * 34
        assert arm.usage().cpu_s > 0


def test_a_loader_keeps_the_sampler_that_was_made_for_its_rank() -> None:
    with started("loader_of_ranks", 2, length=80) as arm:
        assert arm.facts.samples == 80
        opened(arm)
        assert arm.batches_per_epoch == 5


def test_a_stream_shares_itself_out_and_the_shortest_share_ends_the_epoch() -> None:
    with started("ShardedStream", 2, length=64, fewer=20) as arm:
        opened(arm)
        epoch = arm.burst(BurstRequest(kind=BurstKind.EPOCH))
        assert epoch.batches == 3  # 22 samples of rank 1 are two batches and a rest; the other one has four
        assert [rank.batches for rank in epoch.ranks] == [3, 3]


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("raise", "rank 1: ValueError: bad sample"),
        ("exit", "rank 1: the loading process ended with exit status 7"),
        ("kill", "rank 1: the loading process was killed by SIGKILL"),
    ],
)
def test_one_rank_that_fails_ends_all_and_is_named(does: str, words: str) -> None:
    with started("OfRank", 3, rank=1, does=does) as arm:
        opened(arm)
        with pytest.raises(TrialError) as caught:
            arm.burst(FEW)
        assert str(caught.value) == words
        with pytest.raises(TrialError):  # none is left
            arm.settle()


@pytest.mark.parametrize("does", ["raise", "kill"])
def test_a_worker_that_fails_in_one_rank_is_named_with_the_rank(does: str) -> None:
    with started("OfRank", 2, rank=0, does=does) as arm:
        opened(arm, 1)
        with pytest.raises(TrialError, match=r"^rank 0: .*(bad sample \(in a worker\)|DataLoader worker)"):
            arm.burst(FEW)


def test_a_rank_that_hangs_is_named_though_all_are_late() -> None:
    with started("OfRank", 3, timeout_s=4.0, rank=2, does="hang") as arm:
        opened(arm)
        with pytest.raises(TrialTimeout, match=r"^rank 2: not done within measure.timeout_s=4 s"):
            arm.burst(FEW)


def test_a_dataset_that_one_rank_cannot_make_is_told_with_its_number() -> None:
    with (
        pytest.raises(DatasetError, match=r"^rank 1: dataset .*no data here"),
        started("OfRank", 2, rank=1, does="no dataset"),
    ):
        pass


def test_they_hold_no_more_memory_together_than_they_may() -> None:
    with started("OfRank", 2, seconds=0.05) as arm:
        opened(arm)
        held = arm.usage().memory_bytes
        assert held is not None
        arm.allow(held // 2 + held // 10)  # enough for one
        with pytest.raises(TrialError, match=r"^its processes held .* of memory"):
            arm.burst(replace(FEW, min_batches=100))


def searched(**changes: Any) -> SearchRecord:
    configuration = factories.configuration(
        **{
            "dataset": {"_target_": "tests.user_datasets.OfRank", "seconds": 0.0005},
            "consumer": {"_target_": "nws_sweep.consumers.Nothing"},
            "loader": LoaderSettings(batch_size=8),
            "measure": MeasureRules(window_s=0.05, bursts=3, max_seconds=0.5, timeout_s=60.0),
            "search": SearchRules(strategy="exhaustive", candidates=(0, 1)),
            "ranks": 2,
            **changes,
        }
    )
    with Nursery() as nursery:
        opener = nursery.factory(lambda one: spec_of(one, "."))
        start = SearchRecord(configuration=configuration, host=factories.HOST)
        return search(start, Surroundings(open_arm=opener), Recorder())


def test_a_search_with_ranks_tells_of_each() -> None:
    for trial in searched().trials:
        assert (trial.state, trial.reason) == (TrialState.OK, "")
        found = trial.measurement
        assert found is not None
        assert found.samples_per_s is not None
        assert [rank.rank for rank in found.ranks] == [0, 1]
        assert sum(rank.samples_per_s or 0.0 for rank in found.ranks) == pytest.approx(found.samples_per_s)
        assert found.epoch_s is not None


def test_a_candidate_with_a_rank_that_fails_is_a_row_and_the_others_are_measured() -> None:
    dataset = {"_target_": "tests.user_datasets.RaisesWithWorkers", "length": 4000, "num_workers": 1}
    result = searched(dataset=dataset)
    states = {trial.num_workers: trial.state for trial in result.trials}
    assert result.complete
    assert states == {0: TrialState.OK, 1: TrialState.FAILED}
    assert "no good with 1 workers (in a worker)" in {t.num_workers: t.reason for t in result.trials}[1]


def test_a_training_step_that_meets_the_others_is_measured_as_it_is() -> None:
    result = searched(
        dataset={"_target_": "tests.system.workloads.Latency", "length": 4000, "sample_s": 0.0005},
        consumer={"_target_": "tests.system.workloads.Step", "step_s": 0.002},
    )
    for trial in result.trials:
        assert (trial.state, trial.reason) == (TrialState.OK, "")
        assert trial.measurement is not None
        assert (trial.measurement.consume_s or 0.0) >= 0.002


def test_a_model_on_the_cpu_is_trained_by_all_ranks_together() -> None:
    """Which is seen by who waits for the others: the training step itself."""
    consumer = {
        "_target_": "nws_sweep.training.Train",
        "model": {"_target_": "torch.nn.Linear", "in_features": 4, "out_features": 1},
        "loss": {"_target_": "torch.nn.MSELoss"},
        "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 0.1},
        "device": "cpu",
    }
    made = {"_target_": "tests.user_datasets.SlowPairs", "slow_rank": 1, "seconds": 0.01}
    with ranks.start(replace(spec("Plain"), dataset=made, consumer=consumer), 2) as arm:
        opened(arm)
        burst = arm.burst(FEW)
    quick, slow = burst.ranks
    assert statistics.median(quick.meet_s) > 5 * statistics.median(slow.meet_s)
    assert quick.consume_s == slow.consume_s


def test_a_program_searches_for_several_ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also one that a launcher has started as one of several: then it is about all of them."""
    monkeypatch.setenv("NWS_SWEEP_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NWS_SWEEP_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    rules = MeasureRules(window_s=0.05, bursts=3, max_seconds=0.5)
    dataset = Plain(4000)
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, 1, 0))
    result = nws_sweep.search(loader, candidates=[0, 1], ranks=2, measure=rules, progress=False)
    assert result.num_workers in (0, 1)
    for trial in result.trials:
        assert trial.measurement is not None
        assert len(trial.measurement.ranks) == 2
    with pytest.raises(ConfigurationError, match=r"^ranks=0: allowed is an integer of at least 1"):
        nws_sweep.search(dataset, ranks=0)
