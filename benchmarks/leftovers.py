"""Processes that a method leaves behind. They are counted and ended, for they would disturb what is measured next."""

from __future__ import annotations

import contextlib
import os
import time

import psutil

from nws_sweep import processes

_MARK = "NWS_SWEEP_BENCHMARK"
_GRACE_S = 2.0  # killed processes take a moment to die
_POLL_S = 0.02


def mark() -> None:
    """Lets all programs that are started from now on be known as this process's, orphans too."""
    os.environ[_MARK] = str(os.getpid())


def family() -> set[psutil.Process]:
    """All living descendants of this process, and orphans of them."""
    marked = {process for process in psutil.process_iter() if _mark_of(process) == str(os.getpid())}
    descendants = set(psutil.Process().children(recursive=True))
    return {process for process in marked | descendants if processes.is_alive(process)}


def ended(before: set[psutil.Process], grace_s: float = _GRACE_S) -> tuple[str, ...]:
    """Ends those that were not there before.

    Args:
        before: The family at that time: fork server, resource tracker.
        grace_s: How long they may take to go by themselves, s.

    Returns:
        A line for each.
    """
    deadline = time.monotonic() + grace_s
    while (left := family() - before) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return tuple(_ended(process) for process in sorted(left, key=lambda process: process.pid))


def _ended(process: psutil.Process) -> str:
    line = f"process {process.pid}"
    with contextlib.suppress(psutil.Error):
        line = f"process {process.pid} ({process.status()}), a child of {process.ppid()}"
        process.kill()
    return line


def _mark_of(process: psutil.Process) -> str | None:
    with contextlib.suppress(psutil.Error):
        return process.environ().get(_MARK)
    return None
