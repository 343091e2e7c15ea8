"""A collate_fn that makes a tensor from a list of NumPy arrays, element by element,
without workers."""

import time
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train


class Spectra(Dataset[Any]):
    """Spectra of which each costs 0.2 ms."""

    def __len__(self) -> int:
        return 16 * 60

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.0002)
        return numpy.full((128, 128), float(index))


def list_arrays(samples: list[Any]) -> torch.Tensor:
    """One tensor of a list of lists."""
    return torch.tensor([sample.tolist() for sample in samples])


def stack_arrays(samples: list[Any]) -> torch.Tensor:
    """One tensor of one array."""
    return torch.from_numpy(numpy.stack(samples))


def main() -> None:
    """Trains; the remedy is to stack the arrays."""
    course = Course(workers=0)
    collate_fn = stack_arrays if course.is_mended else list_arrays
    spectra = course.dataset(Spectra())
    loader = DataLoader(
        spectra, 16, shuffle=True, num_workers=course.workers, collate_fn=collate_fn
    )
    for _ in course.epochs():
        for _batch in course.batches(loader):
            train(0.005)


if __name__ == "__main__":
    main()
