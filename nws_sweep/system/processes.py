"""Processes as the operating system knows them: signals, groups, what a dead one leaves behind."""

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
from collections.abc import Iterable, Iterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

# Ctrl-C, and what batch systems and closed terminals send.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GONE_WITHIN_S = 5.0
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_POLL_S = 0.002


def start_fork_server() -> None:
    """Starts it once for this process, deaf to what ends the program, which goes on for a moment then."""
    _start_fork_server(os.getpid())


@functools.cache
def _start_fork_server(pid: int) -> None:
    server: Any = forkserver._forkserver
    if server._forkserver_pid is not None:
        try:
            os.waitid(os.P_PID, server._forkserver_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # of the process that this one was forked from: it needs its own
            release_fork_server()
            server._forkserver_address = server._forkserver_pid = None
    with uninterrupted():
        for start in (resource_tracker.ensure_running, forkserver.ensure_running):
            # What would end the program waits (ignored it would be lost), and for good in what is started here. Once
            # more for each: the first one lets it through, in Python 3.11 at least.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
            try:
                start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


def release_fork_server() -> None:
    """Gives up the end of a pipe that keeps the fork server alive, as one that stands still could not later."""
    server: Any = forkserver._forkserver
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None


def restore_ending_signals() -> None:
    """Makes this process end by them, as a program of the user's does: the fork server, whose child it is, is deaf."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # forgets those that wait
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def drop_foreign_start_method() -> None:
    """Back to the platform's own if a library has set one of its own, as joblib does, that no child would know."""
    if multiprocessing.get_start_method(allow_none=True) not in (None, *multiprocessing.get_all_start_methods()):
        multiprocessing.set_start_method(None, force=True)


def start_method() -> str:
    """How this program starts processes; to ask multiprocessing itself would settle it."""
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds back Ctrl-C, and whatever else may raise an exception, until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in signal.valid_signals()}
    own = {number: handler for number, handler in handlers.items() if callable(handler)}
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


def signal_group(pid: int, number: int) -> None:
    """Sends a signal to a child that leads a process group, and its workers; nothing happens if it is dead."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent is gone, even while it stands still. Linux only."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or _is_orphan():  # it went in between, or before
        os.kill(os.getpid(), signal.SIGKILL)


def _is_orphan() -> bool:
    """Whether the process that has started this one is gone, which no process else would notice."""
    parent = multiprocessing.parent_process()
    if parent is None:  # of something else than multiprocessing
        return False
    of_server = getattr(multiprocessing.current_process(), "_start_method", None) == "forkserver"
    return not parent.is_alive() if of_server else os.getppid() != parent.pid


def set_socket_folder(folder: str) -> None:
    """Makes multiprocessing put the sockets of this process and its children there."""
    config: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    config["tempdir"] = folder  # what multiprocessing.util.get_temp_dir looks up first


def socket_folder() -> str | None:
    """That folder, as this process has it from its parent; None if it has none."""
    folder: str | None = getattr(multiprocessing.current_process(), "_config", {}).get("tempdir")
    return folder


def kill_tree(process: BaseProcess) -> None:
    """Kills a started process and its family, waits until they are dead, and removes what they left."""
    import psutil

    pid, family = process.pid, []
    assert pid is not None
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(pid).children(recursive=True)
    signal_group(pid, signal.SIGKILL)
    process.kill()
    process.join(GONE_WITHIN_S)
    for member in family:  # some may have left the group
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    pids = [member.pid for member in family]
    running(pids, GONE_WITHIN_S)
    remove_shared_memory([pid, *pids])


def running(pids: Iterable[int], after_s: float = 0.0) -> list[int]:
    """Those of the processes that still run after so many seconds at the most."""
    import psutil

    family, deadline = [], time.monotonic() + after_s
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            family.append(psutil.Process(pid))
    while (left := [process.pid for process in family if is_alive(process)]) and time.monotonic() < deadline:
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
    """Removes the segments that killed processes had no time to unlink."""
    for pid in pids:
        for segment in Path("/dev/shm").glob(f"torch_{pid}_*"):
            segment.unlink(missing_ok=True)


def out_of_memory_kills() -> int:
    """How often the kernel has killed a process for want of memory since it started, 0 where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
