"""Results as text: the figures of trials, the tables of what was measured and of the
best settings, and the lines about a search."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nws_sweep import units
from nws_sweep.analysis import answers, caveats, twins
from nws_sweep.analysis.rates import rate
from nws_sweep.analysis.summary import ConfigurationSummary, Summary, best_of
from nws_sweep.analysis.twins import Twins
from nws_sweep.errors import printable
from nws_sweep.records import (
    Host,
    SearchRecord,
    Status,
    Trial,
    TrialState,
)

TRIAL_HEADER = (
    "num_workers",
    "per batch",
    "samples/s",
    "start-up",
    "epoch",
    "waiting",
    "memory",
    "windows",
    "state",
)
# columns of ``measured_table``
_FIRST_SHOWN = ("num_workers", "per batch", "samples/s", "epoch", "start-up", "memory")
# settings in a table behind an answer; longer tables are left to its details
_MOST_ROWS = 10
_MOST_LINES = 4  # about the points of a grid

Row = tuple[str, str]  # a label and its text


class TrialCells(NamedTuple):
    """The figures of a trial as text, under ``TRIAL_HEADER``; a dash if there is none.

    The only place that decides which figures are shown, and with how many digits.
    """

    candidate: str  # num_workers, and settings that differ from the configuration
    batch: str = units.NOTHING
    rate: str = units.NOTHING
    startup: str = units.NOTHING
    epoch: str = units.NOTHING
    waiting: str = units.NOTHING
    memory: str = units.NOTHING
    windows: str = units.NOTHING  # behind the interval
    state: str = ""  # with the reason of a failure


def of_trial(trial: Trial, result: SearchRecord) -> TrialCells:
    """Formats a trial of this search."""
    differing = result.configuration.differing(trial.settings)
    candidate = f"{trial.num_workers} {differing}".rstrip()
    state = (
        f"{trial.state.value}: {trial.reason}" if trial.reason else trial.state.value
    )
    measurement = trial.measurement
    if measurement is None:
        return TrialCells(candidate, state=state)
    return TrialCells(
        candidate=candidate,
        batch=units.interval(measurement.batch_s if trial.is_steady else None),
        rate=units.rate(rate(trial, result)),
        startup=units.seconds(measurement.startup_s, units.ROUGHLY),
        epoch=units.as_exact_as(measurement.epoch_s, measurement.batch_s),
        waiting=units.share(measurement.stall_fraction),
        memory=units.memory(measurement.memory_bytes),
        windows=str(measurement.batch_s.n) if measurement.batch_s else "0",
        state=state,
    )


def best_table(summary: Summary) -> list[list[str]]:
    """Lists the header, and the best settings of each configuration."""
    configurations = [
        configuration.configuration for configuration in summary.configurations
    ]
    references = {configuration.search.reference for configuration in configurations}
    against_cpus = "vs CPU count"
    if len(references) == 1 and None not in references:
        against_cpus += f" ({references.pop()})"
    has_ranks = any(configuration.ranks > 1 for configuration in configurations)
    header = [
        *summary.identities,
        "num_workers per rank" if has_ranks else "num_workers",
    ]
    header += ["settings", "samples/s", "per batch", "epoch", "vs 0 workers"]
    rows = [_best_cells(summary, row) for row in twins.as_fast(summary)]
    table = [[*header, against_cpus], *rows]
    if not any(
        configuration.changed_settings for configuration in summary.configurations
    ):
        for cells in table:
            del cells[header.index("settings")]
    return table


def _best_cells(summary: Summary, row: Twins) -> list[str]:
    configuration = row.first
    cells = [
        " or ".join(row.values(name)) or units.NOTHING for name in summary.identities
    ]
    best = configuration.answer
    if best is None or best.measurement is None:
        cells.append(Status.UNDECIDED.value if configuration.best else "failed")
        return cells + [units.NOTHING] * 6
    doubt = ""
    if configuration.status is Status.PROVISIONAL:
        doubt = " so far"
    elif not answers.is_certain(configuration.run.result, best):
        doubt = ", not certain"
    cells.append(f"{best.num_workers}{doubt}")
    cells.append(configuration.changed_settings or units.NOTHING)
    figures = of_trial(best, configuration.run.result)
    cells += [figures.rate, figures.batch, figures.epoch]
    for number in (0, configuration.configuration.search.reference):
        gain = configuration.gain_over(number)
        cells.append(gain.speed_up if gain else units.NOTHING)
    return cells


def lines_of(summary: Summary) -> list[str]:
    """``rows_of`` as lines of plain text."""
    return [answers.line(*row) for row in rows_of(summary)]


def first_lines_of(summary: Summary) -> list[str]:
    """The first line of the answer of a single configuration; of a grid, what takes
    answers back and which are not certain. Causes, which take many replays, are left
    out."""
    if len(summary.configurations) == 1:
        return [summary.configurations[0].conclusion.answer]
    return [answers.line(*row) for row in _at_most(_notes(summary))]


def rows_of(summary: Summary) -> list[Row]:
    """The answer of a single configuration as labels and texts, the first without a
    label; of a grid, what stands below the table of its answers."""
    if len(summary.configurations) == 1:
        return summary.configurations[0].conclusion.rows
    cost_s = sum(run.result.cost_s for run in summary.stored.runs)
    cost = [("cost", units.seconds(cost_s, units.ROUGHLY))] if cost_s else []
    return [*_at_most(_notes(summary)), *_at_most(_causes(summary)), *cost]


def _notes(summary: Summary) -> list[Row]:
    """What takes answers of a grid back, and which are not certain: what several points
    have in common once, with their names, or without if all have it."""
    points: dict[str, list[ConfigurationSummary]] = {}
    for configuration in summary.configurations:
        for text in _doubts(configuration):
            points.setdefault(text, []).append(configuration)
    notes = [*filter(None, (summary.unlike_machines, summary.load))]
    for text, doubted in points.items():
        if len(doubted) == len(summary.configurations):
            notes.append(text)
        else:
            where = Twins(tuple(doubted)).label(summary.distinguishing)
            notes.append(f"{where}: {text}")
    return [("note", text) for text in notes]


def _doubts(configuration: ConfigurationSummary) -> Iterator[str]:
    """What takes an answer back, but for other programs, what it changes, and whether
    it is not certain."""
    result, best = configuration.run.result, configuration.answer
    for note in caveats.notes(result, best):
        if note != answers.load([result]):
            yield note
    if configuration.status is Status.UNDECIDED:
        yield configuration.conclusion.answer
    elif best and not (
        configuration.status is Status.MEASURED and answers.is_certain(result, best)
    ):
        yield f"not certain: {answers.what_is_open(result, best)}"


def _causes(summary: Summary) -> list[Row]:
    """Each distinct answer of a grid: its points, the settings, and the cause; if all
    are alike, the cause and the remedies."""
    kinds = twins.of_one_kind(summary)
    if len(kinds) == 1:
        rows = kinds[0].first.conclusion.rows
        return [row for row in rows if row[0] in ("why", "next")]
    causes = []
    for alike in kinds:
        first, why = alike.first, alike.first.conclusion.why
        if first.answer and why:
            settings = answers.settings_of(first.run.result, first.answer)
            where = alike.label(summary.distinguishing)
            causes.append(("why", f"{where}: {settings}, as {why}"))
    return causes


def _at_most(rows: Sequence[Row]) -> list[Row]:
    if len(rows) <= _MOST_LINES:
        return list(rows)
    first = rows[: _MOST_LINES - 1]
    label, _ = rows[0]
    return [*first, (label, f"{len(rows) - len(first)} more, in the report")]


def host_lines(host: Host) -> tuple[str, str]:
    """Describes the CPUs, memory and system of a host; then its versions of Python and
    packages."""
    cpus = f"{host.cpu_model}, {host.usable_cpus} usable of {host.cpu_count} CPUs"
    versions = f"torch {host.torch}, torchvision {host.torchvision}, nws_sweep {host.nws_sweep}"
    return (
        f"{host.hostname}: {cpus}, {units.memory(host.memory_bytes)} memory, {host.platform}",
        f"Python {host.python}, {versions}",
    )


def answer_line(result: SearchRecord) -> str:
    """Writes the first line of the answer of a search."""
    return answers.line_of_search(result, best_of(result))


def trial_line(trial: Trial, result: SearchRecord) -> str:
    """Says whether settings were measured. Their figures may change until the search
    ends, which also gives the reasons of failures."""
    candidate = of_trial(trial, result).candidate
    if trial.state is TrialState.OK:
        return f"measured num_workers={candidate}"
    return f"num_workers={candidate} {trial.state.value}"


def measured_table(configuration: ConfigurationSummary) -> list[list[str]]:
    """Lists the header and the settings that have a time, with the figures that are
    read first; empty if there are none, or too many for a short table."""
    table = [list(_FIRST_SHOWN)]
    for trial in configuration.trials:
        if trial.objective_s is not None:
            cells = of_trial(trial, configuration.run.result)
            figures = [
                cells.batch,
                cells.rate,
                cells.epoch,
                cells.startup,
                cells.memory,
            ]
            table.append([cells.candidate, *figures])
    if not 1 < len(table) <= _MOST_ROWS + 1:
        return []
    return without_equal_columns(table)


def without_equal_columns(
    table: Sequence[Sequence[str]], names: int = 1
) -> list[list[str]]:
    """Leaves out columns whose cells say the same in all of several rows, or nothing;
    the first ones are names, which stay."""
    columns = [*zip(*table, strict=True)]
    told = columns[:names]
    for column in columns[names:]:
        texts = {*column[1:]}
        if len(texts) > 1 or (len(table) == 2 and texts != {units.NOTHING}):
            told.append(column)
    return [list(row) for row in zip(*told, strict=True)]


def details(summary: Summary) -> list[str]:
    """What ``-v`` shows besides: the details of each configuration, with its label if
    there are several; then all that was measured."""
    lines = summary.labelled(lambda configuration: configuration.details)
    lines += [f"warning: {line}" for line in summary.warnings]
    table = markdown_table(trial_table(*summary.configurations))
    return [*lines, "", *table.splitlines()]


def trial_table(*configurations: ConfigurationSummary) -> list[list[str]]:
    """Lists the header and all candidates; of several configurations, with their labels
    in the first column. Without states, if all were measured."""
    table = [["configuration", *TRIAL_HEADER]]
    for configuration in configurations:
        for trial in configuration.trials:
            table.append(
                [configuration.label, *of_trial(trial, configuration.run.result)]
            )
    if all(row[-1] == TrialState.OK.value for row in table[1:]):
        table = [row[:-1] for row in table]
    if len(configurations) > 1:
        return table
    return [row[1:] for row in table]


def markdown_table(table: Iterable[Sequence[str]]) -> str:
    """Renders rows, the header first, as Markdown with aligned columns; HTML in cells
    is not escaped."""
    cells = [[_in_cell(cell) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(f"| {' | '.join(padded)} |\n")
    rule = "|".join("-" * (width + 2) for width in widths)
    lines.insert(1, f"|{rule}|\n")
    return "".join(lines)


def _in_cell(text: str) -> str:
    """Writes the text in a line, and escapes bars, which would end the cell."""
    line = printable(text).replace("\n", " ")
    # a backslash before the bar would undo its escape
    return re.sub(r"(\\*)\|", r"\1\1\\|", line)


def preformatted(result: object) -> str:
    """Shows in a notebook what a result prints."""
    return f"<pre>{html.escape(str(result))}</pre>"
