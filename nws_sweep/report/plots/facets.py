"""Divides the configurations of a grid among panels. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nws_sweep.analysis.comparing import order
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.results import TrialState, shown

DATASET = "dataset"
BETWEEN = " · "
_MOST_CURVES, _MOST_PANELS = 8, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """The configurations in panels."""

    across: tuple[str, ...]  # columns that differ between panels
    within: tuple[str, ...]  # columns that differ within panels
    panels: Mapping[str, Sequence[ConfigurationSummary]]  # by title; all have measurements


def facets(summary: Summary) -> Facets:
    """The panels of a run or a grid: one per dataset, and per value of a further column if there are many curves."""
    axes = values(summary)
    across = _across(summary.configurations, axes)
    panels = {}
    for key in itertools.product(*(axes[name] for name in across)):
        titles = (text if name == DATASET else f"{name}={text}" for name, text in zip(across, key, strict=True))
        mine = [c for c in summary.configurations if cells(c, across) == key]
        if measured := [c for c in mine if any(t.state is TrialState.OK for t in c.worker_trials)]:
            panels[BETWEEN.join(titles)] = measured
    return Facets(across=across, within=tuple(name for name in axes if name not in across), panels=panels)


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


def columns(summary: Summary, most: int) -> tuple[str, ...]:
    """The columns of a table of configurations: of those that vary, the ``most`` with the most values."""
    found = values(summary) or {DATASET: ()}
    chosen = sorted(found, key=lambda name: -len(found[name]))[:most]
    return tuple(name for name in found if name in chosen)


def _across(configurations: Sequence[ConfigurationSummary], axes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    names = (DATASET,) if 1 < len(axes.get(DATASET, ())) <= _MOST_PANELS else ()
    if max(_curves(configurations, names)) <= _MOST_CURVES:
        return names
    options = []
    for name in axes:
        curves = _curves(configurations, (*names, name))
        if name not in names and len(curves) <= _MOST_PANELS and max(curves) > 1:
            options.append((max(*curves, _MOST_CURVES), len(curves), name))
    return (*names, min(options)[2]) if options else names


def _curves(configurations: Sequence[ConfigurationSummary], names: Sequence[str]) -> Sequence[int]:
    """The number of configurations in each panel if these columns differ between panels."""
    return [*Counter(cells(c, names) for c in configurations).values()]
