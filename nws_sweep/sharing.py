"""Whether a process that has made a dataset may be forked, so that the dataset need not be made again.

Forking takes only the memory along. A thread of the dataset's would be missing in the copy, with whatever lock it held;
an open file has one position that all copies move; a process that answers to the first would be asked by all; and
shared memory stays one for all copies: a lock, a counter or a cache that workers share would be shared with those of
other candidates, some of which stand still.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MADV_POPULATE_WRITE = 23  # <linux/mman.h>, from kernel 5.14 on
_ALLOCATOR = "jemalloc_bg_thd"  # jemalloc's own, which pyarrow brings along; jemalloc stops it before a fork
_ENDED_WITHIN_S = 0.1
_POLL_S = 0.005
_MOSTLY = 0.5  # a mapping with a smaller share of its pages in use would grow too much


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a process has that a fork would not take along, or would share.

    Attributes:
        threads: Threads, without those that are known to take no harm from a fork.
        files: Open files, sockets and pipes: the number of the descriptor and what it leads to.
        children: Process IDs of its children.
        shared_memory: Mappings that are written to and shared, by their addresses.
    """

    threads: int
    files: frozenset[tuple[str, str]]
    children: frozenset[str]
    shared_memory: frozenset[str] = frozenset()

    def obstacle(self, before: Footprint) -> str:
        """What stands against forking a process that had only ``before`` when it began; empty if nothing does."""
        found = {
            "threads": self.threads > before.threads,
            "open files": bool(self.files - before.files),
            "child processes": bool(self.children - before.children),
            "shared memory": bool(self.shared_memory - before.shared_memory),
        }
        return ", ".join(what for what, is_new in found.items() if is_new)


def can_be_told() -> bool:
    """Whether this system tells what ``footprint`` asks."""
    try:
        footprint()
    except OSError:  # no /proc, or one without the children of a process
        return False
    return True


def footprint() -> Footprint:
    """That of this process, from /proc.

    Raises:
        OSError: Where there is no /proc, or not all of it.
    """
    threads = _threads()
    names = [name for name, _ in threads]
    return Footprint(
        threads=len(threads) - names.count(_ALLOCATOR) - _of_openblas(),
        files=frozenset(_open_files()),
        children=frozenset(pid for _, children in threads for pid in children),
        shared_memory=frozenset(_shared_memory()),
    )


def obstacle_since(before: Footprint) -> str:
    """What has come since then that stands against forking this process; empty if nothing has.

    A thread that Python has joined already may live on for a moment: it is waited for.
    """
    deadline, late = time.monotonic() + _ENDED_WITHIN_S, False
    while (found := footprint().obstacle(before)) and not late:
        late = time.monotonic() >= deadline  # then one last look: this process itself may have stood still meanwhile
        time.sleep(_POLL_S)
    return found


def _threads() -> list[tuple[str, list[str]]]:
    """Name and children of each thread; all are looked at anew if one ends meanwhile: another has its children then."""
    while True:
        tasks = [Path(task.path) for task in os.scandir("/proc/self/task")]
        try:
            return [((task / "comm").read_text().strip(), (task / "children").read_text().split()) for task in tasks]
        except (FileNotFoundError, ProcessLookupError):
            if all(task.exists() for task in tasks):  # this system does not tell
                raise


def _of_openblas() -> int:
    """Threads of OpenBLAS, which each library that brings it along starts when it is imported.

    It ends them before a fork and starts them again when they are needed (pthread_atfork).
    """
    import threadpoolctl

    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["internal_api"] == "openblas"]
    return sum(pool["num_threads"] - 1 for pool in pools if pool["threading_layer"] == "pthreads")


def _shared_memory() -> Iterator[str]:
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        addresses, permissions, *_ = line.split()
        if permissions.startswith("rw") and permissions.endswith("s"):
            yield addresses


def _open_files() -> Iterator[tuple[str, str]]:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are what is wanted
        try:
            yield name, os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - may be no path: "socket:[4711]"
        except FileNotFoundError:  # the one that the folder was read by
            continue


def own_memory() -> None:
    """Makes the pages that this process shares with the one it was forked from its own, as far as the kernel can.

    Else they become its own one by one when they are first written to, and reading a Python object writes to it: that
    takes about a microsecond a page, which a program that has made its dataset itself does not pay.
    """
    library = ctypes.CDLL(None)
    for first, length in _private_memory():
        library.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), _MADV_POPULATE_WRITE)


def _private_memory() -> Iterator[tuple[int, int]]:
    """Address and length of each mapping that is written to, not shared, backed by no file and mostly in use, B."""
    mapping: tuple[int, int] | None = None
    for line in Path("/proc/self/smaps").read_text(errors="replace").splitlines():
        words = line.split()
        if "-" in words[0]:
            first, last = (int(address, 16) for address in words[0].split("-"))
            is_private = words[1] == "rw-p" and words[4] == "0"
            mapping = (first, last - first) if is_private else None
        elif words[0] == "Anonymous:" and mapping and int(words[1]) * 1024 >= _MOSTLY * mapping[1]:
            yield mapping
