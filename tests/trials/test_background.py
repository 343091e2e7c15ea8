"""Background loaders with real processes: they load while the candidate is measured,
and fail with it."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

import nws_sweep
from nws_sweep.dataloading.loaders import Source
from nws_sweep.errors import TrialError
from nws_sweep.records import (
    LoaderSettings,
    MeasureRules,
    ProcessState,
    WindowKind,
    WindowRequest,
)
from nws_sweep.trials.commands import TrialCommands
from nws_sweep.trials.dataset_server import DatasetServer, of_rank
from nws_sweep.trials.trial_process import ChildProcess, Supervision
from tests import factories
from tests.conftest import becomes
from tests.user_datasets import Plain

pytestmark = pytest.mark.usefixtures("no_leftovers")

RANKS, LENGTH = 3, 120
WITHIN_S = 30.0
SHORT = WindowRequest(kind=WindowKind.STEADY, min_batches=2)
EPOCH = WindowRequest(kind=WindowKind.EPOCH)


@contextlib.contextmanager
def opened(
    notes: Path, num_workers: int = 0, timeout: float = 0.0, **arguments: Any
) -> Iterator[ChildProcess]:
    """Three ranks of a dataset that notes in a file which rank has made which
    sample."""
    notes.touch()
    spec = factories.process_spec(
        "OfRank", changes={"ranks": RANKS}, length=LENGTH, path=str(notes), **arguments
    )
    first = of_rank(spec, 0)
    with (
        DatasetServer() as server,
        server.start(first, Supervision(kill_after_s=60.0)) as process,
    ):
        # the timeout must not end while workers start
        method = "fork" if num_workers else None
        settings = LoaderSettings(
            batch_size=8,
            num_workers=num_workers,
            timeout=timeout,
            multiprocessing_context=method,
        )
        process.open(settings)
        yield process


def made(notes: Path) -> list[set[int]]:
    """The samples that each rank has made."""
    lines = [line.split() for line in notes.read_text().splitlines()]
    return [
        {int(index) for of, index in lines if of == str(rank)} for rank in range(RANKS)
    ]


def grows(notes: Path, rank: int, within_s: float = WITHIN_S) -> bool:
    """Whether a rank makes a sample within this time."""
    before = notes.read_text().count(f"{rank} ")
    return becomes(lambda: notes.read_text().count(f"{rank} ") > before, within_s)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_other_ranks_load_their_own_samples_until_the_candidate_is_paused(
    tmp_path: Path, num_workers: int
) -> None:
    notes = tmp_path / "notes"
    with opened(notes, num_workers) as process:
        assert process.facts.samples == LENGTH
        assert process.batches_per_epoch == 5
        epoch = process.window(EPOCH)
        assert (epoch.batches, epoch.samples) == (5, 40)
        assert grows(notes, 1)
        assert grows(notes, 2)
        process.pause()
        assert not grows(notes, 1, 0.3)
        process.resume()
        assert grows(notes, 1)
        process.wait_until_idle()
        before = process.usage()
        assert not grows(notes, 2, 0.3)
        process.window(EPOCH)
        assert grows(notes, 2)
        after = process.usage()
    samples = made(notes)
    assert samples[0] == set(range(0, LENGTH, RANKS))
    assert all(samples[1:])
    assert sum(map(len, samples)) == len(set.union(*samples))
    assert after.background_cpu_s > before.background_cpu_s > 0
    assert not grows(notes, 1, 0.3)  # the processes were killed


def test_a_pause_is_neither_in_the_costs_of_batches_nor_a_timeout_of_background_loaders(
    tmp_path: Path,
) -> None:
    kill_after_s = 2.0
    with opened(tmp_path / "notes", 1, kill_after_s, seconds=0.05) as process:
        records = list(process.window(SHORT).records)
        for _ in range(5):  # all workers may be idle when they are paused
            process.pause()
            time.sleep(1.1 * kill_after_s)
            process.resume()
            records += process.window(SHORT).records
            if any(record.was_stopped for record in records):
                break
    assert any(record.was_stopped for record in records)
    assert all(record.cost.wait_s < kill_after_s for record in records)


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("raise", r"ValueError: bad sample in fail \(user_datasets.py:\d+\)"),
        ("kill", "the trial process was killed by SIGKILL"),
    ],
)
def test_a_background_loader_that_fails_fails_the_candidate(
    tmp_path: Path, does: str, reason: str
) -> None:
    with opened(tmp_path / "notes", rank=2, does=does) as process:
        error = pytest.raises(
            TrialError, match=f"^a background loader failed: {reason}$"
        )
        deadline = time.monotonic() + WITHIN_S
        with error:
            while time.monotonic() < deadline:
                process.window(SHORT)


def test_the_memory_budget_holds_for_all_ranks_together(tmp_path: Path) -> None:
    with opened(tmp_path / "notes", seconds=0.05) as process:
        held = process.usage().added_bytes
        assert held is not None
        process.memory_limit_bytes = held // RANKS + held // 10  # enough for one
        with pytest.raises(TrialError, match=r"^its processes held .* of memory"):
            process.window(EPOCH)


class Once(IterableDataset[int]):
    """Gives its samples once, in the first epoch."""

    def __init__(self, samples: Iterator[int]) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[int]:
        return self.samples


def test_loading_in_the_background_ends_with_an_epoch_without_batches() -> None:
    """Data that can be read only once would otherwise start epochs for ever."""
    taken: list[int] = []
    commands: Any = TrialCommands(factories.process_spec("Plain"), "")
    data = SimpleNamespace(source=Source(Once(iter([1, 2, 3])), seed=0), files={})
    vars(commands).update(_data=data, _training_step=taken.append, _collate_fn=None)
    commands.open(LoaderSettings(batch_size=None), 0.0)
    commands.iterate()
    commands.take_batches(lambda: False)
    assert taken == [1, 2, 3]


def test_a_rank_replaces_the_launchers_variables_only() -> None:
    outside = {"RANK": "7", "WORLD_SIZE": "64", "HOME": "/home", "OMP_NUM_THREADS": "3"}
    state = ProcessState(environment=outside, import_path=())
    spec = replace(factories.process_spec("Plain", changes={"ranks": 4}), state=state)
    made = of_rank(spec, 1)
    assert made.state is not None
    assert made.state.environment == {
        "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4",
        "HOME": "/home", "OMP_NUM_THREADS": "3",
    }  # fmt: skip
    assert made.rank == 1


@pytest.mark.usefixtures("own_folders")
def test_a_search_beside_background_loaders_in_a_program_of_a_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    rules = MeasureRules(window_s=0.05, windows=3, trial_limit_s=0.5)
    dataset = Plain(4000)
    loader = DataLoader(
        dataset, batch_size=8, sampler=DistributedSampler(dataset, 1, 0)
    )
    result = nws_sweep.search(
        loader, num_workers=[0, 1], ranks=2, measure=rules, progress=False
    )
    assert result.num_workers in (0, 1)
    assert [trial.reason for trial in result.trials] == ["", ""]
    assert result.predict(num_workers=1).epoch_s is not None
