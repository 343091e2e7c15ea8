"""The best settings of a grid: a bar per configuration, and a heat map over two columns, each from a pure value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Ratio
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import DATASET
from nws_sweep.report.plots.style import BAND, COLOURS, INK, LETTER, MUTED, PAPER, WIDTH
from nws_sweep.results import Estimate

_MOST_BARS = 24
_MOST_COLUMNS = 6  # in the name of a row
_NAME = 3.4  # inches, the name of a row
_HEIGHT = 0.62  # of a bar, in rows


class Bar(NamedTuple):
    """The best setting of one configuration."""

    cells: Mapping[str, str]  # its values of the columns that vary
    rate: Estimate  # samples/s
    num_workers: int
    gain: Ratio | None  # over num_workers=0; None if unknown or if that is the best


def bars(summary: Summary) -> list[Bar]:
    """The best setting of every configuration that has one, the fastest first."""
    columns = tuple(facets.values(summary))[:_MOST_COLUMNS] or (DATASET,)
    found = [
        Bar(dict(zip(columns, facets.cells(c, columns), strict=True)), rate, c.best.num_workers, _gain(c))
        for c in summary.configurations
        if c.best and c.best.measurement and (rate := c.best.measurement.rate)
    ]
    return sorted(found, key=lambda bar: -bar.rate.value)


def _gain(c: ConfigurationSummary) -> Ratio | None:
    return c.gain_over_zero if c.best and c.best.num_workers else None


@style.styled
def draw_bars(bars: Sequence[Bar], title: str) -> Figure:
    """A row per configuration; of many, the fastest ones and the range of the others."""
    most = _MOST_BARS if len(bars) > _MOST_BARS + 1 else len(bars)
    shown, others = bars[:most], bars[most:]
    more = [{"": f"{len(others)} more"}] if others else []
    figure, axes = _bar_axes([*(bar.cells for bar in shown), *more], "samples/s (num_workers), of 0 workers", title)
    rates = [bar.rate.value for bar in shown]
    errors = np.abs(np.transpose([bar.rate.ends for bar in shown]) - rates)
    drawn = axes.barh(range(len(shown)), rates, _HEIGHT, xerr=errors, color=COLOURS[0], ecolor=INK)
    texts = [
        f"{units.rate(bar.rate)} ({bar.num_workers})" + (f", {bar.gain.speed_up}" if bar.gain else "") for bar in shown
    ]
    axes.bar_label(drawn, texts, padding=4)
    if others:
        fastest, *_, slowest = others
        low, high = slowest.rate.value, fastest.rate.value
        rest = axes.barh(len(shown), high - low, _HEIGHT, left=low, color=BAND, edgecolor=MUTED)
        axes.bar_label(rest, [f"{units.rate(slowest.rate)} to {units.rate(fastest.rate)}"], padding=4)
    axes.set_xlabel("samples per second with the best setting (line: 95 % interval)")
    return figure


def _bar_axes(rows: Sequence[Mapping[str, str]], what: str, title: str) -> tuple[Figure, Axes]:
    """Axes for horizontal bars, the first one on top, with the meaning of names and labels above."""
    figure, (axes,) = style.panels(title, 1, 1, 0.8 + 0.25 * len(rows))
    axes.set_title(style.fitting(f"{facets.BETWEEN.join(rows[0])}: {what}", WIDTH - 1))
    names = [
        facets.BETWEEN.join(style.fitting(cell, max(0.8, _NAME / len(row))) for cell in row.values()) for row in rows
    ]
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    return figure, axes


_MOST_MAPS = 4
_MOST_CELLS = 40  # along an axis
_RAMP = LinearSegmentedColormap.from_list("throughput", ["#d7e7f3", "#7fb4d6", "#2f7fb5", "#0a4a7c"])
_DARK_FROM = 0.66  # of the ramp: light text from here on
_TALLEST, _LOWEST = 0.42, 0.17  # inches of a row
_LONGEST = 20  # characters of a value


@dataclass(frozen=True, slots=True)
class Heat:
    """The best of a cell: samples per second, its workers, relative half-width of the interval (None if none)."""

    samples_per_s: float
    num_workers: int
    uncertainty: float | None = None


Rows = Sequence[Sequence[Heat | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The best throughput over two columns."""

    across: str  # column of the horizontal axis
    down: str  # column of the vertical axis
    columns: tuple[str, ...]  # values across
    rows: tuple[str, ...]  # values down
    panels: Mapping[str, Rows]  # cells by title, None for missing measurements: one panel, or one per dataset
    over: tuple[str, ...]  # further columns; each cell is the best over their values
    left_out: int  # values of both axes that are not shown


def measured(rows: Rows) -> list[Heat]:
    """The cells with measurements."""
    return [heat for row in rows for heat in row if heat]


def heat_map(summary: Summary) -> HeatMap | None:
    """The map of a grid; None unless at least two columns vary and anything was measured."""
    found = {name: cells for name, cells in facets.values(summary).items() if len(cells) > 1}
    if len(found) < 2:
        return None
    across, down, third = axes_of({name: len(cells) for name, cells in found.items()})
    columns, rows = found[across][:_MOST_CELLS], found[down][:_MOST_CELLS]
    best: dict[tuple[str, ...], Heat] = {}
    for c in sorted(summary.configurations, key=lambda c: c.best_rate):
        figures = c.best.measurement if c.best else None
        if c.best and figures and figures.samples_per_s:
            uncertainty = units.uncertainty(figures.batch_s)
            best[facets.cells(c, (across, down, third))] = Heat(figures.samples_per_s, c.best.num_workers, uncertainty)
    panels = {
        f"{third}={value}" if third else "": [[best.get((column, row, value)) for column in columns] for row in rows]
        for value in (found[third] if third else ("-",))
    }
    panels = {title: cells for title, cells in panels.items() if measured(cells)}
    over = tuple(name for name in found if name not in (across, down, third))
    left_out = len(found[across]) + len(found[down]) - len(columns) - len(rows)
    if not panels:
        return None
    return HeatMap(across=across, down=down, columns=columns, rows=rows, panels=panels, over=over, left_out=left_out)


def axes_of(counts: Mapping[str, int]) -> tuple[str, str, str]:
    """The columns across and down, and ``dataset`` if each dataset has a panel: cells never mix datasets."""
    across, *others = sorted((name for name in counts if name != DATASET), key=lambda name: -counts[name])
    if DATASET not in counts:
        return across, others[0], ""
    return (across, others[0], DATASET) if others and counts[DATASET] <= _MOST_MAPS else (across, DATASET, "")


@style.styled
def draw_heat_map(chart: HeatMap, title: str) -> Figure:
    """Darker cells are faster; each shows its rate, and num_workers if there is room."""
    columns = 1 if len(chart.panels) == 1 or len(chart.columns) > 8 else 2
    height = max(_LOWEST, min(_TALLEST, 7.0 / len(chart.rows))) * len(chart.rows)
    figure, all_axes = style.panels(title, len(chart.panels), columns, height + 0.7)
    over = f", the best over {', '.join(chart.over)}" if chart.over else ""
    left_out = f"; {chart.left_out} more values are not shown" if chart.left_out else ""
    about = f"samples per second with the best setting{over}; in brackets num_workers{left_out}"
    figure.supxlabel(style.fitting(about, WIDTH), x=0.01, ha="left", fontsize="medium")
    room = (WIDTH / columns - 0.4) / LETTER - max(min(len(row), _LONGEST) for row in chart.rows)
    for axes, (name, rows) in zip(all_axes, chart.panels.items(), strict=True):
        axes.set_title(style.fitting(name, WIDTH / columns - 1))
        _draw_cells(axes, rows, room / len(chart.columns))
        _label_cells(axes, chart, room)
    return figure


def _draw_cells(axes: Axes, rows: Rows, room: float) -> None:
    """Draws cells with the longest text that fits in ``room`` characters."""
    heats = measured(rows)
    rates = [heat.samples_per_s for heat in heats]
    scale = Normalize(min(rates), max(rates) if max(rates) > min(rates) else min(rates) + 1)
    pixels = [[heat.samples_per_s if heat else np.nan for heat in row] for row in rows]
    axes.imshow(pixels, cmap=_RAMP, norm=scale, aspect="auto", interpolation="nearest")
    fitting = [text for text in (_text_of, rate_text) if all(len(text(heat)) < room for heat in heats)]
    for y, row in enumerate(rows):
        for x, heat in enumerate(row):
            if heat and fitting:
                colour = PAPER if scale(heat.samples_per_s) >= _DARK_FROM else INK
                axes.text(x, y, fitting[0](heat), ha="center", va="center", color=colour)


def _label_cells(axes: Axes, chart: HeatMap, room: float) -> None:
    """Labels as many cells as there is room for, with thin lines between the cells."""
    axes.set(xlabel=style.shortened(chart.across, 40), ylabel=style.shortened(chart.down, _LONGEST))
    most = max(6, min(_LONGEST, int(room / len(chart.columns)) - 1))
    columns = [style.shortened(style.plain(text), most) for text in chart.columns]
    every = -(-len(columns) * (max(map(len, columns)) + 1) // int(room))
    axes.set_xticks(range(0, len(columns), every), columns[::every])
    axes.set_yticks(range(len(chart.rows)), [style.shortened(style.plain(row), _LONGEST) for row in chart.rows])
    axes.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(chart.rows) - 1) + 0.5, minor=True)
    axes.set_axisbelow(False)
    axes.grid(which="minor", color=PAPER, linewidth=1.2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def rate_text(heat: Heat) -> str:
    """Samples per second as text."""
    return units.number(heat.samples_per_s, heat.uncertainty)


def _text_of(heat: Heat) -> str:
    return f"{rate_text(heat)} ({heat.num_workers})"
