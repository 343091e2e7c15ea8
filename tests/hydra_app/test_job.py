import shutil
import signal
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest
from omegaconf import OmegaConf

from nws_sweep.hydra_app import app
from nws_sweep.hydra_app.call import Call
from nws_sweep.records import storage
from tests.factories import endless_trial, failed_trial, search_result, store_run, trial


def handler_of_submitit(number: int, frame: FrameType | None) -> None:
    """Like that of submitit: the job continues, although the signal has ended its trial
    processes."""


handler_of_submitit.__module__ = "submitit.core.job_environment"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_signals_of_a_batch_system_end_submitit_jobs(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other handlers are kept."""
    found: list[object] = []
    monkeypatch.setattr(
        app, "_measure", lambda composed, call: found.append(signal.getsignal(number))
    )
    before = signal.getsignal(number)
    try:
        for handler in (handler_of_submitit, signal.SIG_IGN):
            signal.signal(number, handler)
            app.task(OmegaConf.create())
    finally:
        signal.signal(number, before)
    assert found == [signal.SIG_DFL, signal.SIG_IGN]


def test_a_result_whose_folder_was_removed_during_the_run_is_written_again(
    tmp_path: Path,
) -> None:
    notes: list[str] = []
    call = Call()
    call.__dict__["view"] = SimpleNamespace(note=notes.append)
    for name in ("kept", "removed"):
        call.remember(
            search_result(trial(0, 8.0)),
            store_run(tmp_path, search_result(trial(0, 8.0)), name),
        )
    shutil.rmtree(tmp_path / "removed")
    call.restore()
    stored = storage.load(tmp_path / "removed").result
    assert [each.measurement for each in stored.trials] == [trial(0, 8.0).measurement]
    assert notes == [
        f"{tmp_path / 'removed'} was removed: its result is written again, without the times of batches"
    ]
    call.restore()
    assert len(notes) == 1


def test_a_job_returns_the_time_of_its_best_for_sweepers_that_minimize(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "_measure", lambda composed, call: 7.0)
    assert app.task(OmegaConf.create()) == 7.0
    assert app._value(search_result(trial(0, 8.0), trial(2, 4.0))) == 4.0
    assert app._value(search_result(endless_trial(0, 2.0))) == 2.0 / 64
    assert app._value(search_result(failed_trial(0))) is None
