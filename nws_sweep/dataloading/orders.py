"""Orders in which trial processes take the batches of an epoch. Pure; imports no torch."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are a sequence of low discrepancy


class BatchesInRuns:
    """The batches of a sampler in runs of neighbours from the whole epoch.

    Neighbours profit from what was read for them, such as a compressed chunk; an epoch may cost more at its end, and a
    slow candidate takes only tens of batches in a window. So runs are short. They begin at multiples of their length:
    run i at the rank of i times the golden ratio modulo 1, a sequence of low discrepancy (Niederreiter, Random Number
    Generation and Quasi-Monte Carlo Methods, 1992, section 3.1), from ``place`` on, and elsewhere in each epoch:
    windows do not reach its last batches.

    Attributes:
        order: The numbers, in the sampler's order, of the batches given in this epoch.
        is_whole: Whether to give the whole epoch in the sampler's order.
    """

    def __init__(self, batches: Sequence[Any], run_length: int, place: float) -> None:
        self._batches, self._run_length, self._place = batches, run_length, place
        self.order: list[int] = []
        self.is_whole = False

    def __iter__(self) -> Iterator[Any]:
        self.order.clear()
        for number in range(len(self)) if self.is_whole else self._numbers():
            self.order.append(number)
            yield self._batches[number]

    def __len__(self) -> int:
        return len(self._batches)

    def _numbers(self) -> Iterator[int]:
        place = self._place
        self._place = (place + GOLDEN) % 1
        runs = range(-(-len(self) // self._run_length))
        for run in sorted(runs, key=lambda run: (run * GOLDEN - place) % 1):
            yield from range(len(self))[run * self._run_length : (run + 1) * self._run_length]


class RotatedBatches:
    """The batches of a sampler from one of them to the end, then those before it."""

    def __init__(self, batches: Any, first: int) -> None:
        self._batches, self._first = batches, first
        self.sampler = getattr(batches, "sampler", None)  # where loaders of timm and ultralytics look for the length

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._batches)
        before = list(itertools.islice(batches, self._first))
        return itertools.chain(batches, before)

    def __len__(self) -> int:
        return len(self._batches)
