"""What the stopwatch of a bare loop says. Pure.

A position is a number of batches consumed; position k was reached at ``timestamps[k - 1]``. The queue, the batches that
lie ready or are in the making, holds ``PREFETCH_FACTOR`` batches of each worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

PREFETCH_FACTOR = 2

# When each batch of an epoch was in hand and consumed, s since just before iter(loader); at least one.
Timestamps = Sequence[float]
# Called after each batch with the timestamps so far: whether to break the epoch off.
Until = Callable[[Timestamps], bool]


def whole(timestamps: Timestamps) -> bool:
    """Never: the epoch is run to its end."""
    return False


def first_steady(workers: int) -> int:
    """The position from which on the queue has been consumed once; without workers the first batch is the start."""
    return max(1, PREFETCH_FACTOR * workers)


def steady_span(batches: int, workers: int) -> tuple[int, int] | None:
    """The positions between which the workers neither fill the queue nor run out of work; None if there are none.

    Both are multiples of the number of workers apart, since n workers deliver in multiples of n.
    """
    worker_multiple, first = max(1, workers), first_steady(workers)
    last = first + (batches - PREFETCH_FACTOR * workers - first) // worker_multiple * worker_multiple
    return (first, last) if last > first else None


def may_stop(timestamps: Timestamps, workers: int, limit_s: float) -> bool:
    """Whether an epoch may be broken off here: it has lasted the limit, and goes on in whole multiples of the workers of batches."""
    worker_multiple = max(1, workers)
    steady = len(timestamps) - first_steady(workers)
    return timestamps[-1] >= limit_s and steady >= 2 * worker_multiple and steady % worker_multiple == 0


def projected_epoch_s(timestamps: Timestamps, batches: int, workers: int) -> float:
    """Length of an epoch that may have been broken off, as ``may_stop`` allows, s: the rest at the steady pace."""
    seen, first = len(timestamps), first_steady(workers)
    if seen == batches:
        return timestamps[-1]
    return timestamps[-1] + (timestamps[-1] - timestamps[first - 1]) / (seen - first) * (batches - seen)


def enough(epochs: Sequence[Timestamps], least_s: float) -> bool:
    """Whether the epochs that count have lasted long enough together; the first only if it is twice as long."""
    if not epochs:
        return False
    return epochs[0][-1] >= 2 * least_s or sum(timestamps[-1] for timestamps in epochs[1:]) >= least_s


def counting(epochs: Sequence[Timestamps]) -> Sequence[Timestamps]:
    """All but the first, if there are others: a process does many things in its first epoch only."""
    return epochs[1:] or epochs


def steady_batch_s(epochs: Sequence[Timestamps], workers: int) -> float | None:
    """Steady seconds per batch, all epochs together; None if they are too short to have any."""
    elapsed_s, batches = 0.0, 0
    for timestamps in epochs:
        if span := steady_span(len(timestamps), workers):
            elapsed_s += timestamps[span[1] - 1] - timestamps[span[0] - 1]
            batches += span[1] - span[0]
    return elapsed_s / batches if batches else None
