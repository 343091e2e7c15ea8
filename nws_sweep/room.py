"""What this machine has room for: memory, shared memory, open files, threads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nws_sweep import cgroups

_ROOT = Path("/")
# Of what is free at the start, this much may be used: the kernel must never be the one that decides who dies.
_MEMORY_SHARE = 0.9
# Above this limit the threads of the user are not counted, which would take long and change nothing.
_ROOMY_THREADS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a candidate may use; None where there is no limit or it is unknown.

    Attributes:
        shm_bytes: Free bytes of /dev/shm.
        memory_bytes: Memory.
        open_files: Open files of one process.
        threads: Further threads, a process being one too.
    """

    shm_bytes: int | None = None
    memory_bytes: int | None = None
    open_files: int | None = None
    threads: int | None = None


def now(memory_bytes: int | None, root: Path = _ROOT) -> Room:
    """What there is room for now.

    Args:
        memory_bytes: What is left of the memory budget; None for whatever is free.
        root: Where proc/, sys/ and dev/ are found.
    """
    free = free_memory_bytes(root)
    left = [value for value in (memory_bytes, free) if value is not None]
    return Room(
        shm_bytes=_free_shared_memory(root),
        memory_bytes=min(left) if left else None,
        open_files=_open_files(),
        threads=_free_threads(root),
    )


def memory_budget(asked: int | None, root: Path = _ROOT) -> int | None:
    """Bytes that the candidates may hold: as asked, else most of what is free now; None if that is unknown."""
    if asked is not None:
        return asked
    free = free_memory_bytes(root)
    return None if free is None else int(_MEMORY_SHARE * free)


def free_memory_bytes(root: Path = _ROOT) -> int | None:
    """The least that the machine and the control groups of this process leave; what they cache counts as free."""
    groups = cgroups.folders(root, "memory")
    known = [free for free in (_available(root), *(_left_in_group(*group) for group in groups)) if free]
    return min(known) if known else None


def _available(root: Path) -> int | None:
    for line in cgroups.read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _left_in_group(version: int, folder: Path) -> int | None:
    limit_name, usage_name, cache_name = (
        ("memory.max", "memory.current", "inactive_file")
        if version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    )
    limit, usage = cgroups.read(folder / limit_name).strip(), cgroups.read(folder / usage_name).strip()
    if not (limit.isdecimal() and usage.isdecimal()):  # "max"
        return None
    return max(1, int(limit) - int(usage) + cgroups.fields(folder / "memory.stat").get(cache_name, 0))


def _free_shared_memory(root: Path) -> int | None:
    try:
        found = os.statvfs(root / "dev/shm")
    except (OSError, AttributeError):
        return None
    return found.f_bavail * found.f_frsize


def _open_files() -> int | None:
    try:
        import resource
    except ImportError:  # not on this platform
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _free_threads(root: Path) -> int | None:
    limits = (_left_for_user(), *(_left_in_pids(folder) for _, folder in cgroups.folders(root, "pids")))
    known = [left for left in limits if left is not None]
    return min(known) if known else None


def _left_in_pids(folder: Path) -> int | None:
    most, now = cgroups.read(folder / "pids.max").strip(), cgroups.read(folder / "pids.current").strip()
    return max(0, int(most) - int(now)) if most.isdecimal() and now.isdecimal() else None


def _left_for_user() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.getuid() == 0 or soft == resource.RLIM_INFINITY or soft > _ROOMY_THREADS:  # root is not limited
        return None
    return max(0, soft - _threads_of(os.getuid()))


def _threads_of(user: int) -> int:
    import psutil

    members = psutil.process_iter(["uids", "num_threads"])
    known = (member.info for member in members if member.info["uids"] is not None)  # None: hidden, another user's
    return sum(info["num_threads"] or 0 for info in known if info["uids"].real == user)
