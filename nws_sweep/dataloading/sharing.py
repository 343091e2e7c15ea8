"""Decides whether other forked workers than now may use a dataset: finds what they
would share, or copy in use.

Forked processes share the position of an open file, the stream of a socket and the
elements of a queue between processes. The documentation of sqlite3, HDF5 and LMDB
forbids their handles in a forked process. A forked process lacks the threads of a pool.
Of a generator or an iterator each worker continues a copy, so that samples repeat or
are lost.

What pickling refuses for another reason may be a handle of a library. It is taken for a
handle if this process has an open file or a socket: without them there is nothing whose
position forked processes could share.
"""

import concurrent.futures
import contextlib
import contextvars
import copyreg
import hashlib
import io
import mmap
import os
import queue
import ssl
import stat
import struct
import sys
import threading
import time
import types
import weakref
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from ctypes import Structure
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from nws_sweep.dataloading import loaders, objects
from nws_sweep.dataloading.fingerprints import attributes
from nws_sweep.system import host, processes, torch_internals

_MOST_OBJECTS, _MOST_ELEMENTS = 5000, 64  # examined, and of each container: 50 ms
_NAMED = 3  # handles in a sentence
_STANDARD_ERROR = 2  # the last descriptor of the standard streams
_FILES = (io.BufferedReader, io.BufferedRandom, io.FileIO, io.TextIOWrapper)
# Named, since these modules may be missing. Classes of C may name another module than
# the module that has them.
_OF_LIBRARIES = (
    "sqlite3.Connection",
    "h5py.File",
    "h5py.Group",
    "h5py.Dataset",
    "lmdb.Environment",
    "lmdb.Transaction",
    "zipfile.ZipFile",
    "tarfile.TarFile",
    "tables.File",
    "socket.socket",
    "psycopg2.extensions.connection",
    "rasterio.io.DatasetReader",
    "netCDF4.Dataset",
    "openslide.OpenSlide",
    "cv2.VideoCapture",
    "decord.VideoReader",
    "av.container.input.InputContainer",
    "pyarrow.NativeFile",
    "botocore.client.BaseClient",
)
# Classes whose objects read a mapped file, or read at an offset that they pass to the
# system, not at a position that forked processes share. Tried with eight workers.
_SHAREABLE_OF_LIBRARIES = (
    "pyarrow.MemoryMappedFile",
    "pyarrow.BufferReader",
    "pyarrow._parquet.ParquetReader",
    "pyarrow.lib._RecordBatchFileReader",
    "safetensors.safe_open",
    "cv2.Algorithm",
)
_OF_PYTHON = (
    "queue.Queue",
    "queue.SimpleQueue",
    "multiprocessing.queues.Queue",
    "multiprocessing.queues.SimpleQueue",
    "asyncio.Queue",
    "multiprocessing.pool.Pool",
    "concurrent.futures.Executor",
    "threading.Thread",
    "multiprocessing.connection.Connection",
    "asyncio.AbstractEventLoop",
)
# Pickling refuses them, but each process may use its copy, or none has a state.
_COPYABLE = (
    memoryview,
    mmap.mmap,
    weakref.ReferenceType,
    *weakref.ProxyTypes,
    types.MappingProxyType,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    Structure.__mro__[1],
    property,
    classmethod,
    staticmethod,
    types.CodeType,
    types.CellType,
    types.FrameType,
    types.TracebackType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    type,
    struct.Struct,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.local,
    torch.Generator,
    io.IOBase,
    torch.nn.Module,
    ssl.SSLContext,
    contextvars.ContextVar,
    type(hashlib.sha256()),
)


@dataclass(frozen=True, slots=True)
class Handle:
    """What forked workers would share or copy in use.

    Attributes:
        place: Such as ``dataset.parts[0].file``.
        kind: Such as ``BufferedReader of /data/train.bin`` or ``sqlite3.Connection``.
        path: Of its file; empty if it has none.
        is_known: Whether it is known to be a handle; else pickling refuses it.
    """

    place: str
    kind: str
    path: str = ""
    is_known: bool = True

    def __str__(self) -> str:
        return f"{self.place} ({self.kind})"


def handles(
    dataset: Any, collate_fn: Any = None, *, has_workers: bool = False
) -> list[Handle]:
    """Returns the handles that a dataset and a ``collate_fn`` reach; without any, what
    may be a handle.

    They are searched in attributes, slots, containers and closures, and in what these
    hold: at most 5000 objects, of each container at most 64 elements. What a module of
    torch or another handle holds is left out.

    Args:
        dataset: Of the main process.
        collate_fn: Of its DataLoader.
        has_workers: Whether forked workers use the dataset already: without threads,
            and with copies of queues.
    """
    certain, possible = [], []
    # id of what a class pickles itself, and of attributes of classes
    pickled_by_holder: set[int] = set()
    for place, value in _reached(dataset, collate_fn):
        value_class: Any = type(value)
        kind = _kind_of(value_class, len(sys.modules))
        if kind:
            if _is_open(value, has_workers):
                certain.append(_handle(place, kind, value))
        elif isinstance(value, type):
            pickled_by_holder.update(
                id(member) for base in value.__mro__ for member in vars(base).values()
            )
        elif _pickles_itself(value_class):
            pickled_by_holder.update(id(inner) for _, inner in attributes(value))
        elif id(value) not in pickled_by_holder and _is_refused_by_pickling(
            value_class, value
        ):
            possible.append(Handle(place, _name_of(value_class), is_known=False))
    if not certain and possible and _has_positions():
        return possible
    return certain


def described(dataset: Any, files: Iterable[str]) -> tuple[str, ...]:
    """Names the known handles of a dataset, then the other ``files`` that were opened
    while the dataset was made."""
    lines: dict[str, None] = {}  # in order, each once
    paths = set()
    for handle in handles(dataset):
        if handle.is_known:
            lines[str(handle)] = None
            paths.add(handle.path)
    for path in files:
        if path not in paths:
            lines[f"the open file {path}"] = None
    return tuple(lines)


def places(loader: DataLoader[Any]) -> tuple[str, ...]:
    """Returns the places of the handles that the dataset and the ``collate_fn`` of a
    DataLoader have now."""
    return tuple(handle.place for handle in handles(loader.dataset, loader.collate_fn))


def reason_against_workers(
    loader: DataLoader[Any], at_start: Collection[str] | None = None
) -> str:
    """Says why no other workers than now may use the dataset of a DataLoader, with what
    to do; empty if they may.

    Workers that are not forked have a dataset that was pickled.

    Args:
        loader: The DataLoader, with the dataset of the main process.
        at_start: Places of handles that were there before the main process has made a
            sample; None for all.
    """
    if loaders.start_method(loader) != "fork":
        return ""
    obstacles = handles(
        loader.dataset, loader.collate_fn, has_workers=loader.num_workers > 0
    )
    if not obstacles:
        return ""
    names = ", ".join(map(str, obstacles[:_NAMED]))
    if len(obstacles) > _NAMED:
        names += f" and {len(obstacles) - _NAMED} more"
    if not obstacles[0].is_known:
        return (
            f"it is unknown whether forked workers can use {names}: pickling refuses it"
        )
    remedy = "open or make it in __getitem__ at first use"
    if at_start is not None and all(
        handle.place not in at_start for handle in obstacles
    ):
        remedy = "it was opened or made with the first samples; with num_workers=1 from the start, the worker does so"
    return f"forked workers would share {names}: {remedy}"


def _reached(dataset: Any, collate_fn: Any) -> Iterator[tuple[str, Any]]:
    for name, root in (("dataset", dataset), ("collate_fn", collate_fn)):
        reached = objects.walk(
            root,
            most_objects=_MOST_OBJECTS,
            most_elements=_MOST_ELEMENTS,
            is_leaf=_is_leaf,
        )
        for place, value in reached:
            # The iterator of a training loop over the dataset is no part of the
            # dataset.
            is_of_loop = (
                isinstance(value, torch_internals.iterator_class())
                and value._dataset is dataset
            )
            if not is_of_loop:
                yield f"{name}.{place}".rstrip("."), value


def _is_leaf(value: Any) -> bool:
    value_class: Any = type(value)
    return isinstance(value, torch.nn.Module) or bool(
        _kind_of(value_class, len(sys.modules))
    )


def _handle(place: str, kind: str, value: Any) -> Handle:
    path = ""
    with contextlib.suppress(Exception):  # the attributes of a library may do anything
        name = getattr(value, "name", None) or getattr(value, "filename", None)
        if isinstance(name, str | os.PathLike):
            path = os.path.realpath(name)
    if path and isinstance(value, _FILES):
        kind = f"{kind} of {path}"
    return Handle(place, kind, path)


@lru_cache(maxsize=4096)
def _kind_of(value_class: Any, _: int) -> str:
    """Returns what kind of handle objects of a class are; empty if they are none.

    The second argument is the number of imported modules: a module that is imported
    later may have the class.
    """
    if issubclass(value_class, torch_internals.iterator_class()):
        return "an iterator of a DataLoader"
    if _name_among(_OF_PYTHON, value_class):
        return _name_of(value_class)
    name = _name_among(_OF_LIBRARIES, value_class)
    if name:
        return "" if _name_among(_SHAREABLE_OF_LIBRARIES, value_class) else name
    if issubclass(value_class, _FILES):
        return str(value_class.__name__)
    if issubclass(value_class, Iterator | AsyncIterator) and not issubclass(
        value_class, Dataset | io.IOBase
    ):
        return (
            "generator"
            if value_class is types.GeneratorType
            else f"an iterator, {_name_of(value_class)}"
        )
    return ""


def _name_among(names: Iterable[str], value_class: Any) -> str:
    """Returns the name of the first of these classes that a class is, or is derived
    from; empty if there is none."""
    for name in names:
        module, _, class_name = name.rpartition(".")
        library_class = getattr(sys.modules.get(module), class_name, None)
        if isinstance(library_class, type) and issubclass(value_class, library_class):
            return name
    return ""


def _name_of(value_class: type[Any]) -> str:
    return f"{value_class.__module__}.{value_class.__qualname__}".removeprefix(
        "builtins."
    )


def _is_open(value: Any, has_workers: bool) -> bool:
    """Whether forked workers would share a handle, or continue what it has begun."""
    if isinstance(value, _FILES):
        return not value.closed and value.readable() and _has_descriptor(value)
    if isinstance(value, threading.Thread):
        return value.is_alive() and not has_workers
    if isinstance(value, queue.Queue):
        return bool(value.queue) or not has_workers
    if isinstance(value, concurrent.futures.ThreadPoolExecutor):
        return bool(value._threads)  # it starts them at first use
    return not isinstance(value, types.GeneratorType) or value.gi_frame is not None


def _has_descriptor(file: Any) -> bool:
    """Whether a file is a file of the system, not a buffer over memory or over what
    another file decompresses."""
    try:
        file.fileno()
    except OSError:
        return False
    return True


@lru_cache(maxsize=4096)
def _pickles_itself(value_class: Any) -> bool:
    """Whether a class says how its objects are pickled, but for Cython's functions that
    refuse."""
    if value_class in copyreg.dispatch_table or hasattr(value_class, "__getnewargs__"):
        return True
    if getattr(value_class, "__getstate__", None) is not getattr(
        object, "__getstate__", None
    ):
        return True
    is_default = (
        value_class.__reduce__ is object.__reduce__
        and value_class.__reduce_ex__ is object.__reduce_ex__
    )
    return (
        not is_default
        and getattr(value_class.__reduce__, "__name__", "") != "__reduce_cython__"
    )


def _is_refused_by_pickling(value_class: type, value: Any) -> bool:
    """Whether pickling refuses an object that does not pickle itself; no code of its
    class is called."""
    if issubclass(value_class, _COPYABLE) or _name_among(
        _SHAREABLE_OF_LIBRARIES, value_class
    ):
        return False
    try:
        value.__reduce_ex__(2)
    except Exception:  # Cython's functions may raise anything
        return True
    return False


@contextlib.contextmanager
def locks_held(loader: DataLoader[Any], within_s: float) -> Iterator[bool]:
    """Holds the locks of a dataset and a ``collate_fn`` while processes are forked: a
    lock that another thread holds then is never released in a forked process.

    Gives False, and holds none, if one of them cannot be had in time.
    """
    kinds = type(threading.Lock()), type(threading.RLock())
    locks = [
        value
        for _, value in _reached(loader.dataset, loader.collate_fn)
        if isinstance(value, kinds)
    ]
    deadline_s = time.monotonic() + within_s
    with contextlib.ExitStack() as held:
        for lock in locks:
            if not lock.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
                held.close()
                yield False
                return
            held.callback(lock.release)
        _held.append(locks)
        try:
            yield True
        finally:
            _held.remove(locks)  # another thread may hold others


_held: list[list[Any]] = []  # by ``locks_held``


def _release_in_child() -> None:
    """Releases in a forked process what its parent still holds."""
    while _held:
        for lock in _held.pop():
            with contextlib.suppress(RuntimeError):  # another thread has it
                lock.release()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_release_in_child)


def open_files() -> dict[int, str]:
    """Returns paths, by descriptor, of the regular files that this process reads and
    has not mapped.

    Also of files that were deleted since, such as temporary ones, which psutil leaves
    out; not of files without contents, such as locks and files of /proc. Empty without
    /proc.
    """
    paths: dict[int, str] = {}
    mapped = host.read(Path("/proc/self/maps"))
    for number, path in processes.open_files().items():
        link = Path(f"/proc/self/fd/{number}")
        with contextlib.suppress(OSError):  # closed meanwhile
            status = link.stat()
            # the link's mode is the file's
            is_read = link.lstat().st_mode & stat.S_IRUSR
            has_bytes = stat.S_ISREG(status.st_mode) and status.st_size > 0
            if is_read and has_bytes and path not in mapped:
                paths[number] = path
    return paths


def reopen_files() -> None:
    """Gives this process positions of its own in the files that were opened before it
    was forked."""
    import fcntl  # Windows has none

    for number in open_files():
        with contextlib.suppress(OSError):  # another user has opened it for the program
            copied = os.open(
                f"/proc/self/fd/{number}", fcntl.fcntl(number, fcntl.F_GETFL)
            )
            position = os.lseek(number, 0, os.SEEK_CUR)
            os.lseek(copied, position, os.SEEK_SET)
            os.dup2(copied, number, os.get_inheritable(number))
            os.close(copied)


def _has_positions() -> bool:
    """Whether this process has an open file or a socket besides its standard streams,
    as far as the system says."""
    files = processes.open_files()
    has_sockets = any(target.startswith("socket:") for target in files.values())
    return (
        not files
        or has_sockets
        or any(number > _STANDARD_ERROR for number in open_files())
    )


def positions(files: Mapping[int, str]) -> dict[int, int]:
    """Returns the position of each open file, B, by descriptor."""
    positions_bytes: dict[int, int] = {}
    for descriptor in files:
        with contextlib.suppress(OSError):  # closed since
            positions_bytes[descriptor] = os.lseek(descriptor, 0, os.SEEK_CUR)
    return positions_bytes
