"""Temporary folders with a lock, by which folders of killed programs are recognised."""

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
    """A temporary folder, locked and removed at the end of the block."""
    path = tempfile.mkdtemp(prefix=_PREFIX)
    lock = _locked(Path(path, _UNLOCKED), create=True)
    if lock is not None:
        Path(path, _UNLOCKED).rename(Path(path, _LOCK))  # ``remove_stale`` looks for this name
    try:
        yield path
    finally:
        _remove(Path(path), processes.GONE_WITHIN_S)
        if lock is not None:
            os.close(lock)


def register_process(path: str) -> None:
    """Records in a temporary folder the ID of this process, which names its shared memory."""
    with contextlib.suppress(OSError):
        Path(path, f"{os.getpid()}{_PROCESS}").touch()


def remove_stale() -> None:
    """Removes the folders of programs that have exited, and the shared memory of their processes."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        lock = _locked(path / _LOCK, create=False)
        if lock is not None:
            _remove(path)
            os.close(lock)


def _remove(path: Path, after_s: float = 0.0) -> None:
    """Removes its processes' shared memory, and the folder unless a process still runs."""
    registered = [int(file.stem) for file in path.glob(f"*{_PROCESS}")]
    running = processes.running(registered, after_s)
    processes.remove_shared_memory(set(registered).difference(running))
    if not running:
        shutil.rmtree(path, ignore_errors=True)


def _locked(path: Path, *, create: bool) -> int | None:
    """The descriptor of a locked file; None if it is locked already, or cannot be."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0) | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return None
