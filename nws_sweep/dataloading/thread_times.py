"""Measures whether the number of torch's threads slows down samples that a program
loads without workers.

Threads of one operation wait for each other: where other programs, or a CPU quota, hold
one of them back, all are. A DataLoader's workers have one thread each.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

# share of the CPU time from which on threads besides the main thread count
_OTHERS = 0.05
# the CPU time of a process is exact to a tick of each of its threads, of 1 to 10 ms
_LOOK_S = 0.02
_TURNS = 3


def thread_times(
    load: Callable[[int], object], most: int, counts: Sequence[int], limit_s: float
) -> Mapping[int, float]:
    """Measures seconds per sample by number of torch's threads, the program's own
    number first.

    Args:
        load: Loads a sample, given its index.
        most: Samples that may be loaded, at least 1.
        counts: Other numbers of threads.
        limit_s: For all numbers together.

    Returns:
        Seconds by number; empty if one thread does the work, or if one sample takes too
        long for the limit.
    """
    threads = torch.get_num_threads()
    counts = list(dict.fromkeys([threads, *counts]))
    if threads == 1:
        return {}
    load(0)  # imports modules
    sample_s, has_threads = _look(load, most)
    samples = min(most, int(limit_s / (_TURNS * len(counts) * sample_s)) - 1)
    if not has_threads or samples < 1:
        return {}
    turns_s: dict[int, list[float]] = {count: [] for count in counts}
    try:
        for count in counts * _TURNS:
            torch.set_num_threads(count)
            load(0)  # starts the threads
            began_s = time.perf_counter()
            for index in range(samples):
                load(index)
            turns_s[count].append((time.perf_counter() - began_s) / samples)
    finally:
        torch.set_num_threads(threads)
    return {count: statistics.median(seconds) for count, seconds in turns_s.items()}


def _look(load: Callable[[int], object], most: int) -> tuple[float, bool]:
    """Loads samples for a short time; returns seconds per sample, and whether other
    threads computed meanwhile."""
    began_s, process_began_s, thread_began_s = (
        time.perf_counter(),
        time.process_time(),
        time.thread_time(),
    )
    loaded = 0
    while loaded == 0 or (loaded < most and time.perf_counter() - began_s < _LOOK_S):
        load(loaded)
        loaded += 1
    sample_s = (time.perf_counter() - began_s) / loaded
    process_s = time.process_time() - process_began_s
    others_s = process_s - (time.thread_time() - thread_began_s)
    return sample_s, others_s >= _OTHERS * process_s
