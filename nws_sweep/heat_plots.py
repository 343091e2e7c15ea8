"""The best throughput over the two columns with the most values, as a map; from a pure value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from nws_sweep import drawing, units
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.drawing import LETTER, WIDTH
from nws_sweep.facets import DATASET, cell, values
from nws_sweep.vector import FIXED_DARK, FIXED_LIGHT, PAPER

_MOST_PANELS = 4
_MOST_CELLS = 40  # along an axis; more of them cannot be told apart
_RAMP = LinearSegmentedColormap.from_list("throughput", ["#d7e7f3", "#7fb4d6", "#2f7fb5", "#0a4a7c"])
_DARK_FROM = 0.66  # of the ramp: light text from here on
_TALLEST, _LOWEST = 0.42, 0.17  # inches of a row
_LONGEST = 20  # letters of a value


@dataclass(frozen=True, slots=True)
class Heat:
    """The best of a cell: samples per second, its workers, and half the interval's width as a share (None if none)."""

    samples_per_s: float
    num_workers: int
    uncertainty: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One map: its title, and its rows, in which None is a cell without a measurement."""

    title: str
    rows: tuple[tuple[Heat | None, ...], ...]

    @property
    def heats(self) -> list[Heat]:
        """The cells that were measured."""
        return [heat for row in self.rows for heat in row if heat]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The best throughput over two columns.

    Attributes:
        across: Name of the column whose values stand below.
        down: Name of the one whose values stand at the left.
        third: Name of the one whose values have a sheet each; empty if there is one sheet.
        columns: Values of the first.
        rows: Values of the second.
        left_out: Values of both that are not shown.
        sheets: One, or one per value of a third column.
        over: Names of the other columns, of whose values each cell has the best.
    """

    across: str
    down: str
    third: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    sheets: tuple[Sheet, ...]
    over: tuple[str, ...]
    left_out: int

    @property
    def heats(self) -> list[Heat]:
        """The cells of all sheets that were measured."""
        return [heat for sheet in self.sheets for heat in sheet.heats]


def heat_map(summary: Summary) -> HeatMap | None:
    """The map of a grid; None unless at least two columns vary and anything was measured."""
    found = {name: cells for name, cells in values(summary).items() if len(cells) > 1}
    if len(found) < 2:
        return None
    across, down, third = axes_of({name: len(cells) for name, cells in found.items()})
    columns, rows = found[across][:_MOST_CELLS], found[down][:_MOST_CELLS]
    best = _best_of_cells(summary.configurations, (across, down, third))
    sheets = [
        Sheet(
            title=f"{third}={value}" if third else "",
            rows=tuple(tuple(best.get((column, row, value)) for column in columns) for row in rows),
        )
        for value in (found[third] if third else ("",))
    ]
    shown = tuple(sheet for sheet in sheets if sheet.heats)
    if not shown:
        return None
    return HeatMap(
        across=across,
        down=down,
        third=third,
        columns=columns,
        rows=rows,
        sheets=shown,
        over=tuple(name for name in found if name not in (across, down, third)),
        left_out=len(found[across]) + len(found[down]) - len(columns) - len(rows),
    )


def axes_of(counts: Mapping[str, int]) -> tuple[str, str, str]:
    """The columns across, down, and of the sheets (empty if there are none): datasets share no cell if it can be."""
    across, down, *others = sorted(counts, key=lambda name: -counts[name])
    fitting = [name for name in others if counts[name] <= _MOST_PANELS]
    if DATASET in others and DATASET not in fitting:
        down = DATASET
    third = DATASET if DATASET in fitting else fitting[0] if fitting else ""
    return across, down, third


def _best_of_cells(configurations: Sequence[ConfigurationSummary], names: Sequence[str]) -> dict[tuple[str, ...], Heat]:
    found: dict[tuple[str, ...], Heat] = {}
    for c in configurations:
        measured = c.best.measurement if c.best else None
        rate = measured.samples_per_s if measured else None
        key = tuple(cell(c, name) if name else "" for name in names)
        if c.best and measured and rate and (key not in found or rate > found[key].samples_per_s):
            found[key] = Heat(rate, c.best.num_workers, units.uncertainty(measured.batch_s))
    return found


@drawing.styled
def draw_heat_map(chart: HeatMap, title: str) -> Figure:
    """The maps, the larger rates darker; in each cell its rate, and its num_workers where there is room."""
    columns = 1 if len(chart.sheets) == 1 or len(chart.columns) > 8 else 2
    height = max(_LOWEST, min(_TALLEST, 7.0 / len(chart.rows))) * len(chart.rows)
    figure, panels = drawing.panels(title, len(chart.sheets), columns, height + 0.7)
    figure.supxlabel(drawing.fitting(_about(chart), WIDTH), x=0.01, ha="left", fontsize="medium")
    room = (WIDTH / columns - 0.4) / LETTER - max(min(len(row), _LONGEST) for row in chart.rows)
    for axes, sheet in zip(panels, chart.sheets, strict=True):
        # Datasets cannot be compared.
        rates = [heat.samples_per_s for heat in (sheet if chart.third == DATASET else chart).heats]
        scale = Normalize(min(rates), max(rates) if max(rates) > min(rates) else min(rates) + 1)
        axes.set_title(drawing.fitting(sheet.title, WIDTH / columns - 1))
        _draw_cells(axes, sheet, scale)
        _label(axes, chart, room)
        _write_rates(axes, sheet, scale, room / len(chart.columns))
    return figure


def _about(chart: HeatMap) -> str:
    over = f", the best over {', '.join(chart.over)}" if chart.over else ""
    left_out = f"; {chart.left_out} more values are not shown" if chart.left_out else ""
    return f"samples per second with the best setting{over}; in brackets num_workers{left_out}"


def _draw_cells(axes: Axes, sheet: Sheet, scale: Normalize) -> None:
    rates = [[heat.samples_per_s if heat else np.nan for heat in row] for row in sheet.rows]
    axes.imshow(rates, cmap=_RAMP, norm=scale, aspect="auto", interpolation="nearest")
    axes.set_xticks(np.arange(len(rates[0]) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(rates) - 1) + 0.5, minor=True)
    axes.set_axisbelow(False)
    axes.grid(which="minor", color=PAPER, linewidth=1.2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def _label(axes: Axes, chart: HeatMap, room: float) -> None:
    """Values at the cells; not at every one if they would cover each other."""
    axes.set(xlabel=drawing.shortened(chart.across, 40), ylabel=drawing.shortened(chart.down, _LONGEST))
    most = max(6, min(_LONGEST, int(room / len(chart.columns)) - 1))
    columns = [drawing.shortened(drawing.plain(text), most) for text in chart.columns]
    every = -(-len(columns) * (max(map(len, columns)) + 1) // int(room))
    axes.set_xticks(range(0, len(columns), every), columns[::every])
    axes.set_yticks(range(len(chart.rows)), [drawing.shortened(drawing.plain(row), _LONGEST) for row in chart.rows])


def _write_rates(axes: Axes, sheet: Sheet, scale: Normalize, room: float) -> None:
    """What the cells say, if it fits."""
    for text in (lambda heat: f"{told(heat)} ({heat.num_workers})", told):
        if all(len(text(heat)) < room for heat in sheet.heats):
            break
    else:
        return
    for y, row in enumerate(sheet.rows):
        for x, heat in enumerate(row):
            if heat:
                colour = FIXED_LIGHT if scale(heat.samples_per_s) >= _DARK_FROM else FIXED_DARK
                axes.text(x, y, text(heat), ha="center", va="center", color=colour)


def told(heat: Heat) -> str:
    """Its samples per second."""
    return units.number(heat.samples_per_s, heat.uncertainty)
