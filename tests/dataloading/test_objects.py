import contextlib
import functools
import socket
import sqlite3
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset, random_split

from nws_sweep.dataloading.objects import handles, open_files, positions, python_objects
from tests.user_datasets import With

holder = functools.partial(With, 100_000)


def names(count: int = 50_000) -> list[str]:
    return [f"/data/train/{index:08d}.jpg" for index in range(count)]


def found_in(dataset: Any) -> list[tuple[str, str, int]]:
    return [(store.attribute, store.type, store.count) for store in python_objects(dataset)]


def test_a_list_is_named_with_the_size_of_its_objects_or_one_page_of_each() -> None:
    files = names()
    (store,) = python_objects(holder(root="/data", files=files))
    assert (store.attribute, store.type, store.count) == ("files", "list of str", 50_000)
    assert store.bytes == pytest.approx(sum(sys.getsizeof(name) for name in files), rel=0.01)
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
            {"samples": SAMPLES, "imgs": SAMPLES, "targets": [label for _, label in SAMPLES]},
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
        ({"data": [index * 1_000_003 for index in range(100_000)]}, ("data", "list of int", 100_000)),
        ({"data": [None, *names()]}, ("data", "list of NoneType and str", 50_001)),
        ({"data": [SimpleNamespace(path=name) for name in names()]}, ("data", "list of SimpleNamespace", 50_000)),
        (
            {"data": {name: [float(index), 1.5 * index] for index, name in enumerate(names(20_000))}},
            ("data", "dict of str and list", 20_000),
        ),
        ({"data": pd.DataFrame({"label": range(50_000), "path": PATHS})}, ("data['path']", "Series of str", 50_000)),
        ({"data": np.array(names(20_000), dtype=object).reshape(2_000, 10)}, ("data", "ndarray of str", 20_000)),
    ],
)
def test_many_objects_are_found_in_any_container(attributes: Any, expected: tuple[str, str, int] | None) -> None:
    assert found_in(holder(**attributes)) == ([expected] if expected else [])


def test_wrapped_datasets_are_examined() -> None:
    inner = holder(files=names())
    part, _ = random_split(inner, [90_000, 10_000], generator=torch.Generator().manual_seed(0))
    found = found_in(ConcatDataset([TensorDataset(torch.zeros(3)), part]))
    assert ("datasets[1].dataset.files", "list of str", 50_000) in found
    assert ("datasets[1].indices", "list of int", 90_000) in found
    assert found_in(Subset(inner, range(10))) == [("dataset.files", "list of str", 50_000)]


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
    assert handles((), dataset) == ()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(10_000))
    return path


def found(before: dict[int, str], dataset: object) -> tuple[str, ...]:
    new = [path for number, path in open_files().items() if number not in before]
    return handles(new, dataset)


def test_files_and_databases_are_named_by_the_attribute_that_holds_them_and_files_have_positions(path: Path) -> None:
    before, connection = open_files(), sqlite3.connect(":memory:")
    with path.open("rb") as binary, path.open() as text, contextlib.closing(connection), socket.socket() as client:
        dataset = holder(parts=[holder(file=binary)], index=text, table=connection, store=client)
        assert found(before, dataset) == (
            f"dataset.index (TextIOWrapper of {path})",
            "dataset.table (sqlite3.Connection)",
            "dataset.store (socket.socket)",
            f"dataset.parts[0].file (BufferedReader of {path})",
        )
        assert found(before, holder()) == (f"the open file {path}",)  # outside the dataset
        path.unlink()  # files that are deleted count, too
        numbers = dict.fromkeys(open_files().keys() - before.keys(), str(path))
        before_reading = positions(numbers)
        binary.read()
        assert positions(numbers).items() - before_reading.items() == {(binary.fileno(), 10_000)}
    assert positions(numbers) == {}


def test_a_handle_is_known_by_its_class_whatever_module_the_class_names(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("Environment", (), {"__module__": "builtins", "nbytes": 1})  # as that of lmdb 3, and an array of h5py
    module = types.ModuleType("lmdb")
    vars(module)["Environment"] = kind
    monkeypatch.setitem(sys.modules, "lmdb", module)
    assert handles((), holder(env=kind())) == ("dataset.env (lmdb.Environment)",)


def test_files_that_processes_can_share_are_not_reported(path: Path) -> None:
    before = open_files()
    with path.open("rb") as closed:
        pass
    with path.with_suffix(".log").open("a"):
        assert found(before, holder(mapped=np.memmap(path, mode="r"), closed=closed, array=np.zeros(3))) == ()
