"""Pickles objects of the user's process into files that trial processes load, or keeps
an object for forked processes.

Classes and functions of a script or a notebook are pickled by value, others by import
path.
"""

import functools
import io
import mmap
import os
import sys
import types
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch

from nws_sweep.dataloading.loaders import KeptIterator
from nws_sweep.errors import ConfigurationError, UnpicklableError, one_line
from nws_sweep.system import torch_internals

_LOAD = f"{__name__}.load"


def write(
    what: str, value: Any, path: Path, is_maker: bool = False, remedy: str = ""
) -> dict[str, Any]:
    """Pickles an object into a new file and returns the node by which Hydra's
    ``instantiate`` loads it.

    A maker is a function that the trial process calls to make the object.
    UnpicklableError, in which the object is called ``what`` and the remedy is named, if
    it cannot be pickled.
    """
    try:
        with path.open("xb") as file:
            _Pickler(file).dump(value)
    except Exception as error:  # code of the user may raise anything
        what = f"{what} of type {type(value).__name__} cannot be pickled for the trial process"
        raise UnpicklableError(
            one_line(f"{what} ({type(error).__name__}: {error})"), remedy
        ) from error
    # Spawned workers of a notebook do not get its classes in the user's process either.
    is_script = hasattr(sys.modules["__main__"], "__file__")
    return {
        "_target_": _LOAD,
        "path": str(path),
        "is_script": is_script,
        "is_maker": is_maker,
    }


def load(path: str, is_script: bool, is_maker: bool = False) -> Any:
    """Loads the object, and calls it if it is a maker.

    For a script, classes of its main module are sent to spawned workers by value: the
    workers' main module is the main module of the trial process. ConfigurationError if
    the object cannot be loaded.
    """
    if is_script:
        setattr(ForkingPickler, "reducer_override", _reduce_of_main)  # noqa: B010 - used for workers
    try:
        with Path(path).open("rb") as file:
            loaded = cloudpickle.load(file)
    except Exception as error:
        why = f"the object cannot be loaded in the trial process ({type(error).__name__}: {error})"
        remedy = "its classes must be importable there or be defined in the script or notebook itself"
        raise ConfigurationError(one_line(f"{why}; {remedy}")) from error
    return loaded() if is_maker else loaded


_kept: Any = None  # by ``keep``


def keep(name: str, value: Any) -> Callable[[], Any]:
    """Returns a function with this name that returns the object in processes that are
    forked from this one later."""
    global _kept  # noqa: PLW0603 - read by forked processes
    _kept = value
    function = functools.partial(_get_kept)
    function.__name__ = name  # type: ignore[attr-defined]
    return function


def _get_kept() -> Any:
    return _kept


def placeholder(type_name: str, fingerprint: str) -> dict[str, Any]:
    """Returns the node that stands for a pickled object in a configuration."""
    return {"_target_": _LOAD, "type": type_name, "fingerprint": fingerprint}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # it has no types
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.CodeType):
            make, arguments = self.dispatch_table[types.CodeType](obj)
            return _make_code, (make, arguments, obj.co_filename)
        if isinstance(obj, torch_internals.iterator_class()):
            return KeptIterator, ()
        if isinstance(obj, SharedMemory):
            raise TypeError(
                "a copy of it would change the shared memory that this program uses"
            )
        if isinstance(obj, torch.Generator):  # torch 2.2 refuses
            return _make_generator, (str(obj.device), obj.get_state())
        if isinstance(obj, io.TextIOWrapper | io.BufferedReader):
            return _reduce_file(obj)
        if isinstance(obj, np.memmap):
            return _reduce_memmap(obj)
        return super().reducer_override(obj)


def _make_code(
    make: Callable[..., types.CodeType], arguments: tuple[Any, ...], filename: str
) -> types.CodeType:
    """Makes the code with the name of its file, which cloudpickle 3.1.3 drops:
    tracebacks and stages show it."""
    return make(*arguments).replace(co_filename=filename)


def _make_generator(device: str, state: torch.Tensor) -> torch.Generator:
    return torch.Generator(device).set_state(state)


def _reduce_file(file: Any) -> Any:
    """Pickles a file by its name: the content may be large, and reading a copy in
    memory would take less time."""
    raw = getattr(getattr(file, "buffer", file), "raw", None)
    if (
        not isinstance(raw, io.FileIO)
        or not isinstance(file.name, str | bytes)
        or not file.readable()
    ):
        # a compressed file has the name of the file that it reads
        return NotImplemented
    how = (
        ("r", -1, file.encoding, file.errors)
        if isinstance(file, io.TextIOBase)
        else ("rb",)
    )
    return _open_again, (os.fspath(os.path.abspath(file.name)), how, file.tell())  # noqa: PTH100 - a name may be bytes


def _open_again(name: str, how: tuple[Any, ...], position: int) -> Any:
    file = open(name, *how)  # noqa: SIM115, PTH123 - the dataset closes it
    file.seek(position)
    return file


def _reduce_memmap(array: Any) -> Any:
    root = array
    while isinstance(root.base, np.memmap):
        root = root.base
    if (
        not isinstance(root.base, mmap.mmap)
        or array.filename is None
        or not array.flags.c_contiguous
    ):
        return NotImplemented  # pickled as a copy
    offset = root.offset + array.ctypes.data - root.ctypes.data
    mode = "r+" if array.mode == "w+" else array.mode
    return np.memmap, (str(array.filename), array.dtype, mode, offset, array.shape)


def _reduce_of_main(pickler: ForkingPickler, obj: Any) -> Any:
    if (
        isinstance(obj, type | types.FunctionType)
        and obj.__module__ == "__main__"
        and "<" not in obj.__qualname__
    ):
        content = io.BytesIO()
        _Pickler(content).dump(obj)
        return cloudpickle.loads, (content.getvalue(),)
    return NotImplemented
