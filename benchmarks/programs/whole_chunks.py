"""Compressed chunks of 64 rows in a file: for each row the whole chunk is
decompressed."""

import zlib

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train

_ROWS, _VALUES = 1280, 4096


class Rows(Dataset[torch.Tensor]):
    """Rows in chunks of some length."""

    def __init__(self, rows_of_chunk: int) -> None:
        values = numpy.random.default_rng(1).integers(
            0, 50, (_ROWS, _VALUES), dtype=numpy.int16
        )
        self.rows_of_chunk = rows_of_chunk
        self.chunks = [
            zlib.compress(chunk.tobytes())
            for chunk in numpy.split(values, _ROWS // rows_of_chunk)
        ]

    def __len__(self) -> int:
        return _ROWS

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.read(index // self.rows_of_chunk)[index % self.rows_of_chunk]

    def read(self, chunk: int) -> torch.Tensor:
        """The rows of a chunk."""
        values = numpy.frombuffer(
            bytearray(zlib.decompress(self.chunks[chunk])), dtype=numpy.int16
        )
        return torch.from_numpy(values.reshape(self.rows_of_chunk, _VALUES))


def main() -> None:
    """Trains; the remedy is a chunk for each row."""
    course = Course(workers=2)
    rows = Rows(rows_of_chunk=1 if course.is_mended else 64)
    loader = DataLoader(
        course.dataset(rows), 16, shuffle=True, num_workers=course.workers
    )
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.01)


if __name__ == "__main__":
    main()
