"""What a dataset holds that forked workers come to copy, or that they must not share.

A forked worker shares its memory with the others until one of them writes to it, page by page. Reading a Python object
writes to it: its count of references changes. So each worker comes to hold a copy of every list of file names that it
reads from, and memory grows through the first epoch as if it leaked. Arrays and tensors are one object, however many
values they hold.

All processes that inherit an open file share its position: when one reads, the position moves for all. Databases and
HDF5 say of their handles that they must not be used in a forked process. Each worker needs handles of its own, opened
on first use or in ``worker_init_fn``.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from nws_sweep.results import PythonObjects

_LEAST_BYTES = 1_000_000
# Containers with fewer elements hold parts, such as datasets; those with more hold samples.
_MANY = 1000
_SAMPLE = 1000
_DEEPEST = 5
# Of a larger object only the page with its count is written to.
_PAGE_BYTES = 4096
_ARRAY_BYTES = 128
_CONTAINERS = (list, tuple, set, frozenset, deque, dict)
_ATOMS = (str, bytes, int, float, complex, bool, type(None), type, ModuleType, FunctionType, MethodType)

_POSITIONED = (io.BufferedReader, io.BufferedRandom, io.FileIO, io.TextIOWrapper)
# Module and name of classes that are no files of Python's, but must not cross a fork either.
_HANDLES = {
    ("sqlite3", "Connection"), ("h5py", "File"), ("h5py", "Group"), ("h5py", "Dataset"), ("lmdb", "Environment"),
    ("lmdb", "Transaction"), ("zipfile", "ZipFile"), ("tarfile", "TarFile"), ("tables", "File"),
}  # fmt: skip


def python_objects(dataset: Any) -> tuple[PythonObjects, ...]:
    """The attributes that hold many Python objects, the largest first, also inside wrappers such as Subset.

    Sizes are estimated from a thousand elements each; the same object again and again, such as a label, counts once.
    """
    large = (_store(value, path) for path, value in _walk(dataset) if _is_large(value))
    return tuple(sorted((store for store in large if store.bytes >= _LEAST_BYTES), key=lambda store: -store.bytes))


def handles(files: Iterable[str], dataset: Any) -> tuple[str, ...]:
    """What a dataset holds open that forked workers share, in words: its attributes first, then other files.

    ``files`` are paths of those that were opened when the dataset was made.
    """
    found: dict[str, str] = {}
    for place, value in _walk(dataset):
        module, kind = type(value).__module__.partition(".")[0], type(value).__name__
        is_file = isinstance(value, _POSITIONED) and not value.closed
        if is_file or (module, kind) in _HANDLES:
            name = getattr(value, "name", None) or getattr(value, "filename", None)
            path = os.path.realpath(name) if isinstance(name, str | os.PathLike) else ""
            found[f"dataset.{place} ({f'{kind} of {path}' if is_file else f'{module}.{kind}'})"] = path
    return (*found, *dict.fromkeys(f"the open file {path}" for path in files if path not in found.values()))


def _walk(value: Any, path: str = "", depth: int = _DEEPEST, seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """What a dataset is made of, but for plain values and arrays, each with its place such as ``parts[0].samples``."""
    seen = set() if seen is None else seen
    if depth == 0 or id(value) in seen or isinstance(value, _ATOMS) or _is_array(value):
        return
    seen.add(id(value))
    yield path, value
    elements = _elements(value)
    parts: Iterable[tuple[str, Any]] = []
    if isinstance(value, dict) or (hasattr(type(value), "dtypes") and hasattr(type(value), "items")):  # or a frame
        parts = ((f"{path}[{key!r}]", inner) for key, inner in value.items())
    elif elements is not None:
        parts = ((f"{path}[{index}]", inner) for index, inner in enumerate(elements))
    else:
        parts = ((f"{path}.{name}" if path else name, inner) for name, inner in _attributes(value).items())
    if not _is_large(value):
        for name, inner in parts:
            yield from _walk(inner, name, depth - 1, seen)


def _store(container: Any, path: str) -> PythonObjects:
    elements = _elements(container)
    step = max(1, len(elements) // _SAMPLE)
    # Evenly spaced elements, of a mapping its keys; of what has no order some.
    is_indexed = isinstance(elements, list | tuple | np.ndarray)
    sample = list(elements[::step] if is_indexed else islice(elements, 0, None, step))
    sizes: dict[int, int] = {}
    new = sum(_measure(element, sizes) for element in sample)
    # The same objects again and again: all there are, most likely, were seen.
    share = len(elements) / len(sample) if new >= len(sample) / 2 else 1.0
    names = dict.fromkeys(type(element).__name__ for element in sample)
    for value in [container[key] for key in sample] if isinstance(container, dict) else []:
        _measure(value, sizes)
        names[type(value).__name__] = None
    return PythonObjects(
        attribute=path,
        type=f"{type(container).__name__} of {' and '.join(islice(names, 3))}",
        count=len(elements),
        bytes=round(share * sum(sizes.values())),
    )


def _measure(value: Any, sizes: dict[int, int], depth: int = _DEEPEST) -> bool:
    """Adds the sizes of an object and of all inside it to ``sizes``; whether it is new there."""
    if id(value) in sizes:
        return False
    sizes[id(value)] = _ARRAY_BYTES if _is_array(value) else min(sys.getsizeof(value), _PAGE_BYTES)
    if depth and not isinstance(value, _ATOMS) and not _is_array(value):
        elements = _elements(value)
        inside = _attributes(value).values() if elements is None else elements
        for inner in islice(chain.from_iterable(value.items()) if isinstance(value, dict) else inside, _SAMPLE):
            _measure(inner, sizes, depth - 1)
    return True


def _elements(value: Any) -> Any:
    """What a container holds; of NumPy's arrays and pandas' columns of Python objects too. None for anything else."""
    if isinstance(value, _CONTAINERS):
        return value
    dtype = getattr(value, "dtype", None) if hasattr(type(value), "nbytes") else None
    holds_objects = type(dtype).__module__.startswith("numpy") and getattr(dtype, "kind", "") == "O"
    return np.asarray(value).reshape(-1) if holds_objects else None


def _is_large(value: Any) -> bool:
    elements = _elements(value)
    return elements is not None and len(elements) >= _MANY


def _is_array(value: Any) -> bool:
    """Whether it keeps its values side by side without an object for each: NumPy's, torch's, pandas', pyarrow's."""
    return hasattr(type(value), "nbytes") and _elements(value) is None


def _attributes(value: Any) -> dict[str, Any]:
    return getattr(value, "__dict__", None) or {}


def open_files() -> dict[int, str]:
    """Regular files that this process can read and has not mapped into memory: the path by the descriptor."""
    found: dict[int, str] = {}
    if not Path("/proc/self/fd").is_dir():  # the platform does not say
        return found
    mapped = Path("/proc/self/maps").read_text(errors="replace")
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that the folder is read by
            path, is_read = str(link.readlink()), link.lstat().st_mode & stat.S_IRUSR  # the link's mode is the file's
            if is_read and stat.S_ISREG(link.stat().st_mode) and path not in mapped:
                found[int(link.name)] = path
    return found


def positions(files: Mapping[int, str]) -> dict[int, int]:
    """Where the next read of each of these files begins, B; a process moves it for all that share the open file."""
    found: dict[int, int] = {}
    for descriptor in files:
        with contextlib.suppress(OSError):  # closed meanwhile
            found[descriptor] = os.lseek(descriptor, 0, os.SEEK_CUR)
    return found
