"""Objects of a store that is reached over a network, read whole through fsspec: one for each sample."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import fsspec
import numpy as np
import torch
from fsspec.asyn import AsyncFileSystem, sync
from torch import Tensor
from torch.utils.data import Dataset

from nws_sweep.errors import DatasetError, one_line
from nws_sweep.system import extras

_FIRST_PAUSE_S = 0.1
# Asking again does not help.
_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, ImportError)


class Remote(Dataset[Any]):
    """The objects below a URL whose names match a pattern, in the order of their names. Nothing is cached.

    Args:
        url: Where they are, in any of fsspec's protocols: ``s3://bucket/train``, ``gs://``, ``hdfs://``, ``http://``.
        pattern: Which of them, as fsspec's glob has it: ``*.jpg``, ``**/*.bin``.
        transform: Makes a sample of an object's bytes; None for a tensor of them, uint8, shape (bytes,), which batches
            only if all have the same length.
        storage_options: What the protocol's file system is made with: ``{"anon": true}``.
        retries: How often a read that failed is tried again, after a growing pause.
        timeout_s: Seconds after which a read, or listing the names, has failed; not for protocols without asynchronous
            reading, such as hdfs.
        names: How the names are kept: ``array`` (NumPy's fixed-width strings, which all workers share) or ``list`` (a
            Python list, which each worker comes to copy).

    Raises:
        DatasetError: If the protocol is unknown or not installed, the store cannot be reached, or nothing matches.
    """

    def __init__(
        self,
        url: str,
        pattern: str = "*",
        transform: Callable[[bytes], Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        retries: int = 2,
        timeout_s: float = 60.0,
        names: str = "array",
    ) -> None:
        if names not in ("array", "list"):
            raise DatasetError(f"dataset.names={names}: allowed are array, list")
        if retries < 0:
            raise DatasetError(f"dataset.retries={retries}: allowed is an integer of at least 0")
        if not timeout_s > 0:
            raise DatasetError(f"dataset.timeout_s={timeout_s}: allowed is a number above 0")
        self._url = url
        self._transform = transform
        self._options = dict(storage_options or {})
        self._retries = retries
        self._timeout_s = timeout_s
        self._file_systems: dict[int, Any] = {}
        found = self._find(pattern)
        self._file_systems = {}  # it remembers the listing: as many Python objects again
        self._names: Any = np.array(found) if names == "array" else found

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> Any:
        content = bytes(self._tried("cat_file", str(self._names[index])))
        if self._transform:
            return self._transform(content)
        return torch.from_numpy(np.frombuffer(content, np.uint8).copy())  # torch.frombuffer refuses an empty object

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file_systems": {}}

    def _find(self, pattern: str) -> list[str]:
        try:
            found = sorted(map(str, self._tried("glob", f"{self._url.rstrip('/')}/{pattern}")))
        except ImportError as error:
            raise DatasetError(extras.protocol_advice(f"dataset.url={self._url}", self._url, error)) from error
        except Exception as error:  # each protocol has its own
            reason = one_line(f"{type(error).__name__}: {error}", 200)
            raise DatasetError(f"dataset.url={self._url}: it cannot be read ({reason})") from error
        if not found:
            raise DatasetError(f"dataset.url={self._url}: nothing there matches dataset.pattern={pattern}")
        return found

    def _tried(self, method: str, name: str) -> Any:
        """What a method of the file system gives, tried again if it fails; the last failure is raised."""
        for attempt in range(self._retries):
            try:
                return self._timed(method, name)
            except _LASTING:
                raise
            except Exception:  # a connection that was dropped, an answer 503, a time-out
                time.sleep(_FIRST_PAUSE_S * 2**attempt)
        return self._timed(method, name)

    def _timed(self, method: str, name: str) -> Any:
        """The same once, in no more than the time for one read where that can be limited."""
        # Each process has a file system of its own: connections and their thread do not survive a fork.
        if os.getpid() not in self._file_systems:
            made, _ = fsspec.url_to_fs(self._url, **self._options, skip_instance_cache=True)
            self._file_systems = {os.getpid(): made}
        system = self._file_systems[os.getpid()]
        if isinstance(system, AsyncFileSystem):
            return sync(system.loop, getattr(system, f"_{method}"), name, timeout=self._timeout_s)
        return getattr(system, method)(name)


def first_bytes(content: bytes, count: int = 1024) -> Tensor:
    """The first bytes of an object as a tensor, uint8, shape (count,); shorter ones are filled with zeros.

    Args:
        content: The object.
        count: Bytes to keep: so objects of different lengths make a batch, and reading is all that counts.
    """
    return torch.frombuffer(bytearray(content[:count].ljust(count, b"\0")), dtype=torch.uint8)


def image(content: bytes) -> Any:
    """The picture, PIL's, of three channels, that an object is in any format that Pillow knows."""
    import io

    from PIL import Image

    return Image.open(io.BytesIO(content)).convert("RGB")
