"""Two training DataLoaders in a zip: the unlabelled one has one worker, and all wait
for it."""

import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train
from nws_sweep.records import Part


class Labelled(Dataset[torch.Tensor]):
    """Samples of a given cost."""

    def __init__(self, sample_s: float) -> None:
        self.sample_s = sample_s

    def __len__(self) -> int:
        return 800

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.sample_s)
        return torch.full((8,), float(index))


class Unlabelled(Labelled):
    """As ``Labelled``."""


def timed(course: Course, loader: "DataLoader[torch.Tensor]") -> Iterator[torch.Tensor]:
    """The batches of another DataLoader than that of the course."""
    with course.timed(Part.OTHERS):
        batches = iter(loader)
    while True:
        with course.timed(Part.OTHERS):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def main() -> None:
    """Trains; the remedy is four workers for the unlabelled samples."""
    course = Course(workers=1)
    labelled = DataLoader(Labelled(0.001), 8, shuffle=True, num_workers=2)
    workers = 4 if course.is_mended else course.workers
    unlabelled = DataLoader(
        course.dataset(Unlabelled(0.005)), 8, shuffle=True, num_workers=workers
    )
    for _ in course.epochs():
        for _batches in zip(
            course.batches(unlabelled), timed(course, labelled), strict=True
        ):
            train(0.01)


if __name__ == "__main__":
    main()
