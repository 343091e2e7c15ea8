"""Horizontal bars, from pure values: the best settings of a grid, and the stages of a
sample.

A stage has two: its share of a worker's time, and what the epoch would save without it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import Ratio
from nws_sweep.model.stages import Stage
from nws_sweep.records import Estimate
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import DATASET
from nws_sweep.report.plots.style import COLOURS, INK, WIDTH

_MOST_BARS = 24
_MOST_COLUMNS = 6  # in the name of a row
_NAME = 3.4  # inches, the name of a row
_HEIGHT = 0.62  # of a bar, in rows
_STAGE_NAME, _STAGE_HEIGHT = 3.0, 0.38  # inches, rows


class Best(NamedTuple):
    """The best setting of one configuration."""

    cells: Mapping[str, str]  # its values of the columns that vary
    rate: Estimate  # as ``Summary.rate_unit`` says
    num_workers: int
    gain: Ratio | None  # over num_workers=0; None if unknown or if that is the best


def best_of_each(summary: Summary) -> list[Best]:
    """Collects the best settings of all configurations that have an answer, the fastest
    first."""
    columns = summary.distinguishing or (DATASET,)
    bars = []
    for configuration in summary.configurations:
        answer = configuration.answer
        rate = configuration.rate(answer) if answer else None
        if answer and rate:
            cells = {name: facets.cell(configuration, name) for name in columns}
            gain = configuration.gain_over_zero if answer.num_workers else None
            bars.append(Best(cells, rate, answer.num_workers, gain))
    return sorted(bars, key=lambda bar: -bar.rate.value)


@style.styled()
def draw_best(bars: Sequence[Best], title: str, unit: str) -> Figure:
    """Draws a row for each configuration; of many, the fastest, and says the range of
    the rest."""
    shown, hidden = bars[:_MOST_BARS], bars[_MOST_BARS:]
    figure, (axes,) = style.panels(title, 1, 1, 0.8 + 0.25 * len(shown))
    rates = [bar.rate for bar in shown]
    drawn = axes.barh(
        range(len(shown)), [rate.value for rate in rates], _HEIGHT, xerr=style.errors(rates), color=COLOURS[0],
        ecolor=INK,
    )  # fmt: skip
    axes.bar_label(drawn, [_text(bar) for bar in shown], padding=4)
    _name_bars(axes, [bar.cells for bar in shown])
    label = f"{unit} with the best setting (line: 95 % interval)"
    if hidden:
        label += f"; {len(hidden)} more: {units.rate(hidden[-1].rate)} to {units.rate(hidden[0].rate)}"
    axes.set_xlabel(label)
    return figure


def _text(bar: Best) -> str:
    text = f"{units.rate(bar.rate)} ({bar.num_workers})"
    return f"{text}, {bar.gain.speed_up}" if bar.gain else text


def _name_bars(axes: Axes, rows: Sequence[Mapping[str, str]]) -> None:
    """Names the bars, the first one on top, with the meaning of names and labels
    above."""
    columns = facets.BETWEEN.join([*rows[0]][:_MOST_COLUMNS])
    axes.set_title(
        style.fitting(f"{columns}: samples/s (num_workers), vs 0 workers", WIDTH - 1)
    )
    inches = max(0.8, _NAME / len(rows[0]))
    names = []
    for row in rows:
        cells = [style.fitting(cell, inches) for cell in row.values()]
        names.append(facets.BETWEEN.join(cells[:_MOST_COLUMNS]))
    _name_rows(axes, names)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names the rows, the first one on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


@style.styled()
def draw_stages(stages: Sequence[Stage], title: str) -> Figure:
    """Draws two bars for each stage whose saving is known."""
    figure, (axes,) = style.panels(title, 1, 1, 1.0 + 0.42 * len(stages))
    places = np.arange(len(stages))
    shares = [100 * stage.share for stage in stages]
    # 0 if the epoch would take longer
    saved = [100 * max(0.0, stage.saved or 0.0) for stage in stages]
    workers = [units.counted(stage.workers_without or 0, "worker") for stage in stages]
    upper = axes.barh(
        places - _STAGE_HEIGHT / 2, shares, _STAGE_HEIGHT, color=COLOURS[0]
    )
    lower = axes.barh(
        places + _STAGE_HEIGHT / 2, saved, _STAGE_HEIGHT, color=COLOURS[1]
    )
    axes.bar_label(upper, fmt="{:.0f} %", padding=4)
    savings = [
        f"{percent:.0f} %, then {enough}"
        for percent, enough in zip(saved, workers, strict=True)
    ]
    axes.bar_label(lower, savings, padding=4)
    axes.legend(
        [upper, lower],
        ["share of a sample's time", "share of the epoch saved if it took no time"],
    )
    _name_rows(
        axes, [style.fitting(stage.label[::-1], _STAGE_NAME)[::-1] for stage in stages]
    )
    axes.set_xlim(0, 1.25 * max([*shares, *saved]))
    axes.set_xlabel("percent")
    return figure
