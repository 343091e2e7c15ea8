"""The best setting per configuration, ready to paste: command-line arguments, Python keywords, YAML, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from nws_sweep import cells, nodes, project_keys, storage, units
from nws_sweep.analysis import ConfigurationSummary, Summary, best_and_fastest, best_settings
from nws_sweep.errors import ConfigurationError, one_line
from nws_sweep.records import Configuration, SearchRecord, Trial, shown

# Parts of the cost below this are not told.
_NEGLIGIBLE_S = 0.05

FORMATS = ("table", "overrides", "kwargs", "lightning", "transformers", "yaml", "json")

# What transformers.TrainingArguments call them, in every version and in newer ones only.
_TRAINING_ARGUMENTS = {
    "batch_size": "per_device_train_batch_size",
    "num_workers": "dataloader_num_workers",
    "pin_memory": "dataloader_pin_memory",
    "prefetch_factor": "dataloader_prefetch_factor",
    "persistent_workers": "dataloader_persistent_workers",
}
_NEWER_TRAINING_ARGUMENTS = {
    "multiprocessing_context": "dataloader_multiprocessing_context",
    "in_order": "dataloader_in_order",
}
_NEWER_TRANSFORMERS = "5.15"

# The one in C is ten times as quick; a platform may lack it.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The best settings in one format.

    Attributes:
        text: What can be pasted, and nothing else; empty, or whole lines.
        comments: Lines about it.
    """

    text: str
    comments: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Both as YAML, the comments first."""
        return "".join(f"# {line}\n" for line in self.comments) + self.text


def render(summary: Summary, format_name: str, key: str | None = None) -> Rendered:
    """The best settings in one of ``FORMATS``.

    Args:
        summary: What was found.
        format_name: ``table`` for people; ``overrides`` for a Hydra command line; ``kwargs`` for a call of DataLoader;
            ``lightning`` for a command line of LightningCLI; ``transformers`` for a call of TrainingArguments;
            ``yaml`` and ``json`` for programs: one mapping for a run, a list of them for a grid. The other formats but
            ``table`` hold one configuration.
        key: Where the settings belong in the configuration that is given them, such as ``data`` for
            ``++data.num_workers=4``: the prefix of ``overrides`` and ``lightning``, and makes of ``yaml`` a config that
            Hydra composes there. None if it was not given: LightningCLI's own ``data``; where a project's config was
            measured, for ``overrides`` and the ``yaml`` of a run the keys that it has; for the others no prefix.

    Raises:
        ConfigurationError: If the key is none, or a setting below it is a mapping of the project's config, or several
            configurations are asked for in a format that holds one.
    """
    _check_key(key)
    if format_name == "yaml" and key is None and not summary.stored.is_grid:
        return best_file(summary.configurations[0])
    if format_name in ("table", "json") or (format_name == "yaml" and key is None):
        return _of_all(summary, format_name)
    return _of_one(_only(summary, format_name), format_name, key)


def _of_one(configuration: ConfigurationSummary, format_name: str, key: str | None) -> Rendered:
    """A format that is pasted, and so holds one configuration."""
    settings = best_settings(configuration)
    if not settings:
        return Rendered(text="", comments=(f"nothing could be measured for {configuration.label}",))
    if key is not None and configuration.project is not None:
        project_keys.refuse_mapping(settings, configuration.project, key)
    forms: dict[str, Callable[[], str]] = {
        "yaml": lambda: f"# @package {key or '_global_'}\n{as_yaml(settings).rstrip()}",
        "overrides": lambda: overrides_in_place(settings, configuration) if key is None else overrides(settings, key),
        "kwargs": lambda: kwargs(settings),
        "lightning": lambda: lightning(settings, "data" if key is None else key),
        "transformers": lambda: transformers(settings),
    }
    line, comments = forms[format_name](), [*_about(configuration)]
    if format_name == "transformers":
        comments += unknown_to_transformers(settings)
    if format_name == "overrides" and key is None:
        comments += left_out(configuration)
    return Rendered(text=f"{line}\n" if line else "", comments=tuple(comments))


def _check_key(key: str | None) -> None:
    if key and not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
        raise ConfigurationError(one_line(f"--key {key}: allowed are names joined by dots, such as data.loader"))


def _only(summary: Summary, format_name: str) -> ConfigurationSummary:
    if len(summary.configurations) > 1:
        varying = f" ({', '.join(summary.distinguishing)})" if summary.distinguishing else ""
        raise ConfigurationError(
            f"--format {format_name}: holds one configuration, but there are {len(summary.configurations)}; "
            f"pick one with --where KEY=VALUE{varying}, or give its own folder"
        )
    return summary.configurations[0]


def _of_all(summary: Summary, format_name: str) -> Rendered:
    """A format that has room for several configurations."""
    forms: dict[str, Callable[[Summary], str]] = {
        "table": as_markdown_table,
        "yaml": lambda summary: as_yaml(documents(summary)),
        "json": lambda summary: json.dumps(documents(summary), indent=2) + "\n",
    }
    comments = [
        f"{configuration.label}: {line}" if len(summary.configurations) > 1 else line
        for configuration in summary.configurations
        for line in _about(configuration)
    ]
    return Rendered(text=forms[format_name](summary), comments=tuple(comments))


def best_file(configuration: ConfigurationSummary) -> Rendered:
    """The best setting as YAML: keywords of DataLoader, or the keys of the project's config that was measured."""
    settings = best_settings(configuration)
    if settings is None or configuration.project is None:
        return Rendered(text=as_yaml(settings), comments=tuple(_about(configuration)))
    placed = project_keys.as_nodes(settings, configuration.project)
    return Rendered(text=as_yaml(placed), comments=(*_about(configuration), *left_out(configuration)))


def _about(configuration: ConfigurationSummary) -> Iterator[str]:
    """What to know before the settings of a configuration are pasted."""
    ranks = configuration.configuration.ranks
    if ranks > 1:
        yield f"for each of {ranks} ranks"
    if configuration.best and (reason := configuration.run.result.provisional):
        yield f"provisional: {reason}"


def left_out(configuration: ConfigurationSummary) -> tuple[str, ...]:
    """A line for the settings that have no key of their own in the project's config, if one was measured."""
    settings, project = best_settings(configuration), configuration.project
    return tuple(project_keys.left_out(settings, project)) if settings and project else ()


def overrides_in_place(settings: Settings, configuration: ConfigurationSummary) -> str:
    """As ``overrides``, for the keys that the project's config has where one was measured."""
    project = configuration.project
    return overrides(settings) if project is None else project_keys.as_overrides(settings, project)


def overrides(settings: Settings, key: str = "") -> str:
    """``++data.num_workers=4 ...``: with two plus signs Hydra sets a key whether or not it exists."""
    return _arguments(settings, "++", key)


def lightning(settings: Settings, key: str = "data") -> str:
    """``--data.num_workers=4 ...``, as LightningCLI takes the arguments of a LightningDataModule; null is None."""
    return _arguments(settings, "--", key)


def _arguments(settings: Settings, mark: str, key: str) -> str:
    prefix = f"{mark}{key}." if key else mark
    return " ".join(f"{prefix}{name}={shown(value)}" for name, value in settings.items())


def kwargs(settings: Settings) -> str:
    """``batch_size=64, num_workers=4, ...`` as Python writes it."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def transformers(settings: Settings) -> str:
    """``per_device_train_batch_size=64, dataloader_num_workers=4, ...``, keywords of transformers.TrainingArguments.

    A prefetch_factor of None is left out: so it is by default, and without workers any other is refused.
    """
    known = {argument: settings[name] for name, argument in _TRAINING_ARGUMENTS.items() if name in settings}
    return kwargs({name: value for name, value in known.items() if value is not None})


def unknown_to_transformers(settings: Settings) -> Iterator[str]:
    """Lines about the settings that not every version takes, or none."""
    newer = {argument: settings[name] for name, argument in _NEWER_TRAINING_ARGUMENTS.items() if name in settings}
    others = {name: settings[name] for name in settings if name not in _TRAINING_ARGUMENTS | _NEWER_TRAINING_ARGUMENTS}
    if newer:
        yield f"taken by transformers {_NEWER_TRANSFORMERS} and later only: {kwargs(newer)}"
    if others:
        yield f"TrainingArguments cannot be told: {kwargs(others)}"


def options(summary: Summary) -> dict[str, str]:
    """The best settings as options of a Hydra config group: the YAML of each configuration, by its name.

    A program composes one under its own key, as by ``+best@data=batch_size-64``; the project that was measured
    composes it where it belongs, as by ``+best=batch_size-64``. There is none for a configuration of which nothing
    could be measured.
    """
    names = storage.option_names([_distinguished(summary, each) for each in summary.configurations])
    return {name: _option(c) for name, c in zip(names, summary.configurations, strict=True) if c.best}


def _option(configuration: ConfigurationSummary) -> str:
    package = "" if configuration.project is None else "# @package _global_\n"
    return f"{package}# {one_line(configuration.label)}\n{best_file(configuration).file}"


def _distinguished(summary: Summary, configuration: ConfigurationSummary) -> dict[str, Any]:
    """What tells the configuration from the others of its grid; of one by itself in a grid its dataset."""
    if not summary.stored.is_grid:
        return {}
    columns = configuration.configuration.columns
    return {name: columns[name] for name in summary.distinguishing or ("dataset",) if name in columns}


def as_yaml(document: Any) -> str:
    """YAML with the keys in their own order."""
    return yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)


def documents(summary: Summary) -> Any:
    """The best settings as plain values: of a run its keywords, of a grid a list that names each configuration."""
    if not summary.stored.is_grid:
        return best_settings(summary.configurations[0])
    return [
        {"configuration": dict(c.configuration.columns), "loader": best_settings(c)} for c in summary.configurations
    ]


def best_header(summary: Summary) -> list[str]:
    """Column titles of the table of best settings."""
    references = {configuration.configuration.search.reference for configuration in summary.configurations}
    number = references.pop() if len(references) == 1 else None
    reference = "vs CPU count" + (f" ({number})" if number is not None else "")
    also = ["also"] if summary.searched_besides else []
    each = " per rank" if any(c.configuration.ranks > 1 for c in summary.configurations) else ""
    return [*summary.varying, f"num_workers{each}", *also, "samples/s", "per batch", "epoch", "vs 0 workers", reference]


def best_cells(summary: Summary, configuration: ConfigurationSummary) -> list[str]:
    """One row of the table of best settings."""
    columns = configuration.configuration.columns
    identity = [shown(columns[name]) if name in columns else units.NOTHING for name in summary.varying]
    best = configuration.best
    if best is None or best.measurement is None:
        return [*identity, "failed", *[units.NOTHING] * (6 if summary.searched_besides else 5)]
    also = [configuration.found_besides or units.NOTHING] if summary.searched_besides else []
    shown_best = cells.of_trial(best, configuration.configuration)
    return [
        *identity,
        str(best.num_workers),
        *also,
        shown_best.rate,
        shown_best.batch,
        shown_best.epoch,
        str(configuration.gain_over_zero or units.NOTHING),
        str(configuration.gain_over_reference or units.NOTHING),
    ]


def fastest_lines(summary: Summary) -> list[str]:
    """Which configuration is the fastest on each kind of node; none where there is one kind."""
    return [
        f"{node}: {one.configuration.label_of(name for name in summary.distinguishing if name != nodes.COLUMN)} "
        f"with num_workers={one.best.num_workers}, {units.three_digits(one.best_rate)} samples/s"
        for node, one in summary.fastest_per_node.items()
        if one.best
    ]


def cost_line(result: SearchRecord) -> str:
    """What the search cost, and on what: ``search took 6.80 s, 1.5 epochs at the best setting (profile ...)``."""
    best, _ = best_and_fastest(result)
    epoch_s = best.measurement.epoch_s if best and best.measurement else None
    epochs = f", {units.three_digits(result.cost_s / epoch_s)} epochs at the best setting" if epoch_s else ""
    parts = (
        []
        if result.cost is None
        else [
            f"{name} {units.seconds(value)}"
            for name, value in (
                ("profile", result.cost.profile_s),
                ("start-up", result.cost.startup_s),
                ("warm-up", result.cost.warm_up_s),
                ("measuring", result.cost.measuring_s),
                ("comparing samples", result.cost.samples_s),
                ("other", result.cost.other_s),
                ("before that waiting", result.cost.waiting_s),
            )
            if value > _NEGLIGIBLE_S
        ]
    )
    return f"search took {units.seconds(result.cost_s)}{epochs}" + (f" ({', '.join(parts)})" if parts else "")


def trial_line(trial: Trial, configuration: Configuration) -> str:
    """A candidate that has just been measured, in a line."""
    told = cells.of_trial(trial, configuration)
    workers, _, besides = told.candidate.partition(" ")
    name = f"num_workers={workers:<3}" + (f" {besides}" if besides else "")
    if trial.measurement is None:
        return f"{name} {told.state}"
    return (
        f"{name} {told.batch:>14} a batch  {told.rate:>8} samples/s  start-up {told.startup:>8}  epoch {told.epoch:>8}"
    )


def as_markdown_table(summary: Summary) -> str:
    """The table of best settings in Markdown."""
    rows = [best_cells(summary, configuration) for configuration in summary.configurations]
    return markdown_table(best_header(summary), rows)


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, aligned so that it reads well as plain text too; cells are escaped."""
    table = [[_escaped(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = [_row(row, widths) for row in table]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


def _row(cells: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
