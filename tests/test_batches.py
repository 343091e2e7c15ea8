from __future__ import annotations

import collections
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from nws_sweep.batches import BatchSize, batch_length, batch_size_of


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@pytest.mark.parametrize(
    ("batch", "length"),
    [
        (np.zeros((8, 3, 2)), 8),
        ([np.zeros((8, 3)), np.zeros(8)], 8),
        ((np.zeros((5, 3)),), 5),
        ({"image": np.zeros((7, 3)), "label": np.zeros(7)}, 7),
        (collections.OrderedDict(a=[np.zeros((6, 1))]), 6),
        (np.float32(1.0), 64),
        ("text", 64),
        ([], 64),
        ({}, 64),
        (None, 64),
    ],
)
def test_the_length_of_a_batch_is_found_in_what_collate_functions_build(batch: Any, length: int) -> None:
    assert batch_length(batch, default=64) == length


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (np.zeros((8, 3), dtype=np.float32), (96, 1)),
        (torch.zeros(8, 3, dtype=torch.float16), (48, 1)),
        ([np.zeros((8, 3)), np.zeros(8)], (256, 2)),
        ({"image": torch.zeros(4, 2), "target": {"box": torch.zeros(4, 4), "label": torch.zeros(4)}}, (112, 3)),
        (collections.OrderedDict(a=[(np.zeros(2), [np.zeros(1)])]), (24, 2)),
        ([torch.zeros(2), ["a.jpg", "b.jpg"], 7, None, b"bytes"], (8, 1)),
        (torch.zeros(0, 3), (0, 1)),
        (default_collate([(torch.zeros(3), 1), (torch.zeros(3), 2)]), (40, 2)),
        (Pair(torch.zeros(1), torch.zeros(2)), (12, 2)),
        (collections.deque([torch.zeros(5)]), (20, 1)),
    ],
)  # fmt: skip
def test_the_weight_of_a_batch_is_that_of_all_tensors_and_arrays_in_it(batch: Any, size: tuple[int, int]) -> None:
    assert batch_size_of(batch) == BatchSize(bytes=size[0], tensors=size[1])


@pytest.mark.parametrize("batch", [None, 7, "text", b"bytes", [], {}, ["a", ["b"]], object(), range(3), {1: "x"}])
def test_a_batch_without_tensors_has_no_weight(batch: Any) -> None:
    assert batch_size_of(batch) == BatchSize(bytes=None, tensors=None)


def test_what_only_has_the_name_of_a_size_is_none() -> None:
    assert batch_size_of(SimpleNamespace(nbytes=lambda: 5)) == BatchSize()
    assert batch_size_of(torch.zeros(3).untyped_storage()) == BatchSize()


def test_tensors_that_do_not_tell_their_size_are_passed_over() -> None:
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.ones(2), (5,), check_invariants=True)
    assert batch_size_of(sparse) == BatchSize()
    assert batch_size_of([sparse, torch.zeros(2)]) == BatchSize(bytes=8, tensors=1)
