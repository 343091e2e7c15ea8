"""One measurement at a time on a host: a second one waits.

The kernel holds the lock (flock) and releases it when its process is killed.
"""

import contextlib
import os
from collections.abc import Callable, Iterator

from nws_sweep.errors import ConfigurationError


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
    import fcntl  # Windows, where nothing is measured, has none

    with contextlib.ExitStack() as stack:
        try:
            descriptor = _opened(path)
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait(f"waiting for another measurement: one at a time on this machine (`fuser {path}` names it)")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise ConfigurationError(
                f"paths.lock_file={path}: the lock cannot be taken ({error.strerror}); must be a file in a folder that "
                "all users may write to, or null"
            ) from error
        stack.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)  # also for forked processes that have the descriptor
        yield


def _opened(path: str) -> int:
    """The descriptor of the file, which all users may open whatever the umask.

    filelock refuses a file of another user in a folder such as /tmp, and so does Linux to open it with O_CREAT
    (proc(5), fs.protected_regular).
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return os.open(path, os.O_RDWR)
    os.fchmod(descriptor, 0o666)
    return descriptor
