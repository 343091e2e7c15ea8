"""Standard input, output and error, which may be closed, in ASCII, or without a
reader."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nws_sweep.errors import printable

# Not through a link, which would lead out of the folder of the run, and not waiting
# for the reader of a pipe.
_APPENDING = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)

# the methods that end threads of these modules
_REDRAWING = {"tqdm._monitor": "exit", "rich.live": "stop"}


def prepare() -> None:
    """Opens closed streams and replaces characters that their encoding lacks."""
    # Files that are opened later would get the numbers of closed streams, and the
    # printed text.
    for number, (name, mode) in enumerate(
        (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
    ):
        if getattr(sys, name) is None:  # Python found it closed
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)  # if dup2 had nothing to do
            setattr(sys, name, os.fdopen(number, mode))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def print_line(line: str) -> None:
    """Writes a line of nws_sweep to standard error, above the progress bars that tqdm
    shows there."""
    text = f"nws_sweep: {printable(line)}"
    bars = _bars()
    try:
        if bars is None:
            sys.stderr.write(f"{text}\n")
        else:  # without tqdm's lock, which a worker that was killed may hold for ever
            bars.write(text, file=sys.stderr, nolock=True)
    except RuntimeError:  # another thread has begun a bar meanwhile
        sys.stderr.write(f"\n{text}\n")
    sys.stderr.flush()


def has_bars() -> bool:
    """Whether the program shows a bar of tqdm or rich, between whose lines no other bar
    can be drawn.

    The thread of tqdm remains after its last bar.
    """
    return _bars() is not None or any(_threads_of("rich.live"))


def _bars() -> Any:
    """Returns the class of tqdm's bars; None unless the program has imported tqdm and a
    bar is shown."""
    kind = getattr(sys.modules.get("tqdm"), "tqdm", None)
    has_bars = bool(getattr(kind, "_instances", None))
    return kind if has_bars else None


def end_redrawing() -> None:
    """Ends the threads in which tqdm and rich redraw the bars of a program that will
    not continue them."""
    for module, method in _REDRAWING.items():
        for thread in list(_threads_of(module)):
            getattr(thread, method)()
            thread.join()


def _threads_of(module: str) -> Iterator[threading.Thread]:
    """Yields the threads whose class, or a base of it, is of this module."""
    for thread in threading.enumerate():
        if any(base.__module__ == module for base in type(thread).__mro__):
            yield thread


def silence_output() -> None:
    """Redirects standard output to /dev/null after its reader has gone: Python's flush
    at exit would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def redirect(log_path: str | None) -> None:
    """Redirects standard output and error of this process and its children to a log, or
    to /dev/null without one."""
    sys.stdout.flush()
    sys.stderr.flush()
    with Path(os.devnull).open("r+b", 0) as null, contextlib.ExitStack() as stack:
        log = null
        if log_path:
            # the folder is missing or full: writing the results reports that
            with contextlib.suppress(OSError):
                log = stack.enter_context(
                    os.fdopen(os.open(log_path, _APPENDING, 0o666), "ab", 0)
                )
        for number, file in enumerate((null, log, log)):
            os.dup2(file.fileno(), number)
