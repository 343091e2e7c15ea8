"""A checkpoint after each epoch takes as long as the epoch."""

import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train
from nws_sweep.records import Part


class Notes(Dataset[torch.Tensor]):
    """Notes of which each costs 0.5 ms."""

    def __len__(self) -> int:
        return 2400

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0005)
        return torch.full((8,), float(index))


def save() -> None:
    """Writes a checkpoint to slow storage."""
    time.sleep(2.0)


def main() -> None:
    """Trains; the remedy is to save in a thread."""
    course = Course(workers=2)
    loader = DataLoader(
        course.dataset(Notes()), 16, shuffle=True, num_workers=course.workers
    )
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.015)
        with course.timed(Part.UNSEEN):
            threading.Thread(target=save).start() if course.is_mended else save()


if __name__ == "__main__":
    main()
