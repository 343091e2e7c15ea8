"""What a process and all that descend from it use (CPU time, memory, shared memory, bytes from storage), and what the
machine does besides.

Read from /proc while the processes stand still; elsewhere what the platform lacks is None.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nws_sweep.results import MachineTime, Usage
from nws_sweep.system import cgroups

if TYPE_CHECKING:
    import psutil

_SHARED_MEMORY = Path("/dev/shm")
_HAS_PROC = Path("/proc/self").exists()
_BLOCK_BYTES = 512  # the unit of st_blocks
_MAJFLT = 9  # place in /proc/<pid>/stat after the process's name; that of its dead children follows (proc(5))


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
        disk_bytes=_known_sum(_numbers(pid, "io").get("read_bytes") for pid in pids),  # not from the page cache
        major_faults=_known_sum(map(_major_faults, pids)),
    )


def of_machine(root: Path = Path("/")) -> MachineTime:
    """The machine's counters since it started; the control groups are those below the root."""
    import psutil

    times = psutil.cpu_times()
    stats = [cgroups.fields(folder / "cpu.stat") for _, folder in cgroups.folders(root, "cpu")]
    throttled_s = (  # in version 2, or in version 1
        stat["throttled_usec"] / 1e6 if "throttled_usec" in stat else stat.get("throttled_time", 0) / 1e9
        for stat in stats
    )
    return MachineTime(
        busy_s=sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq")),
        steal_s=getattr(times, "steal", 0.0),
        throttled_s=max(throttled_s, default=0.0),
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
    return float(own + getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0))


def _numbers(pid: int, file: str) -> dict[str, int]:
    """What a file of ``name: number`` lines in /proc says; empty if the process is gone, or another user's."""
    pairs = (line.split()[:2] for line in cgroups.read(Path(f"/proc/{pid}/{file}")).splitlines())
    return {pair[0].rstrip(":"): int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _memory_bytes(pids: Sequence[int]) -> int | None:
    """Memory of a process, the first, and its descendants, as if no others shared any with them; None if unknown."""
    # Their proportional set size, but of what the first has inherited from its parent (a dataset that was made before
    # the fork) nothing is taken off: a program of its own would have all of it.
    kinds = [_numbers(pid, "smaps_rollup") for pid in pids]  # kB; see proc_pid_smaps(5)
    if not any(kinds):
        return None
    own = kinds[0].get("Anonymous", 0) + sum(
        max(0, k.get("Private_Dirty", 0) - k.get("Pss_Shmem", 0)) for k in kinds[1:]
    )
    return 1024 * (own + sum(k.get("Pss_File", 0) + k.get("Pss_Shmem", 0) for k in kinds))


def _major_faults(pid: int) -> int | None:
    """Page faults that had to wait for storage, the dead children's included."""
    after_name = cgroups.read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(after_name[_MAJFLT]) + int(after_name[_MAJFLT + 1]) if after_name else None


def _shared_memory_bytes(pids: Iterable[int]) -> int:
    """Bytes of the files in /dev/shm that the processes have open or mapped; each counts once."""
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
    """Memory of the tree without mapped files, quick to read; shared pages count in each process."""
    kinds = [_numbers(member, "status") for member in _family(pid)]
    return 1024 * sum(kind.get("RssAnon", 0) + kind.get("RssShmem", 0) for kind in kinds)


def _family(pid: int) -> Iterator[int]:
    """The process and its descendants, without looking at all processes of the machine."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in cgroups.read(children).split():
            yield from _family(int(child))


def memory_bytes(pid: int) -> int:
    """Memory of the whole tree, as ``of_tree`` has it; 0 where it is unknown."""
    return _memory_bytes(list(_family(pid))) or 0
