"""Temporary folders that a lock tells from those that killed processes have left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nws_sweep.system import processes

_PREFIX = "nws_sweep-trial-"
_UNLOCKED, _LOCK, _PROCESS = ".begun", ".in_use", ".process"


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A folder for the length of the block, which no process removes meanwhile."""
    path = tempfile.mkdtemp(prefix=_PREFIX)
    lock = _locked(Path(path, _UNLOCKED), create=True)
    if lock is not None:
        Path(path, _UNLOCKED).rename(Path(path, _LOCK))  # others look for it only now that it is locked
    try:
        yield path
    finally:
        _remove(Path(path), processes.GONE_WITHIN_S)
        if lock is not None:
            os.close(lock)


def register_process(path: str) -> None:
    """Notes in such a folder that this process belongs to it: what else it leaves bears its number."""
    with contextlib.suppress(OSError):
        Path(path, f"{os.getpid()}{_PROCESS}").touch()


def remove_stale() -> None:
    """Removes the folders whose programs are gone, and their processes' shared memory."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        lock = _locked(path / _LOCK, create=False)
        if lock is not None:
            _remove(path)
            os.close(lock)


def _remove(path: Path, after_s: float = 0.0) -> None:
    """Removes a folder and what its processes left; one that still runs leaves it to a later program."""
    noted = [int(note.stem) for note in path.glob(f"*{_PROCESS}")]
    running = processes.running(noted, after_s)
    processes.remove_shared_memory(set(noted).difference(running))
    if not running:
        shutil.rmtree(path, ignore_errors=True)


def _locked(path: Path, *, create: bool) -> int | None:
    """The kernel's lock on a file; None if another one has it, or there are no locks."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0) | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return None
