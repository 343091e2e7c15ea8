"""Output of the command line during and after a sweep: live progress on a terminal,
plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
)
from rich.table import Table
from rich.text import Text

from nws_sweep import units, verbosity
from nws_sweep.analysis.summary import Summary
from nws_sweep.errors import printable
from nws_sweep.hydra_app.grid import Plan
from nws_sweep.records import SearchRecord, Trial
from nws_sweep.report import snippets
from nws_sweep.report.progress_bar import time_left
from nws_sweep.system import streams

# Wide enough for the table of best settings.
_PLAIN_WIDTH = 160
_BETWEEN = 3  # characters between columns
# Headings of the columns that a narrow table lacks, the first ones first.
_LEFT_OUT = (
    *("vs CPU count", "memory", "start-up", "per batch", "samples/s"),
    *("epoch", "vs 0 workers"),
)
# of a job of a launcher
_UNPLANNED = Plan(configurations=0, tried=1, at_most_s=None, varying=())


class View:
    """The output of a call of the command line."""

    def __init__(self) -> None:
        self._is_quiet = verbosity.is_quiet()
        console = _Console(width=_PLAIN_WIDTH, force_terminal=False)
        if sys.stdout.isatty():
            console = _Console()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            transient=True,
            refresh_per_second=4,  # drawing takes CPU time from what is measured
            disable=self._is_quiet or not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, left="")
        self._label = ""
        self._plan = _UNPLANNED
        self._done, self._measured = 0, 0  # configurations
        self._measured_s = 0.0
        self._began_s = time.monotonic()
        self._ends_s: float | None = None  # from the first slice on

    def announce(self, plan: Plan) -> None:
        """Prints the plan."""
        searches = f"{plan.configurations} search{'es' * (plan.configurations > 1)}"
        lengths = "of whole epochs"
        if plan.at_most_s:
            lengths = f"at most about {units.limit(plan.at_most_s)}"
        self._print(f"{searches}, {lengths}")
        if plan.note:
            self.note(plan.note)
        self._plan = plan
        self._progress.update(self._task, total=plan.configurations * plan.tried)

    def status(self, text: str) -> None:
        """Shows what the program is waiting for."""
        if self._progress.console.is_terminal:
            self._progress.start()
            self._progress.update(self._task, description=printable(text), left="")
        else:
            self._print(text)

    def note(self, line: str) -> None:
        """Prints a note for the user, also if only answers and errors are wanted: some
        are about files that could not be written."""
        self._say(f"note: {line}")

    def configuration_started(self, label: str) -> None:
        """Prints the configuration whose search starts, and the remaining time."""
        self._began_s = time.monotonic()
        # A sweeper that chooses the points, such as Optuna's, may choose more of them
        # than the axes have.
        left = max(0, self._plan.configurations - self._done)
        line = self._numbered(label)
        if left and self._measured:
            line += f"  (about {units.duration(left * self._measured_s / self._measured)} left)"
        self._print(line)

    def _numbered(self, label: str) -> str:
        self._label = label
        self._done += 1
        planned = self._plan.configurations
        if planned <= 1:
            return label
        return f"[{self._done}/{max(self._done, planned)}] {label}"

    def configuration_finished(self, label: str, result: SearchRecord) -> None:
        """Prints a configuration that an earlier program has measured into the same
        folder."""
        answer = snippets.answer_line(result)
        self._print(f"{self._numbered(label)}: measured before, {answer}")
        ended = self._done * self._plan.tried
        self._progress.update(self._task, completed=ended)

    def slice_started(self, num_workers: int) -> None:
        """Shows which candidate is being measured, and the time that is left at
        most."""
        now_s = time.monotonic()
        if self._ends_s is None:
            self._ends_s = now_s + (self._plan.at_most_s or math.inf)
        self._progress.start()
        self._progress.update(
            self._task,
            description=printable(f"{self._label}  num_workers={num_workers}"),
            left=time_left(self._ends_s - now_s),
        )

    def trial_finished(self, trial: Trial, result: SearchRecord) -> None:
        """Prints whether settings were measured."""
        self._progress.advance(self._task)
        self._print(f"  {snippets.trial_line(trial, result)}")

    def search_finished(self, result: SearchRecord) -> None:
        """Prints the result of a configuration, which may be reused from an earlier
        search."""
        ended = self._done * self._plan.tried
        self._progress.update(self._task, completed=ended)
        if self._plan.configurations != 1:  # whose answer follows
            self._print(f"  {snippets.answer_line(result)}")
        if result.cost_s:  # not reused
            self._measured += 1
            self._measured_s += time.monotonic() - self._began_s

    def failed(self, reason: str) -> None:
        """Prints that a search failed."""
        self._say(f"  failed: {reason}")

    def conclude(self, summary: Summary, written: Sequence[Path]) -> None:
        """Prints the answer, what was measured, failures, and where the report is.

        Of a grid, the table of its answers comes first. Verbose, all details; quiet, the
        first line or the table, and failures.
        """
        self.stop()
        width = self._progress.console.width
        for part in _answer(summary, width, is_quiet=self._is_quiet):
            self._say(part)
        for failure in (*summary.failures, *summary.stored.unreadable):
            self._say(f"failed {failure}")
        if verbosity.is_verbose():
            for line in ("", *snippets.details(summary)):
                self._print(line)
        if written:
            self._print(f"report {written[0]}")

    def stop(self) -> None:
        """Ends the live display."""
        self._progress.stop()

    def _print(self, line: str) -> None:
        if not self._is_quiet:
            self._say(line)

    def _say(self, line: str | Table) -> None:
        text = _text(line) if isinstance(line, str) else line
        # no wrapping of lines, because users copy paths
        self._progress.console.print(text, soft_wrap=isinstance(line, str))


class _Console(Console):
    """Prints nothing after a broken pipe, where rich itself would exit: the results are
    written to files."""

    def on_broken_pipe(self) -> None:
        """Silences the output."""
        self.quiet = True
        streams.silence_output()


def _text(text: str) -> Text:
    """Text as it is: names may look like rich's markup, or contain control
    characters."""
    return Text(printable(text))


def _answer(summary: Summary, width: int, *, is_quiet: bool) -> Iterator[str | Table]:
    """The lines of the answer, then a short table of what was measured; of a grid, the
    table of its answers, then the lines. If quiet, the first lines."""
    if is_quiet:
        yield from summary.labelled(lambda c: [c.conclusion.answer])
        return
    yield ""
    if len(summary.configurations) > 1:
        identities = len(summary.identities)
        yield _table(snippets.best_table(summary), identities, width)
        yield ""
        yield from snippets.lines_of(summary)
        return
    yield from snippets.lines_of(summary)
    measured = snippets.measured_table(summary.configurations[0])
    if measured and not verbosity.is_verbose():  # whose details have a longer table
        yield ""
        yield _table(measured, 0, width)
        yield ""


def _table(rows: Sequence[Sequence[str]], identities: int, width: int) -> Table:
    """A table with its header, of the columns that fit; the first columns are names,
    the others numbers."""
    names = set(rows[0][:identities])
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    fitting = _fitting(rows, identities, width)
    for name in fitting[0]:
        justify: JustifyMethod = "left" if name in names else "right"
        table.add_column(_text(name), justify=justify, overflow="ellipsis")
    for row in fitting[1:]:
        table.add_row(*map(_text, row))
    return table


def _fitting(
    rows: Sequence[Sequence[str]], identities: int, width: int
) -> list[list[str]]:
    """Leaves out columns until the table is as narrow as the terminal, what a reader
    misses least first: names without which the rows still differ, then figures that
    others imply."""
    columns = [*zip(*rows, strict=True)]
    named, figures = columns[:identities], columns[identities:]
    for name in named[1:]:
        others = [column for column in named if column is not name]
        is_needed = len({*zip(*others, strict=True)}) < len(rows)
        if not is_needed and _width_of([*named, *figures]) > width:
            named = others
    for heading in _LEFT_OUT:
        if _width_of([*named, *figures]) > width:
            figures = [c for c in figures if not c[0].startswith(heading)]
    return [list(row) for row in zip(*named, *figures, strict=True)]


def _width_of(columns: Sequence[Sequence[str]]) -> int:
    """The width of a table, with two spaces between columns and a rule."""
    return sum(max(map(cell_len, column)) + _BETWEEN for column in columns)
