"""Which handles of a dataset forked workers would share, and what is said about them."""

import concurrent.futures
import contextlib
import functools
import hashlib
import io
import multiprocessing
import os
import queue
import re
import socket
import sqlite3
import ssl
import struct
import sys
import threading
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.parsers.expat import ParserCreate

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from nws_sweep.dataloading import sharing
from nws_sweep.dataloading.sharing import (
    _kind_of,
    described,
    handles,
    open_files,
    positions,
    reason_against_workers,
)
from nws_sweep.system import processes
from tests.user_datasets import With

pytestmark = pytest.mark.usefixtures("forked_workers")
holder = functools.partial(With, 100)


def named(dataset: Any, collate_fn: Any = None) -> list[str]:
    return [str(handle) for handle in handles(dataset, collate_fn)]


def reason_of(dataset: Any, at_start: list[str] | None = None) -> str:
    return reason_against_workers(DataLoader(dataset), at_start)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(10_000))
    return path


@pytest.fixture
def open_socket() -> Iterator[None]:
    """Without a file or a socket, there is nothing that forked processes could share."""
    with socket.socket():
        yield


def opened_since(before: dict[int, str], dataset: object) -> tuple[str, ...]:
    return described(
        dataset, [path for number, path in open_files().items() if number not in before]
    )


def test_files_and_databases_are_named_by_the_attribute_that_holds_them_and_files_have_positions(
    path: Path,
) -> None:
    before, connection = open_files(), sqlite3.connect(":memory:")
    with (
        path.open("rb") as binary,
        path.open() as text,
        contextlib.closing(connection),
        socket.socket() as client,
    ):
        dataset = holder(
            parts=[holder(file=binary)], index=text, table=connection, store=client
        )
        assert opened_since(before, dataset) == (
            f"dataset.index (TextIOWrapper of {path})",
            "dataset.table (sqlite3.Connection)",
            "dataset.store (socket.socket)",
            f"dataset.parts[0].file (BufferedReader of {path})",
        )
        assert opened_since(before, holder()) == (
            f"the open file {path}",
        )  # outside the dataset
        path.unlink()  # files that are deleted count, too
        numbers = dict.fromkeys(open_files().keys() - before.keys(), str(path))
        before_reading = positions(numbers)
        binary.read()
        assert positions(numbers).items() - before_reading.items() == {
            (binary.fileno(), 10_000)
        }
    assert positions(numbers) == {}


def test_files_that_are_opened_again_have_their_positions_and_move_alone(
    path: Path,
) -> None:
    with (
        path.open("rb", buffering=0) as file,
        os.fdopen(os.dup(file.fileno()), "rb", 0) as shared,
    ):
        file.seek(100)
        path.unlink()
        sharing.reopen_files()
        assert (file.tell(), shared.tell(), os.get_inheritable(file.fileno())) == (
            100,
            100,
            False,
        )
        file.read(50)
        assert (file.tell(), shared.tell()) == (150, 100)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_locks_are_held_while_processes_are_forked_and_free_in_them() -> None:
    locks: list[Any] = [threading.Lock(), threading.RLock()]
    dataset = SimpleNamespace(locks=locks)
    loader: DataLoader[Any] = DataLoader(dataset, sampler=[0])  # type: ignore[arg-type]
    with sharing.locks_held(loader, 1.0) as are_free:
        assert are_free
        assert locks[0].locked()
        process = os.fork()
        if not process:
            os._exit(10 * all(lock.acquire(timeout=0) for lock in locks))
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 10
    with locks[0], sharing.locks_held(loader, 0.0) as are_free:
        assert not are_free
    assert not locks[0].locked()


def test_a_handle_is_known_by_its_class_whatever_module_the_class_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = type(
        "Environment", (), {"__module__": "builtins", "nbytes": 1}
    )  # as that of lmdb 3, and an array of h5py
    module = types.ModuleType("lmdb")
    vars(module)["Environment"] = kind
    monkeypatch.setitem(sys.modules, "lmdb", module)
    assert named(holder(env=kind())) == ["dataset.env (lmdb.Environment)"]


class Slotted:
    __slots__ = ("source",)

    def __init__(self, source: Any) -> None:
        self.source = source


class Stored:
    """An array of a library that reads from a store, as zarr's from a ZIP file."""

    nbytes = 1

    def __init__(self, store: Any) -> None:
        self.store = store


def numbers() -> Iterator[int]:
    yield 1


async def arriving() -> AsyncIterator[int]:
    yield 1


def in_a_closure(source: Any) -> Any:
    class Reading(With):
        def __getitem__(self, index: int) -> Any:
            return source.get()

    return Reading(100)


def in_use() -> dict[str, tuple[Any, str]]:
    """Datasets with a handle, and what is said of it."""
    waiting: queue.Queue[int] = queue.Queue()
    used = concurrent.futures.ThreadPoolExecutor(1)
    used.submit(int)
    ended = numbers()
    list(ended)
    return {
        "slot": (holder(part=Slotted(waiting)), "dataset.part.source (queue.Queue)"),
        "closure": (in_a_closure(waiting), "dataset.source (queue.Queue)"),
        "class": (
            type("Of", (With,), {"source": numbers()})(100),
            "dataset.source (generator)",
        ),
        "element of many": (
            holder(parts=[SimpleNamespace(it=zip())] * 5000),
            "dataset.parts[0].it (an iterator, zip)",
        ),
        "loader": (
            holder(inner=iter(DataLoader(TensorDataset(torch.zeros(4))))),
            "dataset.inner (an iterator of a DataLoader)",
        ),
        "queue between processes": (
            holder(q=multiprocessing.get_context("fork").Queue()),
            "dataset.q (multiprocessing.queues.Queue)",
        ),
        "pool": (
            holder(pool=used),
            "dataset.pool (concurrent.futures.thread.ThreadPoolExecutor)",
        ),
        "opaque": (holder(parser=ParserCreate()), "dataset.parser (pyexpat.xmlparser)"),
        "asynchronous": (
            holder(source=arriving()),
            "dataset.source (an iterator, async_generator)",
        ),
        "array of a store": (
            holder(array=Stored(waiting)),
            "dataset.array.store (queue.Queue)",
        ),
    }


@pytest.mark.parametrize("name", in_use())
@pytest.mark.usefixtures("open_socket")
def test_what_is_in_use_is_found_wherever_pickling_would_go(name: str) -> None:
    dataset, expected = in_use()[name]
    assert named(dataset) == [expected]
    refusal = (
        f"it is unknown whether forked workers can use {expected}: pickling refuses it"
    )
    shared = f"forked workers would share {expected}: open or make it in __getitem__ at first use"
    place = expected.partition(" ")[0]
    assert reason_of(dataset, [place]) == (refusal if name == "opaque" else shared)


def test_what_processes_can_share_or_copy_is_no_handle(path: Path) -> None:
    before, ended = open_files(), numbers()
    list(ended)
    with path.open("rb") as closed:
        pass
    with path.with_suffix(".log").open("a") as written:
        dataset = holder(
            mapped=np.memmap(path, mode="r"), closed=closed, written=written, ended=ended, image=Image.new("L", (2, 2)),
            memory=io.BytesIO(), lock=threading.Lock(), condition=threading.Condition(), pattern=re.compile("a"),
            layout=struct.Struct("<I"), keys={}.keys(), draw=np.random.default_rng(0), generator=torch.Generator(),
            module=torch.nn.Linear(1, 1), counter=multiprocessing.get_context("fork").Value("i"),
            thread=threading.Thread(), digest=hashlib.sha256(), context=ssl.create_default_context(),
            unused=concurrent.futures.ThreadPoolExecutor(), text=io.TextIOWrapper(io.BytesIO()),
        )  # fmt: skip
        assert named(dataset) == []
        assert opened_since(before, dataset) == ()
        assert reason_of(dataset) == ""


def test_what_pickling_refuses_is_no_handle_where_nothing_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opaque = holder(parser=ParserCreate())
    descriptors: dict[int, str] = {}
    monkeypatch.setattr(sharing, "open_files", lambda: descriptors)
    monkeypatch.setattr(processes, "open_files", lambda: {0: "/data/program.py"})
    descriptors[0] = "/data/program.py"  # standard input
    assert named(opaque) == []
    descriptors[3] = "/data/samples"
    assert named(opaque) == ["dataset.parser (pyexpat.xmlparser)"]


def test_files_without_bytes_are_no_open_files_as_those_of_locks(
    tmp_path: Path,
) -> None:
    with (tmp_path / "lock").open("w+") as lock:
        assert lock.fileno() not in open_files()


def test_workers_that_a_program_has_already_lack_threads_and_have_copies_of_queues() -> (
    None
):
    ending = threading.Event()
    thread = threading.Thread(target=ending.wait)
    thread.start()
    filled: queue.Queue[int] = queue.Queue()
    filled.put(1)
    refreshed = holder(thread=thread, decoders=queue.Queue())
    consumed = holder(stored=filled)
    assert (
        "dataset.thread (threading.Thread), dataset.decoders (queue.Queue)"
        in reason_of(refreshed)
    )
    assert reason_against_workers(DataLoader(refreshed, num_workers=1)) == ""
    assert "dataset.stored (queue.Queue)" in reason_against_workers(
        DataLoader(consumed, num_workers=1)
    )
    ending.set()


def test_classes_of_libraries_that_were_tried_with_workers_are_no_handles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent = type("NativeFile", (), {})
    mapped = type("MemoryMappedFile", (parent,), {})
    module = SimpleNamespace(NativeFile=parent, MemoryMappedFile=mapped)
    monkeypatch.setitem(sys.modules, "pyarrow", module)
    _kind_of.cache_clear()
    assert named(holder(file=mapped(), opened=parent())) == [
        "dataset.opened (pyarrow.NativeFile)"
    ]


def test_the_iterator_of_the_training_loop_over_a_dataset_is_no_part_of_it() -> None:
    dataset = holder()
    vars(dataset)["loop"] = iter(DataLoader(dataset))
    assert named(dataset) == []


def test_the_remedy_is_that_of_the_moment_at_which_a_handle_was_made() -> None:
    dataset = holder(source=numbers())
    shared = "forked workers would share dataset.source (generator): "
    remedy = "open or make it in __getitem__ at first use"
    assert (
        reason_of(dataset) == reason_of(dataset, ["dataset.source"]) == shared + remedy
    )
    later = "it was opened or made with the first samples; with num_workers=1 from the start, the worker does so"
    assert reason_of(dataset, []) == shared + later
    spawning = DataLoader(dataset, num_workers=1, multiprocessing_context="spawn")
    assert (
        reason_against_workers(spawning) == ""
    )  # the dataset is pickled, or refused there


def test_a_collate_fn_is_examined_and_many_handles_are_counted() -> None:
    assert named(holder(), in_a_closure(queue.Queue()).__getitem__) == [
        "collate_fn.source (queue.Queue)"
    ]
    reason = reason_of(holder(parts=[numbers() for _ in range(10)]))
    assert reason.startswith(
        "forked workers would share dataset.parts[0] (generator), "
    )
    assert "dataset.parts[2] (generator) and 7 more: " in reason
