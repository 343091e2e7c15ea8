"""Datasets as users write them, correct and faulty; trial processes import them by
path."""

import gc
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Plain(Dataset[torch.Tensor]):
    def __init__(self, length: int = 64) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        self.act(index)
        return torch.tensor(index)

    def act(self, index: int) -> None:
        """Called before each sample."""


def validation_and_training() -> tuple[DataLoader[Any], DataLoader[Any]]:
    return DataLoader(Plain(8)), DataLoader(
        Plain(8), shuffle=True, num_workers=1, persistent_workers=True
    )


class With(Plain):
    """Has the given attributes."""

    def __init__(self, length: int, **attributes: Any) -> None:
        super().__init__(length)
        vars(self).update(attributes)


class Frozen(Plain):
    """Raises unless the objects of the fork server are frozen, so that garbage
    collections skip them."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        if gc.get_freeze_count() == 0:
            raise RuntimeError("no objects are frozen")


class Endless(DataLoader[Any]):
    """Keeps one iterator, and so its workers."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.iterator = super().__iter__()

    def __iter__(self) -> Any:
        for _ in range(2):
            yield next(self.iterator)


class Stream(IterableDataset[int]):
    """Without a length; workers share its shards, by default one for each sample.

    A worker without a shard has no samples, or raises an exception.
    """

    def __init__(
        self, length: int = 64, shards: int | None = None, *, raises: bool = False
    ) -> None:
        self.length, self.shards, self.raises = length, shards or length, raises

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        if self.raises and first >= self.shards:
            raise ValueError("no shard")
        return (
            number
            for number in range(self.length)
            if number % self.shards % step == first
        )


class Repeating(Stream):
    """Each worker has all samples."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.length))


class SizedStream(Stream):
    def __len__(self) -> int:
        return self.length


def kind(name: str, does: Callable[[Any, int], Any], base: type = Plain) -> Any:
    """A class of datasets that call ``does`` before each sample."""
    return type(name, (base,), {"__module__": __name__, "act": does})


def fail(error: Exception) -> Any:
    raise error


def kill_this_process() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


# like errors of torch
SEVERAL_LINES = RuntimeError("shape mismatch:\n  expected 3\nSee the documentation")

Raises = kind(
    "Raises", lambda _, index: index == 40 and fail(ValueError("bad sample 40"))
)
RaisesAtLength = kind("RaisesAtLength", lambda _, index: fail(SEVERAL_LINES))
Killed = kind("Killed", lambda _, index: index == 40 and kill_this_process())
Exits = kind("Exits", lambda _, index: sys.exit(3))
Slow = kind("Slow", lambda own, _: time.sleep(own.seconds), With)


class Hangs(Plain):
    """Returns no sample, and ignores all signals that can be ignored."""

    def act(self, index: int) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if get_worker_info() is not None or number != signal.SIGHUP:
                signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(60)


class Talks(Plain):
    def __init__(self, length: int = 64) -> None:
        super().__init__(length)
        print("hello from the dataset")
        warnings.warn("this dataset is old", stacklevel=1)


class DiesWhenMade:
    def __init__(self) -> None:
        kill_this_process()


def not_a_dataset() -> int:
    return 7


def ragged(samples: list[Any]) -> torch.Tensor:
    """A collate_fn: a row per sample."""
    return torch.zeros(len(samples), 3)


def step(batch: Any) -> None:
    """A training step, as a function."""


class ReadsFile(Plain):
    """Its path is relative to the folder of the command."""

    def __init__(self, path: str) -> None:
        super().__init__(len(Path(path).read_text()))


class Heavy(Plain):
    """Samples of ``values`` float32."""

    def __init__(self, length: int, values: int) -> None:
        super().__init__(length)
        self.sample = torch.zeros(values)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.sample


class Pictures(Plain):
    """As CIFAR-10, without files."""

    def __init__(
        self, root: str, transform: Callable[[Any], torch.Tensor], **_: Any
    ) -> None:
        super().__init__(100)
        self.transform = transform

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(Image.new("RGB", (32, 32)))


class NotesItsMaking(Plain):
    """Adds a line to a file each time it is made, and makes the shared object named by
    ``leaves``."""

    def __init__(self, path: str, leaves: str = "nothing") -> None:
        super().__init__()
        with Path(path).open("a") as file:
            file.write(f"{os.getpid()}\n")
        if leaves == "lock":
            self.lock = multiprocessing.Lock()
        elif leaves == "counter":
            self.counter = multiprocessing.Value("i")
        elif leaves == "tensor":
            self.tensor = torch.zeros(10).share_memory_()
        warnings.warn("made with a warning", stacklevel=1)


class OfRank(Plain):
    """Notes each sample with its rank in a file; in one rank, samples from the
    ``at``-th on raise or kill."""

    def __init__(
        self,
        length: int,
        path: str,
        rank: int = -1,
        does: str = "",
        at: int = 40,
        seconds: float = 0.001,
    ) -> None:
        super().__init__(length)
        self.path, self.faulty, self.does, self.at, self.seconds = (
            path,
            str(rank),
            does,
            at,
            seconds,
        )

    def act(self, index: int) -> None:
        time.sleep(self.seconds)
        with Path(self.path).open("a") as file:
            file.write(f"{os.environ['RANK']} {index}\n")
        self.at -= os.environ["RANK"] == self.faulty
        if self.at <= 0:
            fail(
                ValueError("bad sample")
            ) if self.does == "raise" else kill_this_process()
