"""Datasets without files: samples that take a known time, and tensors in memory or on a
device."""

import math
import random
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from nws_sweep.errors import DatasetError
from nws_sweep.system import accelerator, torch_internals


class Sleep(Dataset[Tensor]):
    """Sleeps for each sample and returns its index as a tensor of shape ().

    Args:
        length: Number of samples, at least 1 (else DatasetError).
        seconds_per_sample: Median time of a sample, s, at least 0.
        spread: Standard deviation of the logarithm of the time; 0 for equal times, 1
            for a long tail. The time of a sample depends only on its index, so it is
            equal for all candidates.
    """

    def __init__(
        self, length: int, seconds_per_sample: float, spread: float = 0.0
    ) -> None:
        if length < 1:
            raise DatasetError(f"dataset.length={length}: must be at least 1")
        for name, value in (
            ("seconds_per_sample", seconds_per_sample),
            ("spread", spread),
        ):
            if value < 0:
                raise DatasetError(f"dataset.{name}={value}: must be at least 0")
        self.length = length
        self.seconds_per_sample = seconds_per_sample
        self.spread = spread

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        if not 0 <= index < self.length:
            raise IndexError(index)
        logarithm = random.Random(index).gauss(0.0, self.spread)
        time.sleep(self.seconds_per_sample * math.exp(logarithm))
        return torch.tensor(index)


def tensor(
    length: int = 60_000, shape: Sequence[int] = (784,), classes: int = 10
) -> TensorDataset:
    """Makes random float32 samples with integer labels, in memory.

    Args:
        length: Number of samples, at least 1 (else DatasetError).
        shape: Shape of a sample; the default is the shape of a flattened image of
            MNIST.
        classes: Labels are drawn from 0 to ``classes - 1``.
    """
    if length < 1:
        raise DatasetError(f"dataset.length={length}: must be at least 1")
    return TensorDataset(torch.randn(length, *shape), torch.randint(classes, (length,)))


def pixels(dataset: Any) -> TensorDataset:
    """Returns the images of torchvision's MNIST as two tensors in memory.

    The pixels are standardised, float32, shape (n, 784); the labels are int64, shape
    (n,).
    """
    images = dataset.data.flatten(1).float()
    return TensorDataset((images - images.mean()) / images.std(), dataset.targets)


class OnDevice(Dataset[tuple[Tensor, ...]]):
    """The tensors of a TensorDataset on a device; a batch is indexed there.

    For num_workers=0: forked workers cannot use an accelerator.

    Args:
        dataset: The tensors.
        device: A torch device; ``auto`` for the accelerator if there is one, else the
            CPU.
    """

    def __init__(self, dataset: TensorDataset, device: str = "auto") -> None:
        if device == "auto":
            device = accelerator.available() or "cpu"
        self.tensors = tuple(tensor.to(device) for tensor in dataset.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: Sequence[int]) -> "list[_Batch]":
        """Returns one batch, the rows of each tensor, of a class that torch's default
        collate does not change."""
        torch_internals.collate_functions()[_Batch] = lambda batches, **_: list(
            batches[0]
        )
        rows = torch.tensor(indices, device=self.tensors[0].device)
        return [_Batch(tensor[rows] for tensor in self.tensors)]


class _Batch(tuple[Tensor, ...]):
    pass
