"""How much nws_sweep prints: ``-q`` and ``-v`` of its commands, or the environment
variable NWS_SWEEP_LOG.

A flag sets the variable, so that the processes of a search and the jobs of a launcher
print as much as the command.
"""

import enum
import itertools
import os
import warnings
from collections.abc import Sequence

from nws_sweep.errors import ConfigurationError, NwsSweepWarning, one_line

VARIABLE = "NWS_SWEEP_LOG"


class Verbosity(enum.Enum):
    """What is printed where the caller does not say (``progress=None``)."""

    QUIET = "quiet"  # the first line of an answer, and errors
    NORMAL = "normal"
    VERBOSE = "verbose"  # with the details that the page of a result has


FLAGS = {
    "-q": Verbosity.QUIET,
    "--quiet": Verbosity.QUIET,
    "-v": Verbosity.VERBOSE,
    "--verbose": Verbosity.VERBOSE,
}


def current() -> Verbosity:
    """Returns the chosen verbosity; NORMAL, with a warning, if the variable has another
    value, since a training must not end for it."""
    try:
        return check()
    except ConfigurationError as error:
        warnings.warn(f"nws_sweep: {error}", NwsSweepWarning, stacklevel=2)
        return Verbosity.NORMAL


def is_quiet() -> bool:
    """Whether only first lines of answers, and errors, are printed."""
    return current() is Verbosity.QUIET


def is_verbose() -> bool:
    """Whether details are printed, too."""
    return current() is Verbosity.VERBOSE


def check() -> Verbosity:
    """Reads the environment variable; ConfigurationError if it has another value."""
    value = os.environ.get(VARIABLE) or Verbosity.NORMAL.value
    try:
        return Verbosity(value.lower())
    except ValueError:
        raise ConfigurationError(
            one_line(f"{VARIABLE}={value}: must be quiet, normal or verbose")
        ) from None


def choose(verbosity: Verbosity) -> None:
    """Sets the verbosity of this process and of those that it starts."""
    os.environ[VARIABLE] = verbosity.value


def take_flags(arguments: Sequence[str]) -> list[str]:
    """Chooses by the flags among the arguments, and returns the other arguments; of
    several flags the last counts."""
    rest = []
    for argument in arguments:
        if argument in FLAGS:
            choose(FLAGS[argument])
        else:
            rest.append(argument)
    return rest


def take_leading_flags(arguments: Sequence[str]) -> list[str]:
    """Does what ``take_flags`` does with the flags before the first other argument: those
    behind a program are the program's."""
    leading = list(itertools.takewhile(FLAGS.__contains__, arguments))
    take_flags(leading)
    return list(arguments[len(leading) :])
