"""Ctrl-C and requests to end: while something is measured, the first one waits for the end of the window.

So what is being measured is finished, written and reported; the second one ends it at once. SIGTERM and SIGHUP, of
batch systems and closed terminals, are treated likewise.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from nws_sweep.system import processes

_TOLD = b"\nnws_sweep: finishing what is being measured, then the report; once more ends it now\n"


class Interrupted(KeyboardInterrupt):
    """Raised in place of KeyboardInterrupt.

    Attributes:
        status: The exit status that shells expect: 130 after Ctrl-C, 143 after SIGTERM.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


class Interrupts:
    """Handles these signals inside its context, if that is in the main thread. One that is ignored stays ignored."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._waiting = False
        self._received: int | None = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in processes.ENDING_SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Lets the first signal inside the block wait for ``check``, or for the block's end."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False
        self.check()

    def check(self) -> None:
        """The moment at which something may end: raises Interrupted if a signal waits for it."""
        number, self._received = self._received, None
        if number is not None:
            raise Interrupted(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        second, self._received = self._received is not None, number
        if second or not self._waiting:
            self.check()
        with contextlib.suppress(OSError):  # whatever prints may be in the middle of a line: not through it
            os.write(2, _TOLD)
