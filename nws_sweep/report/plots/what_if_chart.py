"""Predicted time against num_workers, on the CPUs of the run and on more, with the measured points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from nws_sweep import units
from nws_sweep.analysis import what_if
from nws_sweep.analysis.summary import ConfigurationSummary
from nws_sweep.analysis.what_if import WhatIf
from nws_sweep.report.plots import style
from nws_sweep.report.plots.line_charts import Point, timed
from nws_sweep.report.plots.style import COLOURS, DASHES
from nws_sweep.results import DEFAULT_PREFETCH

_TIMES = (1, 2, 8)  # the CPUs of the run
_FEWEST_SHOWN = 64  # workers at the end of the axis, or the next power of two beyond all that were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfChart:
    """A time against num_workers, s."""

    quantity: str  # label of the vertical axis
    measured: list[Point]
    curves: dict[float, list[Point]]  # by the number of CPUs; the first, of the run, has intervals
    best: int  # recommended num_workers


def chart(c: ConfigurationSummary) -> WhatIfChart | None:
    """The predictions for a configuration; None if no costs were recorded."""
    ahead = (c.best and c.best.settings.prefetch_factor) or DEFAULT_PREFETCH
    found = what_if.of(c.run.recorded, c.best, (ahead + 4) * _FEWEST_SHOWN)  # fewer have no steady pace
    if found is None:
        return None
    return WhatIfChart(
        quantity=f"seconds per {'epoch' if found.has_length else 'batch'}",
        measured=[timed(trial, trial.objective_s) for trial in c.worker_trials if trial.objective_s],
        curves={times * found.own.cpus: list(_curve(found, times)) for times in _TIMES},
        best=found.own.num_workers,
    )


def _curve(found: WhatIf, times: int) -> Iterator[Point]:
    most = max(_FEWEST_SHOWN, *(known.settings.num_workers for known in found.model.known))
    for number in (0, *(2**n for n in range((most - 1).bit_length() + 1))):
        settings = replace(found.own, num_workers=number, cpus=times * found.own.cpus)
        if times == 1:
            cost_s = found.predict(settings).cost_s
            yield Point(number, cost_s.value, *cost_s.ends)
        else:
            yield Point(number, *[found.cost_s(settings)] * 3)


@style.styled
def draw(shown: WhatIfChart, title: str) -> Figure:
    """A curve for each number of CPUs, the first with its band; the axis of num_workers is logarithmic from 1."""
    figure, (axes,) = style.panels(title, 1, 1, 3.4)
    for colour, dash, (cpus, points) in zip(COLOURS, DASHES, shown.curves.items(), strict=False):
        numbers, values, lows, highs = zip(*points, strict=True)
        axes.plot(numbers, values, color=colour, linestyle=dash, label=f"predicted, {units.counted(cpus, 'CPU')}")
        axes.fill_between(numbers, lows, highs, color=colour, alpha=0.2, linewidth=0)
    for number, value, low, high in shown.measured:
        axes.vlines(number, low, high, color=style.INK, linewidth=1)
        axes.plot(number, value, "o", color=style.INK, markersize=4.5, label="measured")
        if number == shown.best:
            style.ring(axes, number, value, style.INK)
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.xaxis.set_major_locator(FixedLocator(numbers))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="num_workers (ring: recommended)", ylabel=shown.quantity)
    style.scale_values(axes, [point.value for points in (shown.measured, *shown.curves.values()) for point in points])
    axes.grid(axis="y")
    style.legend(figure, axes.get_legend_handles_labels()[0][: len(shown.curves) + 1])
    return figure
