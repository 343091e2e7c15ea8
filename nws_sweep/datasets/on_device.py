"""Tensors that lie on the training device already: a batch is a look-up there, with nothing to load and to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset
from torch.utils.data._utils.collate import default_collate_fn_map

from nws_sweep import accelerator


class OnDevice(Dataset[tuple[Tensor, ...]]):
    """The tensors of a TensorDataset on a device, handed out by the batch.

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
