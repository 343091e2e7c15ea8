"""Processes as the operating system knows them: signals, groups, what a dead one leaves behind.

What a platform lacks is guarded here.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import psutil

GONE_WITHIN_S = 5.0
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_POLL_S = 0.002
_SOONER_KILLED = 300  # of 1000: as if it held 30 % more of the machine's memory


def start_fork_server() -> None:
    """Starts it once for this process, deaf to what ends the program, which goes on for a moment then."""
    _start_fork_server(os.getpid())


@functools.cache
def _start_fork_server(pid: int) -> None:
    from multiprocessing import forkserver, resource_tracker  # not on every platform

    _forget_server_of_parent(pid)
    with uninterrupted():
        with _waiting_signals():
            resource_tracker.ensure_running()  # afterwards they no longer wait, in Python 3.11 at least
        with _waiting_signals():
            forkserver.ensure_running()


@contextlib.contextmanager
def _waiting_signals() -> Iterator[None]:
    """Lets what would end the program wait until the end of the block, and for good in what is started inside it.

    Ignored instead, it would be lost, and a batch system says it only once.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ending_signals() -> list[int]:
    """Ctrl-C, and what batch systems and closed terminals send; not every platform has them all."""
    return [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def hear_signals() -> None:
    """Makes this process end by them, as a program of the user's does: the fork server, whose child it is, is deaf."""
    for number in ending_signals():
        signal.signal(number, signal.SIG_IGN)  # forgets those that wait
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ending_signals())


def drop_foreign_start_method() -> None:
    """Back to the platform's own if a library has set one of its own, as joblib does in its workers.

    It would be handed down to every child, where nobody knows it.
    """
    if multiprocessing.get_start_method(allow_none=True) not in (None, *multiprocessing.get_all_start_methods()):
        multiprocessing.set_start_method(None, force=True)


def _forget_server_of_parent(pid: int) -> None:
    """A process that was forked from one with a server may not wait for that one: it needs its own."""
    from multiprocessing import forkserver  # not on every platform

    server: Any = forkserver._forkserver
    known = getattr(server, "_forkserver_pid", None)
    if known is None or _parent_of(known) == pid:
        return
    let_fork_server_go()
    server._forkserver_address = server._forkserver_pid = None


def _parent_of(pid: int) -> int | None:
    import psutil

    try:
        return psutil.Process(pid).ppid()
    except psutil.NoSuchProcess:
        return None


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds back Ctrl-C, and whatever else may raise an exception, until the block is done.

    Only the main thread is ever interrupted by a signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    own: dict[int, Any] = {number: signal.getsignal(number) for number in _interrupting()}
    is_inside = True

    def hold_back(number: int, frame: FrameType | None) -> None:
        if is_inside:
            received.append(number)
        else:  # one that came while they were put back has ended that
            own[number](number, frame)

    try:
        for number in own:
            signal.signal(number, hold_back)
        yield
    finally:
        is_inside = False
        for number, handler in own.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)


def _interrupting() -> list[int]:
    """The signals for which a handler of Python's is installed."""
    return [number for number in signal.valid_signals() if callable(signal.getsignal(number))]


def pause(process: Child) -> None:
    """Stops an arm and its workers where they are: one that stands still takes no CPU time from the one that is timed.

    Args:
        process: A child that leads a process group of its own.
    """
    _signal_group(process, "SIGSTOP")


def resume(process: Child) -> None:
    """Lets them go on."""
    _signal_group(process, "SIGCONT")


def kill(process: Child) -> None:
    """Kills an arm and its workers, without waiting for their end; ``end_tree`` does that, and finds all others."""
    _signal_group(process, "SIGKILL")
    if process.pid is not None:  # it may not lead its group yet
        process.kill()


def _signal_group(process: Child, name: str) -> None:
    if process.pid is None:  # never started; group 0 would be our own
        return
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):  # dead, or no such signals here
        os.killpg(process.pid, getattr(signal, name))


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent is gone, even while it stands still. Linux only."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or _is_orphan():  # it went in between, or before
        os.kill(os.getpid(), signal.SIGKILL)


def _is_orphan() -> bool:
    """Whether the process that has started this one is gone: it may have been killed right after that.

    Nobody else would notice: torch's workers, too, take for their parent whoever is it when they look first.
    """
    parent = multiprocessing.parent_process()
    if parent is None:  # of something else than multiprocessing
        return False
    if getattr(multiprocessing.current_process(), "_start_method", None) == "forkserver":  # a child of the server's
        return not parent.is_alive()
    return os.getppid() != parent.pid


def keep_sockets_in(folder: str) -> None:
    """Makes multiprocessing put the sockets of this process and its children there, in no folder of its own.

    Processes that are killed have no time to remove theirs.
    """
    config: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    config["tempdir"] = folder  # what multiprocessing.util.get_temp_dir looks up first


def sockets_folder() -> str | None:
    """That folder, as this process has it from its parent; None if it has none."""
    folder: str | None = getattr(multiprocessing.current_process(), "_config", {}).get("tempdir")
    return folder


def start_method() -> str:
    """How this program starts processes where it names no way; to ask multiprocessing itself would settle it."""
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def let_fork_server_go() -> None:
    """Gives up the end of a pipe that a child of the fork server inherits, and whose closing ends the server.

    A child that stands still could not give it up when the main process is gone: the server would live on, and with it
    the child, which the kernel kills only with the server.
    """
    from multiprocessing import forkserver  # not on every platform

    server: Any = forkserver._forkserver
    descriptor = getattr(server, "_forkserver_alive_fd", None)
    if descriptor is not None:
        server._forkserver_alive_fd = None
        os.close(descriptor)


def offer_to_be_killed() -> None:
    """Tells the kernel to kill this process rather than others if memory runs out; it passes that on to its children.

    Linux only; see oom_score_adj in proc_pid_oom_score_adj(5).
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_SOONER_KILLED))


class Child(Protocol):
    """What is asked of a child process, whoever has forked it; as ``multiprocessing.Process`` has it."""

    @property
    def pid(self) -> int | None:
        """Its process ID; it leads a process group of its own."""

    @property
    def sentinel(self) -> int:
        """A handle to wait for its end by."""
        ...

    @property
    def exitcode(self) -> int | None:
        """How it ended; None if that is not known, or it has not."""

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, so many seconds at most."""

    def kill(self) -> None:
        """Kills it."""


class Grandchild:
    """A process that another child of ours has forked. Linux only, from kernel 5.3 on.

    Args:
        pid: Its process ID; its parent must not have waited for it yet.
        ask: Asks the parent how it ended: its ``Process.exitcode``.
    """

    def __init__(self, pid: int, ask: Callable[[], int | None]) -> None:
        self.pid = pid
        self.sentinel = os.pidfd_open(pid)
        self._ask = ask
        self._exitcode: int | None = None
        weakref.finalize(self, os.close, self.sentinel)

    @property
    def exitcode(self) -> int | None:
        """How it ended; None if it has not, or if its parent is gone too."""
        if self._exitcode is None and wait([self.sentinel], 0):
            self._exitcode = self._ask()
        return self._exitcode

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, so many seconds at most, and lets its parent forget it."""
        if wait([self.sentinel], timeout):
            _ = self.exitcode

    def kill(self) -> None:
        """Kills it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.sentinel, signal.SIGKILL)


def can_have_grandchildren() -> bool:
    """Whether the system can tell the end of a process to others than its parent."""
    if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # an older kernel, or one that a sandbox imitates
        return False
    return True


def end_tree(process: Child) -> None:
    """Kills a started process, its group and its descendants, waits until they are dead, and removes what they left.

    Args:
        process: A child that leads a process group of its own (or has not come to that yet).
    """
    pid = process.pid
    if pid is None:
        return
    family = _descendants(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(pid, signal.SIGKILL)
    process.kill()
    process.join(GONE_WITHIN_S)
    _kill(family)
    remove_shared_memory([pid, *(member.pid for member in family)])


def _descendants(pid: int) -> list[psutil.Process]:
    import psutil

    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill(family: Sequence[psutil.Process]) -> None:
    """Kills those that left the arm's process group, and waits until all are dead."""
    import psutil

    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _alive(family, GONE_WITHIN_S)


def running(pids: Iterable[int], after_s: float = 0.0) -> list[int]:
    """Those of the processes that still run after so many seconds, which are waited for only as long as one does."""
    import psutil

    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return [process.pid for process in _alive(found, after_s)]


def _alive(processes: Sequence[psutil.Process], after_s: float) -> list[psutil.Process]:
    deadline = time.monotonic() + after_s
    while (left := [process for process in processes if is_alive(process)]) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return left


def is_alive(process: psutil.Process) -> bool:
    """Whether the process still runs; a zombie does not.

    A dead process whose parent is gone stays one until init takes notice, which takes seconds in some containers.
    """
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def remove_shared_memory(pids: Iterable[int]) -> None:
    """Removes the segments that killed processes had no time to unlink; torch names them after the process."""
    for pid in pids:
        for segment in Path("/dev/shm").glob(f"torch_{pid}_*"):
            segment.unlink(missing_ok=True)


def out_of_memory_kills() -> int:
    """How often the kernel has killed a process for want of memory since it started, 0 where it does not say."""
    try:
        counters = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in counters if line.startswith("oom_kill ")), 0)
