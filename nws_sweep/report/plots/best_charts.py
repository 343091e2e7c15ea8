"""The best settings of a grid, a bar per configuration, from a pure value."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import Ratio
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import DATASET
from nws_sweep.report.plots.style import COLOURS, INK, WIDTH
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
