import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from types import FunctionType
from typing import Any

import pytest

from nws_sweep.system import processes
from nws_sweep.system.processes import Interrupted, Interrupts


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """Checks that the signal handlers are restored."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_outside_a_measurement_ends_it_at_once(number: int) -> None:
    with Interrupts(), pytest.raises(Interrupted) as raised:
        send(number)
    assert raised.value.status == 128 + number


@pytest.mark.parametrize("numbers", [[signal.SIGINT], [signal.SIGINT, signal.SIGTERM]])
def test_the_first_signal_during_a_measurement_is_deferred(
    numbers: list[int], capfd: Any
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
    assert (done, raised.value.status) == (numbers[:1], 128 + numbers[-1])
    assert capfd.readouterr().err.count("Press Ctrl-C again to stop now") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_handler_of_the_program_takes_ends_the_block_too(
    number: int,
) -> None:
    taken: list[int] = []
    before = signal.signal(number, lambda number, _: taken.append(number))
    try:
        with pytest.raises(Interrupted) as raised, processes.ended_by_taken_signals():
            send(number)
        send(number)
    finally:
        signal.signal(number, before)
    assert (taken, raised.value.status) == ([number, number], 128 + number)


def test_pythons_own_handler_ends_the_block_as_without() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, processes.ended_by_taken_signals():
        send(signal.SIGINT)
    assert raised.type is KeyboardInterrupt


def test_an_error_precedes_a_deferred_signal() -> None:
    with Interrupts() as interrupts:
        with suppress(ZeroDivisionError), interrupts.deferred():
            send(signal.SIGINT)
            raise ZeroDivisionError
        with pytest.raises(Interrupted):
            interrupts.check()


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def defer(done: list[str], number: int) -> None:
    with processes.uninterrupted():
        send(number)
        done.append("whole")


@pytest.mark.parametrize("is_measuring", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_an_uninterrupted_block_comes_after_it(
    number: int, is_measuring: bool
) -> None:
    done: list[str] = []
    with (
        Interrupts() as own,
        pytest.raises(Interrupted),
        own.deferred() if is_measuring else nullcontext(),
    ):
        defer(done, number)
    assert done == ["whole"]


def test_a_signal_while_handlers_are_restored_leaves_them_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = signal.signal

    def put_and_send(number: int, handler: object) -> object:
        before = put(number, handler)  # type: ignore[arg-type]
        # the first handler restored
        if number == signal.SIGHUP and not isinstance(handler, FunctionType):
            monkeypatch.undo()
            send(signal.SIGINT)
        return before

    with Interrupts():
        with pytest.raises(Interrupted), processes.uninterrupted():
            monkeypatch.setattr(signal, "signal", put_and_send)
        with pytest.raises(Interrupted) as received:
            send(signal.SIGTERM)
    assert received.value.status == 143
