import signal
from types import FrameType

import pytest
from omegaconf import OmegaConf

from nws_sweep.hydra_app import app
from tests.factories import endless_trial, failed_trial, search_result, trial


def handler_of_submitit(number: int, frame: FrameType | None) -> None:
    """Like that of submitit: the job continues, although the signal has ended its trial processes."""


handler_of_submitit.__module__ = "submitit.core.job_environment"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_signals_of_a_batch_system_end_submitit_jobs(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other handlers are kept."""
    found: list[object] = []
    monkeypatch.setattr(app, "_measure", lambda composed, session: found.append(signal.getsignal(number)))
    before = signal.getsignal(number)
    try:
        for handler in (handler_of_submitit, signal.SIG_IGN):
            signal.signal(number, handler)
            app.task(OmegaConf.create())
    finally:
        signal.signal(number, before)
    assert found == [signal.SIG_DFL, signal.SIG_IGN]


def test_a_job_returns_the_time_of_its_best_for_sweepers_that_minimize(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_measure", lambda composed, session: 7.0)
    assert app.task(OmegaConf.create()) == 7.0
    assert app._value(search_result(trial(0, 8.0), trial(2, 4.0))) == 4.0
    assert app._value(search_result(endless_trial(0, 2.0))) == 2.0 / 64
    assert app._value(search_result(failed_trial(0))) is None
