"""One measurement at a time on a host: a second one waits and reports which one holds the lock.

The kernel holds the lock (flock) and releases it when its process is killed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from nws_sweep.errors import ConfigurationError

_POLL_S = 0.2
DEFAULT = "/tmp/nws_sweep.lock"  # as conf/paths/default.yaml has it


@contextlib.contextmanager
def held(path: str | None, what: str, on_wait: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Holds the lock of a file that all users share; without a path there is no lock.

    ``what`` names the measurement to processes that wait; ``on_wait`` is called once with a line about the holder.
    """
    if not path:
        yield
        return
    # Other users must be able to open it; filelock sets the mode regardless of the umask.
    lock = filelock.FileLock(path, mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        on_wait(f"waiting for {_holder(Path(path))}: one measurement at a time on this machine ({path})")
        lock.acquire(poll_interval=_POLL_S)
    except OSError as error:
        raise ConfigurationError(
            f"paths.lock_file={path}: the lock cannot be taken ({error.strerror or error}); allowed is a file in a "
            "folder that all users may write to, or null"
        ) from error
    # A file beside the lock, which filelock truncates; one per user, since no user may replace another user's file.
    note = Path(f"{path}.by-{os.getuid()}")
    try:
        with contextlib.suppress(OSError):  # the note is optional
            _write(
                note, f"process {os.getpid()} of user {os.getuid()}, measuring {what} since {time.strftime('%H:%M:%S')}"
            )
        yield
    finally:
        with contextlib.suppress(OSError):
            note.unlink()
        lock.release()


def _write(note: Path, text: str) -> None:
    """Writes a file that all users can read, regardless of the umask; follows no link planted by another user."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(note, flags, 0o644), "w") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):  # no note, or just removed
        notes = path.parent.glob(f"{path.name}.by-*")
        return max(notes, key=lambda note: note.stat().st_mtime).read_text(errors="replace")
    return "another measurement"
