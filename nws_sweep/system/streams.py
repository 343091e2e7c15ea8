"""Standard input, output and error as they may be found: closed, in ASCII, or with a reader that goes away."""

from __future__ import annotations

import os
import sys


def prepare() -> None:
    """Makes them safe to print to, whatever a name from outside holds."""
    # Files that are opened later would take the numbers of closed channels, and get what is printed.
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)  # the lowest free number may have been this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode))
    for channel in (sys.stdout, sys.stderr):
        if hasattr(channel, "reconfigure"):
            channel.reconfigure(errors="replace")


def silence_output() -> None:
    """No process reads standard output any more; Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
