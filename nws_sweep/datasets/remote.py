"""Objects of a remote store as samples, each read whole through fsspec."""

import io
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

_FIRST_PAUSE_S = 0.1
# Not retried.
_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, ImportError)


class Remote(Dataset[Any]):
    """The objects below a URL whose names match a pattern, in the order of their names,
    without a cache.

    DatasetError if an argument is out of range, the protocol is unknown or not
    installed, the store cannot be read, or no name matches.

    Args:
        url: URL of a protocol of fsspec: ``s3://bucket/train``, ``gs://``, ``hdfs://``,
            ``http://``.
        pattern: Pattern of fsspec's glob: ``*.jpg``, ``**/*.bin``.
        transform: Makes a sample of the bytes of an object; None for a tensor, uint8,
            shape (bytes,).
        storage_options: Arguments of the protocol's file system: ``{"anon": true}``.
        retries: How often a failed read is retried, after increasing pauses.
        timeout_s: Time limit of a read and of listing the names, s; no effect for
            synchronous protocols such as hdfs.
        names: Type of the list of names: ``array`` (NumPy's fixed-width strings, which
            workers share) or ``list`` (a Python list, which each worker copies as it
            reads it).
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
            raise DatasetError(f"dataset.names={names}: must be array or list")
        if retries < 0:
            raise DatasetError(
                f"dataset.retries={retries}: must be an integer of at least 0"
            )
        if not timeout_s > 0:
            raise DatasetError(
                f"dataset.timeout_s={timeout_s}: must be a number above 0"
            )
        self._url = url
        self._transform = transform
        self._options = dict(storage_options or {})
        self._retries = retries
        self._timeout_s = timeout_s
        self._file_systems: dict[int, Any] = {}
        self._names: Any = self._find(pattern)
        # frees the cached listing, which has as many Python objects
        self._file_systems = {}
        if names == "array":
            self._names = np.array(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> Any:
        content = bytes(self._call_with_retries("cat_file", str(self._names[index])))
        if self._transform:
            return self._transform(content)
        # torch.frombuffer refuses empty bytes
        return torch.from_numpy(np.frombuffer(content, np.uint8).copy())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file_systems": {}}

    def _find(self, pattern: str) -> list[str]:
        """Lists the names that match the pattern."""
        try:
            names = sorted(
                map(
                    str,
                    self._call_with_retries(
                        "glob", f"{self._url.rstrip('/')}/{pattern}"
                    ),
                )
            )
        except Exception as error:
            # each protocol raises its own, ImportError with the name of a missing
            # package
            reason = one_line(f"{type(error).__name__}: {error}", 200)
            raise DatasetError(
                f"dataset.url={self._url}: cannot be read ({reason})"
            ) from error
        if not names:
            raise DatasetError(
                f"dataset.url={self._url}: no name matches dataset.pattern={pattern}"
            )
        return names

    def _call_with_retries(self, method: str, name: str) -> Any:
        for attempt in range(self._retries):
            try:
                return self._call(method, name)
            except _PERMANENT:
                raise
            except Exception:  # a closed connection, status 503, a time-out
                time.sleep(_FIRST_PAUSE_S * 2**attempt)
        return self._call(method, name)

    def _call(self, method: str, name: str) -> Any:
        """Calls a method of this process's file system: connections and their thread
        cannot be used after a fork."""
        process = os.getpid()
        if process not in self._file_systems:
            file_system, _ = fsspec.url_to_fs(
                self._url, **self._options, skip_instance_cache=True
            )
            self._file_systems = {process: file_system}
        file_system = self._file_systems[process]
        if isinstance(file_system, AsyncFileSystem):
            return sync(
                file_system.loop,
                getattr(file_system, f"_{method}"),
                name,
                timeout=self._timeout_s,
            )
        return getattr(file_system, method)(name)


def first_bytes(content: bytes, count: int = 1024) -> Tensor:
    """Returns the first ``count`` bytes as a tensor, uint8, shape (count,); pads
    shorter objects with zeros."""
    padded = content[:count].ljust(count, b"\0")
    return torch.frombuffer(bytearray(padded), dtype=torch.uint8)


def image(content: bytes) -> Any:
    """Decodes any format that Pillow reads to a ``PIL.Image`` in mode RGB."""
    from PIL import Image

    return Image.open(io.BytesIO(content)).convert("RGB")
