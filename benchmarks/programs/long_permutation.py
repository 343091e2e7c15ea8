"""A permutation of ten million indices, as a list, for epochs that are left after 200
batches."""

import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler

from benchmarks.programs.course import Course, train

_ROWS = 10_000_000


class Lines(Dataset[torch.Tensor]):
    """Lines of text of which each costs 0.5 ms."""

    def __len__(self) -> int:
        return _ROWS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0005)
        return torch.full((32,), float(index))


class Drawn(Sampler[int]):
    """Indices that are drawn when they are needed."""

    def __len__(self) -> int:
        return _ROWS

    def __iter__(self) -> Iterator[int]:
        return (int(torch.randint(_ROWS, (1,))) for _ in range(_ROWS))


def main() -> None:
    """Trains; the remedy is not to make the list."""
    course, lines = Course(), Lines()
    sampler = course.sampler(Drawn() if course.is_mended else RandomSampler(lines))
    loader = DataLoader(
        course.dataset(lines), 16, sampler=sampler, num_workers=course.workers
    )
    for _ in course.epochs():
        for _batch in course.batches(loader, most=200):
            train(0.01)


if __name__ == "__main__":
    main()
