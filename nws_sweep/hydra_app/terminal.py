"""Output of the command line during and after a sweep: live progress on a terminal,
plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
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
from nws_sweep.records import Configuration, SearchRecord, Trial
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
        self._per_configuration = 1  # candidates
        self._measured_s = 0.0
        self._began = time.monotonic()
        self._at_most_s = math.inf
        self._ends_s: float | None = None  # from the first slice on

    def announce(self, plan: Plan) -> None:
        """Prints the plan."""
        count, tried, candidates = plan.configurations, plan.tried, plan.candidates
        most = units.counted(tried, "candidate")
        if tried < len(candidates):
            most = f"{tried} of {len(candidates)} candidates"
        numbers = ", ".join(map(str, candidates))
        if len(candidates) > 10:
            numbers = f"{candidates[0]} to {candidates[-1]}"
        lengths = (
            f"at most about {units.seconds(plan.at_most_s)}"
            if plan.at_most_s
            else "whole epochs"
        )
        self._print(
            f"{units.counted(count, 'configuration')}, up to {most} each (num_workers {numbers}), {lengths}"
        )
        if plan.note:
            self.note(plan.note)
        self._planned, self._per_configuration = count, tried
        self._at_most_s = plan.at_most_s or math.inf
        self._progress.update(self._task, total=count * tried)

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
            line += f"  (about {units.seconds(left * self._measured_s / self._measured)} left)"
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
            f"{self._numbered(label)}: measured before, {snippets.found_line(result)}"
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

    def trial_finished(self, trial: Trial, configuration: Configuration) -> None:
        """Prints a line for a candidate."""
        self._progress.advance(self._task)
        self._print(f"  {snippets.trial_line(trial, configuration)}")

    def search_finished(self, result: SearchRecord) -> None:
        """Prints the result of a configuration, which may be reused from an earlier
        search."""
        self._progress.update(
            self._task, completed=self._done * self._per_configuration
        )
        self._print(f"  {snippets.end_line(result)}")
        if result.cost_s:  # not reused
            self._measured += 1
            self._measured_s += time.monotonic() - self._began
            self._print(f"  {snippets.cost_line(result)}")

    def failed(self, reason: str) -> None:
        """Prints that a search failed."""
        self._say(f"  failed: {reason}")

    def conclude(self, summary: Summary, written: Sequence[Path]) -> None:
        """Prints answers, the table of best settings, explanations, failures, warnings
        and paths of written files."""
        self.stop()
        if self._is_quiet:
            self._say_answers_and_failures(summary)
            return
        self._console.print()
        for line in summary.headlines:
            self._print(line)
        self._console.print(_best_table(summary))
        for line in summary.explanations:
            self._print(f"why: {line}")
        for line in summary.failures:
            self._print(f"failed: {line}")
        for line in summary.all_warnings:
            self._print(f"warning: {line}")
        for path in written:
            self._print(f"wrote {path}")

    def _say_answers_and_failures(self, summary: Summary) -> None:
        for configuration in summary.configurations:
            label = (
                f"{configuration.label}: " if len(summary.configurations) > 1 else ""
            )
            self._say(f"{label}{configuration.headline}")
        for line in summary.failures:
            self._say(f"failed: {line}")

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


def _best_table(summary: Summary) -> Table:
    table = Table(title=_text("Best settings"), title_justify="left")
    header, *rows = snippets.best_table(summary)
    for index, name in enumerate(header):
        is_identity = index < len(summary.varying)
        table.add_column(
            _text(name), justify="left" if is_identity else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(_text, row))
    return table
