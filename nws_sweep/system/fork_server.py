"""Fork servers: processes that fork others from themselves in milliseconds, with
modules or a dataset in memory.

The program itself may have threads, an accelerator or locks in use, with which no
process should be forked. A fork server is a fresh Python process that has imported
modules, or a process that calls ``serve``, such as one that has made a dataset or,
where nothing stands against it, a fork of the program. Its children are processes of
multiprocessing ("fork"), which may start others by each start method.

A request is a byte on a Unix socket and two file descriptors: the child's end of its
connection to the program, and the channel on which the server reports its process ID
and its exit status. When the program exits, for any reason, the connections of its
servers close; each server kills its processes, with those that they have started, and
exits.
"""

import atexit
import contextlib
import gc
import importlib
import multiprocessing
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from multiprocessing import reduction, resource_tracker, spawn
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, NoReturn

from nws_sweep.system import processes, streams

_PROGRAM = "import sys; sys.path[:] = {}; from nws_sweep.system import fork_server; fork_server.main({})"
_EXIT_WITHIN_S = 1.0
_LONGEST_POLL_S = 1e6  # poll(2) takes at most 2^31 ms


class ForkedProcess:
    """The program's handle of a process that a fork server has forked."""

    def __init__(self, connection: Connection, channel: Connection) -> None:
        """Waits for the process ID; raises OSError if the fork failed, EOFError if the
        server has exited."""
        self.connection = connection  # its other end is the process's
        # of multiprocessing.connection.wait: ready once the process has exited
        self.sentinel = channel
        # set by ``join``; -N if signal N killed the process
        self.exitcode: int | None = None
        answer = channel.recv()
        if isinstance(answer, OSError):
            raise answer
        self.pid: int = answer

    def join(self, kill_after_s: float) -> None:
        """Waits for the exit; ``exitcode`` stays None if the process runs on, or its
        server was killed with it."""
        if self.exitcode is None and self.sentinel.poll(kill_after_s):
            with contextlib.suppress(EOFError, OSError):
                self.exitcode = self.sentinel.recv()

    def kill(self) -> None:
        """Sends SIGKILL, unless the process has exited."""
        self.join(0)
        if self.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def fork(server: Connection, function: str, *arguments: Any) -> ForkedProcess:
    """Forks a process that calls ``function``, such as ``package.module:main``, with
    its connection and arguments.

    ``server`` is the connection to a process that calls ``serve``, or will. Raises
    EOFError, ConnectionError or, on macOS, RuntimeError if it has exited, another
    OSError if there can be no process.
    """
    connection, end_of_child = multiprocessing.Pipe()
    channel, end_of_server = multiprocessing.Pipe()
    with end_of_child, end_of_server, _socket_of(server) as requests:
        # on macOS until received
        reduction.sendfds(requests, [end_of_child.fileno(), end_of_server.fileno()])
    process = ForkedProcess(connection, channel)
    # by which managers of the program know it
    key = bytes(multiprocessing.current_process().authkey)
    connection.send((function, arguments, sys.argv, key))
    return process


class ForkServer:
    """A fork server of a new Python process, the only one of this program."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.connection, end_of_server = multiprocessing.Pipe()
        self._is_ready = False
        flags = ["-O"] * sys.flags.optimize + [
            f"-W{option}" for option in sys.warnoptions
        ]
        # an import ignores others
        folders = [folder for folder in sys.path if isinstance(folder, str)]
        code = _PROGRAM.format(folders, list(modules))
        # Blocked signals stay pending here; the server inherits the mask and is not
        # ended before it ignores them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, processes.ENDING_SIGNALS)
        try:
            with end_of_server:
                command = [spawn.get_executable(), *flags, "-c", code]
                self.process = subprocess.Popen(command, stdin=end_of_server.fileno())
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def is_ready(self, within_s: float = _LONGEST_POLL_S) -> bool:
        """Whether it has imported its modules, after at most that many seconds;
        EOFError if it has exited."""
        if not self._is_ready and self.connection.poll(min(within_s, _LONGEST_POLL_S)):
            self._is_ready = True
            self.connection.recv()
        return self._is_ready

    def close(self) -> None:
        """Ends the server and its processes."""
        self.connection.close()
        # it is importing its modules
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_EXIT_WITHIN_S)
        self.process.kill()
        self.process.wait()


class ForkOfProgram(ForkServer):
    """A fork server that is a fork of this program: its processes have what the program
    had in memory."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.connection, end_of_server = multiprocessing.Pipe()
        self._is_ready = False
        context = multiprocessing.get_context("fork")
        self._fork = context.Process(
            target=_serve_for_program, args=(end_of_server, self.connection, modules)
        )
        with end_of_server:
            self._fork.start()

    def close(self) -> None:
        """Ends the server and its processes."""
        self.connection.close()
        self._fork.join(_EXIT_WITHIN_S)
        self._fork.kill()
        self._fork.join()


_own_server: ForkServer | None = None
# whether the server is a fork of the program; known in all of its processes
is_of_program = False


def ensure_running(modules: Iterable[str]) -> ForkServer:
    """This program's fork server, which is started with these modules unless it runs;
    ends with the program.

    A fork of the program is not replaced: another server would lack what it has in
    memory.
    """
    global _own_server  # noqa: PLW0603 - one for the whole program
    with processes.uninterrupted():
        if (
            _own_server is not None
            and not is_of_program
            and _own_server.process.poll() is not None
        ):
            _close_own_server()
        if _own_server is None:
            _own_server = ForkServer(modules)
    return _own_server


@contextlib.contextmanager
def forked_program(modules: Iterable[str]) -> Iterator[None]:
    """Makes a fork of this program its fork server inside the block. ``trials.forking``
    says whether that is safe."""
    global _own_server, is_of_program  # noqa: PLW0603
    try:
        with processes.uninterrupted():
            _close_own_server()
            is_of_program = True
            _own_server = ForkOfProgram(modules)
        yield
    finally:
        _close_own_server()
        is_of_program = False


@atexit.register
def _close_own_server() -> None:
    global _own_server  # noqa: PLW0603
    if _own_server is not None:
        _own_server.close()
        _own_server = None


def _forget_own_server() -> None:
    """A forked process starts its own: the server of its parent would not exit with
    it."""
    global _own_server  # noqa: PLW0603
    if _own_server is not None:
        _own_server.connection.close()
        if not is_of_program:
            # else Popen warns of a process that still runs
            _own_server.process.returncode = 0
        _own_server = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_own_server)


def main(modules: Iterable[str]) -> None:
    """The program of a fork server: its standard input is the connection to the program
    that started it."""
    streams.prepare()  # or the connection would get the number of a closed one
    connection = Connection(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _run(connection, modules)


def _serve_for_program(
    connection: Connection, of_program: Connection, modules: Iterable[str]
) -> None:
    of_program.close()  # else this process would not notice that the program has exited
    processes.drop_signal_handlers()
    _run(connection, modules)


def _run(connection: Connection, modules: Iterable[str]) -> NoReturn:
    # the program finishes its window first, then closes the connection
    for number in processes.ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, processes.ENDING_SIGNALS)
    processes.adopt_orphans()
    # not killed with the program's process group, but later, after its processes
    os.setpgid(0, 0)
    # Inherited by the children; removes semaphores of those that are killed, without
    # a warning of each.
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    resource_tracker.ensure_running()
    sys.warnoptions.pop()
    for name in modules:
        with contextlib.suppress(Exception):  # reported where the module is needed
            importlib.import_module(name)
    # A child's collection of these objects takes tenths of a second, at a random
    # moment, or finalizes the program's.
    gc.freeze()
    with contextlib.suppress(OSError):  # the program has exited
        connection.send(True)
    serve(connection)
    os._exit(0)


def serve(connection: Connection) -> None:
    """Forks a process for each request until the other end of ``connection`` is closed,
    then kills the processes.

    In the main thread only. Reaps all children of this process, also those that it has
    adopted.
    """
    exits, wakeup = multiprocessing.Pipe(duplex=False)
    os.set_blocking(wakeup.fileno(), False)
    signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, ignore)
    channels: dict[BaseProcess, Connection] = {}
    with _socket_of(connection) as requests:
        while True:
            ready = wait([requests, exits])
            if exits in ready:
                os.read(exits.fileno(), 4096)
                _report_exits(channels)
                _reap_adopted({process.pid for process in channels})
            if requests in ready:
                try:
                    numbers = reduction.recvfds(requests, 2)
                except (EOFError, ConnectionError):
                    # the latter if it has not read that this process is ready
                    break
                _fork(
                    Connection(numbers[0]),
                    Connection(numbers[1]),
                    channels,
                    [connection, requests, exits, wakeup],
                )
    for process in channels:
        processes.kill_tree(process)


def _fork(
    connection: Connection,
    channel: Connection,
    channels: dict[BaseProcess, Connection],
    held: list[Any],
) -> None:
    """Forks a process that serves ``connection``; ``channel`` tells the program its pid
    or the error, later its exit.

    The process closes the files ``held`` by this one.
    """
    for passed in (connection, channel):
        os.set_inheritable(passed.fileno(), False)
    context = multiprocessing.get_context("fork")
    process = context.Process(
        target=_child, args=(connection, [*held, channel, *channels.values()])
    )
    with connection, contextlib.suppress(OSError):  # the program has closed its end
        try:
            process.start()
        except OSError as error:  # too many processes, or too little memory
            channel.send(error)
        else:
            channels[process] = channel
            channel.send(process.pid)


def _report_exits(channels: dict[BaseProcess, Connection]) -> None:
    for process in [process for process in channels if process.exitcode is not None]:
        # the program has closed its end
        with channels.pop(process) as channel, contextlib.suppress(OSError):
            channel.send(process.exitcode)
        process.join()
        process.close()


def _reap_adopted(children: Collection[int | None]) -> None:
    """Reaps the workers of killed processes: the first process of a container, which
    would get them, may reap none."""
    with contextlib.suppress(ChildProcessError):  # there is no child
        while True:
            exited = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if exited is None or exited.si_pid in children:
                return
            os.waitpid(exited.si_pid, 0)


def _child(connection: Connection, held: Iterable[Any]) -> None:
    """The forked process: its parent's files are closed, or others would not notice
    that the parent has exited."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for file in held:
        file.close()
    processes.die_with_parent()
    with contextlib.suppress(EOFError):  # the program has exited
        function, arguments, sys.argv[:], key = connection.recv()
        multiprocessing.current_process().authkey = key
        pkgutil.resolve_name(function)(connection, *arguments)


def _socket_of(connection: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))


def ignore(number: int, frame: FrameType | None) -> None:
    """A handler of signals; unlike with SIG_IGN, the signal wakes the process."""
