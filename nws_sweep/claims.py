"""One program at a time in a folder: the claim is the kernel's lock, so a program that is killed holds nothing back."""

from __future__ import annotations

import errno
from pathlib import Path

import filelock

from nws_sweep import disk
from nws_sweep.errors import ConfigurationError
from nws_sweep.storage import CLAIM, PLOTS

# A program that was killed has let its claim go with its last helper, a moment later.
_GRACE_S = 3.0
# What file systems without locks answer: there nobody can be told apart.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, getattr(errno, "ENOTSUP", errno.EOPNOTSUPP))


class Claim:
    """A folder that is ours until ``release``, or until this process ends."""

    def __init__(self, lock: filelock.BaseFileLock | None) -> None:
        self._lock = lock

    def __reduce__(self) -> tuple[type[Claim], tuple[None]]:
        return Claim, (None,)  # what is sent to another process holds nothing

    def release(self) -> None:
        """Lets others have it; may be called again."""
        if self._lock is not None:
            self._lock.release(force=True)


def take(folder: Path) -> Claim:
    """Makes the folder of a run or a grid, if need be, and takes it for this program alone.

    What a program that was killed has left half-written of the folder's own files is removed.

    Raises:
        ConfigurationError: If another program is at work in it.
    """
    claim = _take(folder)
    for place in (folder, folder / PLOTS):
        disk.remove_temporary(place)
    return claim


def _take(folder: Path) -> Claim:
    folder.mkdir(parents=True, exist_ok=True)
    lock = _lock(folder / CLAIM)
    try:
        lock.acquire(timeout=_GRACE_S, poll_interval=0.1)
    except filelock.Timeout:
        raise ConfigurationError(
            f"{folder}: another program measures into this folder now; wait for it, or choose another hydra.run.dir or "
            "hydra.sweep.dir"
        ) from None
    except NotImplementedError:  # what filelock makes of ENOSYS if it may not take another kind of lock
        return Claim(None)
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        return Claim(None)
    return Claim(lock)


def _lock(path: Path) -> filelock.BaseFileLock:
    try:
        return filelock.FileLock(path, thread_local=False, fallback_to_soft=False)
    except TypeError:  # of a version that has nothing to fall back to
        return filelock.FileLock(path, thread_local=False)
