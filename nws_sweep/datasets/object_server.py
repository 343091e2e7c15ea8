"""An HTTP server of generated objects on this machine, with the latency and bandwidth of a remote store."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from nws_sweep.errors import ConfigurationError
from nws_sweep.system import extras, processes

_FOLDER = "objects"
_CHUNK_BYTES = 65536


@contextlib.contextmanager
def running(
    port: int = 8765,
    objects: int = 512,
    object_bytes: int = 100_000,
    latency_s: float = 0.03,
    spread: float = 0.5,
    bytes_per_s: float = 50e6,
) -> Iterator[str]:
    """Serves objects in a process of its own during the context and yields their URL; see experiment=remote_store.

    ConfigurationError if the port is taken, or if the package that ``Remote`` needs for HTTP is missing.
    """
    extras.require("the object store", "aiohttp")
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise ConfigurationError(
            f"the object store did not start on port {port} ({error.strerror}); services.store.port=NUMBER chooses "
            "another"
        ) from error
    with listener:  # queues connections until the process accepts them
        served = (listener, objects, object_bytes, latency_s, spread, bytes_per_s)
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=served, daemon=True)
        process.start()
    try:
        yield f"http://127.0.0.1:{port}/{_FOLDER}"
    finally:
        process.kill()
        process.join()


def _serve(
    listener: socket.socket, objects: int, object_bytes: int, latency_s: float, spread: float, bytes_per_s: float
) -> None:
    processes.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills this process
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - a line per request and per broken connection
    names = dict.fromkeys(f"{index:06d}.bin" for index in range(objects))
    page = "".join(f'<a href="{name}">{name}</a>\n' for name in names).encode()
    content = random.Random(0).randbytes(object_bytes)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # reuses connections
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            name = self.path.removeprefix(f"/{_FOLDER}").strip("/")
            if name in names:
                time.sleep(latency_s * math.exp(random.Random(name).gauss(0.0, spread)))
            answer = content if name in names else b"" if name else page
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "text/html" if answer is page else "application/octet-stream")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            for begin in range(0, len(answer), _CHUNK_BYTES):
                chunk = answer[begin : begin + _CHUNK_BYTES]
                self.wfile.write(chunk)
                time.sleep(len(chunk) / bytes_per_s)

    with ThreadingHTTPServer(listener.getsockname(), Handler, bind_and_activate=False) as server:
        server.socket = listener
        server.serve_forever()
