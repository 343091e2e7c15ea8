"""What processes of a fork server do in tests/system/test_fork_server.py; they import
this module."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection

from nws_sweep.system import fork_server, processes, streams

WITHIN_S = 20.0  # far more than anything here takes


def end(connection: Connection, how: str) -> None:
    if how == "exits":
        sys.exit(3)


def report_state(connection: Connection) -> None:
    main, parent = sys.modules["__main__"], multiprocessing.parent_process()
    assert parent is not None
    connection.send(
        {
            "arguments": sys.argv,
            "key": bytes(multiprocessing.current_process().authkey),
            "main": (main.__spec__, getattr(main, "__file__", None)),
            "is child": parent.pid == os.getppid() and parent.is_alive(),
            "handler": signal.getsignal(signal.SIGCHLD),
            "threads": sorted(thread.name for thread in threading.enumerate()),
            "input": sys.stdin.read() + os.read(0, 1).decode(),
        }
    )


held = ""  # set by a program that is forked


def report_held(connection: Connection) -> None:
    connection.send(held)


def serve(connection: Connection) -> None:
    connection.send("ready")
    fork_server.serve(connection)


def serve_without_memory(connection: Connection) -> None:
    def fork() -> int:
        raise BlockingIOError("too many processes")

    os.fork = fork
    serve(connection)


def redirect(connection: Connection) -> None:
    streams.redirect(None)
    connection.send(7)


def sleep(connection: Connection) -> None:
    processes.restore_ending_signals()
    connection.send("ready")
    time.sleep(600)


def sleep_with_a_process(connection: Connection) -> None:
    os.setpgid(0, 0)
    with subprocess.Popen(["sleep", "600"]) as of_dataset:
        connection.send(of_dataset.pid)
        time.sleep(600)


def hold_a_semaphore(connection: Connection) -> None:
    held = multiprocessing.get_context("spawn").Lock()
    connection.send("made")
    time.sleep(WITHIN_S)
    held.acquire()
