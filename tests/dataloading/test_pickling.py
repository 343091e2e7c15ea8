import gzip
import io
import pickle
import socket
import sys
import types
from multiprocessing.reduction import ForkingPickler
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nws_sweep.config.hydra_versions import instantiate
from nws_sweep.dataloading import loaders, pickling
from nws_sweep.errors import ConfigurationError


def pickled(value: Any, tmp_path: Path) -> Any:
    return instantiate(pickling.write("it", value, tmp_path / "file"))


def test_classes_of_a_script_go_to_spawned_workers_by_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    assert not pickling.write("it", 1, tmp_path / "of_a_notebook")["is_script"]
    monkeypatch.setattr(
        ForkingPickler, "reducer_override", None, raising=False
    )  # so that it is restored
    source = "class Mine:\n    def three(self):\n        return added(2)\ndef added(x):\n    return x + 1"
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "train.py", "exec"), namespace)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "train.py", raising=False)
    node = pickling.write(
        "it", [namespace["Mine"](), namespace["added"]], tmp_path / "file"
    )
    assert node["is_script"]
    mine, added = instantiate(node)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(mine)
    again, function = pickle.loads(bytes(ForkingPickler.dumps([mine, added])))
    assert type(again) is type(mine)
    assert (again.three(), function(2)) == (3, 3)
    assert {one.__code__.co_filename for one in (added, function)} == {
        "train.py"
    }  # stages are found by it


def test_a_loader_in_use_is_pickled_without_its_workers_and_with_the_state_of_its_generator(
    tmp_path: Path,
) -> None:
    loader: DataLoader[Any] = DataLoader(
        TensorDataset(torch.arange(6)), batch_size=2, num_workers=1, persistent_workers=True,
        multiprocessing_context="fork", generator=torch.Generator().manual_seed(5),
    )  # fmt: skip
    next(iter(loader))
    other = pickled(loader, tmp_path)
    assert torch.equal(
        torch.rand(4, generator=other.generator),
        torch.rand(4, generator=loader.generator),
    )
    assert not isinstance(
        other._iterator, torch.utils.data.dataloader._BaseDataLoaderIter
    )
    assert len(list(loaders.with_settings(other, loaders.settings_of(other)))) == 3


def test_a_dataset_that_takes_samples_from_an_inner_loader_says_why_a_copy_cannot(
    tmp_path: Path,
) -> None:
    inner = iter(DataLoader(TensorDataset(torch.arange(6))))
    with pytest.raises(
        TypeError,
        match=r"holds an iterator of a DataLoader, .*pass a function that makes both",
    ):
        next(pickled([inner], tmp_path)[0])


@pytest.mark.parametrize(("mode", "rest"), [("r", "second\n"), ("rb", b"second\n")])
def test_an_open_file_is_opened_again_at_its_position(
    tmp_path: Path, mode: str, rest: Any
) -> None:
    (tmp_path / "data").write_text("first\nsecond\n")
    with (tmp_path / "data").open(mode) as file:
        file.readline()
        with pickled(file, tmp_path) as other:
            assert (other.name, other.read()) == (file.name, rest)
    assert b"second" not in (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("wrap", [io.TextIOWrapper, io.BufferedReader])
def test_a_reader_of_a_compressed_file_is_not_opened_again_as_the_compressed_file(
    tmp_path: Path, wrap: Any
) -> None:
    with gzip.open(tmp_path / "data", "wb") as file:
        file.write(b"first")
    with (
        wrap(gzip.open(tmp_path / "data")) as reader,
        pytest.raises(ConfigurationError, match="pickle"),
    ):
        pickling.write("it", reader, tmp_path / "file")


@pytest.mark.parametrize("part", [slice(None), slice(100, 200), slice(0, 900, 2)])
def test_a_mapped_array_is_mapped_again_unless_it_has_gaps(
    tmp_path: Path, part: slice
) -> None:
    np.arange(50_000, dtype=np.int32).tofile(tmp_path / "data")
    mapped = np.memmap(tmp_path / "data", dtype=np.int32, mode="r", offset=400)[part]
    assert np.array_equal(pickled(mapped, tmp_path), mapped)
    assert ((tmp_path / "file").stat().st_size < 1000) == (part.step is None)


def test_objects_that_cannot_be_pickled_are_refused_with_a_remedy(
    tmp_path: Path,
) -> None:
    (tmp_path / "existing").touch()
    with pytest.raises(ConfigurationError, match="FileExists"):
        pickling.write("it", 2, tmp_path / "existing")
    message = r"the dataset of type socket cannot be pickled for the trial process .*cannot pickle.*\); do it"
    with socket.socket() as held, pytest.raises(ConfigurationError, match=message):
        pickling.write("the dataset", held, tmp_path / "file", remedy="do it")
    memory = SharedMemory(create=True, size=8)
    with pytest.raises(
        ConfigurationError,
        match="would change the shared memory that this program uses",
    ):
        pickling.write("the dataset", {"state": memory}, tmp_path / "memory")
    memory.close()
    memory.unlink()


def test_a_class_that_cannot_be_imported_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        sys.modules, "only_here", module := types.ModuleType("only_here")
    )
    exec("class Mine: pass", module.__dict__)
    pickling.write("it", module.Mine(), tmp_path / "file")
    monkeypatch.delitem(sys.modules, "only_here")
    with pytest.raises(
        ConfigurationError, match="ModuleNotFoundError: No module named 'only_here'"
    ):
        pickling.load(str(tmp_path / "file"), is_script=False)
