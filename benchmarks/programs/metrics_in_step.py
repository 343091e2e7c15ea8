"""Metrics in each training step, which take more time than the step."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train


class Tiles(Dataset[torch.Tensor]):
    """Tiles of which each costs 1 ms."""

    def __len__(self) -> int:
        return 2400

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.001)
        return torch.full((8,), float(index))


def write_metrics() -> None:
    """Moves every metric to the CPU, and writes it."""
    time.sleep(0.012)


def main() -> None:
    """Trains; the remedy is to write metrics in every twentieth step."""
    course = Course()
    loader = DataLoader(
        course.dataset(Tiles()), 16, shuffle=True, num_workers=course.workers
    )
    for _ in course.epochs():
        for number, _batch in enumerate(course.batches(loader)):
            train(0.01)
            if not (course.is_mended and number % 20):
                write_metrics()


if __name__ == "__main__":
    main()
