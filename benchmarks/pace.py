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
    clump = max(1, workers)
    first = -(-max(1, queue) // clump) * clump
    last = first + (batches - queue - first) // clump * clump
    return (first, last) if last > first else None


def steady_batch_s(epochs: Sequence[Epoch], workers: int, queue: int) -> float | None:
    """Steady seconds per batch, all epochs together; None if they are too short to have any."""
    spans = [(epoch.consumed_s, steady_span(len(epoch.consumed_s), workers, queue)) for epoch in epochs]
    known = [(consumed_s, span) for consumed_s, span in spans if span is not None]
    if not known:
        return None
    elapsed_s = sum(consumed_s[last - 1] - consumed_s[first - 1] for consumed_s, (first, last) in known)
    return elapsed_s / sum(last - first for _, (first, last) in known)


def mean_epoch_s(epochs: Sequence[Epoch]) -> float:
    """Mean length of at least one epoch, s."""
    return sum(epoch.epoch_s for epoch in epochs) / len(epochs)
