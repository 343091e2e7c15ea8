"""Files that are whole or not there: written under a temporary name, handed to the disk, and renamed.

A reader, or the next start after a power failure, never meets half of one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path

_TEMPORARY = ".nws_sweep-"


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Writes all of a file under a temporary name beside it, then renames it; if it is durable, it is on the disk then.

    Otherwise a power failure may undo the write or, on some file systems, empty the file.

    Raises:
        OSError: If it cannot be written; the file is as it was, and nothing else is left behind.
    """
    handle, name = tempfile.mkstemp(prefix=f"{_TEMPORARY}{path.name}-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.umask(mask := os.umask(0))
        temporary.chmod(0o666 & ~mask)  # mkstemp's own mode would keep other users out
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """The same with text, in UTF-8."""
    write_bytes(path, text.encode(), durable=durable)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_parents(folder: Path) -> None:
    """Makes the folder's own name last through a power failure, and those of the folders that it is in."""
    for parent in folder.absolute().parents:
        _sync_folder(parent)


def remove_temporary(folder: Path) -> None:
    """Removes what a program that was killed while it wrote a file has left in the folder; no process may be writing."""
    for left in folder.glob(f"{_TEMPORARY}*"):
        left.unlink(missing_ok=True)


def set_aside(path: Path, why: str) -> Path:
    """Renames a file to ``NAME.WHY-NUMBER``, with the first number that is free; the new name."""
    return path.rename(_free_name(path, why))


def copy_aside(path: Path, why: str) -> None:
    """The same with a copy, unless the last one is the same."""
    content = path.read_bytes()
    if not any(known.read_bytes() == content for known in path.parent.glob(f"{path.name}.{why}-*")):
        write_bytes(_free_name(path, why), content)


def _free_name(path: Path, why: str) -> Path:
    names = (path.with_name(f"{path.name}.{why}-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


def expand_user(path: str) -> Path:
    """The path with ``~`` put in; without a home, as in many containers, that is a folder in the temporary one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"nws_sweep_home_of_{os.getuid()}" / Path(path).relative_to("~")
