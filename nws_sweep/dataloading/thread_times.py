"""Whether the number of torch's threads slows down samples that a program loads without workers.

Threads of one operation wait for each other: where other programs, or a CPU quota, hold one of them back, all are. A
DataLoader's workers have one thread each.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

_OTHERS = 0.05  # share of the CPU time from which on threads besides the main thread count
_LOOK_S = 0.02  # the CPU time of a process is exact to a tick of each of its threads, of 1 to 10 ms
_TURNS = 3


def thread_times(
    load: Callable[[int], object], most: int, counts: Sequence[int], limit_s: float
) -> Mapping[int, float]:
    """Seconds per sample by number of torch's threads, those of the program first; empty if one thread does the work.

    Args:
        load: Loads a sample, given its index.
        most: Samples that may be loaded, at least 1.
        counts: Other numbers of threads.
        limit_s: For all numbers together; empty if one sample takes too long.
    """
    own = torch.get_num_threads()
    counts = list(dict.fromkeys([own, *counts]))
    if own == 1:
        return {}
    load(0)  # imports modules
    began_s, process_s, thread_s, loaded = time.perf_counter(), time.process_time(), time.thread_time(), 0
    while loaded == 0 or (loaded < most and time.perf_counter() - began_s < _LOOK_S):
        load(loaded)
        loaded += 1
    sample_s, process_s = (time.perf_counter() - began_s) / loaded, time.process_time() - process_s
    others_s = process_s - (time.thread_time() - thread_s)
    count = min(most, int(limit_s / (_TURNS * len(counts) * sample_s)) - 1)
    if others_s < _OTHERS * process_s or count < 1:
        return {}
    turns_s: dict[int, list[float]] = {number: [] for number in counts}
    try:
        for number in counts * _TURNS:
            torch.set_num_threads(number)
            load(0)  # starts the threads
            began_s = time.perf_counter()
            for index in range(count):
                load(index)
            turns_s[number].append((time.perf_counter() - began_s) / count)
    finally:
        torch.set_num_threads(own)
    return {number: statistics.median(seconds) for number, seconds in turns_s.items()}
