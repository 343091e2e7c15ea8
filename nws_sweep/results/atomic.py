"""Atomic writing: a file has its old content or its whole new content."""

import itertools
import os
import secrets
import tempfile
from pathlib import Path

from nws_sweep.errors import ConfigurationError

_TEMPORARY = ".nws_sweep-"


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Writes a temporary file beside ``path`` and renames it; a durable file is synced to the disk first.

    After a power failure a durable file has its old or its new content; others may be empty. If the file cannot be
    written (OSError), the old file is unchanged and the temporary file is removed.
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
    """Writes text in UTF-8 as ``write_bytes`` does."""
    write_bytes(path, text.encode(), durable=durable)


def remove_temporary(folder: Path) -> None:
    """Removes temporary files of killed programs from the folder; no process may be writing into the folder."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        path.unlink(missing_ok=True)


def set_aside(path: Path, why: str) -> Path:
    """Renames a file to ``NAME.WHY-NUMBER`` with the first free number; returns the new path."""
    return path.rename(free_name(path, why))


def free_name(path: Path, why: str) -> Path:
    """``NAME.WHY-NUMBER`` with the first free number, beside the file."""
    names = (path.with_name(f"{path.name}.{why}-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


def expand_user(path: str) -> Path:
    """The path with ``~`` expanded; where no home folder is known, to a per-user folder below the temporary folder.

    Raises:
        ConfigurationError: The path names a user that the system does not know (``~name/x``).
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        if (first := Path(path).parts[0]) != "~":
            raise ConfigurationError(f"{path}: there is no user {first[1:]}; use ~ or a whole path") from None
        return Path(tempfile.gettempdir()) / f"nws_sweep_home_of_{os.getuid()}" / Path(path).relative_to("~")
