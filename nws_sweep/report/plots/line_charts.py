"""Values against num_workers: throughput or time, a panel per dataset, and predicted times, each from a pure value."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from nws_sweep import units
from nws_sweep.analysis import what_if
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.what_if import WhatIf
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import BETWEEN, Facets
from nws_sweep.report.plots.style import COLOURS, DASHES, MARKERS, MUTED, PAPER, WIDTH
from nws_sweep.results import DEFAULT_PREFETCH, Trial, TrialState

_MOST_NAMED = 8  # curves in the legend
_IN_A_CROWD = 6  # in the legend if there are more curves
_SPREAD = 0.24  # workers, the horizontal distance over which curves are spread


class Point(NamedTuple):
    """A candidate: its workers, the value, and the ends of its interval (the value itself if there is none)."""

    num_workers: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One configuration's line."""

    label: str  # values of the columns that differ within the panel
    points: tuple[Point, ...]  # ascending by num_workers
    best: int | None  # recommended num_workers
    look: tuple[int, int] | None = (0, 0)  # indices of colour and dash; None if it is not in the legend


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A quantity against num_workers."""

    quantity: str  # label of the vertical axis, with its unit
    legend_title: str  # columns of the curves' labels; empty if there is one curve in each panel
    panels: dict[str, list[Curve]]  # by title

    @property
    def recommended(self) -> list[tuple[str, Curve, Point]]:
        """The recommended candidates of the curves in the legend: panel, curve, point."""
        curves = [(title, curve) for title, curves in self.panels.items() for curve in curves if curve.look]
        return [(title, curve, p) for title, curve in curves for p in curve.points if p.num_workers == curve.best]


def throughput(summary: Summary) -> Chart | None:
    """Samples per second; None if no throughput was measured."""
    return _chart(summary, "samples per second", _rate)


def times(summary: Summary) -> Chart | None:
    """Seconds per epoch, or per 1000 samples if the length of an epoch is unknown; None if nothing was measured."""
    trials = [trial for c in summary.configurations for trial in _measured(c)]
    if all(trial.measurement and trial.measurement.epoch_s is not None for trial in trials):
        return _chart(summary, "seconds per epoch", _epoch)
    return _chart(summary, "seconds per 1000 samples", _thousand)


def _measured(c: ConfigurationSummary) -> Iterator[Trial]:
    return (trial for trial in c.worker_trials if trial.measurement and trial.state is TrialState.OK)


def _rate(trial: Trial) -> Point | None:
    rate = trial.measurement.rate if trial.measurement else None
    return Point(trial.num_workers, rate.value, *rate.ends) if rate else None


def _epoch(trial: Trial) -> Point | None:
    found = trial.measurement
    return timed(trial, found.epoch_s) if found and found.epoch_s else None


def timed(trial: Trial, seconds: float) -> Point:
    """A time of the trial, with the relative interval of its batches."""
    batch = trial.measurement.batch_s if trial.measurement else None
    quick, slow = (end / batch.value for end in batch.ends) if batch else (1.0, 1.0)
    return Point(trial.num_workers, seconds, quick * seconds, slow * seconds)


def _thousand(trial: Trial) -> Point | None:
    point = _rate(trial)
    return Point(point.num_workers, 1000 / point.value, 1000 / point.high, 1000 / point.low) if point else None


def _chart(summary: Summary, quantity: str, measure: Callable[[Trial], Point | None]) -> Chart | None:
    shared = facets.facets(summary)
    looks, panels = _looks(shared), {}
    for title, configurations in shared.panels.items():
        curves = []
        for c in configurations:
            cells = facets.cells(c, shared.within)
            best, look = c.best.num_workers if c.best else None, looks.get(cells)
            if points := tuple(point for trial in _measured(c) if (point := measure(trial))):
                curves.append(Curve(label=BETWEEN.join(cells), points=points, best=best, look=look))
        if curves:
            panels[title] = curves
    if not panels:
        return None
    return Chart(quantity=quantity, legend_title=BETWEEN.join(shared.within), panels=panels)


def _looks(shared: Facets) -> dict[tuple[str, ...], tuple[int, int]]:
    """Indices of colour and dash for the curves in the legend: of many, the fastest ones of their panels."""
    shares: dict[tuple[str, ...], float] = {}
    for configurations in shared.panels.values():
        most = max(c.best_rate for c in configurations) or 1.0
        for c in configurations:
            cells = facets.cells(c, shared.within)
            shares[cells] = max(shares.get(cells, 0.0), c.best_rate / most)
    named = list(shares)
    if len(named) > _MOST_NAMED:
        named = sorted(shares, key=lambda cells: -shares[cells])[:_IN_A_CROWD]
    return {cells: (number % len(COLOURS), number // len(COLOURS)) for number, cells in enumerate(named)}


@style.styled
def draw(chart: Chart | None, title: str) -> Figure:
    """The panels with a legend below; without a chart an empty figure."""
    if chart is None:
        return style.panels(title, 0, 1, 1.0)[0]
    count = len(chart.panels)
    columns = 1 if count == 1 else 2 if count in (2, 4) else 3
    figure, panels = style.panels(title, count, columns, 3.4 if count == 1 else 2.0)
    for axes, (name, curves) in zip(panels, chart.panels.items(), strict=True):
        axes.set_title(style.fitting(name, WIDTH / columns - 0.6))
        _draw_panel(axes, curves)
    for axes in panels[::columns]:
        axes.set_ylabel(chart.quantity)
    for axes in panels[-columns:]:
        axes.set_xlabel("num_workers (ring: recommended)" if chart.recommended else "num_workers")
    if chart.legend_title:
        style.legend(figure, _entries(chart), f"{style.fitting(chart.legend_title, WIDTH - 1)}:")
    return figure


def _entries(chart: Chart) -> list[Line2D]:
    """A single panel's entries are ordered by the last points of the curves."""
    every = [curve for curves in chart.panels.values() for curve in curves]
    named = list({curve.label: curve for curve in every if curve.look}.values())
    if len(chart.panels) == 1:
        named.sort(key=lambda curve: -curve.points[-1].value)
    entries = [Line2D([], [], **_look(curve), label=style.fitting(curve.label, 3.1)) for curve in named]
    if others := sum(not curve.look for curve in every):
        entries.append(Line2D([], [], color=MUTED, linewidth=0.5, label=f"{others} more"))
    return entries


def _look(curve: Curve) -> dict[str, Any]:
    colour, dash = curve.look or (0, 0)
    return {
        "color": COLOURS[colour], "linestyle": DASHES[dash], "linewidth": 1.5, "marker": MARKERS[colour],
        "markersize": 4.5, "markerfacecolor": PAPER if dash else COLOURS[colour],
    }  # fmt: skip


def _draw_panel(axes: Axes, curves: list[Curve]) -> None:
    # Curves outside the legend are one thin line with gaps.
    gap, others = Point(math.nan, math.nan, math.nan, math.nan), [curve for curve in curves if not curve.look]
    points = [point for curve in others for point in (*curve.points, gap)]
    axes.plot([p.num_workers for p in points], [p.value for p in points], color=MUTED, linewidth=0.5)
    named = [curve for curve in curves if curve.look]
    for index, curve in enumerate(named):
        # Side by side, so that intervals of similar curves do not overlap.
        _draw_curve(axes, curve, _SPREAD * (index - (len(named) - 1) / 2) / max(1, len(named) - 1))
    style.scale_values(axes, [point.value for curve in curves for point in curve.points])
    axes.grid(axis="y")
    candidates = sorted({point.num_workers for curve in curves for point in curve.points})
    axes.set_xlim(candidates[0] - 0.5, candidates[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 4, 5, 10]))
    axes.set_xticks(candidates, minor=True)


def _draw_curve(axes: Axes, curve: Curve, shift: float) -> None:
    look, x = _look(curve), [point.num_workers + shift for point in curve.points]
    if any(point.low < point.high for point in curve.points):
        axes.vlines(x, [p.low for p in curve.points], [p.high for p in curve.points], color=look["color"], linewidth=1)
    axes.plot(x, [point.value for point in curve.points], **look)
    for point in curve.points:
        if point.num_workers == curve.best:
            style.ring(axes, point.num_workers + shift, point.value, look["color"])


_CPU_TIMES = (1, 2, 8)  # the CPUs of the run
_FEWEST_SHOWN = 64  # workers at the end of the axis, or the next power of two beyond all that were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A time against num_workers, s."""

    quantity: str  # label of the vertical axis
    measured: list[Point]
    curves: dict[float, list[Point]]  # by the number of CPUs; the first, of the run, has intervals
    best: int  # recommended num_workers


def prediction(c: ConfigurationSummary) -> Prediction | None:
    """The predictions for a configuration; None if no costs were recorded."""
    ahead = (c.best and c.best.settings.prefetch_factor) or DEFAULT_PREFETCH
    found = what_if.of(c.run.recorded, c.best, (ahead + 4) * _FEWEST_SHOWN)  # fewer have no steady pace
    if found is None:
        return None
    return Prediction(
        quantity=f"seconds per {'epoch' if found.has_length else 'batch'}",
        measured=[timed(trial, trial.objective_s) for trial in c.worker_trials if trial.objective_s],
        curves={times * found.own.cpus: list(_predicted(found, times)) for times in _CPU_TIMES},
        best=found.own.num_workers,
    )


def _predicted(found: WhatIf, times: int) -> Iterator[Point]:
    most = max(_FEWEST_SHOWN, *(known.settings.num_workers for known in found.model.known))
    for number in (0, *(2**n for n in range((most - 1).bit_length() + 1))):
        settings = replace(found.own, num_workers=number, cpus=times * found.own.cpus)
        if times == 1:
            cost_s = found.predict(settings).cost_s
            yield Point(number, cost_s.value, *cost_s.ends)
        else:
            yield Point(number, *[found.cost_s(settings)] * 3)


@style.styled
def draw_prediction(shown: Prediction, title: str) -> Figure:
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
