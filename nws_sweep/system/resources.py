"""What this machine has room for: memory, shared memory, open files, threads; and what does not fit into that.

A candidate that cannot fit is not started, and its figures say why.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

from nws_sweep import units
from nws_sweep.results import LoaderSettings, Window
from nws_sweep.system import cgroups

_ROOT = Path("/")
# Of what is free at the start, this much may be used: the kernel must never be the one that decides who dies.
_MEMORY_SHARE = 0.9
# Above this limit the threads of the user are not counted, which would take long and change nothing.
_ROOMY_THREADS = 30_000
# A trial process's own files, and per worker: its queue (2), its sentinel, one for the moment of the hand-over.
_FILES_OF_A_PROCESS, _FILES_PER_WORKER = 64, 4
# A worker runs its loop, the feeder of its queue and the server of its file descriptors.
_THREADS_PER_WORKER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeResources:
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


def now(memory_bytes: int | None, root: Path = _ROOT) -> FreeResources:
    """What there is room for now; of the memory what is left of its budget, if there is one."""
    shm_bytes = None
    with contextlib.suppress(OSError):
        shm = os.statvfs(root / "dev/shm")
        shm_bytes = shm.f_bavail * shm.f_frsize
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return FreeResources(
        shm_bytes=shm_bytes,
        memory_bytes=_least(memory_bytes, _free_memory_bytes(root)),
        open_files=None if open_files == resource.RLIM_INFINITY else open_files,
        threads=_least(_threads_left(), *(_left_in_pids(folder) for _, folder in cgroups.folders(root, "pids"))),
    )


def memory_budget(asked: int | None, root: Path = _ROOT) -> int | None:
    """Bytes that the candidates may hold: as asked, else most of what is free now; None if that is unknown."""
    if asked is not None:
        return asked
    free = _free_memory_bytes(root)
    return None if free is None else int(_MEMORY_SHARE * free)


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _free_memory_bytes(root: Path) -> int | None:
    """The least that the machine and the control groups of this process leave; what they cache counts as free."""
    lines = cgroups.read(root / "proc/meminfo").splitlines()
    available = (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    return _least(*available, *(_left_in_group(*group) for group in cgroups.folders(root, "memory")))


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


def _left_in_pids(folder: Path) -> int | None:
    most, now = cgroups.read(folder / "pids.max").strip(), cgroups.read(folder / "pids.current").strip()
    return max(0, int(most) - int(now)) if most.isdecimal() and now.isdecimal() else None


def _threads_left() -> int | None:
    """What the limit of this user leaves; None for root, who has none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.getuid() == 0 or soft == resource.RLIM_INFINITY or soft > _ROOMY_THREADS:
        return None
    import psutil

    members = (member.info for member in psutil.process_iter(["uids", "num_threads"]))
    # Without uids: hidden, another user's.
    mine = (one["num_threads"] or 0 for one in members if one["uids"] is not None and one["uids"].real == os.getuid())
    return max(0, soft - sum(mine))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNeeds:
    """What a batch, a trial process without workers (with its copy of the dataset) and a worker weigh, as far as it is known.

    Each tensor of a batch lies in a file of its own on its way.
    """

    batch_bytes: int = 0
    batch_tensors: int = 0
    process_bytes: int = 0
    worker_bytes: int = 0


def resource_needs(windows: Sequence[Window], memory_bytes: Mapping[int, int]) -> ResourceNeeds:
    """What is known after some candidates were started: by any windows, and by the memory of each num_workers, B."""
    worker_bytes = 0.0
    if len(memory_bytes) > 1:  # what a worker adds can only be told from two of them
        worker_bytes = max(0.0, linear_regression(list(memory_bytes), list(memory_bytes.values())).slope)
    return ResourceNeeds(
        batch_bytes=max((window.batch_bytes or 0 for window in windows), default=0),
        batch_tensors=max((window.batch_tensors or 0 for window in windows), default=0),
        process_bytes=max(0, round(min((held - n * worker_bytes for n, held in memory_bytes.items()), default=0))),
        worker_bytes=round(worker_bytes),
    )


def reason_not_fitting(settings: LoaderSettings, load: ResourceNeeds, room: FreeResources, ranks: int = 1) -> str:
    """Why a candidate cannot fit, with the figures; empty if it can, as far as is known.

    On their way are as many batches as the workers have in hand (prefetch_factor x num_workers), and the consumer's.
    There are as many such loaders as ranks; what is known of the memory of others is of all ranks together.
    """
    workers, queued = settings.num_workers, settings.queued_batches + 1
    batches = queued * ranks
    in_flight = batches * load.batch_bytes
    memory = load.process_bytes + workers * load.worker_bytes + in_flight
    files = queued * load.batch_tensors + workers * _FILES_PER_WORKER + _FILES_OF_A_PROCESS  # counted by process
    threads = workers * ranks * _THREADS_PER_WORKER
    batch = units.memory(load.batch_bytes)
    needs = (
        (
            in_flight if workers else 0, room.shm_bytes,
            f"{units.memory(in_flight)} of shared memory ({batches} batches of {batch} on their way), and "
            f"{units.memory(room.shm_bytes)} are free in /dev/shm",
        ),
        (
            memory, room.memory_bytes,
            f"{units.memory(memory)} of memory ({units.memory(load.process_bytes)} for the dataset, {workers * ranks} "
            f"workers of {units.memory(load.worker_bytes / ranks)}, {batches} batches of {batch}), and "
            f"{units.memory(room.memory_bytes)} are left",
        ),
        (
            files if workers else 0, room.open_files,
            f"{files} open files ({queued} batches on their way), and {room.open_files} are allowed",
        ),
        (
            threads, room.threads,
            f"{threads} threads for its {workers * ranks} workers, and {room.threads} more are allowed",
        ),
    )  # fmt: skip
    return next((f"it needs {why}" for needed, free, why in needs if free is not None and needed > free), "")
