"""Rows in memory, one a batch, with workers: a batch costs its way to the main process
and nothing else."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.programs.course import Course, train


def main() -> None:
    """Trains; the remedy is to have no workers."""
    course = Course()
    rows = TensorDataset(torch.arange(8000.0).reshape(4000, 2), torch.arange(4000))
    workers = 0 if course.is_mended else course.workers
    loader = DataLoader(course.dataset(rows), 1, shuffle=True, num_workers=workers)
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.0002)


if __name__ == "__main__":
    main()
