"""Bar charts: the best setting of each configuration, and the cost of the searches; each from a pure value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import Ratio
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.style import BAND, COLOURS, INK, MUTED, PAPER, WIDTH

PARTS = ("profile", "start-up", "warm-up", "measuring", "other")
_PART_COLOURS = (COLOURS[3], COLOURS[1], COLOURS[4], COLOURS[0], MUTED)
_MOST_BARS = 24
_MOST_COLUMNS = 6  # in the name of a row
_NAME = 3.4  # inches, the name of a row
_HEIGHT = 0.62  # of a bar, in rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The best setting of one configuration."""

    cells: Mapping[str, str]  # its values of the columns that vary
    samples_per_s: float
    ends: tuple[float, float]  # of its interval, samples/s; the value itself if there is none
    num_workers: int
    gain: Ratio | None  # over num_workers=0; None if unknown or if that is the best

    @property
    def rate(self) -> str:
        """Samples per second as text."""
        return units.rate(self.samples_per_s, *self.ends)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one search: its values of the columns that vary, and the seconds of each of ``PARTS``."""

    cells: Mapping[str, str]
    parts_s: tuple[float, ...]

    @property
    def total_s(self) -> float:
        """The sum of the parts."""
        return sum(self.parts_s)


def bars(summary: Summary) -> list[Bar]:
    """The best setting of every configuration that has one, the fastest first."""
    columns = facets.columns(summary, _MOST_COLUMNS)
    found = [
        Bar(
            cells={name: facets.cell(c, name) for name in columns},
            samples_per_s=rate.value,
            ends=rate.ends,
            num_workers=c.best.num_workers,
            gain=c.gain_over_zero if c.best.num_workers else None,
        )
        for c in summary.configurations
        if c.best and c.best.measurement and (rate := c.best.measurement.rate)
    ]
    return sorted(found, key=lambda bar: -bar.samples_per_s)


def costs(summary: Summary) -> list[Cost]:
    """The cost of each search, the highest first, also of unfinished ones; reused results have none."""
    columns = facets.columns(summary, _MOST_COLUMNS)
    found = []
    for c in summary.configurations:
        if cost := c.run.result.cost:
            parts_s = (cost.profile_s, cost.startup_s, cost.warm_up_s, cost.measuring_s, cost.other_s + cost.samples_s)
            found.append(Cost({name: facets.cell(c, name) for name in columns}, parts_s))
    return sorted((cost for cost in found if cost.total_s > 0), key=lambda cost: -cost.total_s)


def summed(costs: Sequence[Cost]) -> tuple[float, ...]:
    """The sum of each part, s."""
    return tuple(map(sum, zip(*(cost.parts_s for cost in costs), strict=True)))


def split(chosen: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The rows that are shown, and the others that are summarised: none, or at least two."""
    most = _MOST_BARS if len(chosen) > _MOST_BARS + 1 else len(chosen)
    return chosen[:most], chosen[most:]


@style.styled
def draw_bars(bars: Sequence[Bar], title: str) -> Figure:
    """A row per configuration; of many, the fastest ones and the range of the others."""
    shown, others = split(bars)
    more = [{"": f"{len(others)} more"}] if others else []
    figure, axes = _rows([*(bar.cells for bar in shown), *more], "samples/s (num_workers), of 0 workers", title)
    low, high = zip(*((b.samples_per_s - b.ends[0], b.ends[1] - b.samples_per_s) for b in shown), strict=True)
    rates = [bar.samples_per_s for bar in shown]
    drawn = axes.barh(range(len(shown)), rates, _HEIGHT, xerr=(low, high), color=COLOURS[0], ecolor=INK)
    texts = [f"{bar.rate} ({bar.num_workers})" + (f", {bar.gain.speed_up}" if bar.gain else "") for bar in shown]
    axes.bar_label(drawn, texts, padding=4)
    if others:
        fastest, *_, slowest = others
        reach = fastest.samples_per_s - slowest.samples_per_s
        rest = axes.barh(len(shown), reach, _HEIGHT, left=slowest.samples_per_s, color=BAND, edgecolor=MUTED)
        axes.bar_label(rest, [f"{slowest.rate} to {fastest.rate}"], padding=4)
    axes.set_xlabel("samples per second with the best setting (line: 95 % interval)")
    return figure


@style.styled
def draw_costs(costs: Sequence[Cost], title: str) -> Figure:
    """A row per configuration, stacked by parts; of many, the last row is the mean of those without one."""
    rows, others = split(costs)
    if others:
        mean_s = tuple(part_s / len(others) for part_s in summed(others))
        rows = [*rows, Cost({"": f"mean of {len(others)} more"}, mean_s)]
    scale, unit = (60.0, "min") if rows[0].total_s > 600 else (1.0, "s")
    figure, axes = _rows([row.cells for row in rows], "in all", title)
    left = [0.0] * len(rows)
    for index, (part, colour) in enumerate(zip(PARTS, _PART_COLOURS, strict=True)):
        widths = [row.parts_s[index] / scale for row in rows]
        drawn = axes.barh(range(len(rows)), widths, _HEIGHT, left=left, color=colour, edgecolor=PAPER, label=part)
        left = [begin + width for begin, width in zip(left, widths, strict=True)]
    axes.bar_label(drawn, [units.seconds(row.total_s) for row in rows], padding=4)
    axes.set_xlabel(f"time of the search, {unit}")
    style.legend(figure, axes.containers)
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
