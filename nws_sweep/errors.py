"""The errors that nws_sweep raises; the command line prints their message as one line and exits with status 2."""

from __future__ import annotations


class NwsSweepError(Exception):
    """Base of all errors of this package; the message is one line that says what, which value, what is allowed."""


class ConfigurationError(NwsSweepError):
    """The command line or the configuration is wrong."""


class DatasetError(NwsSweepError):
    """The dataset cannot be made, or has nothing to load."""


class NotARunError(NwsSweepError):
    """A folder that should hold the files of a run or of a grid does not."""


class LostJob(NwsSweepError):  # noqa: N818 - no process's mistake here
    """A job on another machine, or in another process, ended without an answer; the message says how."""


class TrialError(NwsSweepError):
    """A candidate could not be measured: that becomes a row, whose reason is the message, and never ends the search."""


class TrialTimeout(TrialError):  # noqa: N818 - the state's name, as in the row
    """A candidate was not done within its time limit and was killed."""


class TrialOutOfMemory(TrialError):  # noqa: N818 - the state's name, as in the row
    """A candidate's process was killed for want of memory."""


class TrialSkipped(TrialError):  # noqa: N818 - the state's name, as in the row
    """A candidate could not have fitted and was not started."""


class TrialMismeasured(TrialError):  # noqa: N818 - the state's name, as in the row
    """What was measured cannot be true, twice."""


class WrongSamples(TrialError):  # noqa: N818 - the state's name, as in the row
    """A candidate's workers deliver other samples than loading without workers."""


class RankLost(TrialError):  # noqa: N818 - what happened
    """A rank could not meet the others: one of them is gone, which says itself why."""


class TimeBudgetSpent(Exception):  # noqa: N818 - nothing went wrong
    """The time that a search may take is over."""


def one_line(text: object, limit: int = 300) -> str:
    """Folds a message of several lines into one of at most ``limit`` characters."""
    folded = " ".join(str(text).split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"
