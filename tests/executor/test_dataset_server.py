"""Real processes: a dataset is made once where that does no harm, and trial processes are as good as with one of their own."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nws_sweep.errors import ConfigurationError, DatasetError, TrialError
from nws_sweep.executor.dataset_server import DatasetServer, spec_of
from nws_sweep.executor.trial_process import ChildProcess, Supervision
from nws_sweep.results import LoaderSettings, ProcessSpec, Window, WindowKind, WindowRequest
from nws_sweep.system import processes
from tests.factories import configuration
from tests.factories import process_spec as spec

pytestmark = pytest.mark.usefixtures("no_leftovers")

MB = 2**20
CONSUMER = spec("Plain").consumer


@pytest.fixture
def dataset_server() -> Iterator[DatasetServer]:
    with DatasetServer() as made:
        yield made


@pytest.fixture
def makings(tmp_path: Path) -> Path:
    """Where the dataset writes a line each time it is made."""
    return tmp_path / "makings"


def one_epoch(process: ChildProcess, num_workers: int = 0) -> int:
    process.open(LoaderSettings(batch_size=8, num_workers=num_workers))
    window: Window = process.window(WindowRequest(kind=WindowKind.EPOCH))
    return window.samples


def times_made(makings: Path) -> int:
    return len(makings.read_text().splitlines())


def keeper_pid(makings: Path) -> int:
    return int(makings.read_text().splitlines()[-1])


def test_arms_that_live_at_the_same_time_have_the_dataset_that_was_made_once(
    dataset_server: DatasetServer, makings: Path
) -> None:
    chosen = spec("NotesItsMaking", path=str(makings))
    with dataset_server.start(chosen) as one, dataset_server.start(chosen) as other:
        assert one.facts == other.facts
        assert (one_epoch(one), one_epoch(other, 2)) == (64, 64)
        # Memory that runs out is taken from trial processes first.
        scores = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in (one.pid, keeper_pid(makings))]
        assert scores[0] > scores[1]
    named = replace(chosen, start_method=multiprocessing.get_all_start_methods()[0])  # the default, by its name
    with dataset_server.start(named) as later:
        assert one_epoch(later, 1) == 64
        assert later.warned() == ("made with a warning",)
    assert times_made(makings) == 1


@pytest.mark.parametrize("leaves", ["lock", "counter", "tensor"])
def test_what_a_fork_would_break_is_made_for_each_arm(
    dataset_server: DatasetServer, makings: Path, leaves: str
) -> None:
    chosen = spec("NotesItsMaking", path=str(makings), leaves=leaves)
    for times in (1, 2):
        with dataset_server.start(chosen, Supervision(timeout_s=60.0)) as process:
            assert one_epoch(process, 1) == 64
        assert times_made(makings) == times


def test_a_dataset_is_let_go_for_another_one_or_when_the_context_is_left(makings: Path) -> None:
    keepers = []
    with DatasetServer() as dataset_server:
        for size in (0, 1):
            with dataset_server.start(spec("NotesItsMaking", path=str(makings), megabytes=size)):
                keepers.append(keeper_pid(makings))
            assert processes.running(keepers) == keepers[-1:]
    assert not processes.running(keepers)


def test_arms_see_the_environment_and_import_path_of_now(
    dataset_server: DatasetServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "set_up_later.py").write_text(
        "import os\n\ndef numbers():\n    return list(range(int(os.environ['NWS_TEST_LENGTH'])))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for length in (5, 7):  # the server that trial processes are forked from runs already
        monkeypatch.setenv("NWS_TEST_LENGTH", str(length))
        chosen = configuration(dataset={"_target_": "set_up_later.numbers"}, consumer=CONSUMER, seed=length)
        with dataset_server.start(spec_of(chosen, str(tmp_path))) as process:
            assert process.facts.samples == length


def test_an_arm_whose_dataset_was_killed_says_so_and_the_next_makes_it(
    dataset_server: DatasetServer, makings: Path
) -> None:
    chosen = spec("NotesItsMaking", path=str(makings))
    with dataset_server.start(chosen, Supervision(timeout_s=30.0)) as process:
        os.kill(keeper_pid(makings), signal.SIGKILL)
        with pytest.raises(TrialError, match="killed with the one that held the dataset"):
            [one_epoch(process) for _ in itertools.count()]  # a death takes a moment to get about
    with dataset_server.start(chosen) as again:
        assert one_epoch(again) == 64
    assert times_made(makings) == 2


def test_a_dataset_that_cannot_be_made_is_the_reason_each_time(dataset_server: DatasetServer) -> None:
    for name, words in (("DiesWhenMade", "killed by SIGKILL"), ("not_a_dataset", "has neither __getitem__")) * 2:
        with pytest.raises((TrialError, DatasetError), match=words), dataset_server.start(spec(name)):
            pass


def test_a_consumer_that_cannot_be_made_does_not_cost_the_dataset(dataset_server: DatasetServer, makings: Path) -> None:
    good = spec("NotesItsMaking", path=str(makings))
    bad = ProcessSpec(
        dataset=good.dataset, consumer={"_target_": "nws_sweep.dataloading.consumers.Sleep", "seconds": -1}
    )
    with pytest.raises(ConfigurationError), dataset_server.start(bad):
        pass
    with dataset_server.start(good) as process:
        assert one_epoch(process) == 64
    assert times_made(makings) == 1


def test_each_arm_writes_to_its_own_log_how_it_ended_and_the_dataset_stays(
    dataset_server: DatasetServer, tmp_path: Path
) -> None:
    for name in ("one.log", "two.log"):
        with (
            pytest.raises(TrialError, match="bad sample"),
            dataset_server.start(spec("Raises", tmp_path / name)) as process,
        ):
            one_epoch(process)
        assert (tmp_path / name).read_text().count("Traceback") == 1


def test_an_arm_is_counted_with_all_of_the_dataset_that_it_shares(dataset_server: DatasetServer, makings: Path) -> None:
    held = []
    for megabytes in (0, 64):
        chosen = spec("NotesItsMaking", path=str(makings), megabytes=megabytes)
        with dataset_server.start(chosen) as process, dataset_server.start(chosen) as other:
            one_epoch(process, 2)
            held.append([one.usage().memory_bytes or 0 for one in (process, other)])
    for before, after in zip(*held, strict=True):
        assert after - before == pytest.approx(64 * MB, rel=0.2)
