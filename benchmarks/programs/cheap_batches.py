"""Batches that are ready when a short training step ends: what following a loader costs
shows here."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.programs.course import Course, train

_EPOCH_S = 4.0


def run(step_s: float) -> None:
    """Trains with steps of this length."""
    course = Course(workers=2)
    rows = TensorDataset(torch.zeros(int(_EPOCH_S / step_s), 16))
    loader = DataLoader(
        course.dataset(rows), 1, shuffle=True, num_workers=course.workers
    )
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(step_s)


if __name__ == "__main__":
    run(0.001)
