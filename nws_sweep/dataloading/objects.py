"""Finds Python objects of a dataset that forked workers copy, and open files that they share.

Forked processes share a memory page until one writes to it. Reading a Python object writes its reference count, so each
worker copies the lists of file names that it reads; an array or a tensor is one object. Forked processes also share the
position of an open file, and the documentation of sqlite3, HDF5 and LMDB forbids handles in a forked process: each
worker needs its own.
"""

import contextlib
import functools
import inspect
import io
import logging
import os
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from nws_sweep.dataloading.fingerprints import CONTAINERS, attributes, is_library, is_of_library
from nws_sweep.results import PythonObjects

_LEAST_BYTES = 1_000_000
# Elements from which on a container is taken to hold samples; smaller ones hold parts, such as datasets.
_MANY = 1000
_SAMPLED = 1000
_MOST_DEPTH = 5  # of sizes
_MOST_OBJECTS = 20_000  # some tens of milliseconds
_PAGE_BYTES = 4096  # copied of a large object: the page with its reference count
_ARRAY_BYTES = 128
_PLAIN = (str, bytes, int, float, complex, bool, type(None), ModuleType, logging.Logger)
_ATOMS = (*_PLAIN, type, FunctionType, MethodType)

_POSITIONED = (io.BufferedReader, io.BufferedRandom, io.FileIO, io.TextIOWrapper)
# Other classes whose objects must not be used after a fork, and their modules. Classes of C may name another module.
_HANDLES = (
    ("sqlite3", "Connection"), ("h5py", "File"), ("h5py", "Group"), ("h5py", "Dataset"), ("lmdb", "Environment"),
    ("lmdb", "Transaction"), ("zipfile", "ZipFile"), ("tarfile", "TarFile"), ("tables", "File"),
    ("socket", "socket"), ("psycopg2.extensions", "connection"), ("rasterio.io", "DatasetReader"),
    ("netCDF4", "Dataset"), ("openslide", "OpenSlide"), ("cv2", "VideoCapture"), ("decord", "VideoReader"),
    ("av.container.input", "InputContainer"),
)  # fmt: skip


def python_objects(dataset: Any) -> tuple[PythonObjects, ...]:
    """Containers of many Python objects in a dataset or in the datasets that it wraps, the largest first.

    Sizes are estimated from 1000 elements of each; repeated references to one object, such as a label, count once.
    """
    large = (_summary(value, path) for path, value in walk(dataset) if _is_large(value))
    return tuple(sorted((found for found in large if found.bytes >= _LEAST_BYTES), key=lambda found: -found.bytes))


def handles(files: Iterable[str], dataset: Any) -> tuple[str, ...]:
    """Describes open handles of a dataset: those in attributes, then the other ``files``.

    ``files`` are the paths of the files that were opened while the dataset was made.
    """
    imported = ((f"{module}.{name}", getattr(sys.modules.get(module), name, None)) for module, name in _HANDLES)
    kinds = {kind: name for name, kind in imported if isinstance(kind, type)}
    found: dict[str, str] = {}
    for place, value in walk(dataset):
        kind = next((name for one, name in kinds.items() if isinstance(value, one)), "")
        is_file = isinstance(value, _POSITIONED) and not value.closed and value.readable()
        if is_file or kind:
            name = getattr(value, "name", None) or getattr(value, "filename", None)
            path = os.path.realpath(name) if isinstance(name, str | os.PathLike) else ""
            found[f"dataset.{place} ({f'{type(value).__name__} of {path}' if is_file else kind})"] = path
    return (*found, *dict.fromkeys(f"the open file {path}" for path in files if path not in found.values()))


def containers(dataset: Any) -> list[Any]:
    """The containers in a dataset; of those in large ones, none."""
    return [value for _, value in walk(dataset) if isinstance(value, CONTAINERS)]


def walk(value: Any) -> Iterator[tuple[str, Any]]:
    """The objects that a dataset reaches, the nearest first, with their places such as ``parts[0].samples``.

    They are reached by attributes, elements of small containers, closures, and the globals of functions and attributes
    of classes outside of libraries. Plain values are left out.
    """
    seen: dict[int, Any] = {}  # holds references, so that no id is reused
    waiting = deque([("", value)])
    while waiting and len(seen) < _MOST_OBJECTS:
        path, value = waiting.popleft()
        if id(value) in seen or isinstance(value, _PLAIN):
            continue
        seen[id(value)] = value
        yield path, value
        if not (_is_array(value) or _is_large(value)):
            waiting.extend(_parts(value, path))


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    elements, kind = _elements(value), type(value)
    if isinstance(value, dict) or (hasattr(kind, "dtypes") and hasattr(kind, "items")):  # or a DataFrame
        yield from ((f"{path}[{key!r}]", inner) for key, inner in value.items())
    elif elements is not None:
        yield from ((f"{path}[{index}]", inner) for index, inner in enumerate(elements))
    elif isinstance(value, MethodType | BuiltinMethodType):
        yield from ((path, inner) for inner in (value.__self__, getattr(value, "__func__", None)))
    elif isinstance(value, functools.partial):
        yield from ((path, inner) for inner in (value.func, value.args, value.keywords))
    elif isinstance(value, FunctionType):
        yield from _used_by(value)
    elif isinstance(value, type):
        for base in value.__mro__:
            yield from _of_class(base, f"{path}." if path else "")
    else:
        yield from ((f"{path}.{name}" if path else name, inner) for name, inner in attributes(value))
        yield path, kind


def _of_class(kind: type, prefix: str) -> Iterator[tuple[str, Any]]:
    """What the functions of a class use, and the attributes of a class outside of libraries."""
    is_own = not is_of_library(kind)
    for name, member in vars(kind).items():
        if hasattr(type(member), "__get__"):  # a function, or another descriptor
            function = getattr(member, "__func__", getattr(member, "fget", member))
            yield from _used_by(function) if isinstance(function, FunctionType) else ()
        elif is_own and not name.startswith("__"):
            yield prefix + name, member


def _used_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of a closure, and the used globals; none of a library's function."""
    if not is_library(function.__code__.co_filename):
        with contextlib.suppress(ValueError):  # an empty cell
            used = inspect.getclosurevars(function)
            yield from {**used.globals, **used.nonlocals}.items()


def _summary(container: Any, path: str) -> PythonObjects:
    elements = _elements(container)
    step = max(1, len(elements) // _SAMPLED)
    # Evenly spaced elements; of a mapping, keys.
    is_indexed = isinstance(elements, list | tuple | np.ndarray)
    sample = list(elements[::step] if is_indexed else islice(elements, 0, None, step))
    sizes: dict[int, int] = {}
    new = sum(_add_sizes(element, sizes) for element in sample)
    # If most elements repeat, the sample most likely has all distinct objects.
    share = len(elements) / len(sample) if new >= len(sample) / 2 else 1.0
    names = dict.fromkeys(type(element).__name__ for element in sample)
    for value in [container[key] for key in sample] if isinstance(container, dict) else []:
        _add_sizes(value, sizes)
        names[type(value).__name__] = None
    return PythonObjects(
        attribute=path,
        type=f"{type(container).__name__} of {' and '.join(islice(names, 3))}",
        count=len(elements),
        bytes=round(share * sum(sizes.values())),
    )


def _add_sizes(value: Any, sizes: dict[int, int], depth: int = _MOST_DEPTH) -> bool:
    """Adds the sizes of an object and of the objects in it to ``sizes``; returns whether the object was not there."""
    if id(value) in sizes:
        return False
    sizes[id(value)] = _ARRAY_BYTES if _is_array(value) else min(sys.getsizeof(value), _PAGE_BYTES)
    if depth and not isinstance(value, _ATOMS) and not _is_array(value):
        elements = _elements(value)
        inside = getattr(value, "__dict__", {}).values() if elements is None else elements
        for inner in islice(chain.from_iterable(value.items()) if isinstance(value, dict) else inside, _SAMPLED):
            _add_sizes(inner, sizes, depth - 1)
    return True


def _elements(value: Any) -> Any:
    """The elements of a container, an object array of NumPy or an object column of pandas; None for others."""
    if isinstance(value, CONTAINERS):
        return value
    # Arrays of other libraries, such as those of h5py and zarr, would be read from their files.
    is_loaded = isinstance(value, np.ndarray) or f"{type(value).__module__}.".startswith("pandas.")
    dtype = getattr(value, "dtype", None) if is_loaded else None
    return np.asarray(value).reshape(-1) if isinstance(dtype, np.dtype) and dtype.kind == "O" else None


def _is_large(value: Any) -> bool:
    elements = _elements(value)
    return elements is not None and len(elements) >= _MANY


def _is_array(value: Any) -> bool:
    """Whether the values are not Python objects: arrays of NumPy and pyarrow, tensors, columns of pandas."""
    return hasattr(type(value), "nbytes") and _elements(value) is None


def open_files() -> dict[int, str]:
    """Paths, by descriptor, of the regular files that this process reads and has not mapped; empty without /proc.

    Also of files that were deleted since, such as temporary ones, which psutil leaves out.
    """
    found: dict[int, str] = {}
    if not Path("/proc/self/fd").is_dir():
        return found
    mapped = Path("/proc/self/maps").read_text(errors="replace")
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of the folder itself
            path, is_read = str(link.readlink()), link.lstat().st_mode & stat.S_IRUSR  # the link's mode is the file's
            if is_read and stat.S_ISREG(link.stat().st_mode) and path not in mapped:
                found[int(link.name)] = path
    return found


def positions(files: Mapping[int, str]) -> dict[int, int]:
    """Position of each open file, B, by descriptor."""
    found: dict[int, int] = {}
    for descriptor in files:
        with contextlib.suppress(OSError):  # closed since
            found[descriptor] = os.lseek(descriptor, 0, os.SEEK_CUR)
    return found
