"""One epoch's index lists, drawn once from the sampler of a DataLoader, for several pools of workers in turn.

A DataLoader takes the end of its sampler for the end of the epoch, and still delivers what it has drawn. A pool whose
feed is closed does so too, while the next pool draws the following index lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any


class IndexStream:
    """The index lists of the current epoch.

    Args:
        sampler: The batch sampler of a DataLoader, or its sampler if the DataLoader does not make batches. ``iter`` of
            it is called whenever a plain DataLoader would call it: some samplers draw random numbers then.
    """

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self._lists: Iterator[Any] = iter(())

    def restart(self) -> None:
        """Begins an epoch."""
        self._lists = iter(self.sampler)

    def __next__(self) -> Any:
        """The next index list, or the next index if the DataLoader does not make batches."""
        return next(self._lists)


class Feed:
    """The sampler of one pool: it draws from the stream while it is open.

    Attributes:
        stream: Which it draws from.
        is_open: Whether it may draw.
        starts: How often ``iter`` of it begins an epoch; afterwards it goes on where another feed was closed.
    """

    def __init__(self, stream: IndexStream, *, is_open: bool, starts: int) -> None:
        self.stream = stream
        self.is_open = is_open
        self.starts = starts

    def __iter__(self) -> Iterator[Any]:
        if self.starts:
            self.begin()
        return self._draws()

    def __len__(self) -> int:
        sampler: Sized = self.stream.sampler
        return len(sampler)

    def begin(self) -> None:
        """Begins an epoch, once of ``starts``."""
        self.starts -= 1
        self.stream.restart()

    def _draws(self) -> Iterator[Any]:
        while self.is_open:
            try:
                yield next(self.stream)
            except StopIteration:
                return
