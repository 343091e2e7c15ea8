"""The page cache: drops files from it, so that the next window reads them from
storage."""

import contextlib
import os
from collections.abc import Iterable, Iterator


def drop(paths: Iterable[str]) -> None:
    """Drops the files from the page cache, except pages that a process has mapped, if
    this system can."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        with contextlib.suppress(OSError):
            # opening a pipe would block
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                # read-only file systems, such as squashfs
                with contextlib.suppress(OSError):
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
        for name in sorted(names):
            yield os.path.abspath(os.path.join(folder, name))  # noqa: PTH100, PTH118
