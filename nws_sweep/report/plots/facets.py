"""Divides the configurations of a grid among panels. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.results import shown

DATASET = "dataset"
MOST_PANELS = 24  # of one picture, one for each dataset: a thousand take minutes, and no page shows them
Panel = TypeVar("Panel")
BETWEEN = " · "


def facets(summary: Summary) -> tuple[tuple[str, ...], list[tuple[str, ConfigurationSummary]]]:
    """The columns that differ within panels, one for each dataset; and the measured configurations with their panels.

    The title of a panel is empty if all have the same dataset.
    """
    names = summary.distinguishing
    panels = [(cell(c, DATASET) if DATASET in names else "", c) for c in summary.configurations if c.best]
    return tuple(name for name in names if name != DATASET), panels


def of_many(panels: Mapping[str, Panel], rates: Mapping[str, float]) -> tuple[dict[str, Panel], str]:
    """Of many panels those with the highest rates, and what the title says then: empty if all are shown."""
    if len(panels) <= MOST_PANELS:
        return dict(panels), ""
    fastest = {*sorted(panels, key=lambda title: -rates[title])[:MOST_PANELS]}
    chosen = {title: panel for title, panel in panels.items() if title in fastest}
    return chosen, f" (the {MOST_PANELS} fastest of {len(panels)} datasets)"


def cell(c: ConfigurationSummary, name: str) -> str:
    """A configuration's value of a column as on the command line."""
    columns = c.configuration.columns
    return (shown(columns[name]) or '""') if name in columns else "-"


def label(c: ConfigurationSummary, names: Sequence[str]) -> str:
    """Its values of several columns."""
    return BETWEEN.join(cell(c, name) for name in names)
