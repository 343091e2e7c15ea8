"""What the stopwatch of a bare loop says. Pure.

A position is a number of batches consumed; position k was reached at ``consumed_s[k - 1]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Epoch:
    """One whole epoch of a bare loop.

    Attributes:
        consumed_s: When each batch was consumed, s since just before ``iter(loader)``.
    """

    consumed_s: tuple[float, ...]

    @property
    def epoch_s(self) -> float:
        """From just before ``iter(loader)`` to the end of the last consumption, without the workers' end."""
        return self.consumed_s[-1]


def steady_span(batches: int, workers: int, queue: int) -> tuple[int, int] | None:
    """The positions between which the workers neither fill the queue nor run out of work; None if there are none.

    Both are multiples of the number of workers apart, since n workers deliver in clumps of n.

    Args:
        batches: Batches in an epoch.
        workers: Worker processes, 0 for none.
        queue: Batches that lie ready or are in the making at most.
    """
    clump, first = max(1, workers), first_steady(workers, queue)
    last = first + (batches - queue - first) // clump * clump
    return (first, last) if last > first else None


def first_steady(workers: int, queue: int) -> int:
    """The position from which on the queue has been consumed once, a multiple of the number of workers."""
    clump = max(1, workers)
    return -(-max(1, queue) // clump) * clump


def may_stop(position: int, elapsed_s: float, workers: int, queue: int, limit_s: float) -> bool:
    """Whether an epoch that has come to this position may be broken off: long enough, and in whole clumps of batches.

    Args:
        position: Batches consumed.
        elapsed_s: When the last of them was, s since just before ``iter(loader)``.
        workers: Worker processes.
        queue: Batches that lie ready or are in the making at most.
        limit_s: How long it has to last at least, s.
    """
    clump = max(1, workers)
    steady = position - first_steady(workers, queue)
    return elapsed_s >= limit_s and steady >= 2 * clump and steady % clump == 0


def projected_epoch_s(epoch: Epoch, batches: int, workers: int, queue: int) -> float:
    """Length of an epoch that was broken off, s: what was seen, and the rest at the steady pace.

    Args:
        epoch: What was seen; it may be the whole epoch, or was broken off as ``may_stop`` allows.
        batches: Batches in the whole epoch.
        workers: Worker processes.
        queue: Batches that lie ready or are in the making at most.
    """
    seen, rest = len(epoch.consumed_s), batches - len(epoch.consumed_s)
    if not rest:
        return epoch.epoch_s
    first = first_steady(workers, queue)
    batch_s = (epoch.consumed_s[-1] - epoch.consumed_s[first - 1]) / (seen - first)
    return epoch.epoch_s + batch_s * rest


def enough(epochs: Sequence[Epoch], least_s: float) -> bool:
    """Whether the epochs that count have lasted long enough together; the first only if it is twice as long."""
    if not epochs:
        return False
    return epochs[0].epoch_s >= 2 * least_s or sum(epoch.epoch_s for epoch in epochs[1:]) >= least_s


def counting(epochs: Sequence[Epoch]) -> Sequence[Epoch]:
    """All but the first, if there are others: a process does many things in its first epoch only."""
    return epochs[1:] or epochs


def steady_batch_s(epochs: Sequence[Epoch], workers: int, queue: int) -> float | None:
    """Steady seconds per batch, all epochs together; None if they are too short to have any."""
    spans = [(epoch.consumed_s, steady_span(len(epoch.consumed_s), workers, queue)) for epoch in epochs]
    known = [(consumed_s, span) for consumed_s, span in spans if span is not None]
    if not known:
        return None
    elapsed_s = sum(consumed_s[last - 1] - consumed_s[first - 1] for consumed_s, (first, last) in known)
    return elapsed_s / sum(last - first for _, (first, last) in known)


def ends_s(epoch: Epoch, workers: int, queue: int) -> tuple[float, float] | None:
    """Seconds before the steady span, start-up included, and after it; None without one."""
    span = steady_span(len(epoch.consumed_s), workers, queue)
    if span is None:
        return None
    return epoch.consumed_s[span[0] - 1], epoch.consumed_s[-1] - epoch.consumed_s[span[1] - 1]


def mean_epoch_s(epochs: Sequence[Epoch]) -> float:
    """Mean length of at least one epoch, s."""
    return sum(epoch.epoch_s for epoch in epochs) / len(epochs)
