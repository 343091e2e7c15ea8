"""One epoch's index lists, drawn once from the sampler of a DataLoader, for several pools of workers in turn.

A DataLoader takes the end of its sampler for the end of the epoch, and still delivers what it has drawn. A pool whose
feed is closed does so too, while the next pool draws the following index lists.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class IndexStream:
    """The index lists of the current epoch.

    Attributes:
        sampler: The batch sampler of a DataLoader, or its sampler if the DataLoader does not make batches. ``iter`` of
            it is called whenever a plain DataLoader would call it: some samplers draw random numbers then.
        lists: Those that have not been drawn; indices if the DataLoader does not make batches.
    """

    sampler: Any
    lists: Iterator[Any] = field(default=iter(()), init=False)


@dataclass(eq=False)
class Feed:
    """The sampler of one pool: it draws from the stream while it is open.

    Attributes:
        stream: Which it draws from.
        is_open: Whether it may draw.
        starts: How often ``iter`` of it begins an epoch; afterwards it goes on where another feed was closed.
        has_drawn: Whether it has given an index list.
    """

    stream: IndexStream
    is_open: bool
    starts: int
    has_drawn: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Any]:
        if self.starts:
            self.starts -= 1
            self.stream.lists = iter(self.stream.sampler)
        return self._draws()

    def __len__(self) -> int:
        return len(self.stream.sampler)

    def _draws(self) -> Iterator[Any]:
        while self.is_open:
            try:
                drawn = next(self.stream.lists)
            except StopIteration:
                return
            self.has_drawn = True
            yield drawn
