"""How often each of several ranks has come to meet the others: they write it, who started them reads who is missing.

A file that the ranks have mapped, a number each: to write one costs a rank nothing, and what a killed one wrote stays.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_NAME = "meetings"
_COUNT = struct.Struct("q")


def create(folder: str, ranks: int) -> None:
    """Makes the file, with nobody having come."""
    (Path(folder) / _NAME).write_bytes(bytes(_COUNT.size * ranks))


class Attendance:
    """What one rank writes.

    Args:
        folder: Where the file is.
        number: Of the rank.
    """

    def __init__(self, folder: str, number: int) -> None:
        with (Path(folder) / _NAME).open("r+b") as file:
            self._counts = mmap.mmap(file.fileno(), 0)
        self._place = number * _COUNT.size
        self._times = 0

    def come(self) -> None:
        """It is there once more."""
        self._times += 1
        _COUNT.pack_into(self._counts, self._place, self._times)


def missing(folder: str) -> tuple[int, ...]:
    """The ranks that the others wait for: they have come less often; empty if all have come as often."""
    counts = [count for (count,) in _COUNT.iter_unpack((Path(folder) / _NAME).read_bytes())]
    return tuple(number for number, count in enumerate(counts) if count < max(counts))
