"""The bar of a search in Python: the time that is left at most, on a terminal or in the
cell of a notebook.

A search draws it before each time slice, when all that is measured is paused. No thread
draws: it would take CPU time from what is measured, and a process that has threads
should not be forked.
"""

import math
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from nws_sweep.errors import printable


class TerminalBar:
    """Shows on standard error what is measured, and the time that is left at most.

    Args:
        limit_s: Time limit of the search in seconds, infinite for none.
        console: Another place than standard error.
    """

    def __init__(self, limit_s: float, console: Console | None = None) -> None:
        self._limit_s = limit_s
        self._began_s: float | None = None
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[left]}", markup=False),
            console=console or Console(stderr=True),
            auto_refresh=False,
            transient=True,
            # a forked process would keep rich's streams
            redirect_stdout=False,
            redirect_stderr=False,
        )
        total = limit_s if math.isfinite(limit_s) else None
        self._task = self._progress.add_task("", total=total, left="")

    @property
    def is_drawn(self) -> bool:
        """Whether the terminal can move its cursor."""
        console = self._progress.console
        return console.is_terminal and not console.is_dumb_terminal

    def show(self, text: str) -> None:
        """Draws the bar with a text; its time begins at the first call."""
        now_s = time.monotonic()
        if self._began_s is None:
            self._began_s = now_s
        spent_s = min(now_s - self._began_s, self._limit_s)
        self._progress.update(
            self._task,
            completed=spent_s,
            description=printable(text),
            left=time_left(self._limit_s - spent_s),
        )
        self._draw()

    def print_line(self, line: str) -> None:
        """Prints a line above the bar."""
        text = Text(f"nws_sweep: {printable(line)}")
        self._progress.console.print(text, soft_wrap=True)

    def close(self) -> None:
        """Removes the bar."""
        self._progress.stop()

    def _draw(self) -> None:
        self._progress.start()
        self._progress.refresh()


class NotebookBar(TerminalBar):
    """Shows the bar in the cell that searches; rich itself would need ipywidgets."""

    _cell: Any = None

    @property
    def is_drawn(self) -> bool:
        """Every notebook can show it."""
        return True

    def print_line(self, line: str) -> None:
        """Prints a line in the cell."""
        print_in_notebook(line)

    def close(self) -> None:
        """Empties the place of the bar."""
        if self._cell is not None:
            self._cell.update(Text())

    def _draw(self) -> None:
        table = self._progress.make_tasks_table(self._progress.tasks)
        if self._cell is None:
            from IPython.display import display

            self._cell = display(table, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._cell.update(table)


def print_in_notebook(line: str) -> None:
    """Prints a line in the cell that runs."""
    sys.stdout.write(f"{printable(line)}\n")


def time_left(at_most_s: float) -> str:
    """Says how many minutes and seconds are left at most, with a second that has begun;
    empty for infinite."""
    if math.isinf(at_most_s):
        return ""
    minutes, seconds = divmod(math.ceil(max(0.0, at_most_s)), 60)
    return f"at most {minutes}:{seconds:02d} left"
