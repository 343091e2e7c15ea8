"""Tables with bars: the best setting of each configuration, and what its search cost; each from a pure value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import drawing, facets, units
from nws_sweep.analysis import ConfigurationSummary, Gain, Summary
from nws_sweep.drawing import COLOURS, EDGE, SMALL, WIDTH, Box
from nws_sweep.vector import BAND, INK, MUTED

Row = TypeVar("Row")

_MOST_BARS = 24
MOST_COLUMNS = 6  # of such a table
_ROW = 0.27  # inches


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The best setting of one configuration.

    Attributes:
        cells: Its values of the columns that vary.
        samples_per_s: What it reaches.
        low: Lower end of its interval, samples/s; the value itself if there is none.
        high: Upper end, likewise.
        num_workers: The recommended candidate.
        gain: Over loading without workers; None where that is not known or says nothing.
    """

    cells: tuple[str, ...]
    samples_per_s: float
    low: float
    high: float
    num_workers: int
    gain: Gain | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """The best settings of a grid: the names of what varies, and a bar per configuration, the fastest first."""

    columns: tuple[str, ...]
    bars: tuple[Bar, ...]


def bars(summary: Summary) -> Bars:
    """The best setting of every configuration that has one."""
    columns = facets.columns(summary, MOST_COLUMNS)
    found = [bar for c in summary.configurations if (bar := _bar(c, columns)) is not None]
    return Bars(columns=columns, bars=tuple(sorted(found, key=lambda bar: -bar.samples_per_s)))


def _bar(c: ConfigurationSummary, columns: Sequence[str]) -> Bar | None:
    found = c.best.measurement if c.best else None
    rate = found.rate if found else None
    if c.best is None or rate is None:
        return None
    low, high = rate.ends
    return Bar(
        cells=tuple(facets.cell(c, name) for name in columns),
        samples_per_s=rate.value,
        low=low,
        high=high,
        num_workers=c.best.num_workers,
        gain=c.gain_over_zero if c.best.num_workers else None,
    )


def draw_bars(chart: Bars, title: str) -> Figure:
    """A row per configuration; only the fastest ones if there are many, and how far the others reach."""
    shown, others = split(chart.bars)
    rows = [[*bar.cells] for bar in shown] + ([[f"{len(others)} more"]] if others else [])
    right = [_texts(bar) for bar in shown]
    if others:
        right.append([f"{told(others[-1])} to {told(others[0])}", "", ""])
    header = ["samples/s", "num_workers", "of 0 workers"]
    figure, axes = table(chart.columns, rows, header, right, title)
    drawing.row_bars(axes, [0.0] * len(shown), [bar.samples_per_s for bar in shown], COLOURS[0])
    axes.hlines(range(len(shown)), [b.low for b in shown], [b.high for b in shown], color=INK, linewidth=1.1)
    if others:
        reach = others[0].samples_per_s - others[-1].samples_per_s
        nothing = [0.0] * len(shown)
        drawing.row_bars(axes, [*nothing, others[-1].samples_per_s], [*nothing, reach], BAND, MUTED)
    axes.set_xlim(0, 1.02 * max(max(bar.samples_per_s, bar.high) for bar in shown))
    axes.set_xlabel("samples per second with the best setting (line: 95 % interval)")
    return figure


def split(chosen: Sequence[Row]) -> tuple[Sequence[Row], Sequence[Row]]:
    """Those that are shown one by one, and the others: at least two, or they could be shown as well."""
    most = _MOST_BARS if len(chosen) > _MOST_BARS + 1 else len(chosen)
    return chosen[:most], chosen[most:]


def _texts(bar: Bar) -> list[str]:
    return [told(bar), str(bar.num_workers), str(bar.gain or units.NOTHING)]


def told(bar: Bar) -> str:
    """Its samples per second."""
    return units.rate(bar.samples_per_s, bar.low, bar.high)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], header: Sequence[str], right: Sequence[Sequence[str]],
    title: str, above: float = 0.0,
) -> tuple[Figure, Axes]:  # fmt: skip
    """A figure with a table, and axes between its columns whose row ``i`` is at ``y = i``.

    Args:
        columns: The names of the left columns.
        rows: Their cells; a row may have fewer than there are columns.
        header: The names of the right columns.
        right: Their cells.
        title: Of the figure.
        above: Inches left free below the title.
    """
    most = max(10, 54 // max(1, len(columns)))
    left_cells = [[drawing.shortened(text, 20) for text in columns]]
    # A row with one cell says what the others have in common, across all columns.
    left_cells += [
        [drawing.shortened(text, most) for text in row] if len(row) == len(columns) else [*row] for row in rows
    ]
    left_widths = _widths(left_cells[:1] + [row for row in left_cells[1:] if len(row) == len(columns)])
    right_widths = _widths([header, *right])
    beside = EDGE + sum(left_widths) + sum(right_widths) + 0.1
    width = max(WIDTH, beside + 2.6)
    top = drawing.head(title) + above + drawing.lines(1, SMALL) + 0.06
    figure = drawing.sheet(top + _ROW * len(rows) + 0.55, title, width)
    box = Box(EDGE + sum(left_widths), top, width - beside, _ROW * len(rows))
    for number, (cells, others) in enumerate(zip(left_cells, (header, *right), strict=True)):
        middle = top + (number - 0.5) * _ROW if number else top - drawing.lines(1, SMALL) / 2 - 0.02
        weight = "normal" if number else "bold"
        _write_row(figure, cells, left_widths, EDGE, middle, weight)
        _write_right(figure, others, right_widths, box.left + box.width + 0.1, middle, weight)
    return figure, _row_axes(figure, box, len(rows))


def _widths(rows: Sequence[Sequence[str]]) -> list[float]:
    return [max(1.08 * drawing.text_width(row[i]) for row in rows if i < len(row)) + 0.16 for i in range(len(rows[0]))]


def _write_row(
    figure: Figure, cells: Sequence[str], widths: Sequence[float], left: float, middle: float, weight: str
) -> None:
    for index, text in enumerate(cells):
        drawing.write(figure, drawing.plain(text), left + sum(widths[:index]), middle, weight=weight)


def _write_right(
    figure: Figure, cells: Sequence[str], widths: Sequence[float], left: float, middle: float, weight: str
) -> None:
    for index, text in enumerate(cells):
        drawing.write(figure, text, left + sum(widths[: index + 1]) - 0.08, middle, ha="right", weight=weight)


def _row_axes(figure: Figure, box: Box, count: int) -> Axes:
    axes = drawing.axes_at(figure, box)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(drawing.few(4))
    drawing.grid_lines(axes, "x")
    return axes
