"""Datasets that users write, good and bad; arms import them by path."""

from __future__ import annotations

import fcntl
import gc
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Plain(Dataset[torch.Tensor]):
    def __init__(self, length: int = 64) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        self.act(index)
        return torch.tensor(index)

    def act(self, index: int) -> None:
        """What a kind does before it gives a sample."""


class With(Plain):
    """Has whatever attributes it is given."""

    def __init__(self, length: int, **attributes: Any) -> None:
        super().__init__(length)
        vars(self).update(attributes)

    @property
    def is_among(self) -> bool:
        """Whether this is one of exactly so many workers."""
        worker = get_worker_info()
        return worker is not None and worker.num_workers == vars(self)["num_workers"]


class Frozen(Plain):
    """Works only where what the fork server has loaded is no business of garbage collections."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        if gc.get_freeze_count() == 0:
            raise RuntimeError("everything would be collected")


class Stream(IterableDataset[int]):
    """Without a length; each worker gives every sample of its own share."""

    def __init__(self, length: int = 64) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(range(first, self.length, step))


class SizedStream(Stream):
    def __len__(self) -> int:
        return self.length


class Raises(Plain):
    def act(self, index: int) -> None:
        if index == 40:
            raise ValueError("bad sample 40")


class RaisesWithWorkers(With):
    """Fails with exactly so many workers."""

    def act(self, index: int) -> None:
        if self.is_among:
            raise ValueError(f"no good with {vars(self)['num_workers']} workers")


class KilledWithWorkers(With):
    """The worker is killed where there are exactly so many."""

    def act(self, index: int) -> None:
        if self.is_among:
            os.kill(os.getpid(), signal.SIGKILL)


class Killed(Plain):
    """The process that loads sample 40 is killed."""

    def act(self, index: int) -> None:
        if index == 40:
            os.kill(os.getpid(), signal.SIGKILL)


class Exits(Plain):
    def act(self, index: int) -> None:
        sys.exit(3)


class Hangs(Plain):
    """Never gives a sample, and ignores whatever signal can be ignored."""

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
        os.kill(os.getpid(), signal.SIGKILL)


def not_a_dataset() -> int:
    return 7


def ragged(samples: list[Any]) -> torch.Tensor:
    """A collate_fn: as many rows as samples."""
    return torch.zeros(len(samples), 3)


def broken_collate(samples: list[Any]) -> Any:
    raise KeyError("label")


def step(batch: Any) -> None:
    """A training step, as a function."""


class RaisesAtLength(Plain):
    """The message has several lines, as many of torch's own have."""

    def act(self, index: int) -> None:
        raise RuntimeError("shape mismatch:\n  expected 3\nSee the documentation")


class WarnsForEachSample(Plain):
    def act(self, index: int) -> None:
        warnings.warn(f"bad sample {index}", stacklevel=1)


class ReadsFile(Plain):
    """Its path is relative to where the command is started."""

    def __init__(self, path: str) -> None:
        super().__init__(len(Path(path).read_text()))


class Uneven(Plain):
    """Each sample has another shape."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(index + 1)


class Slow(With):
    def act(self, index: int) -> None:
        time.sleep(vars(self)["seconds"])


class SlowWithWorkers(Plain):
    """Far too slow for a time-out of a second, but only in a worker."""

    def act(self, index: int) -> None:
        time.sleep(0 if get_worker_info() is None else 30)


class Leaks(Plain):
    """Keeps a megabyte of each sample."""

    def act(self, index: int) -> None:
        vars(self).setdefault("kept", []).append(torch.ones(2**18))
        time.sleep(0.0002)


class EndsEarly(IterableDataset[int]):
    """Says that it is longer than it is."""

    def __init__(self, promised: int, given: int) -> None:
        self.promised = promised
        self.given = given

    def __len__(self) -> int:
        return self.promised

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.given))


class Unpicklable(Plain):
    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.transform = lambda index: index


class Heavy(Plain):
    """Samples of so many float32."""

    def __init__(self, length: int, values: int) -> None:
        super().__init__(length)
        self.sample = torch.zeros(values)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.sample


class Busy(Plain):
    """Takes CPU time."""

    def act(self, index: int) -> None:
        end = time.process_time() + 0.001
        while time.process_time() < end:
            pass


class NotesItsMaking(Plain):
    """Adds a line to a file each time it is made, and leaves behind what it is told to."""

    def __init__(self, path: str, leaves: str = "nothing", megabytes: int = 0) -> None:
        super().__init__()
        with Path(path).open("a") as file:
            file.write(f"{os.getpid()}\n")
        self.held = b"x" * (megabytes * 2**20)
        if leaves == "lock":
            self.lock = multiprocessing.Lock()
        elif leaves == "counter":
            self.counter = multiprocessing.Value("i")
        elif leaves == "tensor":
            self.tensor = torch.zeros(10).share_memory_()
        warnings.warn("made with a warning", stacklevel=1)


class Locks(With):
    """Samples are made one at a time, whoever wants one."""

    def act(self, index: int) -> None:
        with Path(vars(self)["path"]).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(0.005)


class OfRank(Plain):
    """Does something else in one rank: raises, exits, is killed, hangs or is slow; or says what it knows of ranks."""

    def __init__(self, length: int = 4000, rank: int = -1, does: str = "", at: int = 40, seconds: float = 0.0) -> None:
        super().__init__(length)
        self.mine = os.environ.get("RANK") == str(rank)
        self.does = does
        self.at = at
        self.seconds = seconds
        if self.mine and does == "no dataset":
            raise ValueError("no data here")

    def act(self, index: int) -> None:
        time.sleep(self.seconds)
        self.at -= self.mine
        if not self.mine or self.at > 0:
            return
        if self.does == "raise":
            raise ValueError("bad sample")
        if self.does == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "hang":
            time.sleep(1e6)


class KnowsItsRank(Plain):
    """Tells in the warnings of its arm what its environment and torch.distributed say."""

    def __init__(self, length: int = 4000) -> None:
        super().__init__(length)
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
        told = " ".join(f"{name}={os.environ[name]}" for name in names)
        group = f"{torch.distributed.get_rank()}/{torch.distributed.get_world_size()}"
        leads = os.getsid(0) == os.getpid() == os.getpgid(0)
        warnings.warn(f"{told} group={group} threads={torch.get_num_threads()} leads={leads}", stacklevel=1)


class SlowPairs(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Inputs and targets, which one rank waits for."""

    def __init__(self, slow_rank: int, seconds: float) -> None:
        self.seconds = seconds if os.environ.get("RANK") == str(slow_rank) else 0.0

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(self.seconds)
        return torch.ones(4), torch.ones(1)
