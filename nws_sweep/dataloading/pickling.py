"""Hands objects of the user's process over to trial processes: datasets, DataLoaders, consumers, whatever they are made of.

A file in between holds them. Classes and functions of a script or a notebook go along by value, others by their import
path.
"""

from __future__ import annotations

import io
import mmap
import os
import sys
import types
from collections.abc import Callable, Mapping
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from nws_sweep.dataloading.loaders import KeptIterator
from nws_sweep.errors import ConfigurationError, one_line

_LOAD, _MAKE = f"{__name__}.load", f"{__name__}.make"


def write(what: str, value: Any, path: Path) -> dict[str, Any]:
    """Writes an object into a new file, where trial processes find it; gives what Hydra's ``instantiate`` makes it of.

    ``what`` it is called in the ConfigurationError if it cannot be pickled.
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
    """As ``write``, for what is called in the trial process and makes the object there."""
    return {**write(what, maker, path), "_target_": _MAKE}


def load(path: str, is_script: bool) -> Any:
    """The object in the file.

    If the program is a script, its main module's classes are sent to spawned workers by value: they would otherwise
    find them by running the script as their main module.
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


def is_pickled(node: Mapping[str, Any]) -> bool:
    """Whether what a configuration holds was an object of a program, which cannot be made again from here."""
    return node.get("_target_") in (_LOAD, _MAKE)


def placeholder(type_name: str, fingerprint: str) -> dict[str, Any]:
    """What stands in a configuration for an object that was handed over."""
    return {"_target_": _LOAD, "type": type_name, "fingerprint": fingerprint}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no types
    """Knows some objects that others refuse to pickle, or would copy into the file."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _BaseDataLoaderIter):
            return KeptIterator, ()
        if isinstance(obj, torch.Generator):  # torch 2.2 refuses
            return _make_generator, (str(obj.device), obj.get_state())
        if isinstance(obj, io.TextIOWrapper | io.BufferedReader):
            return _reduce_file(obj)
        if isinstance(obj, np.memmap):
            return _reduce_memmap(obj)
        return super().reducer_override(obj)


def _make_generator(device: str, state: torch.Tensor) -> torch.Generator:
    generator = torch.Generator(device)
    generator.set_state(state)
    return generator


def _reduce_file(file: Any) -> Any:
    """By its name: its content may be huge, and a copy in memory would be read in no time."""
    if not isinstance(file.name, str | bytes) or not file.readable():
        return NotImplemented
    how = ("r", -1, file.encoding, file.errors) if isinstance(file, io.TextIOBase) else ("rb",)
    return _open_again, (os.fspath(os.path.abspath(file.name)), how, file.tell())  # noqa: PTH100 - a name may be bytes


def _open_again(name: str, how: tuple[Any, ...], position: int) -> Any:
    file = open(name, *how)  # noqa: SIM115, PTH123 - what has it closes it
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


def _reduce_of_main(pickler: ForkingPickler, obj: Any) -> Any:
    """Classes and functions of the program's file go to workers by value: its main module is not the trial process's."""
    if isinstance(obj, type | types.FunctionType) and obj.__module__ == "__main__" and "<" not in obj.__qualname__:
        return cloudpickle.loads, (cloudpickle.dumps(obj),)
    return NotImplemented
