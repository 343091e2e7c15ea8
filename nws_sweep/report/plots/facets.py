"""Divides the configurations of a grid among panels. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nws_sweep.analysis.comparing import order
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.results import TrialState, shown

DATASET = "dataset"
BETWEEN = " · "
_MOST_PANELS = 9


@dataclass(frozen=True, slots=True)
class Facets:
    """The configurations in panels, and the columns that differ within panels."""

    within: tuple[str, ...]
    panels: Mapping[str, Sequence[ConfigurationSummary]]  # by title; all have measurements


def facets(summary: Summary) -> Facets:
    """The panels of a run or a grid: one per dataset, or one for all if there are too many."""
    axes = values(summary)
    is_divided = 1 < len(axes.get(DATASET, ())) <= _MOST_PANELS
    panels: dict[str, list[ConfigurationSummary]] = {}
    for c in summary.configurations:
        if any(trial.state is TrialState.OK for trial in c.worker_trials):
            panels.setdefault(cell(c, DATASET) if is_divided else "", []).append(c)
    return Facets(tuple(name for name in axes if not (is_divided and name == DATASET)), panels)


def values(summary: Summary) -> dict[str, tuple[str, ...]]:
    """The values of each column that varies: others in the order of measuring, then numbers ascending."""
    found = {}
    for name in summary.distinguishing:
        cells = dict.fromkeys(cell(c, name) for c in summary.configurations)
        found[name] = tuple(sorted(cells, key=order))
    return found


def cell(configuration: ConfigurationSummary, name: str) -> str:
    """A configuration's value of a column as on the command line."""
    columns = configuration.configuration.columns
    return (shown(columns[name]) or '""') if name in columns else "-"


def cells(configuration: ConfigurationSummary, names: Sequence[str]) -> tuple[str, ...]:
    """Its values of several columns."""
    return tuple(cell(configuration, name) for name in names)
