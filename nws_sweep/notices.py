"""What a batch system sends to a job before it ends it becomes the reason of the job's row.

By itself submitit logs SIGTERM and lets the job go on, whose arms have died of it; and at SIGUSR2, which it has Slurm
send some time before the job's time is over, it puts the job into the queue once more.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from nws_sweep.errors import LostJob


class Told(BaseException):
    """Raised by such a signal; the message says what it means.

    No Exception: it comes at any moment, and a logger, say, lets none of these out of its own work.
    """


_MEANING = {
    "SIGTERM": "the job was told to end (SIGTERM): it was cancelled, or its time is over",
    "SIGUSR2": "the job was told that its time is nearly over, or that others need its node (SIGUSR2)",
}


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Inside the block such a signal raises Told in the main thread, if submitit would handle it.

    Raises:
        LostJob: If nobody inside the block has answered it.
    """
    numbers = [getattr(signal, name) for name in _MEANING if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    taken = {number: handler for number, handler in handlers.items() if _is_of_submitit(handler)}
    if threading.current_thread() is not threading.main_thread():
        taken = {}
    for number in taken:
        signal.signal(number, _raise)
    try:
        yield
    except Told as told:
        raise LostJob(str(told)) from None
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def _is_of_submitit(handler: object) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("submitit.")


def _raise(number: int, frame: FrameType | None) -> None:
    raise Told(_MEANING[signal.Signals(number).name])
