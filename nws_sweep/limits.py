"""What fits: a candidate that cannot fit is not started, and its figures say why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression

from nws_sweep import units
from nws_sweep.records import Burst, LoaderSettings
from nws_sweep.room import Room

# An arm's own files, and per worker: its queue (2), its sentinel, one for the moment of the hand-over.
_FILES_OF_AN_ARM, _FILES_PER_WORKER = 64, 4
# A worker runs its loop, the feeder of its queue and the server of its file descriptors.
_THREADS_PER_WORKER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a batch, an arm without workers (with its copy of the dataset) and a worker weigh, as far as it is known.

    Each tensor of a batch lies in a file of its own on its way.
    """

    batch_bytes: int = 0
    batch_tensors: int = 0
    arm_bytes: int = 0
    worker_bytes: int = 0


def load_of(bursts: Sequence[Burst], memory_bytes: Mapping[int, int]) -> Load:
    """What is known after some candidates were started: by any bursts, and by the memory of each num_workers, B."""
    worker_bytes = 0.0
    if len(memory_bytes) > 1:  # what a worker adds can only be told from two of them
        worker_bytes = max(0.0, linear_regression(list(memory_bytes), list(memory_bytes.values())).slope)
    return Load(
        batch_bytes=max((burst.batch_bytes or 0 for burst in bursts), default=0),
        batch_tensors=max((burst.batch_tensors or 0 for burst in bursts), default=0),
        arm_bytes=max(0, round(min((held - n * worker_bytes for n, held in memory_bytes.items()), default=0))),
        worker_bytes=round(worker_bytes),
    )


def shortage(settings: LoaderSettings, load: Load, room: Room, ranks: int = 1) -> str:
    """Why a candidate cannot fit, with the figures; empty if it can, as far as is known.

    On their way are as many batches as the workers have in hand (prefetch_factor x num_workers), and the consumer's.
    There are as many such loaders as ranks; what is known of the memory of others is of all ranks together.
    """
    workers, queued = settings.num_workers, settings.queued_batches + 1
    batches = queued * ranks
    in_flight = batches * load.batch_bytes
    memory = load.arm_bytes + workers * load.worker_bytes + in_flight
    files = queued * load.batch_tensors + workers * _FILES_PER_WORKER + _FILES_OF_AN_ARM  # counted by process
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
            f"{units.memory(memory)} of memory ({units.memory(load.arm_bytes)} for the dataset, {workers * ranks} "
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
