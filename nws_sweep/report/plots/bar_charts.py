"""The best setting of each configuration as a bar chart; from a pure value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import Ratio
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.style import BAND, COLOURS, INK, MUTED, WIDTH

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


def split(chosen: Sequence[Bar]) -> tuple[Sequence[Bar], Sequence[Bar]]:
    """The bars that are shown, and the others that are summarised: none, or at least two."""
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
