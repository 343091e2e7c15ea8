"""Options and names of commands: an error is one line."""

import argparse
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from nws_sweep.config.suggestions import did_you_mean, suggestion

# typed before a program
_INTERPRETERS = ("python", "python3")


class OptionParser(argparse.ArgumentParser):
    """Prints an error as one line, without the usage, which has several lines."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit status 2, and says which option may have been
        meant."""
        meant = "--help lists the options"
        if match := re.match(r"unrecognized arguments: (--[\w-]+)", message):
            meant = did_you_mean(match[1], self._option_string_actions, meant)
        self.exit(2, f"{self.prog}: {message}; {meant}\n")


def not_empty(text: str) -> str:
    """Returns the value of an option; ArgumentTypeError if it is empty, as after
    ``--key=``."""
    if not text:
        raise argparse.ArgumentTypeError("needs a value, but it is empty")
    return text


def no_such_command(
    arguments: Sequence[str], commands: Iterable[str], of_programs: Iterable[str]
) -> str:
    """Says that the first argument is neither a command nor ``key=value``, and which
    command may have been meant.

    Args:
        arguments: What was typed.
        commands: The names of commands that read a folder, and of options.
        of_programs: The names of commands that run a program.
    """
    name, *rest = arguments
    meant = suggestion(name, [*of_programs, *commands])
    if Path(name).is_dir():
        wanted = ["report", *arguments]
    elif name in _INTERPRETERS:
        wanted = ["search", *rest]
    elif name.endswith(".py") or Path(name).is_file():
        wanted = ["search", *arguments]
    elif meant:
        wanted = [meant, *rest]
    else:
        return f"{name}: neither a command nor key=value; --help lists them"
    if len(wanted) == 1 and wanted[0] in of_programs:
        wanted.append("train.py")
    return f"{name}: neither a command nor key=value; did you mean `{shlex.join(['nws-sweep', *wanted])}`?"
