"""Temporary folders with a lock, by which folders of killed programs are recognised.

Any user can make folders with such names in the temporary folder: only private ones of
this user are looked at.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nws_sweep.records import atomic
from nws_sweep.system import processes

# short: macOS allows 103 characters for the path of a socket in it
_PREFIX = "nws_sweep-"
_UNLOCKED, _LOCK, _PROCESS = ".begun", ".in_use", ".process"
_PROCESS_ID = re.compile(r"[1-9][0-9]{0,8}")


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A temporary folder, locked and removed at the end of the block."""
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with _locked(path / _UNLOCKED, os.O_CREAT) as is_locked:
            if is_locked:
                # ``remove_stale`` looks for this name
                (path / _UNLOCKED).rename(path / _LOCK)
            yield str(path)
    finally:  # NFS keeps a folder whose file is open
        _remove(path, processes.GONE_WITHIN_S)


def register_process(path: str) -> None:
    """Records in a temporary folder the ID of this process, which names its shared
    memory."""
    with contextlib.suppress(OSError):
        Path(path, f"{os.getpid()}{_PROCESS}").touch()


def remove_stale() -> None:
    """Removes the folders of programs that have exited, and the shared memory of their
    processes."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not atomic.is_private(path):
            continue
        with _locked(path / _LOCK) as is_locked:
            if is_locked:
                _remove(path)


def _remove(path: Path, after_s: float = 0.0) -> None:
    """Removes its processes' shared memory, and the folder unless a process still
    runs."""
    registered = [
        int(file.stem)
        for file in path.glob(f"*{_PROCESS}")
        if _PROCESS_ID.fullmatch(file.stem)
    ]
    running = processes.running(registered, after_s)
    processes.remove_shared_memory(set(registered).difference(running))
    if not running:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path, flags: int = 0) -> Iterator[bool]:
    """Locks a file until the end of the block; False if it is locked already, or cannot
    be."""
    import fcntl  # Windows, where nothing is measured, has none

    is_locked = False
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        yield is_locked
