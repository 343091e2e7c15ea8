"""How the configurations of a grid are shared out among small pictures, and what tells those of one apart. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.records import Trial, TrialState, shown

DATASET = "dataset"
_MOST_CURVES, _MOST_PANELS = 8, 9
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
BETWEEN = " · "


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A configuration in a panel.

    Attributes:
        summary: The configuration.
        cells: Its values of what varies within panels.
        trials: Its trials of num_workers that went well, ascending.
    """

    summary: ConfigurationSummary
    cells: tuple[str, ...]
    trials: tuple[Trial, ...]

    @property
    def label(self) -> str:
        """The cells in one line."""
        return BETWEEN.join(self.cells)

    @property
    def best(self) -> int | None:
        """The recommended number of workers."""
        return self.summary.best.num_workers if self.summary.best else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What stands in one picture: its title, and its configurations that have anything measured."""

    title: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """The configurations in panels.

    Attributes:
        across: The names of what differs between panels.
        within: The names of what differs within panels.
        panels: In the order of their values.
    """

    across: tuple[str, ...]
    within: tuple[str, ...]
    panels: tuple[Panel, ...]

    @property
    def key(self) -> str:
        """What the labels of the members are values of."""
        return BETWEEN.join(self.within)

    @property
    def members(self) -> tuple[Member, ...]:
        """Those of all panels."""
        return tuple(member for panel in self.panels for member in panel.members)


def facets(summary: Summary) -> Facets:
    """The panels of a run or a grid: one per dataset, and per value of a further column where curves would be many."""
    axes = values(summary)
    across = _across(summary.configurations, axes)
    within = tuple(name for name in axes if name not in across)
    panels = []
    for key, group in sorted(
        _groups(summary.configurations, across).items(),
        key=lambda item: [axes[name].index(text) for name, text in zip(across, item[0], strict=True)],
    ):
        members = tuple(
            Member(summary=c, cells=tuple(cell(c, name) for name in within), trials=trials)
            for c in group
            if (trials := tuple(t for t in c.worker_trials if t.measurement and t.state is TrialState.OK))
        )
        if members:
            titles = (text if name == DATASET else f"{name}={text}" for name, text in zip(across, key, strict=True))
            panels.append(Panel(title=BETWEEN.join(titles), members=members))
    return Facets(across=across, within=within, panels=tuple(panels))


def values(summary: Summary) -> dict[str, tuple[str, ...]]:
    """The values of each column that varies: numbers ascending, others before them in the order of measuring."""
    found = {}
    for name in summary.distinguishing:
        cells = dict.fromkeys(cell(c, name) for c in summary.configurations)
        found[name] = tuple(sorted(cells, key=_ascending))
    return found


def cell(configuration: ConfigurationSummary, name: str) -> str:
    """A configuration's value of a column, as people type it."""
    columns = configuration.configuration.columns
    return (shown(columns[name]) or '""') if name in columns else "-"


def _ascending(text: str) -> tuple[bool, float]:
    is_number = _NUMBER.fullmatch(text) is not None
    return is_number, float(text) if is_number else 0.0


def _across(configurations: Sequence[ConfigurationSummary], axes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    names = (DATASET,) if 1 < len(axes.get(DATASET, ())) <= _MOST_PANELS else ()
    if _largest(_groups(configurations, names)) <= _MOST_CURVES:
        return names
    options = []
    for name in axes:
        groups = _groups(configurations, (*names, name))
        if name not in names and len(groups) <= _MOST_PANELS and _largest(groups) > 1:
            options.append((max(_largest(groups), _MOST_CURVES), len(groups), name))
    return (*names, min(options)[2]) if options else names


_Groups = dict[tuple[str, ...], list[ConfigurationSummary]]


def _groups(configurations: Sequence[ConfigurationSummary], names: Sequence[str]) -> _Groups:
    """The configurations by their values of some columns."""
    groups: _Groups = {}
    for c in configurations:
        groups.setdefault(tuple(cell(c, name) for name in names), []).append(c)
    return groups


def _largest(groups: _Groups) -> int:
    return max(map(len, groups.values()), default=0)


def columns(summary: Summary, most: int) -> tuple[str, ...]:
    """The columns of a table of configurations: those that vary, or of many the ones with the most values."""
    found = values(summary) or {DATASET: ()}
    chosen = sorted(found, key=lambda name: -len(found[name]))[:most]
    return tuple(name for name in found if name in chosen)
