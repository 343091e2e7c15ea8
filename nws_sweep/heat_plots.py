"""The best throughput over the two columns with the most values, as a map; from a pure value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from nws_sweep import drawing, units
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.drawing import EDGE, SMALL, WIDTH, Box
from nws_sweep.facets import DATASET, cell, values
from nws_sweep.vector import FIXED_DARK, FIXED_LIGHT, PAPER

_MOST_PANELS = 4
_MOST_CELLS = 40  # along an axis; more of them cannot be told apart
_RAMP = LinearSegmentedColormap.from_list("throughput", ["#d7e7f3", "#7fb4d6", "#2f7fb5", "#0a4a7c"])
_DARK_FROM = 0.66  # of the ramp: light text from here on
_TALLEST, _LOWEST = 0.42, 0.17  # inches of a row


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
    def reach(self) -> tuple[float, float]:
        """The least and the largest rate."""
        found = [heat.samples_per_s for row in self.rows for heat in row if heat]
        return (min(found), max(found)) if found else (0.0, 0.0)


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
        by_itself: Whether each sheet has its own scale: datasets cannot be compared.
    """

    across: str
    down: str
    third: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    sheets: tuple[Sheet, ...]
    over: tuple[str, ...]
    left_out: int
    by_itself: bool


def heat_map(summary: Summary) -> HeatMap | None:
    """The map of a grid; None unless at least two columns vary and anything was measured."""
    found = {name: cells for name, cells in values(summary).items() if len(cells) > 1}
    if len(found) < 2:
        return None
    across, down, third = axes_of({name: len(cells) for name, cells in found.items()})
    columns, rows = found[across][:_MOST_CELLS], found[down][:_MOST_CELLS]
    best = _best_of_cells(summary.configurations, (across, down, third))
    sheets = [_sheet(best, third, value, (columns, rows)) for value in (found[third] if third else ("",))]
    if not best:
        return None
    return HeatMap(
        across=across,
        down=down,
        third=third,
        columns=columns,
        rows=rows,
        sheets=tuple(sheet for sheet in sheets if any(heat for row in sheet.rows for heat in row)),
        over=tuple(name for name in found if name not in (across, down, third)),
        left_out=len(found[across]) + len(found[down]) - len(columns) - len(rows),
        by_itself=third == DATASET,
    )


def _sheet(
    best: Mapping[tuple[str, ...], Heat], third: str, value: str, cells: tuple[Sequence[str], Sequence[str]]
) -> Sheet:
    columns, rows = cells
    found = tuple(tuple(best.get((column, row, value)) for column in columns) for row in rows)
    return Sheet(title=f"{third}={value}" if third else "", rows=found)


def axes_of(counts: Mapping[str, int]) -> tuple[str, str, str]:
    """The columns across, down, and of the sheets (empty if there are none): datasets share no cell if it can be."""
    ordered = sorted(counts, key=lambda name: -counts[name])
    across, down, *others = ordered
    fitting = [name for name in others if counts[name] <= _MOST_PANELS]
    if DATASET in others and DATASET not in fitting:
        return across, DATASET, fitting[0] if fitting else ""
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


def draw_heat_map(chart: HeatMap, title: str) -> Figure:
    """The maps, the larger rates darker; in each cell its rate, and its num_workers where there is room."""
    columns = 1 if len(chart.sheets) == 1 or len(chart.columns) > 8 else 2
    left = EDGE + _names(chart) + 0.3
    width = (WIDTH - EDGE) / columns
    row_height = max(_LOWEST, min(_TALLEST, 7.0 / len(chart.rows)))
    height = row_height * len(chart.rows)
    top = drawing.head(title) + drawing.lines(1, SMALL) + 0.05
    figure = drawing.sheet(top + -(-len(chart.sheets) // columns) * (height + 0.85), title)
    drawing.write(figure, drawing.plain(drawing.shortened(_about(chart), 115)), EDGE, top - 0.12)
    for index, sheet in enumerate(chart.sheets):
        row, column = divmod(index, columns)
        box = Box(column * width + left, top + row * (height + 0.85) + 0.28, width - left - 0.1, height)
        _draw_sheet(drawing.axes_at(figure, box), chart, sheet, box)
    return figure


def _about(chart: HeatMap) -> str:
    over = f", the best over {', '.join(chart.over)}" if chart.over else ""
    left_out = f"; {chart.left_out} more values are not shown" if chart.left_out else ""
    return f"samples per second with the best setting{over}; in brackets num_workers{left_out}"


def _draw_sheet(axes: Axes, chart: HeatMap, sheet: Sheet, box: Box) -> None:
    least, most = sheet.reach if chart.by_itself else _reach(chart)
    scale = Normalize(least, most if most > least else least + 1)
    rates = [[heat.samples_per_s if heat else math.nan for heat in row] for row in sheet.rows]
    axes.imshow(rates, cmap=_RAMP, norm=scale, aspect="auto", interpolation="nearest")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    drawing.caption(axes, sheet.title)
    axes.set(
        xlabel=drawing.plain(drawing.shortened(chart.across, 40)),
        ylabel=drawing.plain(drawing.shortened(chart.down, 20)),
    )
    axes.yaxis.set_label_coords(-(_names(chart) + 0.17) / box.width, 0.5)
    _label(axes, chart, box)
    _separate(axes, chart)
    for x, y, text, dark in _texts(chart, sheet, scale, box):
        colour = FIXED_LIGHT if dark else FIXED_DARK
        axes.text(x, y, text, ha="center", va="center", fontsize=SMALL, color=colour)


def _reach(chart: HeatMap) -> tuple[float, float]:
    reaches = [sheet.reach for sheet in chart.sheets]
    return min(least for least, _ in reaches), max(most for _, most in reaches)


def _names(chart: HeatMap) -> float:
    """Inches that the names of the rows take."""
    return max(drawing.text_width(_short(row)) for row in chart.rows)


def _short(text: str) -> str:
    return drawing.shortened(text, 20)


def _label(axes: Axes, chart: HeatMap, box: Box) -> None:
    """Values at the cells; not at every one if they would cover each other."""
    room = box.width / len(chart.columns)
    most = max(4, int((room - 0.05) / 0.085))
    texts = [drawing.shortened(text, min(20, max(most, 6))) for text in chart.columns]
    every = max(1, math.ceil((max(map(drawing.text_width, texts)) + 0.06) / room))
    chosen = range(0, len(texts), every)
    axes.set_xticks([*chosen], [drawing.plain(texts[i]) for i in chosen])
    every = max(1, math.ceil(drawing.lines(1, SMALL) / (box.height / len(chart.rows))))
    chosen = range(0, len(chart.rows), every)
    axes.set_yticks([*chosen], [drawing.plain(_short(chart.rows[i])) for i in chosen])


def _separate(axes: Axes, chart: HeatMap) -> None:
    """Thin lines between the cells."""
    right, bottom = len(chart.columns) - 0.5, len(chart.rows) - 0.5
    axes.vlines([i + 0.5 for i in range(len(chart.columns) - 1)], -0.5, bottom, color=PAPER, linewidth=1.2)
    axes.hlines([i + 0.5 for i in range(len(chart.rows) - 1)], -0.5, right, color=PAPER, linewidth=1.2)


def _texts(chart: HeatMap, sheet: Sheet, scale: Normalize, box: Box) -> Iterator[tuple[int, int, str, bool]]:
    """What is written in the cells, and whether on dark ground; nothing if rates do not fit."""
    room, height = box.width / len(chart.columns) - 0.08, box.height / len(chart.rows)
    heats = [heat for row in sheet.rows for heat in row if heat]
    full = all(drawing.text_width(_full(heat)) < room for heat in heats)
    if height < 0.9 * drawing.lines(1, SMALL) or not all(drawing.text_width(told(heat)) < room for heat in heats):
        return
    for y, row in enumerate(sheet.rows):
        for x, heat in enumerate(row):
            if heat:
                dark = float(scale(heat.samples_per_s)) >= _DARK_FROM
                yield x, y, _full(heat) if full else told(heat), dark


def told(heat: Heat) -> str:
    """Its samples per second."""
    return units.number(heat.samples_per_s, heat.uncertainty)


def _full(heat: Heat) -> str:
    return f"{told(heat)} ({heat.num_workers})"
