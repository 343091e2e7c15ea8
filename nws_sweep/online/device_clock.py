"""How long an accelerator waits for data, from events on its queue.

A training step on an accelerator is queued: its work may continue while the process is in ``next``. So an event is
recorded when a batch is requested. If the device has passed it when the batch is received, it has waited since then.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch

from nws_sweep.system import accelerator


class Event(Protocol):
    """An event on the queue of a device, as ``torch.Event`` with ``enable_timing``."""

    def record(self) -> object:
        """Puts it on the queue."""

    def query(self) -> bool:
        """Whether the device has passed it."""

    def synchronize(self) -> object:
        """Waits until the device has passed it."""

    def elapsed_time(self, end_event: Any) -> float:
        """From this event to a later one, ms, if the device has passed both."""


class DeviceClock:
    """Says how long the device waited for each batch.

    Args:
        make_event: Makes an event.
    """

    def __init__(self, make_event: Callable[[], Event]) -> None:
        self._make_event = make_event
        self._asked: Event | None = None

    def ask(self) -> None:
        """A batch is requested."""
        self._asked = self._make_event()
        self._asked.record()

    def waited_s(self) -> float:
        """The batch has been received: for how long the device has been idle; 0 if it is still busy."""
        asked, self._asked = self._asked, None
        if asked is None or not asked.query():
            return 0.0
        given = self._make_event()
        given.record()
        given.synchronize()  # at once, since the device has nothing else to do
        return max(0.0, asked.elapsed_time(given) * 1e-3)


def of_training() -> DeviceClock | None:
    """A clock of the accelerator that this process uses; None if it uses none, or one without such events."""
    device, event = accelerator.in_use(), getattr(torch, "Event", None)
    if device is None or event is None:
        return None
    clock = DeviceClock(lambda: event(device, enable_timing=True))
    try:
        clock.ask()
        clock.waited_s()
    except Exception:  # RuntimeError, NotImplementedError: the device has no events with times
        return None
    return clock
