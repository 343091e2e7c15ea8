"""Measures how long an accelerator waits for data, by events on its queue.

A training step on an accelerator is queued: its work may continue while the process is
in ``next``. So an event is recorded when a batch is requested. If the device has passed
it when the batch is received, it has waited since then.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from nws_sweep.dataloading.windows import Device
from nws_sweep.system import accelerator


class DeviceClock(Device):
    """Measures how long the device waited for each batch.

    Args:
        make_event: Makes an event on the queue of the device, as ``torch.Event`` with
            ``enable_timing``; the argument says whether waiting for it leaves the CPU
            to others.
    """

    def __init__(self, make_event: Callable[[bool], Any]) -> None:
        self._make_event = make_event
        self._asked: Any = None

    def pace(self) -> None:
        """Waits, when a step has been queued, until the device has finished the step
        before it.

        Otherwise the process may queue the steps of many batches, and the times between
        batches would be the times of queueing. With one step queued the device is as
        busy.
        """
        if self._asked is not None:
            self._asked.synchronize()

    def ask(self) -> None:
        """Notes that a batch is requested."""
        self._asked = self._make_event(True)
        self._asked.record()

    def waited_s(self) -> float:
        """Returns for how long the device has been idle when the batch is received, s.

        0 if it is still busy; infinite if no batch was requested, or if it was idle
        before the request.
        """
        if self._asked is None:
            return math.inf
        if not self._asked.query():
            return 0.0
        received = self._make_event(False)
        received.record()
        received.synchronize()  # at once, since the device has nothing else to do
        idle_ms: float = self._asked.elapsed_time(received)
        return max(0.0, idle_ms * 1e-3)

    def finish(self) -> None:
        """Waits until the device has finished all steps."""
        self.ask()
        self.pace()
        self._asked = None


def of_training() -> DeviceClock | None:
    """Returns a clock of the accelerator that this process uses; None if it uses none,
    or one without such events."""
    device = accelerator.in_use()
    if device is None:
        return None
    if (
        device == "cuda"
        and torch.cuda.device_count() > 1
        and not torch.cuda.memory_allocated()
    ):
        # the program computes on another device than the current one, whose queue is
        # empty
        return None
    # torch.Event is new in torch 2.5.
    kind = (
        functools.partial(torch.Event, device)
        if hasattr(torch, "Event")
        else torch.cuda.Event
    )
    clock = DeviceClock(lambda yields: kind(enable_timing=True, blocking=yields))
    try:
        clock.ask()
        clock.waited_s()
        clock.finish()
    except Exception:
        # RuntimeError, NotImplementedError: the device has no events with times
        return None
    return clock
