"""The page cache: finds a dataset's files and drops them, so that the next window reads them from storage."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

_MAX_DEPTH = 5  # of attributes: samples are often tuples in a list of the dataset in a Subset


def drop(paths: Iterable[str]) -> None:
    """Drops the files from the page cache, except pages that a process has mapped, if this system can."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # opening a pipe would block
            try:
                with contextlib.suppress(OSError):  # read-only file systems, such as squashfs
                    os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def files_below(paths: Iterable[str]) -> tuple[str, ...]:
    """The files, and all files in the folders, as absolute paths without repeats."""
    return tuple(dict.fromkeys(file for path in paths for file in _files(path)))


def _files(path: str) -> Iterator[str]:
    if os.path.isfile(path):  # noqa: PTH113 - a million paths, where pathlib takes ten times as long
        yield os.path.abspath(path)  # noqa: PTH100
    for folder, _, names in os.walk(path):
        yield from (os.path.abspath(os.path.join(folder, name)) for name in sorted(names))  # noqa: PTH100, PTH118


def paths_in(dataset: Any) -> tuple[str, ...]:
    """Existing files and folders that a dataset's attributes name: its root, its list of samples.

    Names without a separator, such as classes and splits, and separators alone are not paths.
    """
    named = dict.fromkeys(_strings(dataset, _MAX_DEPTH, set()))
    return tuple(path for path in named if os.sep in path and path.strip(os.sep) and os.path.exists(path))  # noqa: PTH110


def _strings(value: Any, depth: int, seen: set[int]) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value) if isinstance(os.fspath(value), str) else ""
        return
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    for inner in _inside(value):
        yield from _strings(inner, depth - 1, seen)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if type(value).__module__.startswith(("torch.", "numpy")) and hasattr(value, "dtype"):
        # Flat: nested lists would be temporary, and later objects could have their id.
        return map(os.fsdecode, value.ravel().tolist()) if getattr(value.dtype, "kind", None) in ("U", "S") else ()
    return getattr(value, "__dict__", {}).values()
