import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fsspec
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from benchmarks import object_server
from nws_sweep.dataloading.objects import python_objects
from nws_sweep.datasets.remote import Remote, first_bytes, image
from nws_sweep.errors import ConfigurationError, DatasetError


class Unreliable(BaseHTTPRequestHandler):
    """Serves three objects of ten bytes; the first answers for each are ``faults``."""

    faults: tuple[str, ...] = ()
    requests: Counter[str]

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/objects":
            self._answer(200, b"".join(b'<a href="%d.bin">%d.bin</a>' % (n, n) for n in range(3)), "text/html")
            return
        self.requests[self.path] += 1
        fault = self.faults[self.requests[self.path] - 1] if self.requests[self.path] <= len(self.faults) else ""
        if fault == "dropped":
            self.close_connection = True
        elif fault == "busy":
            self._answer(503, b"", "text/plain")
        else:
            time.sleep(2.0 if fault == "slow" else 0.0)
            self._answer(200, self.path[-5:].encode() * 2, "application/octet-stream")

    def _answer(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Silent."""


@contextmanager
def unreliable(*faults: str) -> Iterator[tuple[str, Counter[str]]]:
    """URL of a server with these faults, and the number of requests by path."""
    requests: Counter[str] = Counter()
    handler = type("Handler", (Unreliable,), {"faults": faults, "requests": requests})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/objects", requests
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("fault", "name", "counts"),
    [
        ("dropped", "ServerDisconnectedError", (2, 4)),  # aiohttp may retry itself
        ("busy", "ClientResponseError", (2,)),
        ("slow", "FSTimeoutError", (0, 1, 2)),  # a queued request may time out unseen
    ],
)
def test_failed_reads_are_retried_and_then_raise(fault: str, name: str, counts: tuple[int, ...]) -> None:
    with unreliable(*9 * [fault]) as (url, requests):
        dataset = Remote(url, "*.bin", retries=1, timeout_s=60.0)
        if fault == "slow":  # after the listing
            dataset._timeout_s = 0.2
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each protocol raises its by_process
            dataset[1]
        assert type(caught.value).__name__ == name
    assert requests["/objects/1.bin"] in counts
    if fault != "slow":
        with unreliable(fault, fault) as (url, requests):
            assert bytes(Remote(url, "*.bin", retries=2)[1].tolist()) == b"1.bin1.bin"
        assert requests["/objects/1.bin"] == 3


def test_the_object_server_has_its_latency_and_bandwidth_and_ends_with_the_context() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    kind: dict[str, Any] = {"objects": 8, "object_bytes": 100_000, "latency_s": 0.1, "spread": 0.5, "bytes_per_s": 1e6}
    with object_server.running(port, **kind) as url:
        dataset = Remote(url, "*.bin", transform=first_bytes)
        began = time.monotonic()
        by_process = torch.cat(list(DataLoader(dataset, batch_size=4)))
        assert time.monotonic() - began > 8 * (0.04 + 0.1)  # the least time of these names, and 100 kB at 1 MB/s
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
    assert (store.attribute, store.type, store.count) == ("_names", "list of str", 20_000)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"url": "memory://nowhere"}, "dataset.url=memory://nowhere: "),
        ({"url": "nonsense://x"}, "dataset.url=nonsense://x: cannot be read ("),
        ({"url": "memory://train", "names": "tuple"}, "dataset.names=tuple: allowed are array, list"),
        ({"url": "memory://train", "retries": -1}, "dataset.retries=-1: allowed is an integer of at least 0"),
        ({"url": "memory://train", "timeout_s": 0}, "dataset.timeout_s=0: allowed is a number above 0"),
    ],
)
def test_errors_are_one_line(memory: Any, arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(DatasetError, match=rf"^{re.escape(line)}.*\Z"):
        Remote(**{"retries": 0, **arguments})


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")  # which have the environment of now
def test_objects_of_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from moto.server import ThreadedMotoServer

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        client.create_bucket(Bucket="data")
        for number in range(6):
            client.put_object(Bucket="data", Key=f"train/{number}.bin", Body=bytes([number]) * 3)
        dataset = Remote("s3://data/train", "*.bin", storage_options={"client_kwargs": {"endpoint_url": endpoint}})
        batches = list(DataLoader(dataset, batch_size=3, num_workers=2))
        assert torch.cat(batches)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    finally:
        server.stop()
