"""Calls a function in a fresh process, a child of the fork server."""

import gc
import multiprocessing
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from benchmarks import support
from nws_sweep.system import fork_server

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_EXIT_WITHIN_S = 10.0


def call(
    function: Callable[[Argument], Result], argument: Argument, timeout_s: float = 900.0
) -> Result:
    """The result of a function of a module, called in a child; RuntimeError if there is
    none within ``timeout_s``."""
    process = fork_server.fork(
        support.start_fork_server().connection, f"{__name__}:_run", function, argument
    )
    try:
        result: Result = _received(process.connection, function.__module__, timeout_s)
        return result
    finally:
        process.join(_EXIT_WITHIN_S)
        process.kill()


def _received(connection: Connection, name: str, timeout_s: float) -> Any:
    try:
        if connection.poll(timeout_s):
            return connection.recv()
    except EOFError:
        raise RuntimeError(f"the process of {name} exited without a result") from None
    raise RuntimeError(f"the process of {name} did not finish within {timeout_s:g} s")


def _run(connection: Connection, function: Callable[[Any], Any], argument: Any) -> None:
    import torch

    gc.freeze()  # as in a trial process
    # workers start as in the user's program
    multiprocessing.set_start_method(None, force=True)
    warnings.filterwarnings(
        "ignore", message=r"This DataLoader will create \d+ worker processes"
    )
    torch.seed()  # a fresh process would draw the same order each time
    connection.send(function(argument))
