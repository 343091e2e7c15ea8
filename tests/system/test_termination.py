"""Real signals to this very process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from types import FunctionType

import pytest

from nws_sweep.system import processes
from nws_sweep.system.termination import Interrupted, Interrupts


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """What had the signals before has them again."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_while_nothing_is_measured_it_ends_at_once(number: int, status: int) -> None:
    with Interrupts(), pytest.raises(Interrupted) as raised:
        send(number)
    assert raised.value.status == status


@pytest.mark.parametrize(
    ("numbers", "went_on", "status"),
    [((signal.SIGINT,), 1, 130), ((signal.SIGINT, signal.SIGTERM), 1, 143)],
)
def test_what_is_being_measured_is_finished_first(
    numbers: Sequence[int], went_on: int, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    done: list[object] = []

    def measure() -> None:
        with Interrupts() as interrupts, interrupts.deferred():
            for number in numbers:
                send(number)
                done.append(number)
            interrupts.check()
            done.append("next window")

    with pytest.raises(Interrupted) as raised:
        measure()
    assert (len(done), raised.value.status) == (went_on, status)
    assert capfd.readouterr().err.count("Press Ctrl-C again to stop now") == 1


def test_an_error_meanwhile_goes_first_and_the_signal_is_told_at_the_next_moment(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Interrupts() as interrupts:
        with suppress(ZeroDivisionError), interrupts.deferred():
            send(signal.SIGINT)
            raise ZeroDivisionError
        with pytest.raises(Interrupted):
            interrupts.check()


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def hold_back(done: list[str], number: int) -> None:
    with processes.uninterrupted():
        send(number)
        done.append("whole")


@pytest.mark.parametrize("is_measuring", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_where_nothing_may_be_interrupted_it_comes_afterwards(number: int, is_measuring: bool) -> None:
    done: list[str] = []
    with Interrupts() as asked, pytest.raises(Interrupted), asked.deferred() if is_measuring else nullcontext():
        hold_back(done, number)
    assert done == ["whole"]


def test_one_that_comes_while_handlers_are_put_back_makes_nobody_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    put = signal.signal

    def put_and_send(number: int, handler: object) -> object:
        before = put(number, handler)  # type: ignore[arg-type]
        if number == signal.SIGHUP and not isinstance(handler, FunctionType):  # the first to be put back
            monkeypatch.undo()
            send(signal.SIGINT)
        return before

    with Interrupts():
        with pytest.raises(Interrupted), processes.uninterrupted():
            monkeypatch.setattr(signal, "signal", put_and_send)
        with pytest.raises(Interrupted) as heard:
            send(signal.SIGTERM)
    assert heard.value.status == 143
