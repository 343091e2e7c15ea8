"""Hands objects of the user's process over to arms: datasets, DataLoaders, consumers, whatever they are made of.

A file in between holds them: an arm is no child of the user's process, but a clean process that has never run a torch
operation or touched an accelerator (see arms.py). Classes and functions of a script or a notebook go along by value,
others by their import path.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import multiprocessing
import os
import sys
import types
from collections.abc import Callable, Mapping
from multiprocessing import sharedctypes, synchronize
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.loaders import KeptIterator

_LOAD, _MAKE = f"{__name__}.load", f"{__name__}.make"


def write(what: str, value: Any, path: Path) -> dict[str, Any]:
    """Writes an object where arms find it.

    Args:
        what: What it is called in an error.
        value: The object.
        path: The file, which only this user may read.

    Returns:
        What Hydra's ``instantiate`` makes the object of.

    Raises:
        ConfigurationError: If it cannot be pickled.
    """
    try:
        with path.open("xb") as file:
            _Pickler(file).dump(value)
    except Exception as error:  # whatever its parts raise
        raise ConfigurationError(
            one_line(
                f"{what} of type {type(value).__name__} cannot be handed to a process of its own "
                f"({type(error).__name__}: {error}); give a function that makes the dataset instead of the dataset, "
                "such as search(lambda: MyDataset(...), ...)"
            )
        ) from error
    # Of a notebook, workers that are spawned get no classes in the program either.
    return {"_target_": _LOAD, "path": str(path), "is_script": hasattr(sys.modules["__main__"], "__file__")}


def write_maker(what: str, maker: Callable[[], Any], path: Path) -> dict[str, Any]:
    """As ``write``, for what is called in the arm and makes the object there."""
    return {**write(what, maker, path), "_target_": _MAKE}


def load(path: str, is_script: bool) -> Any:
    """The object in the file.

    Args:
        path: The file.
        is_script: Whether the program is a file: its main module's classes are sent to spawned workers by value, which
            they would otherwise find by running the file as their main module.

    Raises:
        ConfigurationError: If it cannot be unpickled here, such as a class of a module that cannot be imported.
    """
    if is_script:
        setattr(ForkingPickler, "reducer_override", _reduce_of_main)  # noqa: B010 - for what is sent to workers
    try:
        with Path(path).open("rb") as file:
            return cloudpickle.load(file)
    except Exception as error:
        raise ConfigurationError(
            one_line(
                f"what was handed over cannot be made in a process of its own ({type(error).__name__}: {error}); "
                "its classes must be importable there or be defined in the script or notebook itself"
            )
        ) from error


def make(path: str, is_script: bool) -> Any:
    """What the function in the file makes; see ``load``."""
    return load(path, is_script)()


def is_handed_over(node: Mapping[str, Any]) -> bool:
    """Whether what a configuration holds was an object of a program, which cannot be made again from here."""
    return node.get("_target_") in (_LOAD, _MAKE)


def placeholder(type_name: str, fingerprint: str) -> dict[str, Any]:
    """What stands in a configuration for an object that was handed over."""
    return {"_target_": _LOAD, "type": type_name, "fingerprint": fingerprint}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no types
    """Knows some objects that others refuse to pickle, and that an arm needs one of its own of."""

    def reducer_override(self, obj: Any) -> Any:
        for kind, reduce in _REDUCERS.items():
            if isinstance(obj, kind):
                return reduce(obj)
        return super().reducer_override(obj)


def _reduce_of_main(pickler: ForkingPickler, obj: Any) -> Any:
    """Classes and functions of the program's file go to workers by value: its main module is not the arm's."""
    if isinstance(obj, type | types.FunctionType) and obj.__module__ == "__main__" and "<" not in obj.__qualname__:
        return cloudpickle.loads, (cloudpickle.dumps(obj),)
    return NotImplemented


def _reduce_iterator(iterator: Any) -> Any:
    return KeptIterator, ()


def _reduce_generator(generator: torch.Generator) -> Any:
    return _make_generator, (str(generator.device), generator.get_state())


def _make_generator(device: str, state: torch.Tensor) -> torch.Generator:
    generator = torch.Generator(device)
    generator.set_state(state)
    return generator


def _reduce_lock(lock: Any) -> Any:
    return _make_lock, (type(lock), lock._semlock.kind, lock._semlock._get_value(), lock._semlock.maxvalue)


def _make_lock(kind: Any, semaphore_kind: int, value: int, most: int) -> Any:
    lock = kind.__new__(kind)
    synchronize.SemLock.__init__(lock, semaphore_kind, value, most, ctx=multiprocessing.get_context())
    return lock


def _reduce_event(event: Any) -> Any:
    return _make_event, (event.is_set(),)


def _make_event(is_set: bool) -> Any:
    event = multiprocessing.Event()
    if is_set:
        event.set()
    return event


def _reduce_shared(shared: Any) -> Any:
    content = shared.get_obj()
    if isinstance(content, ctypes.Array):
        return multiprocessing.Array, (content._type_, list(content))
    return multiprocessing.Value, (type(content), content.value)


def _reduce_file(file: Any) -> Any:
    """By its name: its content may be huge, and a copy in memory would be read in no time."""
    if not isinstance(file.name, str | bytes) or not file.readable():
        return NotImplemented
    text = (file.encoding, file.errors, file.newlines) if isinstance(file, io.TextIOBase) else None
    return _open_again, (os.fspath(os.path.abspath(file.name)), text, file.tell())  # noqa: PTH100 - a name may be bytes


def _open_again(name: str, text: Any, position: int) -> Any:
    mode, *how = ("rb",) if text is None else ("r", *text[:2])
    file: Any = open(name, mode, -1, *how)  # noqa: SIM115, PTH123 - whoever has it closes it
    file.seek(position)
    return file


def _reduce_memmap(array: Any) -> Any:
    """By the name of its file, likewise."""
    root = array
    while isinstance(root.base, np.memmap):
        root = root.base
    if not isinstance(root.base, mmap.mmap) or array.filename is None or not array.flags.c_contiguous:
        return NotImplemented  # a copy of a part, in memory
    offset = root.offset + array.ctypes.data - root.ctypes.data
    mode = "r+" if array.mode == "w+" else array.mode
    return np.memmap, (str(array.filename), array.dtype, mode, offset, array.shape)


_REDUCERS: Mapping[type, Callable[[Any], Any]] = {
    _BaseDataLoaderIter: _reduce_iterator,
    torch.Generator: _reduce_generator,
    synchronize.SemLock: _reduce_lock,
    synchronize.Event: _reduce_event,
    sharedctypes.SynchronizedBase: _reduce_shared,
    io.TextIOWrapper: _reduce_file,
    io.BufferedReader: _reduce_file,
    np.memmap: _reduce_memmap,
}
