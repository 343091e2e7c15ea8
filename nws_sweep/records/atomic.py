"""Atomic writing: a file has its old content or its whole new content. What others may
have put in its place."""

import contextlib
import errno
import itertools
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from nws_sweep.errors import ConfigurationError

_TEMPORARY = ".nws_sweep-"


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Writes a temporary file beside ``path`` and renames it; a durable file is synced
    to the disk first.

    After a power failure a durable file has its old or its new content; others may be
    empty. If the file cannot be written (OSError), the old file is unchanged and the
    temporary file is removed.
    """
    temporary = path.with_name(f"{_TEMPORARY}{path.name}-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Writes text in UTF-8 as ``write_bytes`` does; parts of names of files that are no
    text become question marks."""
    write_bytes(path, text.encode(errors="replace"), durable=durable)


def read_bytes(path: Path) -> bytes:
    """Reads a file. OSError for anything else, such as a pipe, which may never end."""
    # to open a pipe would wait
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read()


def read_text(path: Path) -> str:
    """Reads text in UTF-8 as ``read_bytes`` does."""
    return read_bytes(path).decode()


def refuse_links_out(folder: Path, paths: Iterable[Path]) -> None:
    """Raises ConfigurationError if a path below a folder is a link that leads out of
    the folder.

    Who writes into a folder from elsewhere would write through the link.
    """
    top = folder.resolve()
    for path in paths:
        if path.is_symlink() and not (leads_to := path.resolve()).is_relative_to(top):
            raise ConfigurationError(
                f"{path}: a link to {leads_to}, out of the folder; remove it"
            )


def remove_temporary(folder: Path) -> None:
    """Removes temporary files of killed programs from the folder; no process may be
    writing into the folder."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        path.unlink(missing_ok=True)


def set_aside(path: Path, why: str) -> Path:
    """Renames a file to ``NAME.WHY-NUMBER`` with the first free number; returns the new
    path."""
    return path.rename(free_name(path, why))


def free_name(path: Path, why: str) -> Path:
    """``NAME.WHY-NUMBER`` with the first free number, beside the file."""
    names = (
        path.with_name(f"{path.name}.{why}-{number}") for number in itertools.count(1)
    )
    return next(name for name in names if not name.exists())


def expand_user(path: str) -> Path:
    """The path with ``~`` expanded; where no home folder is known, to a per-user folder
    below the temporary folder.

    Raises:
        ConfigurationError: The path names a user that the system does not know
            (``~name/x``).
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        if (first := Path(path).parts[0]) != "~":
            raise ConfigurationError(
                f"{path}: there is no user {first[1:]}; use ~ or a whole path"
            ) from None
        return _home_without_home() / Path(path).relative_to("~")


def _home_without_home() -> Path:
    """A private folder with a fixed name in the temporary folder, where others may have
    taken the first names."""
    name = f"nws_sweep_home_of_{os.getuid()}"
    for number in itertools.count(1):
        folder = Path(
            tempfile.gettempdir(), name if number == 1 else f"{name}-{number}"
        )
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700)
        if is_private(folder) or not os.path.lexists(folder):
            return folder
    raise AssertionError  # counting does not end


def is_private(folder: Path) -> bool:
    """Whether this is a folder, no link, that this user owns and no other user may
    enter."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_closed = not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_closed
