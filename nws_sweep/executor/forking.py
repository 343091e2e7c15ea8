"""Whether a process that has made a dataset may be forked, so that trial processes share it, and how long a fork takes.

A forked process lacks the threads of its parent, and locks that they held stay locked. Open files share one position.
Shared memory, such as a lock, is shared with other candidates, some of which are paused.
"""

import contextlib
import os
import time
import warnings
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

import psutil

from nws_sweep.system import platforms

# What a forked process would lack or share, by kind.
Footprint = dict[str, AbstractSet[object]]

_ALLOCATOR = "jemalloc_bg_thd"  # a thread of jemalloc, part of pyarrow; jemalloc stops it before a fork
_ATTEMPTS, _POLL_S = 20, 0.005


def footprint() -> Footprint:
    """The footprint of this process, read from /proc."""
    files = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed by another thread
            files.add((link.name, os.readlink(link)))  # noqa: PTH115 - the target is not a path
    mappings = [line.split() for line in Path("/proc/self/maps").read_text(errors="replace").splitlines()]
    return {
        "threads": set(_threads()),
        "open files": files,
        "child processes": {child.pid for child in psutil.Process().children()},
        "shared memory": {words[0] for words in mappings if words[1].startswith("rw") and words[1].endswith("s")},
    }


def seconds_of_a_fork() -> float:
    """Seconds in which this program forks a process, which exits at once: a fork copies the tables of all its memory.

    0 where processes are not forked, or cannot be.
    """
    if not platforms.IS_LINUX:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, which are not forked
        began_s = time.perf_counter()
        try:
            pid = os.fork()
        except OSError:  # the memory or the processes that are allowed do not suffice
            return 0.0
        if pid == 0:
            os._exit(0)
        elapsed_s = time.perf_counter() - began_s
    with contextlib.suppress(ChildProcessError):  # the program ignores SIGCHLD
        os.waitpid(pid, 0)
    return elapsed_s


def obstacle_since(before: Footprint) -> str:
    """The kinds added since ``before``, which make forking this process unsafe; empty if there are none.

    Waits for threads that Python has joined and that are still exiting.
    """
    seconds_of_a_fork()  # before a fork, OpenBLAS ends its threads, which are no obstacle
    for _ in range(_ATTEMPTS):
        found = [kind for kind, held in footprint().items() if held - before[kind]]
        if not found:
            break
        time.sleep(_POLL_S)
    return ", ".join(found)


def _threads() -> Iterator[str]:
    """The IDs of the threads that a forked process would lack."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has exited
            if (task / "comm").read_text().strip() != _ALLOCATOR:
                yield task.name
