"""Standard input, output and error as they may be found: closed, in ASCII, or with a reader that goes away."""

from __future__ import annotations

import codecs
import os
import sys

# What is printed beside ASCII, for terminals that have nothing else; box drawing is chosen by rich.
_PLAIN = {"±": "+-", "µ": "u", "…": "...", "\u00d7": "x", "\u2013": "-", "—": "-", "\u2212": "-", "≥": ">=", "≤": "<="}
_HANDLER = "nws_sweep_plain"


def prepare() -> None:
    """Makes them safe to print to, whatever a name from outside holds."""
    _open_closed()
    codecs.register_error(_HANDLER, _plain)
    for channel in (sys.stdout, sys.stderr):
        if hasattr(channel, "reconfigure"):
            channel.reconfigure(errors=_HANDLER)


def _open_closed() -> None:
    """Files that are opened later would take the numbers of closed channels, and get what is printed."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)  # the lowest free number may have been this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode))


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def silence_output() -> None:
    """Nobody reads standard output any more; Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
