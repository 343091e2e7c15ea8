"""Ctrl-C, SIGTERM and SIGHUP during a measurement: the first waits for the end of the window, the second does not."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from nws_sweep.system import processes

_NOTICE = b"\nnws_sweep: Finishing the current window and writing the report. Press Ctrl-C again to stop now.\n"


class Interrupted(KeyboardInterrupt):
    """Replaces KeyboardInterrupt; ``status`` is the exit status that shells expect, such as 143 after SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


class Interrupts:
    """Handles these signals inside its context, in the main thread only; ignored signals stay ignored."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._is_deferring = False
        self._received: int | None = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in processes.ENDING_SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._handlers[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defers the first signal inside the block to the next ``check``, or to the end of the block."""
        self._is_deferring = True
        try:
            yield
        finally:
            self._is_deferring = False
        self.check()

    def check(self) -> None:
        """Raises Interrupted if a signal was deferred."""
        number, self._received = self._received, None
        if number is not None:
            raise Interrupted(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        second, self._received = self._received is not None, number
        if second or not self._is_deferring:
            self.check()
        with contextlib.suppress(OSError):  # a print may be in progress
            os.write(2, _NOTICE)
