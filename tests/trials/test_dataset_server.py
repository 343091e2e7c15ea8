"""Real processes: trial processes share a dataset that is made once, where forking is
safe."""

import itertools
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Made

import pytest

from nws_sweep.errors import DatasetError, TrialError, TrialInterrupted
from nws_sweep.records import LoaderSettings, Window, WindowKind, WindowRequest
from nws_sweep.system import processes
from nws_sweep.trials import trial_process
from nws_sweep.trials.dataset_server import DatasetServer
from nws_sweep.trials.trial_process import ChildProcess, Supervision
from tests.factories import process_spec as spec

pytestmark = pytest.mark.usefixtures("no_leftovers")


@pytest.fixture
def dataset_server() -> Iterator[DatasetServer]:
    with DatasetServer() as made:
        yield made


@pytest.fixture
def makings(tmp_path: Path) -> Path:
    """The file to which the dataset appends a line each time it is made."""
    return tmp_path / "makings"


def one_epoch(process: ChildProcess, num_workers: int = 0) -> int:
    process.open(LoaderSettings(batch_size=8, num_workers=num_workers))
    window: Window = process.window(WindowRequest(kind=WindowKind.EPOCH))
    return window.samples


def times_made(makings: Path) -> int:
    return len(makings.read_text().splitlines())


def template_pid(makings: Path) -> int:
    return int(makings.read_text().splitlines()[-1])


def test_trial_processes_share_a_dataset_that_is_made_once(
    dataset_server: DatasetServer, makings: Path
) -> None:
    chosen = spec("NotesItsMaking", path=str(makings))
    with dataset_server.start(chosen) as one, dataset_server.start(chosen) as other:
        assert one.facts == other.facts
        assert (one_epoch(one), one_epoch(other, 2)) == (64, 64)
        # When memory runs out, the kernel kills trial processes first.
        scores = [
            int(Path(f"/proc/{pid}/oom_score_adj").read_text())
            for pid in (one.pid, template_pid(makings))
        ]
        assert scores[0] > scores[1]
    # the default, by its name
    named = replace(chosen, start_method=multiprocessing.get_all_start_methods()[0])
    with dataset_server.start(named) as later:
        assert one_epoch(later, 1) == 64
        assert later.warned() == ("made with a warning",)
    assert times_made(makings) == 1


@pytest.mark.parametrize("leaves", ["lock", "counter", "tensor"])
def test_a_dataset_that_cannot_be_forked_is_made_by_each_trial_process(
    dataset_server: DatasetServer,
    makings: Path,
    leaves: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    chosen = spec("NotesItsMaking", path=str(makings), leaves=leaves)
    for times in (1, 2):
        with dataset_server.start(chosen, Supervision(kill_after_s=60.0)) as process:
            assert one_epoch(process, 1) == 64
        assert times_made(makings) == times
    # the obstacle is sought once
    assert caplog.text.count("each trial process makes the dataset") == 1


def test_a_template_process_ends_with_the_next_dataset_or_the_context(
    makings: Path,
) -> None:
    templates = []
    with DatasetServer() as dataset_server:
        for leaves in ("nothing", "no more"):
            with dataset_server.start(
                spec("NotesItsMaking", path=str(makings), leaves=leaves)
            ):
                templates.append(template_pid(makings))
            assert processes.running(templates) == templates[-1:]
    assert not processes.running(templates)


def test_folders_of_killed_programs_and_the_start_method_of_joblib_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(
        "multiprocessing.context._default_context._actual_context", Made(_name="loky")
    )
    (tmp_path / "nws_sweep-left").mkdir(0o700)
    (tmp_path / "nws_sweep-left/.in_use").touch()
    DatasetServer()
    assert list(tmp_path.iterdir()) == []
    assert multiprocessing.get_start_method(allow_none=True) is None


def test_a_killed_template_process_is_reported_and_replaced(
    dataset_server: DatasetServer, makings: Path
) -> None:
    chosen = spec("NotesItsMaking", path=str(makings))
    with dataset_server.start(chosen, Supervision(kill_after_s=30.0)) as process:
        os.kill(template_pid(makings), signal.SIGKILL)
        with pytest.raises(
            TrialInterrupted, match="the process that it was forked from was killed"
        ):
            # the exit shows after a moment
            [one_epoch(process) for _ in itertools.count()]
    with dataset_server.start(chosen) as again:
        assert one_epoch(again) == 64
    assert times_made(makings) == 2


def test_a_killed_fork_server_interrupts_its_candidates_and_is_started_for_the_next(
    dataset_server: DatasetServer,
) -> None:
    chosen = spec("Plain", length=4000)
    with dataset_server.start(chosen) as process:
        trial_process.preload([]).process.kill()
        with pytest.raises(TrialInterrupted):
            # the exit shows after a moment
            [one_epoch(process) for _ in itertools.count()]
    with dataset_server.start(chosen) as again:
        assert one_epoch(again) == 4000


def test_a_dataset_that_cannot_be_made_fails_each_time(
    dataset_server: DatasetServer,
) -> None:
    for name, words in (
        ("DiesWhenMade", "killed by SIGKILL"),
        ("not_a_dataset", "has neither __getitem__"),
    ) * 2:
        with (
            pytest.raises((TrialError, DatasetError), match=words),
            dataset_server.start(spec(name)),
        ):
            pass


def test_too_little_memory_names_autotune(
    dataset_server: DatasetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "out_of_memory_kills", itertools.count().__next__)
    with pytest.raises(
        TrialInterrupted,
        match=r"killed a process\) while it made the dataset; .*autotune",
    ):
        dataset_server.start(spec("DiesWhenMade")).__enter__()
