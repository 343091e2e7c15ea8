"""Times per batch and per epoch from the timestamps of a plain loop. Pure.

Position k is reached when k batches have been taken, at ``timestamps[k - 1]``. The
queue holds ``PREFETCH_FACTOR`` batches of each worker.
"""

import math
from collections.abc import Callable, Sequence

PREFETCH_FACTOR = 2

# When each batch of an epoch had been taken, s since just before iter(loader); at
# least one.
Timestamps = Sequence[float]
# Called after each batch with the timestamps so far; True stops the epoch.
Until = Callable[[Timestamps], bool]


def whole(timestamps: Timestamps) -> bool:
    """Never stops the epoch."""
    return False


def first_steady(workers: int) -> int:
    """The position at which the queue has been taken once; 1 without workers."""
    return max(1, PREFETCH_FACTOR * workers)


def steady_span(batches: int, workers: int, period: int = 1) -> tuple[int, int] | None:
    """First and last position between filling the queue and running out of batches to
    load; None if there are none.

    Their distance is a multiple of the number of workers, and of the period in which
    costs repeat if it is long enough.
    """
    first = first_steady(workers)
    length = batches - PREFETCH_FACTOR * workers - first
    multiple = _multiple(workers, period)
    if length < multiple:
        multiple = max(1, workers)
    last = first + length // multiple * multiple
    return (first, last) if last > first else None


def _multiple(workers: int, period: int) -> int:
    return math.lcm(max(1, workers), period)


def may_stop(
    timestamps: Timestamps, workers: int, limit_s: float, period: int = 1
) -> bool:
    """Whether an epoch may be stopped: it has lasted ``limit_s`` and at least two whole
    multiples of the workers.

    And of the period, in batches, in which the costs of data in a fixed order repeat.
    """
    multiple = _multiple(workers, period)
    steady = len(timestamps) - first_steady(workers)
    return (
        timestamps[-1] >= limit_s and steady >= 2 * multiple and steady % multiple == 0
    )


def projected_epoch_s(timestamps: Timestamps, batches: int, workers: int) -> float:
    """Length of an epoch, s; batches after a stop that ``may_stop`` allowed are
    projected at the steady pace."""
    seen, first = len(timestamps), first_steady(workers)
    if seen == batches:
        return timestamps[-1]
    return timestamps[-1] + (timestamps[-1] - timestamps[first - 1]) / (
        seen - first
    ) * (batches - seen)


def steady_batch_s(
    epochs: Sequence[Timestamps], batches: int, workers: int, period: int = 1
) -> float | None:
    """Steady seconds per batch over all epochs, some of which were stopped; None if
    they are too short."""
    elapsed_s, count = 0.0, 0
    for timestamps in epochs:
        is_whole = len(timestamps) == batches
        span = (
            steady_span(batches, workers, period)
            if is_whole
            else (first_steady(workers), len(timestamps))
        )
        if span:
            elapsed_s += timestamps[span[1] - 1] - timestamps[span[0] - 1]
            count += span[1] - span[0]
    return elapsed_s / count if count else None
