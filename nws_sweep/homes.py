"""Folders below the user's home, and what takes its place for users without one, as in many containers."""

from __future__ import annotations

import getpass
import os
import tempfile
from pathlib import Path


def expanded(path: str) -> Path:
    """The path with ``~`` put in; where there is no home, that is a folder in the temporary one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return _instead() / Path(path).relative_to("~")


def _instead() -> Path:
    user = str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()
    return Path(tempfile.gettempdir()) / f"nws_sweep_home_of_{user}"
