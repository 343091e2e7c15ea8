import asyncio
import re
import socket
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import fsspec
import pytest
import torch
from fsspec.asyn import AsyncFileSystem
from fsspec.exceptions import FSTimeoutError
from PIL import Image
from torch.utils.data import DataLoader

from benchmarks import object_server
from nws_sweep.dataloading.objects import python_objects
from nws_sweep.datasets import remote
from nws_sweep.datasets.remote import Remote, first_bytes, image
from nws_sweep.errors import ConfigurationError, DatasetError


class Unreliable(AsyncFileSystem):  # type: ignore[misc]
    """Three objects of ten bytes, whose first reads fail or are slow."""

    faults: ClassVar[
        list[Exception | float]
    ] = []  # of the next reads: raised, or seconds
    reads = 0

    async def _glob(self, path: str, **_: Any) -> list[str]:
        return [f"{number}.bin" for number in range(3)]

    async def _cat_file(self, path: str, **_: Any) -> bytes:
        type(self).reads += 1
        fault = self.faults.pop(0) if self.faults else 0.0
        if isinstance(fault, Exception):
            raise fault
        await asyncio.sleep(fault)
        return 2 * path.encode()


@pytest.mark.parametrize(
    ("faults", "reads", "raised"),
    [
        ([ConnectionError(), OSError("busy")], 3, None),
        (3 * [ConnectionError()], 3, ConnectionError),
        ([FileNotFoundError()], 1, FileNotFoundError),
        (3 * [60.0], 3, FSTimeoutError),
    ],
)
def test_failed_reads_are_retried_and_then_raise(
    monkeypatch: pytest.MonkeyPatch,
    faults: list[Exception | float],
    reads: int,
    raised: type[Exception] | None,
) -> None:
    fsspec.register_implementation("unreliable", Unreliable, clobber=True)
    monkeypatch.setattr(Unreliable, "faults", faults)
    monkeypatch.setattr(Unreliable, "reads", 0)
    monkeypatch.setattr(remote, "_FIRST_PAUSE_S", 0.01)
    dataset = Remote("unreliable://objects", "*.bin", retries=2, timeout_s=0.1)
    if raised is None:
        assert bytes(dataset[1].tolist()) == b"1.bin1.bin"
    else:
        with pytest.raises(raised):
            dataset[1]
    assert Unreliable.reads == reads


def test_the_object_server_has_its_latency_and_bandwidth_and_ends_with_the_context() -> (
    None
):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    kind: dict[str, Any] = {
        "objects": 8,
        "object_bytes": 20_000,
        "latency_s": 0.02,
        "spread": 0.5,
        "bytes_per_s": 1e6,
    }
    with object_server.running(port, **kind) as url:
        dataset = Remote(url, "*.bin", transform=first_bytes)
        began = time.monotonic()
        by_process = torch.cat(list(DataLoader(dataset, batch_size=4)))
        assert time.monotonic() - began > 8 * (
            0.008 + 0.02
        )  # the least time of these names, and 20 kB at 1 MB/s
        by_workers = torch.cat(list(DataLoader(dataset, batch_size=4, num_workers=2)))
        line = rf"did not start on port {port} .*services.store.port.*\Z"
        with pytest.raises(ConfigurationError, match=line), object_server.running(port):
            pass
    assert by_process.shape == (8, 1024)
    assert torch.equal(by_process, by_workers)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    for number in range(5):
        system.pipe_file(f"/train/{number}.bin", bytes([number]) * (number + 1))
    yield system
    system.store.clear()  # rm is slow
    system.pseudo_dirs[:] = [""]


def test_any_protocol_is_read_and_images_are_decoded(memory: Any) -> None:
    dataset = Remote("memory://train", "*.bin")
    assert [sample.tolist() for sample in (dataset[0], dataset[2])] == [[0], [2, 2, 2]]
    assert len(Remote("memory://train", "[0-2].bin")) == 3
    assert first_bytes(b"ab", 4).tolist() == [97, 98, 0, 0]
    with memory.open("/train/grey.png", "wb") as file:
        Image.new("L", (8, 6)).save(file, "PNG")
    picture = Remote("memory://train", "*.png", transform=image)[0]
    assert (picture.mode, picture.size) == ("RGB", (8, 6))


def test_names_are_kept_in_an_array_or_in_a_list(memory: Any) -> None:
    for number in range(20_000):
        memory.store[f"/train/{number:06d}.jpg"] = memory.store["/train/0.bin"]
    assert python_objects(Remote("memory://train", "*.jpg")) == ()
    (store,) = python_objects(Remote("memory://train", "*.jpg", names="list"))
    assert (store.attribute, store.type, store.count) == (
        "_names",
        "list of str",
        20_000,
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"url": "memory://nowhere"}, "dataset.url=memory://nowhere: "),
        ({"url": "nonsense://x"}, "dataset.url=nonsense://x: cannot be read ("),
        (
            {"url": "memory://train", "names": "tuple"},
            "dataset.names=tuple: must be array or list",
        ),
        (
            {"url": "memory://train", "retries": -1},
            "dataset.retries=-1: must be an integer of at least 0",
        ),
        (
            {"url": "memory://train", "timeout_s": 0},
            "dataset.timeout_s=0: must be a number above 0",
        ),
    ],
)
def test_errors_are_one_line(memory: Any, arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(DatasetError, match=rf"^{re.escape(line)}.*\Z"):
        Remote(**{"retries": 0, **arguments})
