"""Progress of a search: a bar on a terminal and in a notebook, else lines on standard
error or passed to a function."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from nws_sweep import verbosity
from nws_sweep.config.python_notation import in_python
from nws_sweep.errors import printable
from nws_sweep.records import SearchRecord, Trial
from nws_sweep.report import snippets
from nws_sweep.report.progress_bar import (
    NotebookBar,
    TerminalBar,
    print_in_notebook,
)
from nws_sweep.system import streams

Print = Callable[[str], None]
Progress = bool | Print | None  # as for ``nws_sweep.search``
logger = logging.getLogger(__name__)
_is_report_to_follow = ContextVar("_is_report_to_follow", default=False)


@contextlib.contextmanager
def report_to_follow() -> Iterator[None]:
    """Announces no answers of searches inside: a report that has them follows."""
    token = _is_report_to_follow.set(True)
    try:
        yield
    finally:
        _is_report_to_follow.reset(token)


def _discard(*_: Any, **__: Any) -> None:
    pass


class ProgressReporter:
    """An ``Observer`` that announces the answer, and shows a bar where that is possible,
    else a line for each candidate. Lines are in the notation of Python.

    Args:
        progress: As for ``nws_sweep.search``.
        keep: Called with the record of an interrupted search; None to lose it.
    """

    def __init__(
        self, progress: Progress, keep: Callable[[SearchRecord], None] | None = None
    ) -> None:
        self._progress, self._keep = progress, keep
        self._bar: TerminalBar | None = None

    def begin(self, limit_s: float) -> None:
        """Prepares the bar of a search with this time limit."""
        self._bar = _bar_for(self._progress, limit_s)

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def slice_started(self, num_workers: int) -> None:
        """Shows which candidate is measured."""
        if self._bar is not None:
            self._bar.show(f"measuring num_workers={num_workers}")

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        """Prints that the settings were measured, or why not, unless a bar shows it."""
        if self._bar is None or verbosity.is_verbose():
            self.print_line(snippets.trial_line(trial, result))

    def search_finished(self, result: SearchRecord) -> None:
        """Announces the answer, unless a report of it follows."""
        self.close()
        if not _is_report_to_follow.get():
            self.answer(snippets.answer_line(result))

    def interrupted(self, result: SearchRecord) -> None:
        """Keeps what was measured, and announces the best so far; the exception reports
        the interruption."""
        if self._keep is not None:
            self._keep(result)
        self.answer(f"interrupted: {snippets.answer_line(result)}")

    def print_line(self, line: str) -> None:
        """Prints a line that is of interest only while the search runs."""
        printer = self._bar.print_line if self._bar else printer_for(self._progress)
        printer(in_python(line))

    def note(self, line: str) -> None:
        """Announces what the search waits for or does, unless only answers are wanted."""
        line = in_python(line)
        if self._bar is not None:
            logger.info(printable(line))
            self._bar.print_line(line)
        else:
            noter(self._progress)(line)

    def answer(self, line: str) -> None:
        """Announces the answer in place of the bar."""
        self.close()
        announcer(self._progress)(in_python(line))

    # its figures are preliminary
    round_finished = staticmethod(_discard)


def printer_for(progress: Progress) -> Print:
    """Returns the function that prints progress.

    ``progress`` may be that function. True prints to standard error, or to the cell of
    a notebook; False prints nothing; None prints on a terminal and in a notebook, and
    as nws_sweep is to be quiet or verbose.
    """
    if callable(progress):
        return progress
    if progress is False or _is_quiet(progress):
        return _discard
    if progress or verbosity.is_verbose() or _is_notebook() or sys.stderr.isatty():
        return _printer()
    return _discard


def noter(progress: Progress) -> Print:
    """Returns ``announcer(progress)`` for lines about the way to an answer, which are
    only logged if nws_sweep is to be quiet."""
    if _is_quiet(progress):
        return lambda line: logger.info(printable(line))
    return announcer(progress)


def announcer(progress: Progress) -> Print:
    """Returns the function for important lines: an answer, and why there is none.

    It logs each line at INFO, and prints it as ``printer_for(progress)`` does; where
    that prints nothing for lack of a terminal (``progress=None``), to standard error.
    If nws_sweep is to be quiet, it prints the first line of a text.
    """
    print_line = _printer() if progress is None else printer_for(progress)
    is_quiet = _is_quiet(progress)

    def announce(line: str) -> None:
        for part in line.splitlines():  # a record each, as logs are read
            logger.info(printable(part))
        print_line(line.partition("\n")[0] if is_quiet else line)

    return announce


def _is_quiet(progress: Progress) -> bool:
    """Whether only answers are printed; an argument counts before the flag and the
    environment."""
    return progress is None and verbosity.is_quiet()


def _bar_for(progress: Progress, limit_s: float) -> TerminalBar | None:
    """Makes the bar of a search; None where lines are printed, or nothing."""
    if callable(progress) or printer_for(progress) is _discard:
        return None
    bar: TerminalBar | None = None
    if _is_notebook():
        bar = NotebookBar(limit_s)
    elif sys.stderr.isatty() and not streams.has_bars():
        bar = TerminalBar(limit_s)
    return bar if bar is not None and bar.is_drawn else None


def _printer() -> Print:
    if _is_notebook():
        return print_in_notebook
    return streams.print_line


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return bool(ipython and getattr(ipython.get_ipython(), "kernel", None) is not None)
