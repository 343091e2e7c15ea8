"""Datasets that need no files: samples that take a known time, and tensors in memory or on the training device."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset
from torch.utils.data._utils.collate import default_collate_fn_map

from nws_sweep.errors import DatasetError
from nws_sweep.system import accelerator


class Sleep(Dataset[Tensor]):
    """Sleeps for each sample, latency without load, then returns its index as a tensor of shape ().

    Args:
        length: Samples, at least 1.
        seconds_per_sample: Median time of a sample, s, at least 0.
        spread: Standard deviation of the logarithm of the time; 0 for equal times, 1 for a store with a long tail.
            A sample's time depends on its index alone, so that every candidate meets the same ones.

    Raises:
        DatasetError: If an argument is out of range.
    """

    def __init__(self, length: int, seconds_per_sample: float, spread: float = 0.0) -> None:
        given = {"length": length, "seconds_per_sample": seconds_per_sample, "spread": spread}
        for name, value in given.items():
            if value < (least := int(name == "length")):
                raise DatasetError(f"dataset.{name}={value}: allowed is at least {least}")
        self.length = length
        self.seconds_per_sample = seconds_per_sample
        self.spread = spread

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        if not 0 <= index < self.length:
            raise IndexError(index)
        time.sleep(self.seconds_per_sample * math.exp(random.Random(index).gauss(0.0, self.spread)))
        return torch.tensor(index)


def tensor(length: int = 60_000, shape: Sequence[int] = (784,), classes: int = 10) -> TensorDataset:
    """Random float32 samples of the given shape with integer labels: nothing to load, so workers can only cost.

    Args:
        length: Samples, at least 1.
        shape: Shape of one sample; the default is MNIST's, flattened.
        classes: Labels are drawn from 0 to ``classes - 1``.

    Raises:
        DatasetError: If the length is out of range.
    """
    if length < 1:
        raise DatasetError(f"dataset.length={length}: allowed is at least 1")
    return TensorDataset(torch.randn(length, *shape), torch.randint(classes, (length,)))


class OnDevice(Dataset[tuple[Tensor, ...]]):
    """The tensors of a TensorDataset on a device: a batch is a look-up there, with nothing to load and to copy.

    For num_workers=0: workers could hand nothing over more cheaply than it lies there, and forked ones may not touch an
    accelerator.

    Args:
        dataset: Whose tensors they are.
        device: ``auto`` for the accelerator if there is one, else the CPU; or a torch device.
    """

    def __init__(self, dataset: TensorDataset, device: str = "auto") -> None:
        where = torch.device((accelerator.available() or "cpu") if device == "auto" else device)
        self.tensors = tuple(tensor.to(where) for tensor in dataset.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: Sequence[int]) -> list[_Made]:
        """One batch, of each tensor the rows of these indices, in the form that torch's collate passes on as it is."""
        rows = torch.tensor(indices, device=self.tensors[0].device)
        return [_Made(tensor[rows] for tensor in self.tensors)]


class _Made(tuple[Tensor, ...]):
    """A batch that is made already."""


def _as_made(batches: Sequence[_Made], **_: Any) -> list[Tensor]:
    (made,) = batches
    return list(made)


# How torch's documentation has types of one's own collated.
default_collate_fn_map[_Made] = _as_made
