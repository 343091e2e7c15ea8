"""Batches of which each is a list of 640 small tensors: the main process receives every
tensor by a file descriptor."""

import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train


class Boxes(Dataset[Any]):
    """Forty small tensors a sample."""

    def __len__(self) -> int:
        return 16 * 24

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.001)
        return {
            f"field {field}": torch.full((4,), float(index + field))
            for field in range(40)
        }


def keep_samples(samples: Any) -> Any:
    """The samples as they are, since their boxes have no common length."""
    return samples


def pack(samples: Any) -> torch.Tensor:
    """One tensor of all fields."""
    return torch.stack([value for sample in samples for value in sample.values()])


def main() -> None:
    """Trains; the remedy is to pack the fields into one tensor."""
    course = Course()
    collate_fn = pack if course.is_mended else keep_samples
    boxes = course.dataset(Boxes())
    loader = DataLoader(
        boxes, 16, shuffle=True, num_workers=course.workers, collate_fn=collate_fn
    )
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.005)


if __name__ == "__main__":
    main()
