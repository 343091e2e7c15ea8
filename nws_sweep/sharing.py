"""Whether a process that has made a dataset may be forked, so that the dataset need not be made again.

Forking takes only the memory along. A thread of the dataset's would be missing in the copy, with whatever lock it held;
an open file has one position that all copies move; a process that answers to the first would be asked by all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a process has that a fork would not take along, or would share.

    Attributes:
        threads: Threads.
        files: Open files, sockets and pipes: the number of the descriptor and what it leads to.
        children: Process IDs of its children.
    """

    threads: int
    files: frozenset[tuple[str, str]]
    children: frozenset[str]

    def obstacle(self, before: Footprint) -> str:
        """What stands against forking a process that had only ``before`` when it began; empty if nothing does."""
        found = {
            "threads": self.threads > before.threads,
            "open files": bool(self.files - before.files),
            "child processes": bool(self.children - before.children),
        }
        return ", ".join(what for what, is_new in found.items() if is_new)


def footprint() -> Footprint:
    """That of this process, from /proc.

    Raises:
        OSError: Where there is no /proc.
    """
    threads = [Path(task.path) for task in os.scandir("/proc/self/task")]
    children = [pid for task in threads for pid in (task / "children").read_text().split()]
    return Footprint(threads=len(threads), files=frozenset(_open_files()), children=frozenset(children))


def _open_files() -> Iterator[tuple[str, str]]:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are what is wanted
        try:
            yield name, os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - may be no path: "socket:[4711]"
        except FileNotFoundError:  # the one that the folder was read by
            continue
