"""Divides the configurations of a grid among panels. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.records import shown

DATASET = "dataset"
MOST_PANELS = 24  # of one picture, one for each dataset: a thousand take minutes, and no page shows them
Panel = TypeVar("Panel")
BETWEEN = " · "


def facets(summary: Summary) -> tuple[tuple[str, ...], list[tuple[str, ConfigurationSummary]]]:
    """Divides the measured configurations among panels, one for each dataset; lists the columns that differ in them.

    The title of a panel is empty if all have the same dataset.
    """
    names = [*summary.distinguishing]
    has_panels = DATASET in names
    if has_panels:
        names.remove(DATASET)
    measured = [configuration for configuration in summary.configurations if configuration.best]
    panels = [(cell(configuration, DATASET) if has_panels else "", configuration) for configuration in measured]
    return tuple(names), panels


def of_many(panels: Mapping[str, Panel], rates: Mapping[str, float]) -> tuple[dict[str, Panel], str]:
    """Selects the panels with the highest rates if there are many, and what the title says then, else nothing."""
    if len(panels) <= MOST_PANELS:
        return dict(panels), ""
    fastest = {*sorted(panels, key=lambda title: -rates[title])[:MOST_PANELS]}
    chosen = {title: panel for title, panel in panels.items() if title in fastest}
    return chosen, f" (the {MOST_PANELS} fastest of {len(panels)} datasets)"


def cell(configuration: ConfigurationSummary, name: str) -> str:
    """Writes a configuration's value of a column as on the command line."""
    columns = configuration.configuration.columns
    if name not in columns:
        return "-"
    return shown(columns[name]) or '""'


def label(configuration: ConfigurationSummary, names: Sequence[str]) -> str:
    """Writes a configuration's values of several columns."""
    return BETWEEN.join(cell(configuration, name) for name in names)
