"""Times per batch and per epoch from the timestamps of a plain loop. Pure.

Position k is reached when k batches have been taken, at ``timestamps[k - 1]``. The queue holds ``PREFETCH_FACTOR``
batches of each worker.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

PREFETCH_FACTOR = 2

# When each batch of an epoch had been taken, s since just before iter(loader); at least one.
Timestamps = Sequence[float]
# Called after each batch with the timestamps so far; True stops the epoch.
Until = Callable[[Timestamps], bool]
Epoch = TypeVar("Epoch", Timestamps, float)  # its timestamps or its length


def whole(timestamps: Timestamps) -> bool:
    """Never stops the epoch."""
    return False


def first_steady(workers: int) -> int:
    """The position at which the queue has been taken once; 1 without workers."""
    return max(1, PREFETCH_FACTOR * workers)


def steady_span(batches: int, workers: int) -> tuple[int, int] | None:
    """First and last position between filling the queue and running out of batches to load; None if there are none.

    Their distance is a multiple of the number of workers.
    """
    worker_multiple, first = max(1, workers), first_steady(workers)
    last = first + (batches - PREFETCH_FACTOR * workers - first) // worker_multiple * worker_multiple
    return (first, last) if last > first else None


def may_stop(timestamps: Timestamps, workers: int, limit_s: float) -> bool:
    """Whether an epoch may be stopped: it has lasted ``limit_s`` and at least two whole multiples of the workers."""
    worker_multiple = max(1, workers)
    steady = len(timestamps) - first_steady(workers)
    return timestamps[-1] >= limit_s and steady >= 2 * worker_multiple and steady % worker_multiple == 0


def projected_epoch_s(timestamps: Timestamps, batches: int, workers: int) -> float:
    """Length of an epoch, s; batches after a stop that ``may_stop`` allowed are projected at the steady pace."""
    seen, first = len(timestamps), first_steady(workers)
    if seen == batches:
        return timestamps[-1]
    return timestamps[-1] + (timestamps[-1] - timestamps[first - 1]) / (seen - first) * (batches - seen)


def enough(epochs: Sequence[Timestamps], least_s: float) -> bool:
    """Whether all epochs but the first last ``least_s`` together, or the first one twice as long."""
    if not epochs:
        return False
    return epochs[0][-1] >= 2 * least_s or sum(timestamps[-1] for timestamps in epochs[1:]) >= least_s


def counting(epochs: Sequence[Epoch]) -> Sequence[Epoch]:
    """All epochs but the first, which includes one-time work of the process; the first if it is the only one."""
    return epochs[1:] or epochs


def steady_batch_s(epochs: Sequence[Timestamps], workers: int) -> float | None:
    """Steady seconds per batch over all epochs; None if they are too short."""
    elapsed_s, batches = 0.0, 0
    for timestamps in epochs:
        if span := steady_span(len(timestamps), workers):
            elapsed_s += timestamps[span[1] - 1] - timestamps[span[0] - 1]
            batches += span[1] - span[0]
    return elapsed_s / batches if batches else None
