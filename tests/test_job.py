from __future__ import annotations

import io
import logging
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from nws_sweep.errors import LostJob
from nws_sweep.job import heeding_notices


def handler_of_submitit(number: int, frame: FrameType | None) -> None:
    raise AssertionError("not heeded")


handler_of_submitit.__module__ = "submitit.core.job_environment"


@pytest.fixture
def submitit() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR2, handler_of_submitit)
    yield
    signal.signal(signal.SIGUSR2, before)


@pytest.mark.usefixtures("submitit")
def test_a_notice_to_a_job_of_submitit_is_the_reason_why_it_ends() -> None:
    with pytest.raises(LostJob, match="its time is nearly over"), heeding_notices():
        signal.raise_signal(signal.SIGUSR2)
    assert signal.getsignal(signal.SIGUSR2) is handler_of_submitit


@pytest.mark.usefixtures("submitit")
def test_no_logger_swallows_it() -> None:
    """Slurm sends SIGCONT first, which submitit logs: SIGTERM comes meanwhile."""
    with pytest.raises(LostJob), heeding_notices():
        logging.StreamHandler(TerminalToldMeanwhile()).handle(
            logging.makeLogRecord({"msg": "Bypassing signal SIGCONT"})
        )


class TerminalToldMeanwhile(io.StringIO):
    def write(self, text: str) -> int:
        signal.raise_signal(signal.SIGUSR2)
        return len(text)


def test_elsewhere_signals_stay_as_they_are() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with heeding_notices():
        assert signal.getsignal(signal.SIGTERM) is before
