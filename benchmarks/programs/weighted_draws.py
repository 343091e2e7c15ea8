"""A sampler that draws without replacement among 16 million weights at the beginning of each epoch."""

import time

import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

from benchmarks.programs.course import Course, train

_ROWS, _DRAWS = 16_000_000, 2400


class Clicks(Dataset[torch.Tensor]):
    """Rows of which each costs 1 ms."""

    def __len__(self) -> int:
        return _ROWS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.001)
        return torch.full((16,), float(index))


def main() -> None:
    """Trains; the remedy is to draw with replacement."""
    course, generator = Course(), torch.Generator().manual_seed(1)
    weights = torch.rand(_ROWS, generator=generator, dtype=torch.double)
    sampler = WeightedRandomSampler(weights, _DRAWS, replacement=course.is_mended, generator=generator)  # type: ignore[arg-type]
    loader = DataLoader(course.dataset(Clicks()), 16, sampler=course.sampler(sampler), num_workers=course.workers)
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.012)


if __name__ == "__main__":
    main()
