"""Temporary folders that bear the number of their process, so that those of killed ones can be removed later."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "nws_sweep-"


def make() -> str:
    """Makes a folder for this process."""
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")


def remove_left() -> None:
    """Removes the folders of this user's processes that are gone: whoever is killed has no time to do it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):  # another user's, or removed meanwhile by another program
            if owner.isdecimal() and not _is_there(int(owner)) and folder.stat().st_uid == _user():
                shutil.rmtree(folder, ignore_errors=True)


def _is_there(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
