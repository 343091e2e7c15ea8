"""Options and names of commands: an error is one line."""

import argparse
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nws_sweep import verbosity
from nws_sweep.config.suggestions import did_you_mean, suggestion

_VERBOSITY = (
    ("-q", "--quiet", "print the first line of the answer, and errors"),
    ("-v", "--verbose", "print details, too: those of the page of the result"),
)
# typed before a program
_INTERPRETERS = ("python", "python3")


class OptionParser(argparse.ArgumentParser):
    """Has the options that say how much is printed, and prints an error as one line,
    without the usage, which has several lines."""

    def __init__(self, prog: str, **keywords: Any) -> None:
        super().__init__(prog, **keywords)
        for *names, meaning in _VERBOSITY:
            self.add_argument(*names, nargs=0, action=_ChooseVerbosity, help=meaning)

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit status 2, and says which option may have been
        meant."""
        meant = "--help lists the options"
        if match := re.match(r"unrecognized arguments: (--[\w-]+)", message):
            meant = did_you_mean(match[1], self._option_string_actions, meant)
        self.exit(2, f"{self.prog}: {message}; {meant}\n")

    def has(self, option: str) -> bool:
        """Whether it is an option."""
        return option in self._option_string_actions


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
    from nws_sweep.config.schema import RANGES  # which takes a while

    name, *rest = arguments
    meant = suggestion(name, [*of_programs, *commands])
    wrong = f"{name}: neither a command nor key=value"
    if Path(name).is_dir():
        images = typed("dataset=image_folder", f"dataset.root={name}", *rest)
        return f"{wrong}; did you mean {typed('report', *arguments)} or {images}?"
    if name in _INTERPRETERS:
        wanted = ["search", *rest]
    elif name.endswith(".py") or Path(name).is_file():
        wanted = ["search", *arguments]
    elif name in RANGES:
        wanted = [f"{name}={rest[0] if rest else 'VALUE'}", *rest[1:]]
    elif meant:
        wanted = [meant, *rest]
    else:
        return f"{wrong}; --help lists them"
    if len(wanted) == 1 and wanted[0] in of_programs:
        wanted.append("train.py")
    return f"{wrong}; did you mean {typed(*wanted)}?"


def typed(*arguments: str) -> str:
    """Writes a command as it is typed: what may have been meant."""
    return f"`{shlex.join(['nws-sweep', *arguments])}`"
