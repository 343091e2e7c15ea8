"""Tensors that are in memory already: nothing to load, so workers can only cost."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils.data import TensorDataset

from nws_sweep.errors import DatasetError


def tensor(length: int = 60_000, shape: Sequence[int] = (784,), classes: int = 10) -> TensorDataset:
    """Random float32 samples of the given shape with integer labels, as a TensorDataset.

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
