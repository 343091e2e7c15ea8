"""A validation without workers after each epoch, though training has four."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train, validate
from nws_sweep.records import Part


class Photos(Dataset[torch.Tensor]):
    """Photos of which each costs 3 ms."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.003)
        return torch.full((3, 16, 16), float(index))


def main() -> None:
    """Trains and validates; the remedy is workers for the validation, which persist."""
    course = Course()
    training = DataLoader(
        course.dataset(Photos(1920)), 16, shuffle=True, num_workers=course.workers
    )
    workers = course.workers if course.is_mended else 0
    validation = DataLoader(
        Photos(800), 16, num_workers=workers, persistent_workers=workers > 0
    )
    for _ in course.epochs():
        for _batch in course.batches(training):
            train(0.015)
        with course.timed(Part.OTHERS), torch.no_grad():
            for _batch in validation:
                validate(0.002)


if __name__ == "__main__":
    main()
