"""Reads the clocks of a thread that makes batches: wall, CPU, and the time in which it
was ready and did not run."""

import functools
import operator
import os
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import resource_sharer
from typing import NamedTuple

_MOST_READINGS = 3
# macOS has none: there other threads are unknown
_CLOCK_OF_THREAD = getattr(time, "pthread_getcpuclockid", None)
_FEEDER = "QueueFeederThread"  # of a queue of multiprocessing, which pickles batches


class Clocks(NamedTuple):
    """Readings of the clocks, or differences of them, s."""

    wall_s: float
    cpu_s: float  # of this thread
    # of all threads of this process but the threads that transfer batches
    all_cpu_s: float
    delay_s: float = 0.0  # for which this thread was ready to run and did not
    transfer_s: float = 0.0  # CPU time of the threads that transfer batches

    def since(self, began: "Clocks") -> "Clocks":
        """Returns the differences to an earlier reading."""
        return Clocks(*map(operator.sub, self, began))

    def plus(self, spent: "Clocks") -> "Clocks":
        """Returns the sums of two differences."""
        return Clocks(*map(operator.add, self, spent))


def read_clocks(
    delay_clock: Callable[[], float], transfer_clocks: Sequence[int] = ()
) -> Clocks:
    """Reads the clocks of this thread, again if it lost its CPU meanwhile.

    Args:
        delay_clock: Of the run delay of this thread.
        transfer_clocks: Of the threads that transfer batches.
    """
    delay_s = delay_clock()
    for _ in range(_MOST_READINGS):
        # The kernel counts what a thread computes just now once the clock of the
        # thread is read: so that is read first.
        transfer_s = sum(map(time.clock_gettime, transfer_clocks))
        wall_s, cpu_s, earlier_s = time.perf_counter(), time.thread_time(), delay_s
        all_cpu_s = time.process_time() - transfer_s if _CLOCK_OF_THREAD else cpu_s
        delay_s = delay_clock()
        if delay_s == earlier_s:
            break
    return Clocks(wall_s, cpu_s, all_cpu_s, delay_s, transfer_s)


def find_transfer_clocks() -> tuple[int, ...]:
    """Finds the clocks of the threads that transfer batches: which pickle batches, and
    hand over open files of tensors.

    The threads start with the first batch that is transferred.
    """
    if _CLOCK_OF_THREAD is None:
        return ()
    sharer = getattr(
        getattr(resource_sharer, "_resource_sharer", None), "_thread", None
    )
    threads = [
        thread
        for thread in threading.enumerate()
        if thread.name == _FEEDER or thread is sharer
    ]
    return tuple(_CLOCK_OF_THREAD(thread.ident) for thread in threads if thread.ident)


def run_delay_clock() -> Callable[[], float]:
    """Returns a clock of the seconds in which the main thread of this process was ready
    to run and did not.

    It does not advance where the kernel does not count them. A process opens one file
    for all its clocks.
    """
    return _run_delay_clock(os.getpid())


@functools.cache
def _run_delay_clock(_: int) -> Callable[[], float]:
    try:
        schedule = os.open("/proc/self/schedstat", os.O_RDONLY)
    except OSError:
        return float  # 0.0
    return lambda: int(os.pread(schedule, 64, 0).split()[1]) * 1e-9
