"""The errors and the warning of nws_sweep; the command line prints the message of an
error as one line and exits with status 2."""

import re

LONGEST_LINE = 300  # characters of a message that is cut
# exit status after Ctrl-C: 128 and the number of the signal, as of a shell
INTERRUPTED = 130


class NwsSweepError(Exception):
    """Base of all errors; the message is one line with the key, the value and what is
    allowed."""


class NwsSweepWarning(UserWarning):
    """Category of every warning of nws_sweep; its message is one line."""


class ConfigurationError(NwsSweepError):
    """The command line or the configuration is wrong."""


class UnpicklableError(ConfigurationError):
    """An object of the user cannot be pickled for trial processes; ``cause`` is the
    message without a remedy."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}; {remedy}" if remedy else cause)
        self.cause = cause


class DatasetError(NwsSweepError):
    """The dataset cannot be made, or is empty."""


class NotARunError(NwsSweepError):
    """A folder holds no files of a run or a grid."""


class TrialError(NwsSweepError):
    """A candidate could not be measured: its row has the message as reason, and the
    search continues."""


class TrialTimeout(TrialError):  # noqa: N818 - the state's name, as in the row
    """A candidate exceeded its time limit and was killed."""


class TrialOutOfMemory(TrialError):  # noqa: N818 - the state's name, as in the row
    """The processes of a candidate needed more than the memory budget and were
    killed."""


class TrialInterrupted(TrialError):  # noqa: N818 - the state's name, as in the row
    """Something that says nothing about a candidate ended it: the search's time limit,
    or a signal of others."""


class TrialSkipped(TrialError):  # noqa: N818 - the state's name, as in the row
    """A candidate needs more resources than are free and was not started."""


class TrialMismeasured(TrialError):  # noqa: N818 - the state's name, as in the row
    """A measurement was impossible, and so was its repetition if there was time for
    one."""


class WrongSamples(TrialError):  # noqa: N818 - the state's name, as in the row
    """The workers of a candidate deliver different samples than loading without
    workers."""


class OutOfTime(NwsSweepError):  # noqa: N818 - an event
    """A search was ended, by its time limit or by others, before any candidate was
    measured."""


class TimeLimitReached(Exception):  # noqa: N818 - no error
    """The time budget of a search is spent."""


# Control characters but the tabulator and the end of a line, marks that change the
# direction of text, and surrogates.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with control characters as Python writes them: a terminal would obey
    some of them.

    >>> printable("\\x1b]0;title\\x07, two\\nlines")
    '\\\\x1b]0;title\\\\x07, two\\nlines'
    """
    return _UNPRINTABLE.sub(
        lambda match: match[0].encode("unicode_escape").decode("ascii"), text
    )


def joined_lines(text: object) -> str:
    """A text in a single line, without control characters."""
    return printable(" ".join(str(text).split()))


def one_line(text: object, limit: int = LONGEST_LINE) -> str:
    """Joins the lines of a message and cuts it to ``limit`` characters."""
    folded = joined_lines(text)
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"
