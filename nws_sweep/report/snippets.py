"""Results as text: the figures of trials, and the best settings ready to paste: arguments, keywords, YAML, JSON."""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import yaml

from nws_sweep import units
from nws_sweep.analysis import answers
from nws_sweep.analysis.summary import ConfigurationSummary, Summary, best_of
from nws_sweep.config import project_keys
from nws_sweep.errors import ConfigurationError, joined_lines, one_line, printable
from nws_sweep.results import (
    Configuration,
    Host,
    LoaderSettings,
    SearchRecord,
    Status,
    Trial,
    TrialState,
    ranges,
    shown,
)

FORMATS = ("table", "overrides", "kwargs", "lightning", "transformers", "yaml", "json")

# Arguments of transformers.TrainingArguments, by the settings.
_TRAINING_ARGUMENTS = {"batch_size": "per_device_train_batch_size"} | {
    name: f"dataloader_{name}" for name in ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers")
}

# The C version is ten times as fast; some platforms lack it.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

TRIAL_HEADER = ("num_workers", "per batch", "samples/s", "start-up", "epoch", "waiting", "memory", "windows", "state")

Settings = Mapping[str, Any]


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
    candidate = f"{trial.num_workers} {configuration.differing(trial.settings)}".rstrip()
    state = f"{trial.state.value}: {trial.reason}" if trial.reason else trial.state.value
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The best settings in one format."""

    text: str  # ready to paste: empty, or whole lines
    comments: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Comments and text as YAML."""
        return "".join(f"# {joined_lines(line)}\n" for line in self.comments) + self.text


def best_settings(summary: ConfigurationSummary) -> dict[str, Any] | None:
    """The DataLoader keywords to paste; None without an answer.

    They are num_workers, settings that were searched or vary in the grid, and settings in which the measured loader
    differs from the user's DataLoader, or from DataLoader's defaults if there is none.
    """
    if summary.answer is None:
        return None
    facts, settings = summary.run.result.facts, summary.answer.settings
    original = facts.loader if facts and facts.loader else LoaderSettings(batch_size=1)
    searched = set(summary.searched)
    if summary.project and settings.num_workers == 0:  # DataLoader rejects these settings without workers
        in_project = {*summary.project.keys, *summary.project.unclear}
        searched |= in_project & {"prefetch_factor", "persistent_workers"}
    return settings.changes(original, searched)


def render(summary: Summary, format_name: str, key: str | None = None) -> Rendered:
    """The best settings in one of ``FORMATS``.

    Args:
        summary: The results.
        format_name: ``table``, ``yaml`` and ``json`` (one mapping for a run, a list for a grid) hold all
            configurations, the others the fastest; ``best --help`` says for what.
        key: The place of the settings in the user's configuration, such as ``data`` for ``++data.num_workers=4``: the
            prefix of ``overrides`` and ``lightning``, and the package of ``yaml``, which Hydra then composes there.
            Without it ``lightning`` uses LightningCLI's ``data``; ``overrides`` and the ``yaml`` of a run use the keys
            of the project's config if one was measured.

    Raises:
        ConfigurationError: If the key is invalid, or a setting below it is a mapping of the project's config, or the
            format holds one configuration and there are several datasets.
    """
    if key and not ranges.fits(key, ranges.DottedKey):
        raise ConfigurationError(one_line(f"--key {key}: must be names joined by dots, such as data.loader"))
    if format_name in ("table", "json") or (format_name == "yaml" and key is None):
        return _of_all(summary, format_name)
    number = len(summary.configurations)
    if number == 1:
        return _of_single(summary.configurations[0], format_name, key)
    fastest = summary.fastest
    if fastest is None or "dataset" in summary.distinguishing:  # samples of two datasets cannot be compared
        varying = f" ({', '.join(summary.distinguishing)})" if summary.distinguishing else ""
        raise ConfigurationError(
            f"--format {format_name}: holds one configuration, but there are {number}; "
            f"pick one with --where KEY=VALUE{varying}, or pass its folder"
        )
    rendered = _of_single(fastest, format_name, key)
    comments = [
        f"of {number} configurations, {fastest.label} loads the most {summary.rate_unit}; --where chooses another"
    ]
    if summary.unlike_machines:
        comments.append(summary.unlike_machines)
    return replace(rendered, comments=(*comments, *rendered.comments))


def _of_all(summary: Summary, format_name: str) -> Rendered:
    if format_name == "table":
        text = as_markdown_table(summary)
        if summary.headlines:
            text = "\n".join([*summary.headlines, "", text])
        return Rendered(text=text, comments=_labelled(summary, _beside_headline))
    is_grid = summary.stored.is_grid
    if format_name == "yaml" and not is_grid:
        return best_file(summary.configurations[0])
    mappings = [as_mapping(configuration) for configuration in summary.configurations]
    document = mappings if is_grid else mappings[0]
    text = as_yaml(document) if format_name == "yaml" else json.dumps(document, indent=2) + "\n"
    return Rendered(text=text, comments=_labelled(summary, _about))


def _labelled(summary: Summary, lines_of: Callable[[ConfigurationSummary], Iterator[str]]) -> tuple[str, ...]:
    """The lines about all configurations, with the label of each of several."""
    lines = [summary.unlike_machines] if summary.unlike_machines else []
    for configuration in summary.configurations:
        label = f"{configuration.label}: " if len(summary.configurations) > 1 else ""
        lines += [f"{label}{line}" for line in lines_of(configuration)]
    return tuple(lines)


def as_mapping(configuration: ConfigurationSummary) -> dict[str, Any]:
    """An answer for other programs: the configuration, how the answer was found, and the keywords of DataLoader."""
    status = configuration.status
    return {
        "configuration": dict(configuration.configuration.columns),
        "status": status and status.value,
        "loader": best_settings(configuration),
    }


def _of_single(configuration: ConfigurationSummary, format_name: str, key: str | None) -> Rendered:
    settings = best_settings(configuration)
    if not settings:
        return Rendered(text="", comments=(f"{configuration.label}: {configuration.headline}",))
    if key is not None and configuration.project is not None:
        project_keys.refuse_mapping(settings, configuration.project, key)
    comments = [*_about(configuration)]
    if format_name == "yaml":
        line = f"# @package {key or '_global_'}\n{as_yaml(settings).rstrip()}"
    elif format_name == "kwargs":
        line = kwargs(settings)
    elif format_name == "lightning":
        line = arguments(settings, "--", "data" if key is None else key)
    elif format_name == "transformers":
        line = transformers(settings)
        comments += unknown_to_transformers(settings)
    elif key is not None:
        line = arguments(settings, "++", key)
    else:
        line = overrides_in_place(configuration)
        comments += left_out(configuration)
    return Rendered(text=f"{line}\n" if line else "", comments=tuple(comments))


def best_file(configuration: ConfigurationSummary) -> Rendered:
    """The best setting as YAML: keywords of DataLoader, or the keys of the project's config if one was measured."""
    settings, project = best_settings(configuration), configuration.project
    placed = project_keys.as_nodes(settings, project) if settings and project else settings
    lines = [*_about(configuration), *left_out(configuration)]
    if configuration.status is Status.MEASURED:
        lines.insert(0, Status.MEASURED.value)
    return Rendered(text=as_yaml(placed), comments=tuple(lines))


def _about(configuration: ConfigurationSummary) -> Iterator[str]:
    yield from _beside_headline(configuration)
    if configuration.answer is None:
        yield configuration.headline
    elif configuration.status is Status.PROVISIONAL:
        yield f"{Status.PROVISIONAL.value}: {answers.what_is_open(configuration.run.result)}"


def _beside_headline(configuration: ConfigurationSummary) -> Iterator[str]:
    """What the first line of an answer does not say."""
    ranks = configuration.configuration.ranks
    if ranks > 1:
        yield f"for each of {ranks} ranks"
    still_open = answers.what_is_open(configuration.run.result)
    if configuration.status is Status.MEASURED and still_open:
        yield still_open


def left_out(configuration: ConfigurationSummary) -> tuple[str, ...]:
    """A comment on settings that have no key in the project's config; empty without a project."""
    settings, project = best_settings(configuration), configuration.project
    return tuple(project_keys.left_out(settings, project)) if settings and project else ()


def overrides_in_place(configuration: ConfigurationSummary) -> str:
    """Hydra overrides with the best settings, with the keys of the project's config if one was measured."""
    settings, project = best_settings(configuration) or {}, configuration.project
    if project is not None:
        settings = {project.keys[name]: value for name, value in settings.items() if name in project.keys}
    return arguments(settings, "++")


def arguments(settings: Settings, mark: str, key: str | None = None) -> str:
    """``++data.num_workers=4 ...`` for Hydra; ``--`` gives the arguments of a LightningDataModule to LightningCLI."""
    prefix = f"{key}." if key else ""
    return " ".join(project_keys.override(f"{prefix}{name}", value, mark) for name, value in settings.items())


def kwargs(settings: Settings) -> str:
    """``batch_size=64, num_workers=4, ...`` as in a Python call."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def transformers(settings: Settings) -> str:
    """``per_device_train_batch_size=64, dataloader_num_workers=4, ...``, keywords of transformers.TrainingArguments.

    A prefetch_factor of None, the default, is left out.
    """
    training_arguments = {}
    for name, value in settings.items():
        if name in _TRAINING_ARGUMENTS and value is not None:
            training_arguments[_TRAINING_ARGUMENTS[name]] = value
    return kwargs(training_arguments)


def unknown_to_transformers(settings: Settings) -> Iterator[str]:
    """A comment on settings that TrainingArguments lacks; newer versions have some of them."""
    unknown = {name: value for name, value in settings.items() if name not in _TRAINING_ARGUMENTS}
    if unknown:
        yield f"not an argument of TrainingArguments in every version: {kwargs(unknown)}"


def as_yaml(document: Any) -> str:
    """YAML with the keys in order."""
    return yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)


def best_header(summary: Summary) -> list[str]:
    """Column titles of the table of best settings."""
    configurations = [configuration.configuration for configuration in summary.configurations]
    references = {configuration.search.reference for configuration in configurations}
    against_cpus = "vs CPU count"
    if len(references) == 1 and None not in references:
        against_cpus += f" ({references.pop()})"
    has_ranks = any(configuration.ranks > 1 for configuration in configurations)
    header = [*summary.varying, "num_workers per rank" if has_ranks else "num_workers"]
    if summary.searched_others:
        header.append("settings")
    return [*header, "samples/s", "per batch", "epoch", "vs 0 workers", against_cpus]


def best_cells(summary: Summary, configuration: ConfigurationSummary) -> list[str]:
    """One row of the table of best settings."""
    columns = configuration.configuration.columns
    cells = [shown(columns[name]) if name in columns else units.NOTHING for name in summary.varying]
    best = configuration.answer
    if best is None or best.measurement is None:
        cells.append(Status.UNDECIDED.value if configuration.best else "failed")
        return cells + [units.NOTHING] * (6 if summary.searched_others else 5)
    is_provisional = configuration.status is Status.PROVISIONAL
    cells.append(f"{best.num_workers} ({Status.PROVISIONAL.value})" if is_provisional else str(best.num_workers))
    if summary.searched_others:
        cells.append(configuration.changed_settings or units.NOTHING)
    figures = of_trial(best, configuration.configuration)
    cells += [figures.rate, figures.batch, figures.epoch]
    for gain in (configuration.gain_over_zero, configuration.gain_over_reference):
        cells.append(gain.speed_up if gain else units.NOTHING)
    return cells


def host_lines(host: Host) -> tuple[str, str]:
    """The CPUs, memory and system of a host; its versions of Python and packages."""
    cpus = f"{host.cpu_model}, {host.usable_cpus} usable of {host.cpu_count} CPUs"
    versions = f"torch {host.torch}, torchvision {host.torchvision}, nws_sweep {host.nws_sweep}"
    return (
        f"{host.hostname}: {cpus}, {units.memory(host.memory_bytes)} memory, {host.platform}",
        f"Python {host.python}, {versions}",
    )


def cost_line(result: SearchRecord) -> str:
    """The cost of a search: ``search took 6.80 s, 1.5 epochs at the best setting``."""
    line = f"search took {units.seconds(result.cost_s)}"
    best = best_of(result)
    if best and best.measurement and best.measurement.epoch_s:
        line += f", {units.number(result.cost_s / best.measurement.epoch_s)} epochs at the best setting"
    return line


def found_line(result: SearchRecord) -> str:
    """The first line of the answer of a search."""
    best = best_of(result)
    settings = ""
    if best:
        settings = f"num_workers={best.num_workers}{result.configuration.rank_suffix}"
    return answers.first_line(result, best, settings)


def end_line(result: SearchRecord) -> str:
    """The first line of the answer of a search that has ended, and the reason to stop unless the line has it."""
    if result.status in (Status.PROVISIONAL, Status.UNDECIDED):
        return found_line(result)
    return f"{found_line(result)}; stopped: {result.stop_reason}"


def trial_line(trial: Trial, configuration: Configuration) -> str:
    """The figures of a candidate in a line."""
    cells = of_trial(trial, configuration)
    workers, _, settings = cells.candidate.partition(" ")
    name = f"num_workers={workers:<3}"
    if settings:
        name += f" {settings}"
    if trial.state is not TrialState.OK:  # the times of one that is mismeasured are impossible
        return f"{name} {cells.state}"
    times = f"start-up {cells.startup:>8}  epoch {cells.epoch:>8}"
    return f"{name} {cells.batch:>14} a batch  {cells.rate:>8} samples/s  {times}"


def trial_table(configuration: ConfigurationSummary) -> str:
    """The table of all candidates of a configuration in Markdown."""
    rows = [of_trial(trial, configuration.configuration) for trial in configuration.trials]
    return markdown_table(TRIAL_HEADER, rows)


def as_markdown_table(summary: Summary) -> str:
    """The table of best settings in Markdown."""
    rows = [best_cells(summary, configuration) for configuration in summary.configurations]
    return markdown_table(best_header(summary), rows)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with aligned columns, readable as plain text; HTML in cells is not escaped."""
    table = [[_in_cell(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(f"| {' | '.join(padded)} |\n")
    rule = "|".join("-" * (width + 2) for width in widths)
    lines.insert(1, f"|{rule}|\n")
    return "".join(lines)


def _in_cell(text: str) -> str:
    """The text in a line, without a mark of the end of a cell."""
    line = printable(text).replace("\n", " ")
    return re.sub(r"(\\*)\|", r"\1\1\\|", line)  # a backslash before the bar would undo its escape


def preformatted(result: object) -> str:
    """What a result prints, for a notebook."""
    return f"<pre>{html.escape(str(result))}</pre>"
