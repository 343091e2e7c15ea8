"""What the counters of processes and machine report about time slices: CPU time,
memory, storage, noise. Pure."""

import statistics
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from nws_sweep.records import (
    LoaderSettings,
    Measurement,
    Noise,
    TimeSlice,
    Window,
    WindowKind,
)
from nws_sweep.searching.schedule import Conditions, batches_in, epoch_windows, produced

_PROGRAM_BYTES = 2**20  # that a new process reads for itself: its libraries
# that a page fault usually reads ahead; some file systems do not count what it reads
_BYTES_OF_A_FAULT = 2**17


def all_windows(slices: Sequence[TimeSlice]) -> list[Window]:
    """Lists the windows of all time slices in order."""
    return [window for time_slice in slices for window in time_slice.windows]


def worker_starts(slices: Sequence[TimeSlice], conditions: Conditions) -> set[int]:
    """Selects the windows in which workers start, by ``id``: those that begin an epoch;
    the first of them if workers persist."""
    starts = [
        id(window) for window in all_windows(slices) if window.startup_s is not None
    ]
    return set(starts[:1] if conditions.settings.persistent_workers else starts)


def running_slices(
    slices: Sequence[TimeSlice], conditions: Conditions
) -> Sequence[TimeSlice]:
    """Selects the time slices that count; without those that start workers if there are
    others."""
    starts = worker_starts(slices, conditions)
    counting = [
        time_slice
        for time_slice in slices
        if any(window.counts for window in time_slice.windows)
    ]
    running = [
        time_slice
        for time_slice in counting
        if not any(id(window) in starts for window in time_slice.windows)
    ]
    return running or counting or list(slices)


def with_workers(
    slices: Sequence[TimeSlice], settings: LoaderSettings
) -> Sequence[TimeSlice]:
    """Selects the time slices after which the workers still ran, if there are any: they
    end with an epoch, unless they persist."""
    if not settings.num_workers or settings.persistent_workers:
        return slices
    return [
        time_slice
        for time_slice in slices
        if time_slice.windows and not time_slice.windows[-1].ended_epoch
    ]


def batches_made(time_slice: TimeSlice, conditions: Conditions) -> float:
    """Counts the batches that were made in a time slice, fractions included."""
    made_by_workers = produced(time_slice.windows, conditions)
    # all that are made are taken; the last is shorter
    if made_by_workers is None or epoch_windows(time_slice.windows):
        return batches_in(time_slice.windows)
    return made_by_workers


def used_resources(
    slices: Sequence[TimeSlice], conditions: Conditions, startup_s: float
) -> Measurement:
    """Adds up what the processes of a trial used: CPU time and storage per batch made,
    without the start of workers."""
    running = running_slices(slices, conditions)
    batches = sum(batches_made(time_slice, conditions) for time_slice in running)
    starts = worker_starts(slices, conditions)
    cpu_s = _cpu_time_s(running) - _starts_cpu_s(running, starts, conditions)
    read_bytes = [
        read
        for read in (time_slice.used.disk_bytes for time_slice in running)
        if read is not None
    ]
    held = [
        time_slice.after for time_slice in with_workers(slices, conditions.settings)
    ]
    return Measurement(
        startup_s=startup_s,
        cpu_s=cpu_s / batches if batches and cpu_s > 0 else None,
        memory_bytes=_most(after.memory_bytes for after in held),
        shm_bytes=_most(after.shm_bytes for after in held),
        memory_growth_bytes=_memory_growth_bytes(slices),
        disk_bytes=sum(read_bytes) / batches if batches and read_bytes else None,
    )


def _starts_cpu_s(
    slices: Sequence[TimeSlice], starts: Container[int], conditions: Conditions
) -> float:
    """Computes the CPU seconds for starting workers, of the main process and of the
    workers; ``starts`` are those of ``worker_starts``."""
    windows = all_windows(slices)
    within = [window for window in windows if id(window) in starts]
    main_s = sum(window.start_cpu_s or 0.0 for window in within)
    worker_s = max(
        (window.worker_start.cpu_s for window in windows if window.worker_start),
        default=0.0,
    )
    return main_s + len(within) * conditions.settings.num_workers * worker_s


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _cpu_time_s(slices: Sequence[TimeSlice]) -> float:
    """Adds up the CPU seconds of the trial's processes."""
    return sum(time_slice.used.cpu_s for time_slice in slices)


def _memory_growth_bytes(slices: Sequence[TimeSlice]) -> float | None:
    """Computes the growth of memory per 1000 batches, B, as a slope over the time
    slices but the first.

    None where there are so few that a line fits them whatever their noise: two have a
    slope, but no sign of its error.
    """
    added_bytes: dict[int, int] = {}  # by batches taken until then
    taken = 0
    for time_slice in slices:
        taken += batches_in(time_slice.windows)
        added = time_slice.after.added_bytes
        if added is not None and any(window.counts for window in time_slice.windows):
            added_bytes[taken] = added
    batches, memory = list(added_bytes)[1:], list(added_bytes.values())[1:]
    freedom = len(batches) - 2  # a line has two parameters
    return (
        1000 * statistics.linear_regression(batches, memory).slope
        if freedom > 0
        else None
    )


def came_from_storage(time_slice: TimeSlice) -> bool:
    """Whether the first time slice of a trial process read data from storage, or
    libraries that others find in memory.

    The data may be mapped files.
    """
    return (time_slice.used.disk_bytes or 0) > _PROGRAM_BYTES


def read_bytes_per_batch(time_slice: TimeSlice) -> float:
    """Computes the bytes of files that a batch reads, from storage or from the page
    cache.

    0 if they are unknown, or fewer than a program reads.
    """
    batches = batches_in(time_slice.windows)
    if not batches:
        return 0.0
    used = time_slice.used
    by_faults = (used.major_faults or 0) * _BYTES_OF_A_FAULT
    read_bytes = (
        max(used.read_bytes or 0, used.disk_bytes or 0, by_faults) - _PROGRAM_BYTES
    )
    return max(0, read_bytes) / batches


def as_warm_up(time_slice: TimeSlice) -> TimeSlice:
    """Returns the time slice with windows that do not count."""
    windows = tuple(
        replace(window, kind=WindowKind.WARM_UP) for window in time_slice.windows
    )
    return replace(time_slice, windows=windows)


def noise_of(slices: Sequence[TimeSlice], cores: float) -> Noise | None:
    """Says what disturbed a trial with ``cores`` CPUs, from the counters of the
    machine; None without time slices.

    CPUs of other programs count only as far as they exceed the CPUs beyond this job's
    quota, which it cannot use.
    """
    elapsed_s = sum(time_slice.elapsed_s for time_slice in slices)
    if elapsed_s <= 0:
        return None
    trial_s = _cpu_time_s(slices) + sum(
        time_slice.used.background_cpu_s for time_slice in slices
    )
    others_s = sum(time_slice.machine.busy_s for time_slice in slices) - trial_s
    beyond_s = max(
        0.0,
        sum(time_slice.machine.total_s for time_slice in slices) - elapsed_s * cores,
    )
    return Noise(
        other_cpus=max(0.0, others_s - beyond_s) / elapsed_s,
        steal=sum(time_slice.machine.steal_s for time_slice in slices)
        / (elapsed_s * cores),
        throttled=min(
            1.0,
            sum(time_slice.machine.throttled_s for time_slice in slices) / elapsed_s,
        ),
    )
