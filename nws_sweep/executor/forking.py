"""Whether a process that has made a dataset may be forked, so that the dataset need not be made again.

A thread would be missing in the copy, with whatever lock it held; an open file has one position that all copies move;
what is in shared memory, such as a lock, would be shared with other candidates, some of which stand still.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Set as AbstractSet
from pathlib import Path

# What a process has that a fork would not take along, or would share, by kinds.
Footprint = dict[str, AbstractSet[object]]

_ALLOCATOR = "jemalloc_bg_thd"  # jemalloc's own, which pyarrow brings along; jemalloc stops it before a fork
_LOOKS, _POLL_S = 20, 0.005


def footprint() -> Footprint:
    """That of this process, from /proc."""
    import psutil

    files = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # another thread has just closed it
            files.add((link.name, os.readlink(link)))  # noqa: PTH115 - what it leads to is no path
    mappings = [line.split() for line in Path("/proc/self/maps").read_text(errors="replace").splitlines()]
    return {
        "threads": set(range(_threads())),
        "open files": files,
        "child processes": {child.pid for child in psutil.Process().children()},
        "shared memory": {words[0] for words in mappings if words[1].startswith("rw") and words[1].endswith("s")},
    }


def obstacle_since(before: Footprint) -> str:
    """What has come since then that stands against forking this process; empty if nothing has.

    A thread that Python has joined already may live on for a moment: it is waited for.
    """
    found: list[str] = []
    for _ in range(_LOOKS):
        now = footprint()
        found = [kind for kind in now if now[kind] - before[kind]]
        if not found:
            break
        time.sleep(_POLL_S)
    return ", ".join(found)


def _threads() -> int:
    """Threads, but for those that a library ends itself before a fork: jemalloc, OpenBLAS."""
    import threadpoolctl

    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            names.append((task / "comm").read_text().strip())
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["internal_api"] == "openblas"]
    of_openblas: int = sum(pool["num_threads"] - 1 for pool in pools if pool["threading_layer"] == "pthreads")
    return len(names) - names.count(_ALLOCATOR) - of_openblas
