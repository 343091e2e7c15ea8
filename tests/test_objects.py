from __future__ import annotations

import sys
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, random_split

from nws_sweep.objects import python_objects


class Holds(Dataset[Any]):
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> int:
        return index


def names(count: int = 50_000) -> list[str]:
    return [f"/data/train/{index:08d}.jpg" for index in range(count)]


def told(dataset: Any) -> list[tuple[str, str, int]]:
    return [(store.attribute, store.type, store.count) for store in python_objects(dataset)]


def test_a_list_of_file_names_is_named_with_its_size() -> None:
    files = names()
    (store,) = python_objects(Holds(root="/data", files=files))
    assert (store.attribute, store.type, store.count) == ("files", "list of str", 50_000)
    assert store.bytes == pytest.approx(sum(sys.getsizeof(name) for name in files), rel=0.01)


def test_samples_as_torchvision_keeps_them_are_named_once() -> None:
    samples = [(name, index % 1000) for index, name in enumerate(names())]
    (store,) = python_objects(Holds(samples=samples, imgs=samples, targets=[label for _, label in samples]))
    assert (store.attribute, store.type) == ("samples", "list of tuple")
    assert store.bytes > 50_000 * (sys.getsizeof(("", 0)) + sys.getsizeof("x" * 24))


def test_a_dict_is_named_with_its_keys_and_values() -> None:
    by_name = {name: [float(index), 1.5 * index] for index, name in enumerate(names(20_000))}
    assert told(Holds(boxes=by_name)) == [("boxes", "dict of str and list", 20_000)]


@pytest.mark.parametrize(
    "harmless",
    [
        np.array(names()),
        np.arange(5_000_000),
        torch.zeros(5_000_000),
        pd.Series(range(500_000)),
        [7] * 5_000_000,
        [index % 100 for index in range(500_000)],
        names(100),
        "x" * 5_000_000,
        b"x" * 5_000_000,
        bytearray(5_000_000),
        range(5_000_000),
    ],
)
def test_arrays_and_what_is_few_objects_are_silent(harmless: Any) -> None:
    assert told(Holds(data=harmless)) == []


def test_tensors_in_memory_are_silent() -> None:
    assert told(TensorDataset(torch.zeros(100_000, 8), torch.zeros(100_000))) == []


@pytest.mark.parametrize(
    ("container", "kind"),
    [
        (np.array(names(), dtype=object), "ndarray of str"),
        (pd.Series(names(), dtype=object), "Series of str"),
        (set(names()), "set of str"),
        (deque(names()), "deque of str"),
        (tuple(names()), "tuple of str"),
        ([index * 1_000_003 for index in range(100_000)], "list of int"),
        ([None, *names()], "list of NoneType and str"),
        ([SimpleNamespace(path=name) for name in names()], "list of SimpleNamespace"),
        ([b"x" * 50_000 for _ in range(2_000)], "list of bytes"),
        ([torch.zeros(1) for _ in range(10_000)], "list of Tensor"),
    ],
)
def test_many_objects_are_seen_in_any_container(container: Any, kind: str) -> None:
    assert told(Holds(data=container)) == [("data", kind, len(container))]


def test_of_large_objects_only_the_page_with_their_count_is_copied() -> None:
    (store,) = python_objects(Holds(files=[b"x" * 50_000 for _ in range(2_000)]))
    assert store.bytes == 2_000 * 4096


def test_columns_of_a_frame_are_looked_at_one_by_one() -> None:
    frame = pd.DataFrame({"label": range(50_000), "path": pd.Series(names(), dtype=object)})
    assert told(Holds(table=frame)) == [("table['path']", "Series of str", 50_000)]


def test_of_an_array_of_objects_all_dimensions_count() -> None:
    table = np.array(names(20_000), dtype=object)
    (flat,), (square,) = python_objects(Holds(table=table)), python_objects(Holds(table=table.reshape(2_000, 10)))
    assert (square.count, square.type) == (20_000, "ndarray of str")
    assert square.bytes == pytest.approx(flat.bytes, rel=0.01)
    assert told(Holds(nothing=np.array(None, dtype=object), few=table[:20].reshape(2, 10))) == []


def test_wrapped_datasets_are_looked_into() -> None:
    inner = Holds(files=names())
    part, _ = random_split(inner, [90_000, 10_000], generator=torch.Generator().manual_seed(0))
    found = told(ConcatDataset([TensorDataset(torch.zeros(3)), part]))
    assert ("datasets[1].dataset.files", "list of str", 50_000) in found
    assert ("datasets[1].indices", "list of int", 90_000) in found
    assert told(Subset(inner, range(10))) == [("dataset.files", "list of str", 50_000)]


def test_what_refers_to_itself_ends() -> None:
    dataset = Holds(files=names())
    dataset.__dict__["myself"] = dataset
    dataset.__dict__["parts"] = [dataset]
    assert told(dataset) == [("files", "list of str", 50_000)]


def test_no_property_is_called() -> None:
    class Lazy(Holds):
        @property
        def nbytes_of_everything(self) -> int:
            raise RuntimeError("reads a terabyte")

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"{name} opens a connection")

    assert told(Lazy(files=names())) == [("files", "list of str", 50_000)]
