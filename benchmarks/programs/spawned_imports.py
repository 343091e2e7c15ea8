"""Workers that are spawned in each epoch of twenty batches, and import torch each
time."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train


class Frames(Dataset[torch.Tensor]):
    """Frames of which each costs 5 ms."""

    def __len__(self) -> int:
        return 160

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.005)
        return torch.full((3, 32, 32), float(index))


def main() -> None:
    """Trains; the remedy is workers that persist."""
    course = Course(workers=2)
    keeps = course.is_mended and course.workers > 0
    loader = DataLoader(
        course.dataset(Frames()), 8, shuffle=True, num_workers=course.workers,
        multiprocessing_context="spawn" if course.workers else None, persistent_workers=keeps,
    )  # fmt: skip
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.02)


if __name__ == "__main__":
    main()
