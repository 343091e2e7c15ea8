"""Calls a function in a fresh process, a child of the fork server, as if a user had started a script."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_GONE_WITHIN_S = 10.0


def call(function: Callable[[Argument], Result], argument: Argument, timeout_s: float = 900.0) -> Result:
    """Calls a function of a module and waits for what it returns.

    Args:
        function: Found by its name in the child.
        argument: What it is given.
        timeout_s: How long that may take, s.

    Raises:
        RuntimeError: If the child gave no result; what it said stands on standard error.
    """
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, function, argument), name=function.__module__)
    process.start()
    theirs.close()
    try:
        result: Result = _received(ours, process.name, timeout_s)
        return result
    finally:
        process.join(_GONE_WITHIN_S)
        process.kill()


def _received(connection: Connection, name: str, timeout_s: float) -> Any:
    try:
        if connection.poll(timeout_s):
            return connection.recv()
    except EOFError:
        raise RuntimeError(f"the process of {name} died") from None
    raise RuntimeError(f"the process of {name} was not done within {timeout_s:g} s")


def _run(connection: Connection, function: Callable[[Any], Any], argument: Any) -> None:
    import torch

    multiprocessing.set_start_method(None, force=True)  # workers start as in a user's program, not by the fork server
    warnings.filterwarnings("ignore", message=r"This DataLoader will create \d+ worker processes")
    torch.seed()  # a fresh process would draw the same order each time
    connection.send(function(argument))
