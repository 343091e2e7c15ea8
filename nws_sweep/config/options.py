"""Options and names of commands: an error is one line."""

import argparse
import difflib
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nws_sweep import verbosity

_CALLED = {"tune": "search"}  # commands that Python's names suggest


class OptionParser(argparse.ArgumentParser):
    """Has the options that say how much is printed, and prints an error as one line,
    without the usage, which has several lines."""

    def __init__(self, prog: str, **keywords: Any) -> None:
        super().__init__(prog, **keywords)
        self.add_argument(
            "-q", "--quiet", nargs=0, action=_ChooseVerbosity,
            help="print the first line of the answer, and errors",
        )  # fmt: skip
        self.add_argument(
            "-v", "--verbose", nargs=0, action=_ChooseVerbosity,
            help="print details, too: those of the page of the result",
        )  # fmt: skip

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit status 2."""
        self.exit(2, f"{self.prog}: {message}; --help lists the options\n")


class _ChooseVerbosity(argparse.Action):
    """Applies to the processes of a search, too."""

    def __call__(self, *arguments: Any) -> None:
        """Chooses by the name of the option, the last argument."""
        verbosity.take_flags(arguments[-1:])


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
