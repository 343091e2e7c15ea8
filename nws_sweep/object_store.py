"""A store of generated objects over real HTTP on this machine, with the latency and bandwidth of one far away.

``with running(...)`` starts it in a process of its own, so that its CPU time is not the loader's, and ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from nws_sweep import extras, processes
from nws_sweep.errors import ConfigurationError

_FOLDER = "objects"
_CHUNK_BYTES = 65536
_START_S = 20.0
# A proxy that the environment names is for hosts elsewhere.
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """What is served.

    Attributes:
        port: On the loopback interface.
        objects: How many there are.
        object_bytes: Length of each.
        latency_s: Median time to the first byte.
        spread: Standard deviation of its logarithm; an object's time depends on its name alone.
        bytes_per_s: Bandwidth of each connection.
    """

    port: int
    objects: int
    object_bytes: int
    latency_s: float
    spread: float
    bytes_per_s: float


@contextlib.contextmanager
def running(
    port: int = 8765,
    objects: int = 512,
    object_bytes: int = 100_000,
    latency_s: float = 0.03,
    spread: float = 0.5,
    bytes_per_s: float = 50e6,
) -> Iterator[str]:
    """Serves objects while the context lasts; its value is their URL. The arguments are those of ``Store``.

    Raises:
        ConfigurationError: If the store does not start, such as on a port that is taken, or a package is missing.
    """
    extras.require("the object store", "aiohttp")
    values = {"port": port, "objects": objects, "object-bytes": object_bytes, "latency-s": latency_s}
    values |= {"spread": spread, "bytes-per-s": bytes_per_s}
    command = [sys.executable, "-m", "nws_sweep.object_store", *(f"--{name}={value}" for name, value in values.items())]
    # A file, not a pipe: one that nobody reads fills up, and then the store would stand still.
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=said) as process,
    ):
        try:
            _wait_until_up(process, port, said)
            yield f"http://127.0.0.1:{port}/{_FOLDER}"
        finally:
            process.kill()


def _wait_until_up(process: subprocess.Popen[bytes], port: int, said: IO[bytes]) -> None:
    give_up_at = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < give_up_at:
        if _answers(process.pid, port):
            return
        time.sleep(0.05)
    process.kill()
    process.wait()
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    raise ConfigurationError(
        f"the object store did not start on port {port} ({lines[-1] if lines else 'no answer'}); "
        "services.store.port=NUMBER chooses another"
    )


def _answers(pid: int, port: int) -> bool:
    """Whether it is this very process that answers there."""
    try:
        with _DIRECTLY.open(f"http://127.0.0.1:{port}/pid", timeout=1.0) as answer:
            return bool(answer.read() == str(pid).encode())
    except OSError:  # nobody yet; URLError is one
        return False


def serve(store: Store) -> None:
    """Serves until it is killed."""
    from aiohttp import web

    names = [f"{index:06d}.bin" for index in range(store.objects)]
    content = random.Random(0).randbytes(store.object_bytes)

    async def pid(_: web.Request) -> web.Response:
        return web.Response(text=str(os.getpid()))

    async def index(_: web.Request) -> web.Response:
        links = "\n".join(f'<a href="{name}">{name}</a>' for name in names)
        return web.Response(text=f"<html><body>{links}</body></html>", content_type="text/html")

    async def send(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in known:
            raise web.HTTPNotFound
        await asyncio.sleep(store.latency_s * math.exp(random.Random(name).gauss(0.0, store.spread)))
        answer = web.StreamResponse(headers={"Content-Length": str(len(content))})
        await answer.prepare(request)
        for begin in range(0, len(content), _CHUNK_BYTES):
            chunk = content[begin : begin + _CHUNK_BYTES]
            await answer.write(chunk)
            await asyncio.sleep(len(chunk) / store.bytes_per_s)
        await answer.write_eof()
        return answer

    known = set(names)
    application = web.Application()
    application.add_routes(
        [
            web.get("/pid", pid),
            web.get(f"/{_FOLDER}/", index),
            web.get(f"/{_FOLDER}", index),
            web.get(f"/{_FOLDER}/{{name}}", send, allow_head=True),
        ]
    )
    web.run_app(application, host="127.0.0.1", port=store.port, print=None, access_log=None)


def main() -> None:
    """The process that serves."""
    parser = argparse.ArgumentParser(prog="nws_sweep.object_store")
    for name in ("port", "objects", "object-bytes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("latency-s", "spread", "bytes-per-s"):
        parser.add_argument(f"--{name}", type=float, required=True)
    arguments = parser.parse_args()
    processes.die_with_parent()
    serve(Store(**vars(arguments)))


if __name__ == "__main__":
    main()
