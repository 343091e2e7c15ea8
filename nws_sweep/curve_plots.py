"""Quantities against num_workers, in a panel per dataset: throughput, time, waiting; from one pure value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter

from nws_sweep import drawing
from nws_sweep.drawing import COLOURS, DASHES, MARKERS, WIDTH
from nws_sweep.facets import DATASET, Facets
from nws_sweep.records import Trial
from nws_sweep.vector import MUTED, PAPER

_MOST_NAMED = 8  # curves that can be told apart
_IN_A_CROWD = 6  # that have a name if there are more
_MOST_LINES = 1000  # without a name that are drawn one by one
_SPREAD = 0.24  # of a worker: so far apart stand points of different curves
_LOG_FROM = 20  # the largest value divided by the smallest, from which on the scale is logarithmic


@dataclass(frozen=True, slots=True)
class Point:
    """A candidate: its workers, the value, and the ends of its interval (the value itself if there is none)."""

    num_workers: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One configuration's line.

    Attributes:
        label: What tells it from the others of its panel.
        points: Ascending by num_workers.
        best: The recommended candidate.
        look: Numbers of its colour and of its style, the same in all panels; None if there are too many to be named.
    """

    label: str
    points: tuple[Point, ...]
    best: int | None
    look: tuple[int, int] | None = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of the small pictures: what all its curves have (empty if there is one panel only), and the curves."""

    title: str
    curves: tuple[Curve, ...]

    @property
    def named(self) -> tuple[Curve, ...]:
        """The curves with names."""
        return tuple(curve for curve in self.curves if curve.look)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Something against num_workers.

    Attributes:
        quantity: What the height means, with its unit.
        key: What the labels of the curves are values of; empty if there is one curve in each panel.
        panels: The panels.
        comparable: Whether all panels have the same axis: they show the same dataset.
        top: Where the axis ends; None for where its values end.
    """

    quantity: str
    key: str
    panels: tuple[Panel, ...]
    comparable: bool = False
    top: float | None = None

    @property
    def recommended(self) -> list[tuple[Panel, Curve, Point]]:
        """The recommended candidate of each curve with a name, if it has one."""
        return [
            (panel, curve, point)
            for panel in self.panels
            for curve in panel.named
            for point in curve.points
            if point.num_workers == curve.best
        ]

    @property
    def is_log(self) -> bool:
        """Whether the axis is logarithmic: values are too far apart."""
        groups = [self.panels] if self.comparable else [(panel,) for panel in self.panels]
        reaches = [[p.value for panel in group for curve in panel.curves for p in curve.points] for group in groups]
        return self.top is None and any(max(reach) > _LOG_FROM * min(reach) > 0 for reach in reaches)


def throughput(facets: Facets) -> Chart | None:
    """Samples per second; None if nothing has a pace."""
    return _chart(facets, "samples per second", _rate)


def times(facets: Facets) -> Chart | None:
    """Seconds per epoch, or of 1000 samples where the length of an epoch is unknown; None if nothing was measured."""
    trials = [trial for member in facets.members for trial in member.trials]
    if all(trial.measurement and trial.measurement.epoch_s is not None for trial in trials):
        return _chart(facets, "seconds per epoch", _epoch)
    return _chart(facets, "seconds per 1000 samples", _thousand)


def waiting(facets: Facets) -> Chart | None:
    """The share of the time that the consumer waits, %; None if nobody told."""
    return _chart(facets, "time spent waiting for data, %", _stall, top=100.0)


def _rate(trial: Trial) -> Point | None:
    rate = trial.measurement.rate if trial.measurement else None
    return Point(trial.num_workers, rate.value, *rate.ends) if rate else None


def _epoch(trial: Trial) -> Point | None:
    found = trial.measurement
    if found is None or not found.epoch_s:
        return None
    batch = found.batch_s
    quick, slow = (end / batch.value for end in batch.ends) if batch else (1.0, 1.0)
    return Point(trial.num_workers, found.epoch_s, found.epoch_s * quick, found.epoch_s * slow)


def _thousand(trial: Trial) -> Point | None:
    point = _rate(trial)
    return Point(point.num_workers, 1000 / point.value, 1000 / point.high, 1000 / point.low) if point else None


def _stall(trial: Trial) -> Point | None:
    share = trial.measurement.stall_fraction if trial.measurement else None
    return None if share is None else Point(trial.num_workers, 100 * share, 100 * share, 100 * share)


def _chart(
    facets: Facets, quantity: str, measure: Callable[[Trial], Point | None], top: float | None = None
) -> Chart | None:
    looks, panels = _looks(facets), []
    for panel in facets.panels:
        curves = []
        for member in panel.members:
            points = tuple(point for trial in member.trials if (point := measure(trial)) is not None)
            if points:
                look = looks.get(member.label)
                curves.append(Curve(label=member.label, points=points, best=member.best, look=look))
        if curves:
            panels.append(Panel(title=panel.title, curves=tuple(curves)))
    if not panels:
        return None
    comparable = DATASET not in facets.across
    return Chart(quantity=quantity, key=facets.key, panels=tuple(panels), comparable=comparable, top=top)


def _looks(facets: Facets) -> dict[str, tuple[int, int]]:
    """Number of the colour and of the dash of each label that is named: of several columns one is told by dashes."""
    cells = {member.label: member.cells for member in facets.members}
    if len(cells) > _MOST_NAMED:
        return {label: (number, 0) for number, label in enumerate(_best_labels(facets)[:_IN_A_CROWD])}
    columns = [list(dict.fromkeys(column)) for column in zip(*cells.values(), strict=True)]
    few = [index for index, column in enumerate(columns) if 1 < len(column) <= len(DASHES)]
    if len(columns) > 1 and few:
        dashed = min(few, key=lambda index: (len(columns[index]), -index))
        rest = {label: (*parts[:dashed], *parts[dashed + 1 :]) for label, parts in cells.items()}
        colours = list(dict.fromkeys(rest.values()))
        if len(colours) <= len(COLOURS):
            return {
                label: (colours.index(rest[label]), columns[dashed].index(parts[dashed]))
                for label, parts in cells.items()
            }
    return {label: (number % len(COLOURS), number // len(COLOURS)) for number, label in enumerate(cells)}


def _best_labels(facets: Facets) -> list[str]:
    """Labels by the speed of their best setting as a share of that of the winner of their panel."""
    shares: dict[str, float] = {}
    for panel in facets.panels:
        most = max(member.summary.best_rate for member in panel.members) or 1.0
        for member in panel.members:
            shares[member.label] = max(shares.get(member.label, 0.0), member.summary.best_rate / most)
    return sorted(shares, key=lambda label: -shares[label])


@drawing.styled
def draw(chart: Chart | None, title: str) -> Figure:
    """The panels, with the names of their curves below.

    Args:
        chart: What to draw; None for an empty figure.
        title: Of the figure.
    """
    if chart is None:
        return drawing.panels(title, 0, 1, 1.0)[0]
    count = len(chart.panels)
    columns = 1 if count == 1 else 2 if count in (2, 4) else 3
    figure, panels = drawing.panels(title, count, columns, 3.4 if count == 1 else 2.0, sharey=chart.comparable)
    for axes, panel in zip(panels, chart.panels, strict=True):
        axes.set_title(drawing.fitting(panel.title, WIDTH / columns - 0.6))
        _draw_panel(axes, chart, panel)
    for axes in panels[::columns]:
        axes.set_ylabel(chart.quantity)
    for axes in panels[-columns:]:
        ringed = any(curve.best is not None for panel in chart.panels for curve in panel.named)
        axes.set_xlabel("num_workers (ring: recommended)" if ringed else "num_workers")
    if chart.key:
        drawing.legend(figure, list(_entries(chart)), f"{drawing.fitting(chart.key, WIDTH - 1)}:")
    return figure


def _entries(chart: Chart) -> Iterator[Artist]:
    """Of a single panel by the ends of the curves, of several in the order of looks."""
    curves: Iterable[Curve] = {curve.label: curve for panel in chart.panels for curve in panel.named}.values()
    if len(chart.panels) == 1:
        curves = sorted(curves, key=lambda curve: -curve.points[-1].value)
    for curve in curves:
        yield Line2D([], [], **_look(curve), label=drawing.fitting(curve.label, 3.1))
    if others := sum(len(panel.curves) - len(panel.named) for panel in chart.panels):
        yield Line2D([], [], color=MUTED, linewidth=0.5, label=f"{others} more")


def _look(curve: Curve) -> dict[str, Any]:
    colour, dash = curve.look or (0, 0)
    return {
        "color": COLOURS[colour], "linestyle": DASHES[dash], "linewidth": 1.5, "marker": MARKERS[colour],
        "markersize": 4.5, "markerfacecolor": PAPER if dash else COLOURS[colour],
    }  # fmt: skip


def _draw_panel(axes: Axes, chart: Chart, panel: Panel) -> None:
    axes.grid(axis="y")
    _draw_others(axes, [curve.points for curve in panel.curves if not curve.look])
    for index, curve in enumerate(panel.named):
        # Side by side, or the intervals of equal configurations would cover each other.
        _draw_curve(axes, curve, _SPREAD * (index - (len(panel.named) - 1) / 2) / max(1, len(panel.named) - 1))
    if chart.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, chart.top)
    axes.yaxis.set_major_formatter("{x:.6g}")
    label_workers(axes, [point.num_workers for curve in panel.curves for point in curve.points])


def label_workers(axes: Axes, numbers: Iterable[float]) -> None:
    """Labels at whole numbers, and marks at the candidates."""
    candidates = sorted(set(numbers))
    axes.set_xlim(candidates[0] - 0.5, candidates[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 4, 5, 10]))
    axes.set_xticks(candidates, minor=True)


def _draw_others(axes: Axes, curves: Sequence[Sequence[Point]]) -> None:
    """Thin lines, which are one line with gaps."""
    gap = Point(0, math.nan, math.nan, math.nan)
    points = [point for curve in curves for point in (*curve, gap)]
    axes.plot(
        [p.num_workers for p in points], [p.value for p in points], color=MUTED, linewidth=0.5,
        rasterized=len(curves) > _MOST_LINES,
    )  # fmt: skip


def _draw_curve(axes: Axes, curve: Curve, shift: float) -> None:
    look, x = _look(curve), [point.num_workers + shift for point in curve.points]
    if any(point.low < point.high for point in curve.points):
        axes.vlines(x, [p.low for p in curve.points], [p.high for p in curve.points], color=look["color"], linewidth=1)
    axes.plot(x, [point.value for point in curve.points], **look)
    for point in curve.points:
        if point.num_workers == curve.best:
            ring(axes, point.num_workers + shift, point.value, look["color"])


def ring(axes: Axes, x: float, y: float, colour: str = COLOURS[0]) -> None:
    """Marks the recommended candidate."""
    axes.plot(x, y, "o", markersize=11, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.2)
