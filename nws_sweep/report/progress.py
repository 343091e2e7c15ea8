"""Tells a program's user how a search comes on: lines on standard error, in a notebook's cell, or to a function."""

from __future__ import annotations

import html
import logging
import sys
from collections.abc import Callable
from typing import Any

from nws_sweep.report import snippets
from nws_sweep.results import SearchRecord, Trial

Print = Callable[[str], None]
logger = logging.getLogger(__name__)


class ProgressReporter:
    """Turns what happens in a search into lines: of each candidate, and those that no program should be without."""

    def __init__(self, print_line: Print, announce: Print) -> None:
        self.print_line = print_line
        self.note = announce

    def slice_started(self, num_workers: int) -> None:
        """Is told by the trial's own line when it is done."""

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        """A line for the candidate."""
        self.print_line(snippets.trial_line(trial, result.configuration))

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        """Nothing is done between rounds."""

    def interrupted(self, result: SearchRecord) -> None:
        """The exception says so."""

    def search_finished(self, result: SearchRecord) -> None:
        """A line for the answer."""
        self.note(f"{snippets.found_line(result)}; stopped: {result.stop_reason}")


def printer_for(progress: bool | Print | None) -> Print:
    """Where lines go: to a function that takes them; for True to standard error, or the cell in a notebook; for False
    nowhere; for None as for True where someone is likely to look: on a terminal and in a notebook.
    """
    if callable(progress):
        return progress
    if progress is False:
        return _nowhere
    ipython = sys.modules.get("IPython")
    if ipython and getattr(ipython.get_ipython(), "kernel", None) is not None:
        return _Cell(ipython.display)
    return _on_standard_error if progress or sys.stderr.isatty() else _nowhere


def announcer(progress: bool | Print | None, print_line: Print) -> Print:
    """Where the lines go that no program should be without: what a search waits for, may cost, and has chosen.

    To the program's log in any case; beside that where all lines go, or to standard error where no terminal is. With
    ``progress=False`` to the log alone.
    """
    shown = _on_standard_error if progress is None and print_line is _nowhere else print_line

    def announce(line: str) -> None:
        logger.info(line)
        shown(line)

    return announce


def _nowhere(line: str) -> None:
    pass


def _on_standard_error(line: str) -> None:
    sys.stderr.write(f"nws_sweep: {line}\n")
    sys.stderr.flush()


class _Cell:
    """One output of a notebook's cell, which grows."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._text = ""
        self._handle: Any = None

    def __call__(self, line: str) -> None:
        self._text += f"{line}\n"
        content = self._display.HTML(f"<pre>{html.escape(self._text.rstrip())}</pre>")
        if self._handle is None:
            self._handle = self._display.display(content, display_id=True)
        else:
            self._handle.update(content)
