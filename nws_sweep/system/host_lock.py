"""One measurement at a time on a host, what makes it: others wait, and say for whom.

The lock is the kernel's (flock), so that a holder that is killed does not block anybody.
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
    """Holds the host's lock during the block, by a file that is the same for all users; without a path there is none.

    Those who wait are told what is going to be measured: ``on_wait`` is called once with a line that says who holds it.
    """
    if not path:
        yield
        return
    # Other users must be able to open it; filelock sets the mode whatever the umask is.
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
    # Beside the lock, whose own file is emptied by those who try it; and no process may replace another user's.
    user, since = os.getuid(), time.strftime("%H:%M:%S")
    card = Path(f"{path}.by-{user}")
    try:
        with contextlib.suppress(OSError):  # the lock counts, the card is a courtesy
            _write(card, f"process {os.getpid()} of user {user}, which measures {what} since {since}")
        yield
    finally:
        with contextlib.suppress(OSError):
            card.unlink()
        lock.release()


def _write(card: Path, text: str) -> None:
    """Writes a file that those who wait can read, whatever the umask is, and follows no link that others put there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(card, flags, 0o644), "w") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):  # there is none, or no more
        cards = path.parent.glob(f"{path.name}.by-*")
        return max(cards, key=lambda card: card.stat().st_mtime).read_text(errors="replace")
    return "another measurement"
