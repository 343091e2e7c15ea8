"""Results as text: the figures of trials, the table of best settings, and the lines
about a search."""

import html
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nws_sweep import units
from nws_sweep.analysis import answers
from nws_sweep.analysis.summary import ConfigurationSummary, Summary, best_of
from nws_sweep.errors import printable
from nws_sweep.records import (
    Configuration,
    Host,
    SearchRecord,
    Status,
    Trial,
    TrialState,
    shown,
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


def of_trial(trial: Trial, configuration: Configuration) -> TrialCells:
    """Formats a trial of this configuration."""
    candidate = (
        f"{trial.num_workers} {configuration.differing(trial.settings)}".rstrip()
    )
    state = (
        f"{trial.state.value}: {trial.reason}" if trial.reason else trial.state.value
    )
    measurement = trial.measurement
    if measurement is None:
        return TrialCells(candidate, state=state)
    uncertainty = units.uncertainty(measurement.batch_s)
    return TrialCells(
        candidate=candidate,
        batch=units.interval(measurement.batch_s),
        rate=units.number(measurement.samples_per_s, uncertainty),
        startup=units.seconds(measurement.startup_s),
        epoch=units.seconds(measurement.epoch_s, uncertainty),
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
    header = [*summary.varying, "num_workers per rank" if has_ranks else "num_workers"]
    if summary.searched_others:
        header.append("settings")
    header += ["samples/s", "per batch", "epoch", "vs 0 workers", against_cpus]
    return [
        header,
        *(
            _best_cells(summary, configuration)
            for configuration in summary.configurations
        ),
    ]


def _best_cells(summary: Summary, configuration: ConfigurationSummary) -> list[str]:
    columns = configuration.configuration.columns
    cells = [
        shown(columns[name]) if name in columns else units.NOTHING
        for name in summary.varying
    ]
    best = configuration.answer
    if best is None or best.measurement is None:
        cells.append(Status.UNDECIDED.value if configuration.best else "failed")
        return cells + [units.NOTHING] * (6 if summary.searched_others else 5)
    is_provisional = configuration.status is Status.PROVISIONAL
    cells.append(
        f"{best.num_workers} ({Status.PROVISIONAL.value})"
        if is_provisional
        else str(best.num_workers)
    )
    if summary.searched_others:
        cells.append(configuration.changed_settings or units.NOTHING)
    figures = of_trial(best, configuration.configuration)
    cells += [figures.rate, figures.batch, figures.epoch]
    for gain in (configuration.gain_over_zero, configuration.gain_over_reference):
        cells.append(gain.speed_up if gain else units.NOTHING)
    return cells


def host_lines(host: Host) -> tuple[str, str]:
    """Describes the CPUs, memory and system of a host; then its versions of Python and
    packages."""
    cpus = f"{host.cpu_model}, {host.usable_cpus} usable of {host.cpu_count} CPUs"
    versions = f"torch {host.torch}, torchvision {host.torchvision}, nws_sweep {host.nws_sweep}"
    return (
        f"{host.hostname}: {cpus}, {units.memory(host.memory_bytes)} memory, {host.platform}",
        f"Python {host.python}, {versions}",
    )


def status(configuration: ConfigurationSummary) -> str:
    """Says how the answer was found, and what is open if it is not measured."""
    if configuration.status is Status.MEASURED:
        return Status.MEASURED.value
    if configuration.status is Status.PROVISIONAL:
        return f"{Status.PROVISIONAL.value}: {answers.what_is_open(configuration.run.result)}"
    return configuration.headline


def cost_line(result: SearchRecord) -> str:
    """Says what a search cost: ``search took 6.80 s, 1.5 epochs at the best
    setting``."""
    line = f"search took {units.seconds(result.cost_s)}"
    best = best_of(result)
    if best and best.measurement and best.measurement.epoch_s:
        line += f", {units.number(result.cost_s / best.measurement.epoch_s)} epochs at the best setting"
    return line


def found_line(result: SearchRecord) -> str:
    """Writes the first line of the answer of a search."""
    best = best_of(result)
    settings = ""
    if best:
        settings = f"num_workers={best.num_workers}{result.configuration.rank_suffix}"
    return answers.first_line(result, best, settings)


def end_line(result: SearchRecord) -> str:
    """Writes the first line of the answer of a search that has ended, and the reason to
    stop unless it says it."""
    if result.status in (Status.PROVISIONAL, Status.UNDECIDED):
        return found_line(result)
    return f"{found_line(result)}; stopped: {result.stop_reason}"


def trial_line(trial: Trial, configuration: Configuration) -> str:
    """Writes the figures of a candidate in a line."""
    cells = of_trial(trial, configuration)
    workers, _, settings = cells.candidate.partition(" ")
    name = f"num_workers={workers:<3}"
    if settings:
        name += f" {settings}"
    # the times of one that is mismeasured are impossible
    if trial.state is not TrialState.OK:
        return f"{name} {cells.state}"
    times = f"start-up {cells.startup:>8}  epoch {cells.epoch:>8}"
    return f"{name} {cells.batch:>14} a batch  {cells.rate:>8} samples/s  {times}"


def trial_table(*configurations: ConfigurationSummary) -> list[list[str]]:
    """Lists the header and all candidates; of several configurations, with their labels
    in the first column."""
    table = [["configuration", *TRIAL_HEADER]]
    for configuration in configurations:
        for trial in configuration.trials:
            table.append(
                [configuration.label, *of_trial(trial, configuration.configuration)]
            )
    return table if len(configurations) > 1 else [row[1:] for row in table]


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
