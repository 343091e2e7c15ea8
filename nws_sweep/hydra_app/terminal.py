"""Output of the command line during and after a sweep: live progress on a terminal,
plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

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


class View:
    """The output of a call of the command line."""

    def __init__(self) -> None:
        self._is_quiet = verbosity.is_quiet()
        terminal = sys.stdout.isatty()
        self._console = (
            _Console()
            if terminal
            else _Console(width=_PLAIN_WIDTH, force_terminal=False)
        )
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=self._console,
            transient=True,
            refresh_per_second=4,  # drawing takes CPU time from what is measured
            disable=self._is_quiet or not self._console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, left="")
        self._label = ""
        self._planned, self._done, self._measured = 1, 0, 0  # configurations
        # the answer of one search follows at the end; a job of a launcher has no plan
        self._is_only = False
        self._per_configuration = 1  # candidates
        self._measured_s = 0.0
        self._began = time.monotonic()
        self._at_most_s = math.inf
        self._ends_s: float | None = None  # from the first slice on

    def announce(self, plan: Plan) -> None:
        """Prints the plan."""
        searches = f"{plan.configurations} search{'es' * (plan.configurations > 1)}"
        lengths = "of whole epochs"
        if plan.at_most_s:
            lengths = f"at most about {units.duration(plan.at_most_s)}"
        self._print(f"{searches}, {lengths}")
        if plan.note:
            self.note(plan.note)
        self._planned, self._per_configuration = plan.configurations, plan.tried
        self._at_most_s = plan.at_most_s or math.inf
        self._is_only = plan.configurations == 1
        self._progress.update(self._task, total=plan.configurations * plan.tried)

    def status(self, text: str) -> None:
        """Shows what the program is waiting for."""
        if self._console.is_terminal:
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
        self._began = time.monotonic()
        # A sweeper that chooses the points, such as Optuna's, may choose more of them
        # than the axes have.
        left = max(0, self._planned - self._done)
        line = self._numbered(label)
        if left and self._measured:
            line += f"  (about {units.duration(left * self._measured_s / self._measured)} left)"
        self._print(line)

    def _numbered(self, label: str) -> str:
        self._label = label
        self._done += 1
        if self._planned == 1:
            return label
        return f"[{self._done}/{max(self._done, self._planned)}] {label}"

    def configuration_finished(self, label: str, result: SearchRecord) -> None:
        """Prints a configuration that an earlier program has measured into the same
        folder."""
        self._print(
            f"{self._numbered(label)}: measured before, {snippets.answer_line(result)}"
        )
        self._progress.update(
            self._task, completed=self._done * self._per_configuration
        )

    def slice_started(self, num_workers: int) -> None:
        """Shows which candidate is being measured, and the time that is left at
        most."""
        now_s = time.monotonic()
        if self._ends_s is None:
            self._ends_s = now_s + self._at_most_s
        self._progress.start()
        self._progress.update(
            self._task,
            description=printable(f"{self._label}  num_workers={num_workers}"),
            left=time_left(self._ends_s - now_s),
        )

    def trial_finished(self, trial: Trial, result: SearchRecord) -> None:
        """Prints that settings were measured, or why they were not."""
        self._progress.advance(self._task)
        self._print(f"  {snippets.trial_line(trial, result)}")

    def search_finished(self, result: SearchRecord) -> None:
        """Prints the result of a configuration, which may be reused from an earlier
        search."""
        self._progress.update(
            self._task, completed=self._done * self._per_configuration
        )
        if not self._is_only:
            self._print(f"  {snippets.answer_line(result)}")
        if result.cost_s:  # not reused
            self._measured += 1
            self._measured_s += time.monotonic() - self._began

    def failed(self, reason: str) -> None:
        """Prints that a search failed."""
        self._say(f"  failed: {reason}")

    def conclude(self, summary: Summary, written: Sequence[Path]) -> None:
        """Prints the answer, what was measured, failures, and where the report is.

        Of a grid, the table of its answers comes first. Verbose, all details; quiet, the
        first line or the table, and failures.
        """
        self.stop()
        if self._is_quiet:
            self._say_answers_and_failures(summary)
            return
        self._console.print()
        for part in _answer(summary):
            self._print_part(part)
        self._say_failures(summary)
        if verbosity.is_verbose():
            self._console.print()
            for line in snippets.details(summary):
                self._print(line)
        if written:
            self._print(f"report {written[0]}")

    def _say_failures(self, summary: Summary) -> None:
        for failure in (*summary.failures, *summary.stored.unreadable):
            self._say(f"failed {failure}")

    def _print_part(self, part: str | Table) -> None:
        if isinstance(part, Table):
            self._console.print(part)
        else:
            self._print(part)

    def _say_answers_and_failures(self, summary: Summary) -> None:
        for configuration in summary.configurations:
            label = (
                f"{configuration.label}: " if len(summary.configurations) > 1 else ""
            )
            self._say(f"{label}{configuration.conclusion.answer}")
        self._say_failures(summary)

    def stop(self) -> None:
        """Ends the live display."""
        self._progress.stop()

    def _print(self, line: str) -> None:
        if not self._is_quiet:
            self._say(line)

    def _say(self, line: str) -> None:
        # no wrapping, because users copy paths
        self._progress.console.print(_text(line), soft_wrap=True)


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


def _answer(summary: Summary) -> Iterator[str | Table]:
    """The lines of the answer, then a short table of what was measured; of a grid, the
    table of its answers, then the lines."""
    if len(summary.configurations) > 1:
        yield _table(snippets.best_table(summary), len(summary.identities))
        yield from snippets.lines_of(summary)
        return
    yield from snippets.lines_of(summary)
    measured = snippets.measured_table(summary.configurations[0])
    if 1 < len(measured) <= snippets.MOST_ROWS + 1:
        yield _table(measured, 0)


def _table(rows: Sequence[Sequence[str]], identities: int) -> Table:
    """A table with its header; the first columns are names, the others numbers."""
    table = Table()
    for index, name in enumerate(rows[0]):
        justify: JustifyMethod = "left" if index < identities else "right"
        table.add_column(_text(name), justify=justify, overflow="fold")
    for row in rows[1:]:
        table.add_row(*map(_text, row))
    return table
