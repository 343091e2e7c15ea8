import functools
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset, random_split

from nws_sweep.dataloading.objects import python_objects
from tests.user_datasets import With

holder = functools.partial(With, 100_000)


def names(count: int = 50_000) -> list[str]:
    return [f"/data/train/{index:08d}.jpg" for index in range(count)]


def found_in(dataset: Any) -> list[tuple[str, str, int]]:
    return [
        (store.attribute, store.type, store.count) for store in python_objects(dataset)
    ]


def test_a_list_is_named_with_the_size_of_its_objects_or_one_page_of_each() -> None:
    files = names()
    (store,) = python_objects(holder(root="/data", files=files))
    assert (store.attribute, store.type, store.count) == (
        "files",
        "list of str",
        50_000,
    )
    assert store.bytes == pytest.approx(
        sum(sys.getsizeof(name) for name in files), rel=0.01
    )
    (large,) = python_objects(holder(files=[b"x" * 50_000 for _ in range(2_000)]))
    assert large.bytes == 2_000 * 4096


class OnDisk:
    """An array of text in a file, as those of h5py and zarr."""

    dtype, nbytes, shape = np.dtype(object), 8_000_000, (1_000_000,)

    def __len__(self) -> int:
        return 1_000_000

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("is read")


PATHS = pd.Series(names(), dtype=object)
SAMPLES = [(name, index % 1000) for index, name in enumerate(names())]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        # As torchvision keeps them: named once.
        (
            {
                "samples": SAMPLES,
                "imgs": SAMPLES,
                "targets": [label for _, label in SAMPLES],
            },
            ("samples", "list of tuple", 50_000),
        ),
        # Arrays and few objects are not reported.
        ({"data": np.array(names())}, None),
        ({"data": torch.zeros(5_000_000)}, None),
        ({"data": [7] * 5_000_000}, None),
        ({"data": names(100)}, None),
        ({"data": np.array(None, dtype=object)}, None),
        ({"data": OnDisk()}, None),
        ({"data": PATHS}, ("data", "Series of str", 50_000)),
        (
            {"data": [index * 1_000_003 for index in range(100_000)]},
            ("data", "list of int", 100_000),
        ),
        ({"data": [None, *names()]}, ("data", "list of NoneType and str", 50_001)),
        (
            {"data": [SimpleNamespace(path=name) for name in names()]},
            ("data", "list of SimpleNamespace", 50_000),
        ),
        (
            {
                "data": {
                    name: [float(index), 1.5 * index]
                    for index, name in enumerate(names(20_000))
                }
            },
            ("data", "dict of str and list", 20_000),
        ),
        (
            {"data": pd.DataFrame({"label": range(50_000), "path": PATHS})},
            ("data['path']", "Series of str", 50_000),
        ),
        (
            {"data": np.array(names(20_000), dtype=object).reshape(2_000, 10)},
            ("data", "ndarray of str", 20_000),
        ),
    ],
)
def test_many_objects_are_found_in_any_container(
    attributes: Any, expected: tuple[str, str, int] | None
) -> None:
    assert found_in(holder(**attributes)) == ([expected] if expected else [])


def test_wrapped_datasets_are_examined() -> None:
    inner = holder(files=names())
    part, _ = random_split(
        inner, [90_000, 10_000], generator=torch.Generator().manual_seed(0)
    )
    found = found_in(ConcatDataset([TensorDataset(torch.zeros(3)), part]))
    assert ("datasets[1].dataset.files", "list of str", 50_000) in found
    assert ("datasets[1].indices", "list of int", 90_000) in found
    assert found_in(Subset(inner, range(10))) == [
        ("dataset.files", "list of str", 50_000)
    ]


class Lazy(With):
    @property
    def nbytes_of_everything(self) -> int:
        raise RuntimeError("reads a terabyte")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} opens a connection")


def test_cycles_end_and_no_property_is_called() -> None:
    dataset = Lazy(100_000, files=names())
    vars(dataset).update(myself=dataset, parts=[dataset])
    assert found_in(dataset) == [("files", "list of str", 50_000)]
