"""Open files and connections that a dataset holds, and that forked workers would share.

All processes that inherit an open file share its position: when one reads, the position moves for all. Databases and
HDF5 say of their handles that they must not be used in a forked process. Each worker needs handles of its own, opened
on first use or in ``worker_init_fn``.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nws_sweep.objects import walk

_POSITIONED = (io.BufferedReader, io.BufferedRandom, io.FileIO, io.TextIOWrapper)
# Module and name of classes that are no files of Python's, but must not cross a fork either.
_KNOWN = {
    ("sqlite3", "Connection"), ("h5py", "File"), ("h5py", "Group"), ("h5py", "Dataset"), ("lmdb", "Environment"),
    ("lmdb", "Transaction"), ("zipfile", "ZipFile"), ("tarfile", "TarFile"), ("tables", "File"),
}  # fmt: skip


def open_files() -> dict[int, str]:
    """Regular files that this process can read and has not mapped into memory: the path by the descriptor.

    Empty where there is no /proc.
    """
    try:
        mapped = Path("/proc/self/maps").read_text(errors="replace")
        names = os.listdir("/proc/self/fd")  # noqa: PTH208 - names are what is wanted
    except OSError:
        return {}
    found = {int(name): path for name in names if (path := _readable_file(int(name)))}
    return {descriptor: path for descriptor, path in found.items() if path not in mapped}


def _readable_file(descriptor: int) -> str:
    """The path of a regular file that is open for reading; empty for anything else."""
    try:
        import fcntl  # not on every platform

        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        writes_only = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        return os.readlink(f"/proc/self/fd/{descriptor}") if is_file and not writes_only else ""  # noqa: PTH115
    except OSError:  # the one that the folder was read by
        return ""


def in_words(files: Iterable[str], dataset: Any) -> tuple[str, ...]:
    """What a dataset holds open that forked workers share: its attributes first, then other files.

    Args:
        files: Paths of the files that were opened when the dataset was made.
        dataset: The dataset.
    """
    attributes = dict(_held(dataset))
    named = set(attributes.values())
    return (*attributes, *dict.fromkeys(f"the open file {path}" for path in files if path not in named))


def positions(files: Mapping[int, str]) -> dict[int, int]:
    """Where the next read of each of these files begins, B; a process moves it for all that share the open file."""
    found: dict[int, int] = {}
    for descriptor in files:
        with contextlib.suppress(OSError):  # closed meanwhile
            found[descriptor] = os.lseek(descriptor, 0, os.SEEK_CUR)
    return found


def _held(dataset: Any) -> Iterator[tuple[str, str]]:
    """Each handle among the attributes in words, and the path of its file if that is known."""
    for place, value in walk(dataset):
        path = _path_of(value)
        if isinstance(value, _POSITIONED) and not value.closed:
            yield f"dataset.{place} ({type(value).__name__} of {path})", path
        elif (type(value).__module__.partition(".")[0], type(value).__name__) in _KNOWN:
            yield f"dataset.{place} ({type(value).__module__.partition('.')[0]}.{type(value).__name__})", path


def _path_of(value: Any) -> str:
    name = getattr(value, "name", None) or getattr(value, "filename", None)
    return os.path.realpath(name) if isinstance(name, str | os.PathLike) else ""
