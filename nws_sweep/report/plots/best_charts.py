"""The best settings of a grid: a bar per configuration, and a heat map over two columns, each from a pure value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import Ratio
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import DATASET
from nws_sweep.report.plots.style import COLOURS, INK, LETTER, PAPER, WIDTH
from nws_sweep.results import Estimate

_MOST_BARS = 24
_MOST_COLUMNS = 6  # in the name of a row
_NAME = 3.4  # inches, the name of a row
_HEIGHT = 0.62  # of a bar, in rows


class Best(NamedTuple):
    """The best setting of one configuration."""

    cells: Mapping[str, str]  # its values of the columns that vary
    rate: Estimate  # as ``Summary.rate_unit`` says
    num_workers: int
    gain: Ratio | None  # over num_workers=0; None if unknown or if that is the best


def best_of_each(summary: Summary) -> list[Best]:
    """The best setting of every configuration that has one, the fastest first."""
    columns = summary.distinguishing or (DATASET,)
    found = []
    for c in summary.configurations:
        if c.answer and (rate := c.rate(c.answer)):
            cells = {name: facets.cell(c, name) for name in columns}
            found.append(Best(cells, rate, c.answer.num_workers, c.gain_over_zero if c.answer.num_workers else None))
    return sorted(found, key=lambda one: -one.rate.value)


@style.styled()
def draw_bars(bars: Sequence[Best], title: str, unit: str) -> Figure:
    """A row per configuration; of many, the fastest ones and the range of the others."""
    shown, others = bars[:_MOST_BARS], bars[_MOST_BARS:]
    figure, (axes,) = style.panels(title, 1, 1, 0.8 + 0.25 * len(shown))
    rates, errors = [bar.rate.value for bar in shown], style.errors([bar.rate for bar in shown])
    drawn = axes.barh(range(len(shown)), rates, _HEIGHT, xerr=errors, color=COLOURS[0], ecolor=INK)
    texts = [
        f"{units.rate(bar.rate)} ({bar.num_workers})" + (f", {bar.gain.speed_up}" if bar.gain else "") for bar in shown
    ]
    axes.bar_label(drawn, texts, padding=4)
    _name_bars(axes, [bar.cells for bar in shown])
    rest = f"; {len(others)} more: {units.rate(others[-1].rate)} to {units.rate(others[0].rate)}" if others else ""
    axes.set_xlabel(f"{unit} with the best setting (line: 95 % interval){rest}")
    return figure


def _name_bars(axes: Axes, rows: Sequence[Mapping[str, str]]) -> None:
    """Names the bars, the first one on top, with the meaning of names and labels above."""
    columns = facets.BETWEEN.join([*rows[0]][:_MOST_COLUMNS])
    axes.set_title(style.fitting(f"{columns}: samples/s (num_workers), vs 0 workers", WIDTH - 1))
    inches = max(0.8, _NAME / len(rows[0]))
    names = [
        facets.BETWEEN.join(style.fitting(cell, inches) for cell in [*row.values()][:_MOST_COLUMNS]) for row in rows
    ]
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


_RAMP = LinearSegmentedColormap.from_list("throughput", ["#d7e7f3", "#7fb4d6", "#2f7fb5", "#0a4a7c"])
_DARK_FROM = 0.66  # of the ramp: light text from here on
_TALLEST, _LOWEST = 0.42, 0.17  # inches of a row
_LONGEST = 20  # characters of a value


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The best throughput over two columns."""

    across: str  # column of the horizontal axis
    down: str  # column of the vertical axis
    columns: tuple[str, ...]  # values across
    rows: tuple[str, ...]  # values down
    # What was measured, by title (one panel, or one per dataset), and by the values across and down.
    panels: Mapping[str, Mapping[tuple[str, str], Best]]
    over: tuple[str, ...]  # further columns; each cell is the best over their values
    left_out: str = ""  # what the title says if there are too many panels


def heat_map(summary: Summary) -> HeatMap | None:
    """The map of a grid; None unless at least two columns vary and anything was measured."""
    values = facets.values(summary)
    if len(values) < 2:
        return None
    names = sorted((name for name in values if name != DATASET), key=lambda name: -len(values[name]))
    across, down, *over = [*names, DATASET] if len(names) == 1 else names
    third = DATASET if DATASET in values and down != DATASET else ""  # cells never mix datasets
    panels: dict[str, dict[tuple[str, str], Best]] = {}
    for one in reversed(best_of_each(summary)):  # the fastest of a cell comes last
        title = f"{third}={one.cells[third]}" if third else ""
        panels.setdefault(title, {})[one.cells[across], one.cells[down]] = one
    if not panels:
        return None
    rates = {title: max(one.rate.value for one in cells.values()) for title, cells in panels.items()}
    shown, left_out = facets.of_many(dict(sorted(panels.items())), rates)
    return HeatMap(
        across=across, down=down, columns=values[across], rows=values[down], panels=shown, over=tuple(over),
        left_out=left_out,
    )  # fmt: skip


@style.styled()
def draw_heat_map(chart: HeatMap, title: str, unit: str) -> Figure:
    """Darker cells are faster; each shows its rate, and num_workers if there is room."""
    columns = 1 if len(chart.panels) == 1 or len(chart.columns) > 8 else 2
    height = max(_LOWEST, min(_TALLEST, 7.0 / len(chart.rows))) * len(chart.rows)
    figure, all_axes = style.panels(title + chart.left_out, len(chart.panels), columns, height + 0.7)
    over = f", the best over {', '.join(chart.over)}" if chart.over else ""
    about = f"{unit} with the best setting{over}; in brackets num_workers"
    figure.supxlabel(style.fitting(about, WIDTH), x=0.01, ha="left", fontsize="medium")
    room = (WIDTH / columns - 0.4) / LETTER - max(min(len(row), _LONGEST) for row in chart.rows)
    for axes, (name, cells) in zip(all_axes, chart.panels.items(), strict=True):
        axes.set_title(style.fitting(name, WIDTH / columns - 1))
        _draw_cells(axes, chart, cells, room / len(chart.columns))
        _label_cells(axes, chart, room)
    return figure


def _draw_cells(axes: Axes, chart: HeatMap, cells: Mapping[tuple[str, str], Best], room: float) -> None:
    """Draws cells with the longest text that fits in ``room`` characters."""
    rates = {cell: one.rate.value for cell, one in cells.items()}
    least, most = min(rates.values()), max(rates.values())
    scale = Normalize(least, most if most > least else least + 1)
    pixels = [[rates.get((column, row), np.nan) for column in chart.columns] for row in chart.rows]
    edges = (np.arange(len(names) + 1) - 0.5 for names in (chart.columns, chart.rows))
    axes.pcolormesh(*edges, pixels, cmap=_RAMP, norm=scale, edgecolors=PAPER, linewidth=1.2)
    axes.invert_yaxis()
    shorter = {cell: units.rate(one.rate) for cell, one in cells.items()}
    longer = {cell: f"{shorter[cell]} ({one.num_workers})" for cell, one in cells.items()}
    texts = next((each for each in (longer, shorter) if max(map(len, each.values())) < room), {})
    for (column, row), text in texts.items():
        colour = PAPER if scale(rates[column, row]) >= _DARK_FROM else INK
        place = chart.columns.index(column), chart.rows.index(row)
        axes.text(*place, text, ha="center", va="center", color=colour)


def _label_cells(axes: Axes, chart: HeatMap, room: float) -> None:
    """Labels as many cells as there is room for."""
    axes.set(xlabel=style.shortened(chart.across, 40), ylabel=style.shortened(chart.down, _LONGEST))
    most = max(6, min(_LONGEST, int(room / len(chart.columns)) - 1))
    columns = [style.shortened(style.plain(text), most) for text in chart.columns]
    every = -(-len(columns) * (max(map(len, columns)) + 1) // int(room))
    axes.set_xticks(range(0, len(columns), every), columns[::every])
    axes.set_yticks(range(len(chart.rows)), [style.shortened(style.plain(row), _LONGEST) for row in chart.rows])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
