"""One measurement at a time on a host: a second one waits.

The kernel holds the lock (flock) and releases it when its process is killed.
"""

import contextlib
import os
from collections.abc import Callable, Iterator

import filelock

from nws_sweep.errors import ConfigurationError

_POLL_S = 0.2


def usual() -> str:
    """The path of the lock, as conf/paths/default.yaml has it."""
    return os.environ.get("NWS_SWEEP_LOCK_FILE", "/tmp/nws_sweep.lock")


@contextlib.contextmanager
def held(path: str | None, on_wait: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Holds the lock of a file that all users share; without a path there is no lock.

    ``on_wait`` is called once with a line if another process holds it.
    """
    if not path:
        yield
        return
    # Other users must be able to open it; filelock sets the mode regardless of the umask.
    lock = filelock.FileLock(path, mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        on_wait(f"waiting for another measurement: one at a time on this machine (fuser {path} names its process)")
        lock.acquire(poll_interval=_POLL_S)
    except OSError as error:
        raise ConfigurationError(
            f"paths.lock_file={path}: the lock cannot be taken ({error.strerror or error}); must be a file in a "
            "folder that all users may write to, or null"
        ) from error
    try:
        yield
    finally:
        lock.release()
