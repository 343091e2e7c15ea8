"""What the counters of processes and machine report about time slices: CPU time, memory, storage, noise. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from nws_sweep.results import Noise, TimeSlice, Window, WindowKind

_PROGRAM_BYTES = 2**20  # that a new process reads for itself: its libraries
_BYTES_OF_A_FAULT = 2**17  # that a page fault usually reads ahead; some file systems do not count what it reads


def all_windows(slices: Sequence[TimeSlice]) -> list[Window]:
    """Lists the windows of all time slices in order."""
    return [window for time_slice in slices for window in time_slice.windows]


def cpu_time_s(slices: Sequence[TimeSlice]) -> float:
    """Adds up the CPU seconds of the trial's processes."""
    return sum(time_slice.used.cpu_s for time_slice in slices)


def memory_growth_bytes(slices: Sequence[TimeSlice]) -> float | None:
    """Computes the growth of memory per 1000 batches, B, as a slope over the time slices but the first.

    None where there are so few that a line fits them whatever their noise: two have a slope, but no sign of its error.
    """
    added_bytes: dict[int, int] = {}  # by batches taken until then
    taken = 0
    for time_slice in slices:
        taken += sum(window.batches for window in time_slice.windows)
        added = time_slice.after.added_bytes
        if added is not None and any(window.counts for window in time_slice.windows):
            added_bytes[taken] = added
    batches, memory = list(added_bytes)[1:], list(added_bytes.values())[1:]
    freedom = len(batches) - 2  # a line has two parameters
    return 1000 * statistics.linear_regression(batches, memory).slope if freedom > 0 else None


def came_from_storage(time_slice: TimeSlice) -> bool:
    """Whether the first time slice of a trial process read data from storage, or libraries that others find in memory.

    The data may be mapped files.
    """
    return (time_slice.used.disk_bytes or 0) > _PROGRAM_BYTES


def read_bytes_per_batch(time_slice: TimeSlice) -> float:
    """Computes the bytes of files that a batch reads, from storage or from the page cache.

    0 if they are unknown, or fewer than a program reads.
    """
    batches = sum(window.batches for window in time_slice.windows)
    if not batches:
        return 0.0
    used = time_slice.used
    by_faults = (used.major_faults or 0) * _BYTES_OF_A_FAULT
    read_bytes = max(used.read_bytes or 0, used.disk_bytes or 0, by_faults) - _PROGRAM_BYTES
    return max(0, read_bytes) / batches


def as_warm_up(time_slice: TimeSlice) -> TimeSlice:
    """Returns the time slice with windows that do not count."""
    windows = tuple(replace(window, kind=WindowKind.WARM_UP) for window in time_slice.windows)
    return replace(time_slice, windows=windows)


def noise_of(slices: Sequence[TimeSlice], cores: float) -> Noise | None:
    """Says what disturbed a trial with ``cores`` CPUs, from the counters of the machine; None without time slices.

    CPUs of other programs count only as far as they exceed the CPUs beyond this job's quota, which it cannot use.
    """
    elapsed_s = sum(time_slice.elapsed_s for time_slice in slices)
    if elapsed_s <= 0:
        return None
    trial_s = cpu_time_s(slices) + sum(time_slice.used.background_cpu_s for time_slice in slices)
    others_s = sum(time_slice.machine.busy_s for time_slice in slices) - trial_s
    beyond_s = max(0.0, sum(time_slice.machine.total_s for time_slice in slices) - elapsed_s * cores)
    return Noise(
        other_cpus=max(0.0, others_s - beyond_s) / elapsed_s,
        steal=sum(time_slice.machine.steal_s for time_slice in slices) / (elapsed_s * cores),
        throttled=min(1.0, sum(time_slice.machine.throttled_s for time_slice in slices) / elapsed_s),
    )
