"""Whether a process that has made a dataset may be forked, so that trial processes share it, and how long a fork takes.

A forked process lacks the threads of its parent, and locks that they held stay locked. Open files share one position.
Shared memory, such as a lock, is shared with other candidates, some of which are paused.
"""

import contextlib
import math
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil

from nws_sweep.system import platforms

_ALLOCATOR = "jemalloc_bg_thd"  # a thread of jemalloc, part of pyarrow; jemalloc stops it before a fork
_ATTEMPTS, _POLL_S = 20, 0.005


def footprint() -> set[str]:
    """What a forked process would lack or share of this process, read from /proc."""
    found = {f"thread {number}" for number in _threads()}
    found |= {f"child process {child.pid}" for child in psutil.Process().children()}
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed by another thread
            found.add(f"open file {link.name} {os.readlink(link)}")  # noqa: PTH115 - the target is not a path
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        addresses, rights, *_ = line.split()
        if rights.startswith("rw") and rights.endswith("s"):
            found.add(f"shared memory {addresses}")
    return found


def seconds_of_a_fork() -> float:
    """CPU seconds in which this program forks a process, at least: a fork copies the tables of all its memory.

    Reads until a fork takes no less than one before: what else the machine does makes forks longer, never shorter.
    0 where processes are not forked, or cannot be.
    """
    least_s, latest_s = math.inf, _fork()
    while latest_s < least_s:
        least_s, latest_s = latest_s, _fork()
    return least_s


def _fork() -> float:
    """Forks a process, which exits at once; returns the CPU seconds of the fork, 0 if there was none."""
    if not platforms.IS_LINUX:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, which are not forked
        began_s = time.thread_time()
        try:
            pid = os.fork()
        except OSError:  # the memory or the processes that are allowed do not suffice
            return 0.0
        if pid == 0:
            os._exit(0)
        cpu_s = time.thread_time() - began_s
    with contextlib.suppress(ChildProcessError):  # the program ignores SIGCHLD
        os.waitpid(pid, 0)
    return cpu_s


def obstacle_since(before: set[str]) -> str:
    """What was added to the footprint since ``before``, which makes forking this process unsafe; empty if nothing was.

    Waits for threads that Python has joined and that are still exiting.
    """
    _fork()  # before a fork, OpenBLAS ends its threads, which are no obstacle
    for _ in range(_ATTEMPTS):
        if not (added := footprint() - before):
            break
        time.sleep(_POLL_S)
    return ", ".join(sorted(added))


def _threads() -> Iterator[str]:
    """The IDs of the threads that a forked process would lack."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has exited
            if (task / "comm").read_text().strip() != _ALLOCATOR:
                yield task.name
