"""One measurement at a time on a host: a second one waits.

The kernel holds the lock (flock) and releases it when its process is killed. Any user
may have put something else in the place of the file: this user's measurements then have
a lock of their own.
"""

import contextlib
import errno
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator

from nws_sweep import units
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import result_cache

Say = Callable[[str], None]
_USUAL = "/tmp/nws_sweep.lock"


def usual() -> str:
    """The path of the lock, as conf/paths/default.yaml has it."""
    return os.environ.get("NWS_SWEEP_LOCK_FILE", _USUAL)


def _say_nothing(line: str) -> None:
    pass


@contextlib.contextmanager
def held(
    path: str | None, on_wait: Say = _say_nothing, warn: Say = _say_nothing
) -> Iterator[None]:
    """Holds the lock of a file that all users share; without a path there is no lock.

    ``on_wait`` is called with a line before the wait for another process and, after it,
    with its length; ``warn`` if this user's own lock is held instead.
    """
    if not path:
        yield
        return
    import fcntl  # Windows, where nothing is measured, has none

    with contextlib.ExitStack() as stack:
        try:
            descriptor = _usable(path, warn)
            stack.callback(os.close, descriptor)
            _wait_for(descriptor, path, on_wait)
        except OSError as error:
            raise ConfigurationError(
                f"paths.lock_file={path}: the lock cannot be taken ({error.strerror}); must be a file in a folder that "
                "all users may write to, or null"
            ) from error
        # also for forked processes that have the descriptor
        stack.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)
        yield


def _wait_for(descriptor: int, path: str, on_wait: Say) -> None:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        names = f"`fuser {shlex.quote(path)}` names it"
        on_wait(
            f"waiting for another measurement: one at a time on this machine ({names})"
        )
        began_s = time.monotonic()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        on_wait(
            f"waited {units.seconds(time.monotonic() - began_s)} for another measurement"
        )


def _usable(path: str, warn: Say) -> int:
    """The descriptor of the file, or of this user's own if something else is in its
    place."""
    try:
        return _opened(path)
    except OSError as error:
        if path != _USUAL and not os.path.lexists(path):  # a folder that was mistyped
            raise
        why = "a link" if error.errno == errno.ELOOP else error.strerror
    of_user = result_cache.usual_folder() / "nws_sweep.lock"
    warn(
        f"{path} cannot be locked ({why}): waits only for other measurements of this user, by {of_user}"
    )
    of_user.parent.mkdir(parents=True, exist_ok=True)
    return _opened(str(of_user))


def _opened(path: str) -> int:
    """The descriptor of the file, which all users may open whatever the umask. OSError
    if it is no file.

    filelock refuses a file of another user in a folder such as /tmp, and so does Linux
    to open it with O_CREAT (proc(5), fs.protected_regular).
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return _reopened(path)
    os.fchmod(descriptor, 0o666)
    return descriptor


def _reopened(path: str) -> int:
    """The descriptor of a file that exists, which is no link, and no pipe, for which
    opening would wait."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, os.O_RDWR | flags)
    except PermissionError:
        # the lock needs no right to write
        descriptor = os.open(path, os.O_RDONLY | flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")
