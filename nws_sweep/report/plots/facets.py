"""Divides the configurations of a grid among panels. Pure."""

import math
import re
from collections.abc import Sequence

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.results import shown

DATASET = "dataset"
BETWEEN = " · "
_MOST_PANELS = 9
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


def facets(summary: Summary) -> tuple[tuple[str, ...], dict[str, list[ConfigurationSummary]]]:
    """The columns that differ within panels; and the measured configurations of each panel, by title.

    There is one panel for each dataset, or one for all if there are too many.
    """
    axes = values(summary)
    is_divided = 1 < len(axes.get(DATASET, ())) <= _MOST_PANELS
    panels: dict[str, list[ConfigurationSummary]] = {}
    for c in summary.configurations:
        if c.best:
            panels.setdefault(cell(c, DATASET) if is_divided else "", []).append(c)
    return tuple(name for name in axes if not (is_divided and name == DATASET)), panels


def values(summary: Summary) -> dict[str, tuple[str, ...]]:
    """The values of each column that varies: others in the order of measuring, then numbers ascending."""
    every = {name: dict.fromkeys(cell(c, name) for c in summary.configurations) for name in summary.distinguishing}
    return {name: tuple(sorted(found, key=_order)) for name, found in every.items()}


def _order(text: str) -> tuple[bool, float]:
    """The sort key of values of a column: what is not a number comes first, false before true; then numbers ascend."""
    return text == "true", float(text) if _NUMBER.fullmatch(text) else -math.inf


def cell(c: ConfigurationSummary, name: str) -> str:
    """A configuration's value of a column as on the command line."""
    columns = c.configuration.columns
    return (shown(columns[name]) or '""') if name in columns else "-"


def label(c: ConfigurationSummary, names: Sequence[str]) -> str:
    """Its values of several columns."""
    return BETWEEN.join(cell(c, name) for name in names)
