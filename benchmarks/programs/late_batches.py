"""Some samples take a hundred times as long as others: batches that are ready wait for
the turn of a late one."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train


class Meshes(Dataset[torch.Tensor]):
    """Meshes of which one in 64 is large."""

    def __len__(self) -> int:
        return 1280

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002 if index % 64 else 0.3)
        return torch.full((8,), float(index))


def main() -> None:
    """Trains; the remedy is batches in any order."""
    course = Course()
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(
        course.dataset(Meshes()), 8, shuffle=True, num_workers=course.workers, generator=generator,
        in_order=not course.is_mended,
    )  # fmt: skip
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.012)


if __name__ == "__main__":
    main()
