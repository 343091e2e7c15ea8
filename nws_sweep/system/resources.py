"""Free memory, shared memory, open files and threads of this machine, and why a
candidate does not fit."""

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

import psutil

from nws_sweep import units
from nws_sweep.errors import TrialOutOfMemory
from nws_sweep.records import LoaderSettings, Window
from nws_sweep.system import host, platforms

_ROOT = Path("/")
# of the memory that is free at the start, so that the kernel never kills a process
_MEMORY_SHARE = 0.9
# above this limit the user's threads are not counted: that takes long and changes
# nothing
_ROOMY_THREADS = 30_000
# Files of a trial process; per worker: its queue (2), its sentinel, one during a
# transfer.
_FILES_OF_A_PROCESS, _FILES_PER_WORKER = 64, 4
# its loop, the feeder of its queue, the server of its file descriptors
_THREADS_PER_WORKER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeResources:
    """Resources that a candidate may use; None where there is no limit or it is
    unknown."""

    shm_bytes: int | None = None  # free in /dev/shm
    shm_size_bytes: int | None = None  # of /dev/shm
    memory_bytes: int | None = None
    open_files: int | None = None  # of one process
    threads: int | None = None  # more than there are; a process counts as one


def now(memory_bytes: int | None, root: Path = _ROOT) -> FreeResources:
    """The free resources; ``memory_bytes`` is the rest of the memory budget, if there
    is one."""
    import resource  # Windows, where nothing is measured, has none

    shm_bytes = shm_size_bytes = None
    with contextlib.suppress(OSError):
        shm_size_bytes, _, shm_bytes = shutil.disk_usage(root / "dev/shm")
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    pids = (
        _difference(group / "pids.max", group / "pids.current")
        for _, group in host.group_folders(root, "pids")
    )
    threads = _least(_threads_left() if platforms.IS_LINUX else None, *pids)
    return FreeResources(
        shm_bytes=shm_bytes,
        shm_size_bytes=shm_size_bytes,
        memory_bytes=_least(memory_bytes, _free_memory_bytes(root)),
        open_files=None if open_files == resource.RLIM_INFINITY else open_files,
        threads=None if threads is None else max(0, threads),
    )


def memory_budget(asked: int | None, root: Path = _ROOT) -> int | None:
    """Bytes for all candidates: ``asked``, else most of the free memory; None if that
    is unknown."""
    if asked is not None:
        return asked
    free = _free_memory_bytes(root)
    return None if free is None else int(_MEMORY_SHARE * free)


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _free_memory_bytes(root: Path) -> int | None:
    """The least that the machine and the control groups of this process leave; their
    caches count as free."""
    available_kb = host.fields(root / "proc/meminfo").get("MemAvailable")
    available = None if available_kb is None else 1024 * available_kb
    return _least(
        available,
        *(_left_in_group(*group) for group in host.group_folders(root, "memory")),
    )


def _left_in_group(version: int, folder: Path) -> int | None:
    if version == 2:
        limit, used, cache = "memory.max", "memory.current", "inactive_file"
    else:
        limit, used, cache = (
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        )
    left = _difference(folder / limit, folder / used)
    return (
        None
        if left is None
        else max(1, left + host.fields(folder / "memory.stat").get(cache, 0))
    )


def _difference(limit: Path, used: Path) -> int | None:
    numbers = [host.read(path).strip() for path in (limit, used)]
    # "max": no limit
    return (
        int(numbers[0]) - int(numbers[1]) if all(map(str.isdecimal, numbers)) else None
    )


def _threads_left() -> int | None:
    """Threads that the limit of this user leaves; None for root, who has no limit."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.getuid() == 0 or soft == resource.RLIM_INFINITY or soft > _ROOMY_THREADS:
        return None
    threads = 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]  # processes of other users may have none
        if uids is not None and uids.real == os.getuid():
            threads += process.info["num_threads"] or 0
    return soft - threads


def allow_open_files() -> None:
    """Raises the limit of open files to the most that this process may have."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS has a limit beyond that
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def check_budget(
    held_bytes: int | None, budget_bytes: int | None, then: str = ""
) -> None:
    """Raises TrialOutOfMemory if a candidate's processes hold more than the rest of the
    budget; None is unknown."""
    if (
        held_bytes is not None
        and budget_bytes is not None
        and held_bytes > budget_bytes
    ):
        raise TrialOutOfMemory(
            f"its processes held {units.memory(held_bytes)} of memory, and {units.memory(budget_bytes)} were left of "
            f"measure.memory_budget_bytes{then}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNeeds:
    """The resources of a batch, of a trial process with its dataset, and of a worker; 0
    where unknown."""

    batch_bytes: int = 0
    batch_tensors: int = 0  # each is a separate file in shared memory
    process_bytes: int = 0
    worker_bytes: int = 0


def resource_needs(
    windows: Sequence[Window], memory_bytes: Mapping[int, int]
) -> ResourceNeeds:
    """Estimates the needs from windows of any candidates and the memory, B, by
    ``num_workers``."""
    worker_bytes = 0.0
    if len(memory_bytes) > 1:  # one candidate does not show a worker's share
        worker_bytes = max(
            0.0,
            linear_regression(list(memory_bytes), list(memory_bytes.values())).slope,
        )
    return ResourceNeeds(
        batch_bytes=max((window.batch_bytes or 0 for window in windows), default=0),
        batch_tensors=max((window.batch_tensors or 0 for window in windows), default=0),
        process_bytes=max(
            0,
            round(
                min(
                    (held - n * worker_bytes for n, held in memory_bytes.items()),
                    default=0,
                )
            ),
        ),
        worker_bytes=round(worker_bytes),
    )


def reason_not_fitting(
    settings: LoaderSettings, needs: ResourceNeeds, free: FreeResources, ranks: int = 1
) -> str:
    """Why a candidate cannot fit, with the figures; empty if it fits as far as is
    known.

    In flight are the batches of the workers (prefetch_factor x num_workers) and the
    training step's, for each rank; the memory in ``needs`` is that of all ranks
    together.
    """
    workers, queued = settings.num_workers, settings.queued_batches + 1
    in_flight = queued * ranks * needs.batch_bytes
    batches = f"{queued * ranks} batches of {units.memory(needs.batch_bytes)}"
    parts = f"{units.memory(needs.process_bytes)} for the dataset, {workers * ranks} workers of "
    parts += f"{units.memory(needs.worker_bytes / ranks)}, {batches}"
    memory = needs.process_bytes + workers * needs.worker_bytes + in_flight
    # per process
    files = (
        queued * needs.batch_tensors + workers * _FILES_PER_WORKER + _FILES_OF_A_PROCESS
    )
    threads = workers * ranks * _THREADS_PER_WORKER
    in_shm = "free in /dev/shm, which docker run --shm-size enlarges"
    checks: Sequence[tuple[int, int | None, Callable[[int], str], str, str]] = (
        (
            in_flight if workers else 0,
            free.shm_bytes,
            units.memory,
            f"of shared memory ({batches} in flight)",
            in_shm,
        ),
        (memory, free.memory_bytes, units.memory, f"of memory ({parts})", "left"),
        (
            files if workers else 0,
            free.open_files,
            str,
            f"open files ({queued} batches in flight)",
            "allowed",
        ),
        (threads, free.threads, str, f"threads ({workers * ranks} workers)", "left"),
    )
    for needed, left, shown, what, where in checks:
        if left is not None and needed > left:
            return f"it needs {shown(needed)} {what}, and {shown(left)} are {where}"
    return ""
