"""The clocks of a thread that makes batches: wall, CPU time, and the time in which it was ready and did not run."""

import functools
import os
import time
from collections.abc import Callable
from typing import NamedTuple

_MOST_READINGS = 3


class Clocks(NamedTuple):
    """Readings of the clocks, s."""

    wall_s: float
    cpu_s: float  # of this thread
    all_cpu_s: float  # of all threads of this process
    delay_s: float = 0.0  # for which this thread was ready to run and did not


def read_clocks(delay_clock: Callable[[], float]) -> Clocks:
    """Reads the clocks of this thread, again if it lost its CPU meanwhile; ``delay_clock`` is that of its run delay."""
    delay_s = delay_clock()
    for _ in range(_MOST_READINGS):
        found, earlier_s = (time.perf_counter(), time.thread_time(), time.process_time()), delay_s
        delay_s = delay_clock()
        if delay_s == earlier_s:
            break
    return Clocks(*found, delay_s)


def run_delay_clock() -> Callable[[], float]:
    """A clock of the seconds in which the main thread of this process was ready to run and did not.

    It does not advance where the kernel does not count them. A process opens one file for all its clocks.
    """
    return _run_delay_clock(os.getpid())


@functools.cache
def _run_delay_clock(_: int) -> Callable[[], float]:
    try:
        schedule = os.open("/proc/self/schedstat", os.O_RDONLY)
    except OSError:
        return float  # 0.0
    return lambda: int(os.pread(schedule, 64, 0).split()[1]) * 1e-9
