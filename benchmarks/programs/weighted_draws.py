"""A sampler that draws without replacement among 16 million weights at the beginning of
each epoch."""

import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset, Sampler, WeightedRandomSampler

from benchmarks.programs.course import Course, train

_ROWS, _DRAWS = 16_000_000, 2400


class Clicks(Dataset[torch.Tensor]):
    """Rows of which each costs 1 ms."""

    def __len__(self) -> int:
        return _ROWS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.001)
        return torch.full((16,), float(index))


class Cumulated(Sampler[int]):
    """Draws with replacement by sums of the weights, which are made once."""

    def __init__(self, weights: torch.Tensor) -> None:
        self.sums = weights.cumsum(0)

    def __len__(self) -> int:
        return _DRAWS

    def __iter__(self) -> Iterator[int]:
        places = self.sums[-1] * torch.rand(_DRAWS, dtype=torch.double)
        return iter(torch.searchsorted(self.sums, places).tolist())


def main() -> None:
    """Trains; the remedy is to sum up the weights once."""
    course, generator = Course(), torch.Generator().manual_seed(1)
    weights = torch.rand(_ROWS, generator=generator, dtype=torch.double)
    sampler: Sampler[int] = WeightedRandomSampler(
        weights,  # type: ignore[arg-type]
        _DRAWS,
        replacement=False,
        generator=generator,
    )
    if course.is_mended:
        sampler = Cumulated(weights)
    loader = DataLoader(
        course.dataset(Clicks()),
        16,
        sampler=course.sampler(sampler),
        num_workers=course.workers,
    )
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.012)


if __name__ == "__main__":
    main()
