"""Where the time of searches went, a stacked bar per configuration; from a pure value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from nws_sweep import bar_plots, drawing, facets, units
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.drawing import COLOURS, EDGE, WIDTH, Key
from nws_sweep.records import SearchCost
from nws_sweep.vector import MUTED, PAPER

PARTS = ("profile", "start-up", "warm-up", "measuring", "other")
_PART_COLOURS = (COLOURS[3], COLOURS[1], COLOURS[4], COLOURS[0], MUTED)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the search of one configuration took: its values of the columns that vary, and the seconds of ``PARTS``."""

    cells: tuple[str, ...]
    parts_s: tuple[float, ...]

    @property
    def total_s(self) -> float:
        """All parts."""
        return sum(self.parts_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What all searches took: the names of what varies, and a value per configuration, the dearest first."""

    columns: tuple[str, ...]
    costs: tuple[Cost, ...]

    @property
    def parts_s(self) -> tuple[float, ...]:
        """The parts of all together."""
        return tuple(sum(cost.parts_s[index] for cost in self.costs) for index in range(len(PARTS)))


def costs(summary: Summary) -> Costs:
    """What the search of each configuration cost, so far if it goes on; without those taken from an earlier search."""
    columns = facets.columns(summary, bar_plots.MOST_COLUMNS)
    found = [_cost(c, columns, c.run.result.cost) for c in summary.configurations if c.run.result.cost is not None]
    known = [cost for cost in found if cost.total_s > 0]
    return Costs(columns=columns, costs=tuple(sorted(known, key=lambda cost: -cost.total_s)))


def _cost(c: ConfigurationSummary, columns: Sequence[str], cost: SearchCost) -> Cost:
    parts_s = (cost.profile_s, cost.startup_s, cost.warm_up_s, cost.measuring_s, cost.other_s + cost.samples_s)
    return Cost(tuple(facets.cell(c, name) for name in columns), parts_s)


def shown(chart: Costs) -> tuple[tuple[Cost, ...], int]:
    """The rows, of which the last one is the mean of those that have none of their own; and how many these are."""
    own, others = bar_plots.split(chart.costs)
    if not others:
        return chart.costs, 0
    parts_s = tuple(sum(cost.parts_s[i] for cost in others) / len(others) for i in range(len(PARTS)))
    return (*own, Cost((f"mean of {len(others)} more",), parts_s)), len(others)


def draw_costs(chart: Costs, title: str) -> Figure:
    """A row per configuration, in the parts of its search."""
    rows, _ = shown(chart)
    scale, unit = (60.0, "min") if rows[0].total_s > 600 else (1.0, "s")
    keys = [Key(text=part, colour=c, patch=True) for part, c in zip(PARTS, _PART_COLOURS, strict=True)]
    above = drawing.legend_height(keys, WIDTH - 2 * EDGE) + 0.1
    right = [[units.seconds(row.total_s)] for row in rows]
    figure, axes = bar_plots.table(chart.columns, [row.cells for row in rows], ["in all"], right, title, above)
    drawing.legend(figure, keys, EDGE, drawing.head(title), WIDTH - 2 * EDGE)
    left = [0.0] * len(rows)
    for index, colour in enumerate(_PART_COLOURS):
        widths = [row.parts_s[index] / scale for row in rows]
        drawing.row_bars(axes, left, widths, colour, PAPER)
        left = [begin + width for begin, width in zip(left, widths, strict=True)]
    axes.set_xlim(0, 1.02 * max(left))
    axes.set_xlabel(f"time of the search, {unit}")
    return figure
