"""What a process and all that descend from it use: CPU time, memory, shared memory, bytes from storage.

Read from /proc while the processes stand still; elsewhere what the platform lacks is None.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nws_sweep.records import Usage

if TYPE_CHECKING:
    import psutil

_SHARED_MEMORY = Path("/dev/shm")
_BLOCK_BYTES = 512  # the unit of st_blocks
_MAJFLT = 9  # place in /proc/<pid>/stat after the process's name; that of its dead children follows (proc(5))
_HAS_PROC = sys.platform == "linux"


def of_tree(pid: int) -> Usage:
    """What the process and its descendants use now; CPU time and bytes include those of their dead children."""
    import psutil

    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return Usage()
    pids = [member.pid for member in family]
    return Usage(
        cpu_s=sum(_cpu_s(member) for member in family),
        memory_bytes=_memory_bytes(pids),
        shm_bytes=_shared_memory_bytes(pids) if _HAS_PROC else None,
        disk_bytes=_known_sum(map(_disk_bytes, pids)),
        major_faults=_known_sum(map(_major_faults, pids)),
    )


def _known_sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _cpu_s(process: psutil.Process) -> float:
    import psutil

    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    own = times.user + times.system
    if _HAS_PROC:
        # The process's own CPU clock counts nanoseconds, its times in /proc hundredths of a second. The number of the
        # clock is what clock_getcpuclockid(3) computes.
        with contextlib.suppress(OSError):
            own = time.clock_gettime((~process.pid << 3) | 2)
    return own + getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)


def _memory_bytes(pids: Sequence[int]) -> int | None:
    """Memory of a process, the first, and its descendants, as if no others shared any with them; None if unknown.

    Their proportional set size, but of what the first has inherited from its parent and both still share (a dataset
    that was made before the fork) nothing is taken off: a program of its own would have all of it. What a descendant
    has not written to it shares with the first. Files that others have mapped too are divided among all.
    """
    kinds = [_rollup(pid) for pid in pids]
    if not any(kinds):
        return None
    own = kinds[0].get("Anonymous", 0) + sum(
        max(0, k.get("Private_Dirty", 0) - k.get("Pss_Shmem", 0)) for k in kinds[1:]
    )
    return own + sum(k.get("Pss_File", 0) + k.get("Pss_Shmem", 0) for k in kinds)


def _rollup(pid: int) -> dict[str, int]:
    """Memory of one process by kind, B; empty if that is unknown. See proc_pid_smaps(5)."""
    with contextlib.suppress(OSError):  # gone, or another user's
        lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
        return {name.rstrip(":"): int(value) * 1024 for name, value, *_ in lines}
    return {}


def _disk_bytes(pid: int) -> int | None:
    """Bytes that really came from storage, not from the page cache, the dead children's included."""
    return _number_of(Path(f"/proc/{pid}/io"), "read_bytes:", 1)


def _major_faults(pid: int) -> int | None:
    """Page faults that had to wait for storage, the dead children's included."""
    with contextlib.suppress(OSError):
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(after_name[_MAJFLT]) + int(after_name[_MAJFLT + 1])
    return None


def _number_of(path: Path, name: str, unit: int) -> int | None:
    with contextlib.suppress(OSError):  # gone, or another user's
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * unit
    return None


def _shared_memory_bytes(pids: Iterable[int]) -> int:
    """Bytes of the files in /dev/shm that the processes have open or mapped; each is counted once.

    Batches on their way lie in files that are unlinked already and that only a file descriptor holds.
    """
    sizes: dict[int, int] = {}
    device = _SHARED_MEMORY.stat().st_dev if _SHARED_MEMORY.is_dir() else None
    for pid in pids:
        for inode, size in (*_mapped(pid), *_open(pid, device)):
            sizes[inode] = max(size, sizes.get(inode, 0))
    return sum(sizes.values())


def _mapped(pid: int) -> Iterator[tuple[int, int]]:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            if str(_SHARED_MEMORY) in line:
                addresses, _, _, _, inode, *_ = line.split()
                first, last = addresses.split("-")
                yield int(inode), int(last, 16) - int(first, 16)


def _open(pid: int, device: int | None) -> Iterator[tuple[int, int]]:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - thousands of names, and no paths wanted
            with contextlib.suppress(OSError):
                found = os.stat(f"{folder}/{name}")  # noqa: PTH116
                if found.st_dev == device:
                    yield found.st_ino, found.st_blocks * _BLOCK_BYTES


def resident_bytes(pid: int) -> int:
    """Memory of the tree without the files that it has mapped: quick to read, so that it can be watched.

    Pages that several processes share (by a fork, or shared memory) count in each, so the true figure may be less.
    """
    return sum(_resident_bytes(member) for member in _family(pid))


def _family(pid: int) -> Iterator[int]:
    """The process and its descendants, without looking at all processes of the machine."""
    yield pid
    for task in _threads(pid):
        with contextlib.suppress(OSError):  # it has ended
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # gone, or not Linux
        return []


def _resident_bytes(pid: int) -> int:
    path = Path(f"/proc/{pid}/status")
    return (_number_of(path, "RssAnon:", 1024) or 0) + (_number_of(path, "RssShmem:", 1024) or 0)


def of_memory(pid: int) -> int:
    """Memory of the whole tree, as ``of_tree`` has it; 0 where it is unknown."""
    return _memory_bytes(list(_family(pid))) or 0
