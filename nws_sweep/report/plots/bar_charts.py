"""The best setting of each configuration as a bar chart; from a pure value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Ratio
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.style import BAND, COLOURS, INK, MUTED, WIDTH
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
    columns = facets.columns(summary, _MOST_COLUMNS)
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
    figure, axes = _rows([*(bar.cells for bar in shown), *more], "samples/s (num_workers), of 0 workers", title)
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


def _rows(rows: Sequence[Mapping[str, str]], what: str, title: str) -> tuple[Figure, Axes]:
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
