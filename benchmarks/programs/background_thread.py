"""A thread takes batches from the DataLoader ahead of the training loop, which waits
for the thread."""

import queue
import threading
import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train
from nws_sweep.records import Part


class Sounds(Dataset[torch.Tensor]):
    """Sounds of which each costs 2 ms."""

    def __len__(self) -> int:
        return 1280

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.full((8,), float(index))


def in_background(loader: "DataLoader[torch.Tensor]") -> Iterator[torch.Tensor]:
    """The batches of a DataLoader, which a thread takes."""
    batches: queue.Queue[torch.Tensor | None] = queue.Queue(maxsize=2)

    def take() -> None:
        for batch in loader:
            batches.put(batch)
        batches.put(None)

    threading.Thread(target=take).start()
    while (batch := batches.get()) is not None:
        yield batch


def main() -> None:
    """Trains; the remedy is four workers."""
    course = Course(workers=1)
    loader = DataLoader(
        Sounds(),
        16,
        shuffle=True,
        num_workers=4 if course.is_mended else course.workers,
    )
    for _ in course.epochs():
        for _batch in in_background(loader):
            with course.timed(Part.STEP):
                train(0.012)


if __name__ == "__main__":
    main()
