"""Four shards for four workers, of which one has most of the samples: the last worker
works alone."""

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from benchmarks.programs.course import Course, train


class Shards(IterableDataset[Any]):
    """Shards of samples of which each costs 5 ms."""

    def __init__(self, lengths: tuple[int, ...]) -> None:
        self.lengths = lengths

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for shard in range(first, len(self.lengths), step):
            for number in range(self.lengths[shard]):
                time.sleep(0.005)
                yield torch.tensor([shard, number])


def main() -> None:
    """Trains; the remedy is shards of one length."""
    course = Course()
    lengths = (256, 256, 256, 256) if course.is_mended else (64, 832, 64, 64)
    loader = DataLoader(Shards(lengths), 8, num_workers=course.workers)
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.005)


if __name__ == "__main__":
    main()
