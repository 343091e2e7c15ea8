"""Progress of a search as lines: on standard error, in a notebook, or passed to a
function."""

import logging
import sys
from collections.abc import Callable
from typing import Any

from nws_sweep.errors import printable
from nws_sweep.records import SearchRecord, Trial
from nws_sweep.report import snippets
from nws_sweep.system import streams

Print = Callable[[str], None]
Progress = bool | Print | None  # as for ``nws_sweep.search``
logger = logging.getLogger(__name__)


def _discard(*_: Any, **__: Any) -> None:
    pass


class ProgressReporter:
    """An ``Observer`` that prints a line for each candidate, and announces the answer.

    Args:
        progress: As for ``nws_sweep.search``.
        keep: Called with the record of an interrupted search; None to lose it.
    """

    def __init__(
        self, progress: Progress, keep: Callable[[SearchRecord], None] | None = None
    ) -> None:
        self.print_line = printer_for(progress)
        self.note = announcer(progress)
        self._keep = keep

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        """Prints the figures of the candidate."""
        self.print_line(snippets.trial_line(trial, result.configuration))

    def search_finished(self, result: SearchRecord) -> None:
        """Announces the answer, and why the search stopped."""
        self.note(snippets.end_line(result))

    def interrupted(self, result: SearchRecord) -> None:
        """Keeps what was measured, and announces the best so far; the exception reports
        the interruption."""
        if self._keep is not None:
            self._keep(result)
        self.note(f"interrupted: {snippets.found_line(result)}")

    # their figures are preliminary
    slice_started = round_finished = staticmethod(_discard)


def printer_for(progress: Progress) -> Print:
    """Returns the function that prints progress.

    ``progress`` may be that function. True prints to standard error, or to the cell of
    a notebook; False prints nothing; None prints on a terminal and in a notebook only.
    """
    if callable(progress):
        return progress
    if progress is False:
        return _discard
    ipython = sys.modules.get("IPython")
    if ipython and getattr(ipython.get_ipython(), "kernel", None) is not None:
        return _in_notebook
    return streams.print_line if progress or sys.stderr.isatty() else _discard


def announcer(progress: Progress) -> Print:
    """Returns the function for important lines: what a search waits for, its cost, and
    the chosen setting.

    It logs each line at INFO, and prints it as ``printer_for(progress)`` does; where
    that prints nothing for lack of a terminal (``progress=None``), to standard error.
    """
    print_line = printer_for(progress)
    if progress is None and print_line is _discard:
        print_line = streams.print_line

    def announce(line: str) -> None:
        logger.info(printable(line))
        print_line(line)

    return announce


def _in_notebook(line: str) -> None:
    sys.stdout.write(f"{printable(line)}\n")
