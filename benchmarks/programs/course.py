"""What the programs have in common: their command line, their epochs, and a stopwatch
around each part of an epoch."""

import argparse
import collections
import contextlib
import itertools
import json
import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from nws_sweep.records import Part

_FOR_EVER = 1_000_000_000


class StampedDataset(Dataset[Any]):
    """A dataset that notes when the first sample since the last reset begins."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.began_s = multiprocessing.RawValue("d", 0.0)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        self.began_s.value = self.began_s.value or time.perf_counter()
        return self.dataset[index]


class TimedSampler(Sampler[Any]):
    """A sampler whose time the course adds up."""

    def __init__(self, sampler: Sampler[Any], course: "Course") -> None:
        self.sampler, self.course = sampler, course

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        with self.course.timed(Part.SAMPLER):
            indices = iter(self.sampler)
        while True:
            with self.course.timed(Part.SAMPLER):
                index = next(indices, None)
            if index is None:
                return
            yield index


class Course:
    """The epochs of one program; with ``--bare`` it prints the seconds of the parts of
    each epoch as JSON.

    Attributes:
        workers: Of the training DataLoader.
        is_mended: Whether the program applies the remedy.
    """

    def __init__(self, workers: int = 4, epochs: int = 3) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--workers", type=int, default=workers)
        parser.add_argument("--epochs", type=int, default=epochs)
        parser.add_argument("--mended", action="store_true", help="apply the remedy")
        parser.add_argument(
            "--bare",
            action="store_true",
            help="print the seconds of each part of an epoch",
        )
        parser.add_argument(
            "--traced",
            action="store_true",
            help="mark the training steps for TraceML, which runs the program",
        )
        options = parser.parse_args()
        self._is_traced: bool = options.traced
        self.workers: int = options.workers
        self.is_mended: bool = options.mended
        self._is_bare, self._epochs = options.bare, options.epochs
        self._seconds: collections.defaultdict[str, float] = collections.defaultdict(
            float
        )

    def epochs(self) -> Iterator[int]:
        """The numbers of the epochs; an epoch ends where the next begins."""
        for epoch in range(self._epochs):
            self._seconds.clear()
            began_s = time.perf_counter()
            yield epoch
            epoch_s = time.perf_counter() - began_s
            print(
                json.dumps({"epoch_s": epoch_s, **self._seconds})
                if self._is_bare
                else f"{epoch_s:.2f} s",
                flush=True,
            )

    @contextlib.contextmanager
    def timed(self, part: Part) -> Iterator[None]:
        """Adds the seconds of the block to a part."""
        began_s = time.perf_counter()
        yield
        self._seconds[part.value] += time.perf_counter() - began_s

    def dataset(self, dataset: Any) -> Any:
        """The dataset; it notes when its first sample begins if times are printed."""
        return StampedDataset(dataset) if self._is_bare else dataset

    def sampler(self, sampler: Any) -> Any:
        """The sampler; timed if times are printed."""
        return TimedSampler(sampler, self) if self._is_bare else sampler

    def batches(
        self, loader: "DataLoader[Any]", most: int = _FOR_EVER
    ) -> Iterator[Any]:
        """The first batches of a DataLoader; in a bare loop its parts are timed,
        without nws_sweep."""
        if self._is_bare:
            return self._timed_batches(loader, most)
        return (_traced if self._is_traced else itertools.islice)(loader, most)

    def _timed_batches(self, loader: "DataLoader[Any]", most: int) -> Iterator[Any]:
        stamp = (
            loader.dataset.began_s
            if isinstance(loader.dataset, StampedDataset)
            else None
        )
        if stamp is not None:
            stamp.value = 0.0
        began_s, drawn_s = time.perf_counter(), self._seconds[Part.SAMPLER.value]
        iterator = iter(loader)
        for number in range(most):
            asked_cpu_s, drawn_before_s = (
                time.process_time(),
                self._seconds[Part.SAMPLER.value],
            )
            asked_s = time.perf_counter()
            batch = next(iterator, None)
            if batch is None:
                self._seconds[Part.STARTING.value] += (
                    time.perf_counter() - asked_s
                ) * (loader.num_workers > 0)
                return
            drawn_now_s = self._seconds[Part.SAMPLER.value] - drawn_before_s
            if loader.num_workers:
                self._seconds[Part.MAIN.value] += max(
                    0.0, time.process_time() - asked_cpu_s - drawn_now_s
                )
            if not number and loader.num_workers and stamp is not None:
                drawn_first_s = self._seconds[Part.SAMPLER.value] - drawn_s
                self._seconds[Part.STARTING.value] += max(
                    0.0, stamp.value - began_s - drawn_first_s
                )
            given_s, others_before_s = (
                time.perf_counter(),
                self._seconds[Part.OTHERS.value],
            )
            yield batch
            others_s = self._seconds[Part.OTHERS.value] - others_before_s
            self._seconds[Part.STEP.value] += time.perf_counter() - given_s - others_s
        with self.timed(Part.STARTING if loader.num_workers else Part.STEP):
            del iterator


class Model(nn.Module):
    """A model whose forward pass takes as long as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, seconds: float) -> torch.Tensor:
        time.sleep(seconds)
        return 1.0 * self.weight


_MODEL = Model()
_OPTIMIZER = torch.optim.SGD(_MODEL.parameters(), lr=0.0)


def _traced(loader: "DataLoader[Any]", most: int) -> Iterator[Any]:
    """The first batches, whose fetches and training steps TraceML sees."""
    import traceml_ai as traceml

    traceml.init(mode="auto")  # before the iterator is made
    for batch in itertools.islice(loader, most):
        with traceml.trace_step(_MODEL):
            yield batch


def train(seconds: float) -> None:
    """A training step that takes so long."""
    _OPTIMIZER.zero_grad()
    _MODEL(seconds).backward()
    _OPTIMIZER.step()


def validate(seconds: float) -> None:
    """A forward pass that takes so long."""
    _MODEL(seconds)
