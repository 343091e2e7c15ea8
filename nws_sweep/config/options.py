"""Options and names of commands: an error is one line."""

import argparse
import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from nws_sweep import verbosity
from nws_sweep.config.suggestions import did_you_mean, suggestion

_HELP = "--help lists the options"
_VERBOSITY = (
    ("-q", "--quiet", "print the first line of the answer, and errors"),
    ("-v", "--verbose", "print details, too: those of the page of the result"),
)
N = TypeVar("N", int, float)
# typed before a program
_INTERPRETERS = ("python", "python3")


class OptionParser(argparse.ArgumentParser):
    """Has the options that say how much is printed, and prints an error as one line,
    without the usage, which has several lines."""

    def __init__(self, prog: str, unknown: str = _HELP, **keywords: Any) -> None:
        """``unknown`` says what to do about an option that resembles none."""
        super().__init__(prog, **keywords)
        self._unknown = unknown
        for *names, meaning in _VERBOSITY:
            self.add_argument(*names, nargs=0, action=_ChooseVerbosity, help=meaning)

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit status 2, and says which option may have been
        meant."""
        meant = _HELP
        if match := re.match(r"unrecognized arguments: (--[\w-]+)", message):
            options = self._option_string_actions
            meant = did_you_mean(match[1], options, self._unknown)
        self.exit(2, f"{self.prog}: {message}; {meant}\n")

    def has(self, option: str) -> bool:
        """Whether it is an option."""
        return option in self._option_string_actions


class _ChooseVerbosity(argparse.Action):
    """Applies to the processes of a search, too."""

    def __call__(self, *arguments: Any) -> None:
        """Chooses by the name of the option, the last argument."""
        verbosity.take_flags(arguments[-1:])


def of_number(
    convert: Callable[[str], N],
    allowed: str,
    is_allowed: Callable[[N], bool] = lambda _: True,
) -> Callable[[str], N]:
    """Makes the type of an option that is a number, whose error says what is
    allowed."""

    def converted(text: str) -> N:
        with contextlib.suppress(ValueError):
            value = convert(text)
            if is_allowed(value):
                return value
        raise argparse.ArgumentTypeError(f"{text}: must be {allowed}")

    return converted


def not_empty(text: str) -> str:
    """Returns the value of an option; ArgumentTypeError if it is empty, as after
    ``--key=``."""
    if not text:
        raise argparse.ArgumentTypeError("needs a value, but it is empty")
    return text


def not_a_program(arguments: Sequence[str]) -> str:
    """Says what may have been meant where settings, or a folder of images, stand in
    place of a program; empty if neither stands there."""
    name, *rest = arguments
    if Path(name).is_dir():
        return f"{name}: a folder; did you mean {_of_images(name, rest)}?"
    if re.match(r"[\w.+/@]+=", name) and not Path(name).exists():
        settings = f"{name}: a setting, but no program"
        return f"{settings}; did you mean {typed(*arguments)}?"
    return ""


def _of_images(folder: str, rest: Sequence[str]) -> str:
    return typed("dataset=image_folder", f"dataset.root={folder}", *rest)


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
        report, images = typed("report", *arguments), _of_images(name, rest)
        return f"{wrong}; did you mean {report} or {images}?"
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
