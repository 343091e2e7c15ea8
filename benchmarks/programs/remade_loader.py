"""A DataLoader made in each epoch, whose workers read an index first: they cannot
persist."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train


class Captions(Dataset[torch.Tensor]):
    """Captions of which each costs 2 ms."""

    def __len__(self) -> int:
        return 1600

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.full((8,), float(index))


def read_index(worker: int) -> None:
    """Reads the index of all captions."""
    time.sleep(1.2)


def main() -> None:
    """Trains; the remedy is one DataLoader with workers that persist."""
    course, keeps = Course(), False
    captions = course.dataset(Captions())

    def make() -> DataLoader[torch.Tensor]:
        return DataLoader(
            captions,
            16,
            shuffle=True,
            num_workers=course.workers,
            worker_init_fn=read_index,
            persistent_workers=keeps,
        )

    keeps = course.is_mended and course.workers > 0
    kept = make()
    for _ in course.epochs():
        for _batch in course.batches(kept if course.is_mended else make()):
            train(0.02)


if __name__ == "__main__":
    main()
