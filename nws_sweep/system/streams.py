"""Standard input, output and error, which may be closed, in ASCII, or without a reader."""

from __future__ import annotations

import os
import sys


def prepare() -> None:
    """Opens closed streams and replaces characters that their encoding lacks."""
    # Files that are opened later would get the numbers of closed streams, and the printed text.
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)  # if dup2 had nothing to do
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def silence_output() -> None:
    """Redirects standard output to /dev/null after its reader has gone: Python's flush at exit would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
