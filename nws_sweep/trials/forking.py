"""Decides whether a process that has made a dataset may be forked, and measures how
long a fork takes.

Trial processes forked from it share the dataset. The process is one of ours or, where
the dataset cannot be pickled, a program that ends after its search. A forked process
lacks the threads of its parent, and locks that they held stay locked. Open files share
one position. Shared memory, such as a lock, is shared with other candidates, some of
which are paused.
"""

import contextlib
import math
import os
import re
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil

from nws_sweep.system import fork_server, platforms, processes

# a thread of jemalloc, part of pyarrow; jemalloc stops it before a fork
_ALLOCATOR = "jemalloc_bg_thd"
_ATTEMPTS, _POLL_S = 20, 0.005
# What candidates would share of a program: connections, devices, memory, such as the
# lock of an LMDB environment. Files are opened again (``sharing.reopen_files``),
# standard streams are replaced, and tqdm has a semaphore for its bars.
_OF_PROGRAM = re.compile(
    r"thread |open file (?![012] )\d+ (?!/(?!dev/)|/dev/(null|zero|full|u?random|tty|pts/|ptmx|shm/))"
    r"|shared memory \S+ (?!/dev/shm/sem\.)"
)


def footprint() -> set[str]:
    """Returns what a forked process would lack or share of this process, read from
    /proc."""
    entries = set(_threads())
    entries |= {f"child process {child.pid}" for child in psutil.Process().children()}
    entries |= {
        f"open file {number} {target}"
        for number, target in processes.open_files().items()
    }
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        addresses, rights, _, _, _, *path = line.split(maxsplit=5)
        if rights.startswith("rw") and rights.endswith("s"):
            entries.add(f"shared memory {addresses} {''.join(path)}")
    return entries


def seconds_of_a_fork() -> float:
    """Returns CPU seconds in which this program forks a process: a fork copies the
    tables of all its memory.

    Reads until a fork takes no less than one before: what else the machine does makes
    forks longer, never shorter. 0 where processes are not forked, or cannot be, and
    where trial processes have the memory of the program.
    """
    if fork_server.is_of_program:
        return 0.0
    least_s, latest_s = math.inf, _fork()
    while latest_s < least_s:
        least_s, latest_s = latest_s, _fork()
    return least_s


def _fork() -> float:
    """Forks a process, which exits at once; returns the CPU seconds of the fork, 0 if
    there was none."""
    if not platforms.IS_LINUX:
        return 0.0
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, which are not forked
        warnings.simplefilter("ignore", DeprecationWarning)
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
    """Names what was added to the footprint since ``before``, and makes forking this
    process unsafe; empty if nothing.

    Waits for threads that Python has joined and that are still exiting.
    """
    _fork()  # before a fork, OpenBLAS ends its threads, which are no obstacle
    added = footprint() - before
    for _ in range(_ATTEMPTS):
        if not added:
            break
        time.sleep(_POLL_S)
        added = footprint() - before
    return ", ".join(sorted(added))


def obstacle_in_program() -> str:
    """Names what makes it unsafe to fork trial processes from this program; empty if
    nothing does."""
    if not platforms.IS_LINUX:
        return "it is not known what a process shares on this system"
    reason = processes.reason_not_starting()
    if reason:
        return reason
    of_parent = processes.open_files(os.getppid()).values()
    from_parent = {
        target for target in of_parent if target.startswith(("pipe:", "socket:"))
    }
    harmless = {_thread(os.getpid())}
    for entry in footprint():
        if not _OF_PROGRAM.match(entry) or entry.split()[-1] in from_parent:
            harmless.add(entry)
    return obstacle_since(harmless)


def _threads() -> Iterator[str]:
    """Yields the threads that a forked process would lack."""
    for task in Path("/proc/self/task").iterdir():
        # it has exited
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if (task / "comm").read_text().strip() != _ALLOCATOR:
                yield _thread(int(task.name))


def _thread(number: int) -> str:
    for thread in threading.enumerate():
        if thread.native_id == number:
            return f"thread {number} ({thread.name} of {type(thread).__module__})"
    return f"thread {number} (of a library)"
