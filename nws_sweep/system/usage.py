"""Resources used by a process tree (CPU time, memory, shared memory, bytes from
storage), and by the whole machine.

Read from /proc while the processes are paused; values that a platform lacks are None.
"""

import contextlib
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from nws_sweep.records import MachineTime, Usage
from nws_sweep.system import host, platforms

_SHARED_MEMORY = Path("/dev/shm")
_BLOCK_BYTES = 512  # the unit of st_blocks
# children whose memory is read: each takes about 10 ms, and the workers of a loader
# are alike
_MOST_READ = 8
# busy, idle, stolen (proc_stat)
_STATES = ("user", "nice", "system", "irq", "softirq"), ("idle", "iowait"), ("steal",)
# The CPU time of a process is exact to this, s (proc(5), stat).
CLOCK_TICK_S = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
# field of /proc/<pid>/stat after the name; that of exited children follows (proc(5))
_MAJFLT = 9


def of_tree(pid: int, *, shares_dataset: bool = True) -> Usage:
    """Resources of the process and its descendants; CPU time and bytes include exited
    children.

    For ``shares_dataset`` see ``memory``.
    """
    try:
        root = psutil.Process(pid)
        members = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return Usage()
    pids = [member.pid for member in members]
    memory_bytes, added_bytes = memory(pids, shares_dataset=shares_dataset)
    # see proc_pid_io(5)
    storage = [host.fields(Path(f"/proc/{member_pid}/io")) for member_pid in pids]
    return Usage(
        cpu_s=sum(_cpu_s(member) for member in members),
        memory_bytes=memory_bytes,
        added_bytes=added_bytes,
        shm_bytes=_shared_memory_bytes(pids) if platforms.IS_LINUX else None,
        disk_bytes=known_sum(counters.get("read_bytes") for counters in storage),
        read_bytes=known_sum(counters.get("rchar") for counters in storage),
        major_faults=known_sum(map(_major_faults, pids)),
    )


def of_machine(root: Path = Path("/")) -> MachineTime:
    """The counters of the usable CPUs since the machine's start; control groups are
    read below ``root``."""
    times = _usable_cpu_times()
    stats = [
        host.fields(folder / "cpu.stat")
        for _, folder in host.group_folders(root, "cpu")
    ]
    # Microseconds in version 2, nanoseconds in version 1.
    throttled_s = (
        stat.get("throttled_usec", 0) / 1e6 + stat.get("throttled_time", 0) / 1e9
        for stat in stats
    )
    busy_s, idle_s, steal_s = (_seconds_in(times, states) for states in _STATES)
    return MachineTime(
        busy_s=busy_s,
        total_s=busy_s + steal_s + idle_s,
        steal_s=steal_s,
        throttled_s=max(throttled_s, default=0.0),
    )


def _seconds_in(times: Sequence[object], states: Iterable[str]) -> float:
    """Seconds of all CPUs in these states, of which a system may lack some."""
    return sum(getattr(of_cpu, state, 0.0) for of_cpu in times for state in states)


def _usable_cpu_times() -> Sequence[object]:
    """Of the CPUs on which this process may run; of all where they are unknown, or have
    other numbers (lxcfs)."""
    times: Sequence[object] = psutil.cpu_times(percpu=True)
    usable = (
        os.sched_getaffinity(0)
        if hasattr(os, "sched_getaffinity")
        else range(len(times))
    )
    return [times[number] for number in usable] if max(usable) < len(times) else times


def known_sum(values: Iterable[int | None]) -> int | None:
    """The sum of the values that are not None; None without one."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    cpu_s = times.user + times.system
    if platforms.IS_LINUX:
        # The CPU clock of clock_getcpuclockid(3), in nanoseconds; /proc has
        # hundredths of a second.
        with contextlib.suppress(OSError):
            cpu_s = time.clock_gettime((~process.pid << 3) | 2)
    return float(
        cpu_s
        + getattr(times, "children_user", 0.0)
        + getattr(times, "children_system", 0.0)
    )


def memory(
    pids: Iterable[int], *, shares_dataset: bool = True
) -> tuple[int | None, int | None]:
    """Memory of a process, the first, and its descendants, B: as if no other process
    shared it, and what they add.

    Of many descendants some are read, evenly spaced, and count for all. None where it
    is unknown. Without ``shares_dataset`` the first process has made the dataset
    itself, and adds what it shares with its forked workers.
    """
    # The proportional set size. Memory that the first process shares with its parent
    # (a dataset made before the fork) counts in full in the first figure: a separate
    # program would have all of it. Pages of files are not in the second: the kernel may
    # drop them at any time, so they neither take free memory nor show growth.
    first, *children = pids
    every = math.ceil(len(children) / _MOST_READ) or 1
    of_first, *of_children = (_kinds(pid) for pid in (first, *children[::every]))
    if not of_first and not any(of_children):
        return None, None
    children_per_read = len(children) / len(of_children) if of_children else 0.0
    added = _added(of_first) + children_per_read * sum(map(_added, of_children))
    files = of_first.get("Pss_File", 0) + children_per_read * sum(
        kind.get("Pss_File", 0) for kind in of_children
    )
    with_dataset = added + of_first.get("Anonymous", 0) - _private(of_first)
    return 1024 * round(with_dataset + files), 1024 * round(
        added if shares_dataset else with_dataset
    )


def _kinds(pid: int) -> Mapping[str, int]:
    return host.fields(Path(f"/proc/{pid}/smaps_rollup"))  # kB; see proc_pid_smaps(5)


def _added(kind: Mapping[str, int]) -> int:
    return _private(kind) + kind.get("Pss_Shmem", 0)


def _private(kind: Mapping[str, int]) -> int:
    return max(0, kind.get("Private_Dirty", 0) - kind.get("Pss_Shmem", 0))


def private_bytes(pid: int) -> int:
    """Memory that only this process has, B, without shared memory; 0 if unknown."""
    return 1024 * _private(_kinds(pid))


def _major_faults(pid: int) -> int | None:
    """Page faults that waited for storage, with those of exited children."""
    after_name = host.read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (
        int(after_name[_MAJFLT]) + int(after_name[_MAJFLT + 1]) if after_name else None
    )


def _shared_memory_bytes(pids: Iterable[int]) -> int:
    """Bytes of the files in /dev/shm that the processes have open or mapped; each file
    counts once."""
    sizes: dict[int, int] = {}
    device = _SHARED_MEMORY.stat().st_dev if _SHARED_MEMORY.is_dir() else None
    for pid in pids:
        for inode, size in (*_mapped(pid), *_open(pid, device)):
            sizes[inode] = max(size, sizes.get(inode, 0))
    return sum(sizes.values())


def _mapped(pid: int) -> Iterator[tuple[int, int]]:
    for line in host.read(Path(f"/proc/{pid}/maps")).splitlines():
        if str(_SHARED_MEMORY) in line:
            addresses, _, _, _, inode, *_ = line.split()
            first, last = addresses.split("-")
            yield int(inode), int(last, 16) - int(first, 16)


def _open(pid: int, device: int | None) -> Iterator[tuple[int, int]]:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - thousands of names
            with contextlib.suppress(OSError):
                status = os.stat(f"{folder}/{name}")  # noqa: PTH116
                if status.st_dev == device:
                    yield status.st_ino, status.st_blocks * _BLOCK_BYTES


def resident_bytes(pids: Iterable[int]) -> int:
    """Memory of the processes without mapped files, B; quick to read, counts shared
    pages once per process."""
    kinds = [host.fields(Path(f"/proc/{pid}/status")) for pid in pids]
    return 1024 * sum(
        kind.get("RssAnon", 0) + kind.get("RssShmem", 0) for kind in kinds
    )


def family(pid: int) -> Iterator[int]:
    """The process and its descendants; psutil would read all processes of the
    machine."""
    yield pid
    threads: list[str] = []
    with contextlib.suppress(OSError):  # the process may exit meanwhile
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - Path.glob fails if the process exits
    for thread in threads:
        for child in host.read(Path(f"/proc/{pid}/task/{thread}/children")).split():
            yield from family(int(child))
