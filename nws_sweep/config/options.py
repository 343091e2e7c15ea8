"""Options and names of commands: an error is one line."""

import argparse
import difflib
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

_CALLED = {"tune": "search"}  # commands that Python's names suggest


class OptionParser(argparse.ArgumentParser):
    """Prints an error as one line, without the usage, which has several lines."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit status 2."""
        self.exit(2, f"{self.prog}: {message}; --help lists the options\n")


def not_empty(text: str) -> str:
    """Returns the value of an option; ArgumentTypeError if it is empty, as after
    ``--key=``."""
    if not text:
        raise argparse.ArgumentTypeError("needs a value, but it is empty")
    return text


def no_such_command(arguments: Sequence[str], commands: Iterable[str]) -> str:
    """Says that the first argument is neither a command nor ``key=value``, and which
    command may have been meant."""
    name, *rest = arguments
    close = (
        [_CALLED[name]]
        if name in _CALLED
        else difflib.get_close_matches(name, commands, n=1)
    )
    if Path(name).is_dir():
        wanted = ["report", *arguments]
    elif name.endswith(".py") or Path(name).is_file():
        wanted = ["search", *arguments]
    elif close:
        wanted = [*close, *rest]
    else:
        return f"{name}: neither a command nor key=value; --help lists them"
    return f"{name}: neither a command nor key=value; did you mean `{shlex.join(['nws-sweep', *wanted])}`?"
