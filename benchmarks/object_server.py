"""An HTTP server of generated objects on this machine, with the latency and bandwidth
of a remote store."""

import contextlib
import math
import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nws_sweep.errors import ConfigurationError

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
    """Serves objects from threads of this process and yields their URL; see
    experiment=remote_store.

    ConfigurationError if the port is taken.
    """
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
            self.send_header(
                "Content-Type",
                "text/html" if answer is page else "application/octet-stream",
            )
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            for begin in range(0, len(answer), _CHUNK_BYTES):
                chunk = answer[begin : begin + _CHUNK_BYTES]
                self.wfile.write(chunk)
                time.sleep(len(chunk) / bytes_per_s)

        def log_message(self, *_: Any) -> None:
            """Prints no line per request."""

    try:
        server = _Server(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ConfigurationError(
            f"the object store did not start on port {port} ({error.strerror}); services.store.port=NUMBER chooses "
            "another"
        ) from error
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{port}/{_FOLDER}"
        finally:
            server.shutdown()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # connections that arrive together from many workers

    def handle_error(self, *_: Any) -> None:
        """Prints nothing when a killed worker breaks its connection."""
