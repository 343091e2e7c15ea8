"""A loop over steps that asks a new iterator for each batch: workers are started, and
two batches of each wasted."""

import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train


class Digits(Dataset[torch.Tensor]):
    """Digits of which each costs 0.2 ms."""

    def __len__(self) -> int:
        return 32 * 200

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0002)
        return torch.full((28, 28), float(index))


def main() -> None:
    """Trains; the remedy is to keep the iterator."""
    course = Course()
    loader = DataLoader(
        course.dataset(Digits()), 32, shuffle=True, num_workers=course.workers
    )

    def batches() -> Iterator[torch.Tensor]:
        if course.is_mended:
            yield from course.batches(loader, most=25)
        else:
            for _ in range(25):
                yield from course.batches(loader, most=1)

    for _ in course.epochs():
        for _batch in batches():
            train(0.005)


if __name__ == "__main__":
    main()
