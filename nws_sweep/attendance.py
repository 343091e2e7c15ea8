"""What ranks note for each other and for whoever started them, without waiting: in a file that all have mapped.

How often each has come to meet the others says who is missing when all wait; what a killed one wrote stays. Beside that
each leaves a number, in turn in two places: nobody comes again before all have come and read the one before.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_NAME = "meetings"
_ROW = struct.Struct("qqq")  # of each rank: times, and the numbers of even and of odd times


def create(folder: str, ranks: int) -> None:
    """Makes the file, with nobody having come."""
    (Path(folder) / _NAME).write_bytes(bytes(_ROW.size * ranks))


class Attendance:
    """What one rank writes and reads.

    Args:
        folder: Where the file is.
        number: Of the rank.
    """

    def __init__(self, folder: str, number: int) -> None:
        with (Path(folder) / _NAME).open("r+b") as file:
            self._rows = mmap.mmap(file.fileno(), 0)
        self._place = number * _ROW.size
        self._times = 0
        self._numbers = [0, 0]

    def come(self, number: int = 0) -> None:
        """It is there once more, with a number for the others."""
        self._times += 1
        self._numbers[self._times % 2] = number
        _ROW.pack_into(self._rows, self._place, self._times, *self._numbers)

    def all_came(self) -> bool:
        """Whether all have come as often as this one."""
        return all(times >= self._times for times, _, _ in _ROW.iter_unpack(self._rows))

    def largest(self) -> int:
        """The largest number that any brought when it came for as many times as this one has by now; all came."""
        rows: list[tuple[int, int, int]] = list(_ROW.iter_unpack(self._rows))
        return max(row[1 + self._times % 2] for row in rows)


def missing(folder: str) -> tuple[int, ...]:
    """The ranks that the others wait for: they have come less often; empty if all have come as often."""
    times = [row[0] for row in _ROW.iter_unpack((Path(folder) / _NAME).read_bytes())]
    return tuple(number for number, count in enumerate(times) if count < max(times))
