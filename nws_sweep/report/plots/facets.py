"""Divides the configurations of a grid among panels. Pure."""

from collections.abc import Sequence

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.records import shown

DATASET = "dataset"
BETWEEN = " · "


def facets(
    summary: Summary,
) -> tuple[tuple[str, ...], list[tuple[str, ConfigurationSummary]]]:
    """Divides the measured configurations among panels, one for each dataset; lists the
    columns that differ in them.

    The title of a panel is empty if all have the same dataset.
    """
    names = [*summary.distinguishing]
    has_panels = DATASET in names
    if has_panels:
        names.remove(DATASET)
    measured = [
        configuration for configuration in summary.configurations if configuration.best
    ]
    panels = [
        (cell(configuration, DATASET) if has_panels else "", configuration)
        for configuration in measured
    ]
    return tuple(names), panels


def cell(configuration: ConfigurationSummary, name: str) -> str:
    """Writes a configuration's value of a column as on the command line."""
    columns = configuration.configuration.columns
    if name not in columns:
        return "-"
    return shown(columns[name]) or '""'


def label(configuration: ConfigurationSummary, names: Sequence[str]) -> str:
    """Writes a configuration's values of several columns."""
    return BETWEEN.join(cell(configuration, name) for name in names)
