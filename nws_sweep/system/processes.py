"""Processes: signals such as Ctrl-C, process groups, open files, and resources that
killed processes leave."""

import contextlib
import ctypes
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import psutil

from nws_sweep.system import host, platforms

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from nws_sweep.system.fork_server import ForkedProcess

# From Ctrl-C, batch systems and closed terminals; Windows has no SIGHUP.
ENDING_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    *filter(None, [getattr(signal, "SIGHUP", None)]),
)
_NOTICE = b"\nnws_sweep: Finishing the current measurement and writing the report. Press Ctrl-C again to stop now.\n"
GONE_WITHIN_S, _CLOSED_WITHIN_S = 5.0, 1.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
POLL_S = 0.002  # between two looks at a process that is waited for


def restore_ending_signals() -> None:
    """Restores Python's default handlers of the signals that the fork server, this
    process's parent, ignores."""
    for number in ENDING_SIGNALS:
        signal.signal(
            number,
            signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL,
        )


def drop_foreign_start_method() -> None:
    """Restores the platform's start method if a library, such as joblib, has set one
    that children do not have."""
    if multiprocessing.get_start_method(allow_none=True) not in (
        None,
        *multiprocessing.get_all_start_methods(),
    ):
        multiprocessing.set_start_method(None, force=True)


def start_method() -> str:
    """How this program starts processes; multiprocessing's own function would fix the
    default."""
    return (
        multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0]
    )


def reason_not_starting() -> str:
    """Says why this process may not start others, such as the workers of a DataLoader;
    empty if it may."""
    if multiprocessing.current_process().daemon:
        return "this process is daemonic, and multiprocessing lets such a process start no workers"
    return ""


def main_path() -> str | None:
    """The path of the main script; None in a notebook."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    return None if path is None else os.path.abspath(path)  # noqa: PTH100


def runs_main(method: str) -> bool:
    """Whether processes started by this method run the main script, which lacks ``if
    __name__ == "__main__"``."""
    path = main_path()
    return (
        method != "fork"
        and path is not None
        and "__main__" not in host.read(Path(path))
    )


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defers signals with Python handlers, such as Ctrl-C, to the end of the block."""
    received: list[int] = []
    try:
        with _replaced(
            _python_handlers(signal.valid_signals()),
            lambda number, _: received.append(number),
        ):
            yield
    finally:
        for number in received:
            signal.raise_signal(number)


@contextlib.contextmanager
def _replaced(
    handlers: Mapping[int, Any], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    """Replaces the handlers of these signals by another one inside the block, in the
    main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_inside = True

    def handle(number: int, frame: FrameType | None) -> None:
        if is_inside:
            handler(number, frame)
        else:  # received while the handlers are restored below
            handlers[number](number, frame)

    try:
        for number in handlers:
            signal.signal(number, handle)
        yield
    finally:
        is_inside = False
        for number, handler_before in handlers.items():
            signal.signal(number, handler_before)


def _python_handlers(numbers: Iterable[int]) -> dict[int, Any]:
    """The handlers of those signals that have one written in Python."""
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    return {
        number: handler for number, handler in handlers.items() if callable(handler)
    }


class Interrupted(KeyboardInterrupt):
    """Replaces KeyboardInterrupt; ``status`` is the exit status that shells expect,
    such as 143 after SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


class Interrupts:
    """Handles ``ENDING_SIGNALS`` inside its context, in the main thread only; ignored
    signals stay ignored.

    During a measurement the first one waits for the end of the window, the second does
    not.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._is_deferring = False
        self._received: int | None = None

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in ENDING_SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._handlers[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defers the first signal inside the block to the next ``check``, or to the end
        of the block."""
        self._is_deferring = True
        try:
            yield
        finally:
            self._is_deferring = False
        self.check()

    def check(self) -> None:
        """Raises Interrupted if a signal was deferred."""
        number, self._received = self._received, None
        if number is not None:
            raise Interrupted(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        second, self._received = self._received is not None, number
        if second or not self._is_deferring:
            self.check()
        with contextlib.suppress(OSError):  # a print may be in progress
            os.write(2, _NOTICE)


@contextlib.contextmanager
def ended_by_taken_signals() -> Iterator[None]:
    """Raises Interrupted if a handler of the program takes one of ``ENDING_SIGNALS``
    inside the block, and returns.

    Such a handler, as Lightning's of SIGTERM, notes that the program should end: its
    loop, which would read the note, waits for the block. In the main thread only.
    """
    handlers = _python_handlers(ENDING_SIGNALS)
    if handlers.get(signal.SIGINT) is signal.default_int_handler:  # which raises
        del handlers[signal.SIGINT]

    def take(number: int, frame: FrameType | None) -> None:
        handlers[number](number, frame)
        raise Interrupted(number)

    with _replaced(handlers, take):
        yield


def signal_group(pid: int, number: int) -> None:
    """Sends a signal to a process group, if its leader runs."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent exits, even while this process
    is paused. Linux only."""
    if not platforms.IS_LINUX:
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or _is_orphan():  # the parent exited before the call
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Makes the kernel give this process the descendants whose parents exit, for it to
    reap. Linux only."""
    if platforms.IS_LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _is_orphan() -> bool:
    """Whether the process that started this one by multiprocessing has exited."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return False
    # it is the parent of this process's parent
    if multiprocessing.get_start_method(allow_none=True) == "forkserver":
        return not parent.is_alive()
    return os.getppid() != parent.pid


def drop_signal_handlers() -> None:
    """In a forked process: no signal runs a handler of the program, such as one that
    saves a checkpoint."""
    for number in signal.valid_signals() - {signal.SIGCHLD}:
        handler = signal.getsignal(number)
        if callable(handler) and handler is not signal.default_int_handler:
            signal.signal(
                number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN
            )


def set_socket_folder(folder: str) -> None:
    """Sets the folder in which multiprocessing makes the sockets of this process and
    its children."""
    usual, tempfile.tempdir = tempfile.tempdir, folder
    # makes a folder there, once, which child processes inherit
    multiprocessing.util.get_temp_dir()
    tempfile.tempdir = usual


def kill_tree(process: "ForkedProcess | BaseProcess") -> None:
    """Kills a process and its descendants, waits for their exit, and removes their
    shared memory."""
    await_exit(process, kill_family(process))


def kill_family(process: "ForkedProcess | BaseProcess") -> list[int]:
    """Kills a process and its descendants without waiting; the IDs of the
    descendants."""
    pid, family = process.pid, list[psutil.Process]()
    assert pid is not None
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(pid).children(recursive=True)
    signal_group(pid, signal.SIGKILL)
    process.kill()
    for member in family:  # also those in other process groups
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    return [member.pid for member in family]


def await_exit(process: "ForkedProcess | BaseProcess", family: Sequence[int]) -> None:
    """Waits for the exit of a process and its descendants, which were killed, and
    removes their shared memory."""
    assert process.pid is not None
    process.join(GONE_WITHIN_S)
    running(family, GONE_WITHIN_S)
    remove_shared_memory([process.pid, *family])


def open_files(process: int | str = "self") -> dict[int, str]:
    """What the open files of a process are, by descriptor; empty for a process of
    another user, and without /proc."""
    targets: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                targets[int(link.name)] = os.readlink(link)  # noqa: PTH115 - the target is not a path
    return targets


def running(pids: Iterable[int], after_s: float = 0.0) -> list[int]:
    """The processes that still run after at most ``after_s`` seconds."""
    deadline_s = time.monotonic() + after_s
    processes = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    while True:
        left = [process.pid for process in processes if is_alive(process)]
        if not left or time.monotonic() >= deadline_s:
            return left
        time.sleep(POLL_S)


def is_alive(process: psutil.Process) -> bool:
    """Whether the process runs; a zombie, which init may take seconds to reap in a
    container, does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def remove_shared_memory(pids: Iterable[int]) -> None:
    """Removes the segments of this user that killed processes have not unlinked.

    A process of another container may have the same ID and the same /dev/shm
    (``--ipc=host``), so segments that a process uses stay.
    """
    # the kernel closes the files of a killed process after its exit
    deadline = time.monotonic() + _CLOSED_WITHIN_S
    segments = [
        path for pid in pids for path in Path("/dev/shm").glob(f"torch_{pid}_*")
    ]
    for segment in filter(_is_own, segments):
        while (
            not (is_unused := _is_unused(segment))
            and segment.exists()
            and time.monotonic() < deadline
        ):
            time.sleep(POLL_S)
        if is_unused:
            segment.unlink(missing_ok=True)


def _is_own(path: Path) -> bool:
    """Whether the file is this user's; root could remove files of all users."""
    with contextlib.suppress(FileNotFoundError):  # removed meanwhile
        return path.lstat().st_uid == os.geteuid()
    return False


def _is_unused(path: Path) -> bool:
    """Whether no process has opened or mapped a file of this user: the kernel grants a
    lease then (fcntl(2))."""
    import fcntl  # Windows has none

    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            # A process that opens the file before the lease ends causes this signal,
            # which has no effect.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            return True
        finally:
            os.close(descriptor)
    return False


def out_of_memory_kills() -> int:
    """The number of processes that the kernel's out-of-memory killer has killed since
    boot; 0 if unknown."""
    return host.fields(Path("/proc/vmstat")).get("oom_kill", 0)
