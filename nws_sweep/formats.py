"""The best setting per configuration, ready to paste: command-line overrides, Python keywords, YAML, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from nws_sweep import units
from nws_sweep.analysis import ConfigurationSummary, Summary, best_and_fastest, best_settings
from nws_sweep.records import SearchRecord, Trial, shown

# Parts of the cost below this are not told.
_NEGLIGIBLE_S = 0.05

FORMATS = ("table", "overrides", "kwargs", "yaml", "json")


def render(summary: Summary, format_name: str, key: str = "") -> str:
    """The best settings in one of ``FORMATS``.

    Args:
        summary: What was found.
        format_name: ``table`` for people; ``overrides`` for a Hydra command line; ``kwargs`` for a call of DataLoader;
            ``yaml`` and ``json`` for programs: one mapping for a run, a list of them for a grid.
        key: Prefix of the overrides, such as ``data`` for ``++data.num_workers=4``.
    """
    if format_name == "table":
        return as_markdown_table(summary)
    if format_name == "overrides":
        return _lines(summary, lambda settings: overrides(settings, key))
    if format_name == "kwargs":
        return _lines(summary, kwargs)
    if format_name == "yaml":
        return as_yaml(documents(summary))
    return json.dumps(documents(summary), indent=2) + "\n"


def overrides(settings: Mapping[str, Any], key: str = "") -> str:
    """``++data.num_workers=4 ...``: with two plus signs Hydra sets a key whether or not it exists."""
    prefix = f"{key}." if key else ""
    return " ".join(f"++{prefix}{name}={shown(value)}" for name, value in settings.items())


def kwargs(settings: Mapping[str, Any]) -> str:
    """``batch_size=64, num_workers=4, ...`` as Python writes it."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def as_yaml(document: Any) -> str:
    """YAML with the keys in their own order."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def documents(summary: Summary) -> Any:
    """The best settings as plain values: of a run its keywords, of a grid a list that names each configuration."""
    if not summary.stored.is_grid:
        return best_settings(summary.configurations[0])
    return [
        {"configuration": dict(c.configuration.columns), "loader": best_settings(c)} for c in summary.configurations
    ]


def _lines(summary: Summary, form: Any) -> str:
    lines = []
    for configuration in summary.configurations:
        settings = best_settings(configuration)
        if summary.stored.is_grid:
            lines.append(f"# {configuration.label}")
        lines.append(form(settings) if settings else f"# nothing could be measured for {configuration.label}")
    return "\n".join(lines) + "\n"


def best_header(summary: Summary) -> list[str]:
    """Column titles of the table of best settings."""
    references = {configuration.configuration.search.reference for configuration in summary.configurations}
    number = references.pop() if len(references) == 1 else None
    reference = "vs CPU count" + (f" ({number})" if number is not None else "")
    also = ["also"] if _searched_besides(summary) else []
    return [*summary.varying, "num_workers", *also, "samples/s", "per batch", "epoch", "vs 0 workers", reference]


def best_cells(summary: Summary, configuration: ConfigurationSummary) -> list[str]:
    """One row of the table of best settings."""
    columns = configuration.configuration.columns
    identity = [shown(columns[name]) if name in columns else units.NOTHING for name in summary.varying]
    best = configuration.best
    if best is None or best.measurement is None:
        return [*identity, "failed", *[units.NOTHING] * (6 if _searched_besides(summary) else 5)]
    also = [configuration.found_besides or units.NOTHING] if _searched_besides(summary) else []
    return [
        *identity,
        str(best.num_workers),
        *also,
        units.per_second(best.measurement.samples_per_s),
        units.interval(best.measurement.batch_s),
        units.seconds(best.measurement.epoch_s),
        units.ratio(configuration.gain_over_zero),
        units.ratio(configuration.gain_over_reference),
    ]


def _searched_besides(summary: Summary) -> bool:
    return any(configuration.configuration.search.also for configuration in summary.configurations)


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
                ("other", result.cost.other_s),
                ("before that waiting", result.cost.waiting_s),
            )
            if value > _NEGLIGIBLE_S
        ]
    )
    return f"search took {units.seconds(result.cost_s)}{epochs}" + (f" ({', '.join(parts)})" if parts else "")


def trial_line(trial: Trial, besides: str) -> str:
    """A candidate that has just been measured, in a line.

    Args:
        trial: What was measured.
        besides: What it has otherwise than the others beside num_workers; empty for most.
    """
    name = f"num_workers={trial.num_workers:<3}" + (f" {besides}" if besides else "")
    if trial.measurement is None:
        return f"{name} {trial.state.value}: {trial.reason}"
    measurement = trial.measurement
    return (
        f"{name} {units.interval(measurement.batch_s):>14} a batch  "
        f"{units.per_second(measurement.samples_per_s):>8} samples/s  "
        f"start-up {units.seconds(measurement.startup_s):>8}  epoch {units.seconds(measurement.epoch_s):>8}"
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
