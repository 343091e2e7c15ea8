"""One reader that serves a sample at a time: all workers wait for it, and more of them
do not help."""

import fcntl
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.programs.course import Course, train


class Records(Dataset[torch.Tensor]):
    """Records of which each occupies the reader for 2 ms; without a lock file there are
    readers for all."""

    def __init__(self, lock_path: Path | None) -> None:
        self.lock_path = lock_path

    def __len__(self) -> int:
        return 1280

    def __getitem__(self, index: int) -> torch.Tensor:
        self.read()
        return torch.full((8,), float(index))

    def read(self) -> None:
        """Waits for the reader, and reads."""
        if self.lock_path is None:
            time.sleep(0.002)
            return
        with self.lock_path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            time.sleep(0.002)


def main() -> None:
    """Trains; the remedy is a reader for each worker."""
    course = Course()
    with tempfile.TemporaryDirectory() as folder:
        lock_path = Path(folder) / "lock"
        lock_path.touch()
        records = course.dataset(Records(None if course.is_mended else lock_path))
        loader = DataLoader(records, 16, shuffle=True, num_workers=course.workers)
        for _ in course.epochs():
            for _batch in course.batches(loader):
                train(0.01)


if __name__ == "__main__":
    main()
