"""Whole batches of datasets that give equal ones, others, or none."""

import multiprocessing
import os
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from nws_sweep.dataloading.whole_batches import try_whole_batches

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


class Rows(Dataset[Any]):
    """A table with cells that are not numbers."""

    def __init__(self) -> None:
        self.cells, self.labels = (
            np.arange(8000, dtype=np.float32).reshape(2000, 4),
            np.arange(2000),
        )
        self.cells[::3] = np.nan

    def __len__(self) -> int:
        return 2000

    def __getitem__(self, index: Any) -> Any:
        return {"cells": self.cells[index], "label": self.labels[index]}


class Listed(Rows):
    def __getitem__(self, index: Any) -> Any:
        return [*range(2000)][index]


class InOrder(Rows):
    def __getitem__(self, indices: Any) -> Any:
        return super().__getitem__(
            sorted(indices) if isinstance(indices, list) else indices
        )


class Random(Rows):
    def __getitem__(self, indices: Any) -> Any:
        return torch.from_numpy(np.asarray(self.labels[indices])) + torch.rand(())


class Exits(Rows):
    def __getitem__(self, indices: Any) -> Any:
        if isinstance(indices, list):
            os._exit(1)
        return super().__getitem__(indices)


def loader(dataset: Dataset[Any], method: str = "fork") -> DataLoader[Any]:
    return DataLoader(dataset, 64, num_workers=1, multiprocessing_context=method)


@pytest.mark.parametrize(
    "dataset",
    [
        TensorDataset(torch.rand(2000, 4), torch.arange(2000)),
        Rows(),
        Subset(Rows(), range(500)),
    ],
)
def test_whole_batches_that_are_equal_are_timed(dataset: Dataset[Any]) -> None:
    state = torch.random.get_rng_state()
    found = try_whole_batches(loader(dataset), 64)
    assert found
    assert 0 < found.whole_s < found.samples_s < 0.1
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    "dataset", [Listed(), InOrder(), Random(), Exits(), Subset(Rows(), range(10))]
)
def test_other_batches_and_failures_are_no_whole_batches(dataset: Dataset[Any]) -> None:
    before = {*multiprocessing.active_children()}  # of earlier tests
    assert try_whole_batches(loader(dataset), 64) is None
    assert {*multiprocessing.active_children()} <= before


def test_a_worker_that_is_not_forked_is_too_slow_to_try() -> None:
    assert try_whole_batches(loader(Rows(), "spawn"), 64) is None
