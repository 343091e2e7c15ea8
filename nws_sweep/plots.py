"""Figures that compare, each drawn from a pure value that says what to draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.drawing import COLOURS, DPI, FAINT, GREY, MARKERS, Picture, plain, stacked, tidy, titled
from nws_sweep.storage import BatchTime

_MOST_LINES = 14  # more cannot be told apart: the rest is drawn in grey without a name
_MOST_BARS = 30
_MOST_PANELS = 12
_SPREAD = 0.24  # of the distance between two candidates


@dataclass(frozen=True, slots=True)
class Point:
    """Time of one candidate: num_workers, s, and half-widths of its interval downwards and upwards, s (0 if none)."""

    num_workers: int
    seconds: float
    below: float
    above: float


@dataclass(frozen=True, slots=True)
class Curve:
    """One configuration's line: its name, its points ascending by num_workers, and the recommended candidate."""

    label: str
    points: tuple[Point, ...]
    best: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The panel of one dataset: its curves and what their height means."""

    dataset: str
    quantity: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """The best setting of one configuration: its name, samples per second, and what is written beside the bar."""

    label: str
    samples_per_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Per-batch times of one candidate, s: all batches in order, and whether each one was warm-up."""

    num_workers: int
    wait_s: tuple[float, ...]
    consume_s: tuple[float, ...]
    warm_up: tuple[bool, ...]


def comparisons(summary: Summary) -> list[Comparison]:
    """Time against num_workers: a panel per dataset, a curve per configuration that has anything measured."""
    names = dict.fromkeys(str(c.configuration.columns["dataset"]) for c in summary.configurations)
    return [panel for name in names if (panel := _comparison(summary, name)).curves]


def _comparison(summary: Summary, dataset: str) -> Comparison:
    chosen = [c for c in summary.configurations if str(c.configuration.columns["dataset"]) == dataset]
    trials = [trial for c in chosen for trial in c.worker_trials if trial.measurement]
    has_epochs = all(trial.measurement and trial.measurement.epoch_s is not None for trial in trials)
    varying = [name for name in summary.varying if name != "dataset"]
    curves = [
        Curve(
            label=c.configuration.label_of(varying) or dataset,
            points=_points(c, has_epochs),
            best=c.best.num_workers if c.best else None,
        )
        for c in chosen
    ]
    quantity = "seconds per epoch" if has_epochs else "seconds per 1000 samples"
    return Comparison(dataset, quantity, tuple(curve for curve in curves if curve.points))


def _points(summary: ConfigurationSummary, has_epochs: bool) -> tuple[Point, ...]:
    points = []
    for trial in summary.worker_trials:
        measurement = trial.measurement
        if measurement is None or (measurement.samples_per_s is None and not has_epochs):
            continue
        value = measurement.epoch_s if has_epochs else 1000 / (measurement.samples_per_s or math.nan)
        batch = measurement.batch_s
        below = above = 0.0
        if value and batch and batch.low and batch.high:
            below, above = value * (1 - batch.low / batch.value), value * (batch.high / batch.value - 1)
        points.append(Point(trial.num_workers, value or 0.0, below, above))
    return tuple(points)


def bars(summary: Summary) -> list[Bar]:
    """The best setting of every configuration that has one, the fastest first."""
    found = []
    names = [name for name in summary.varying if name != "dataset" or _datasets(summary) > 1]
    for c in summary.configurations:
        if c.best and c.best.measurement and c.best.measurement.samples_per_s:
            gain = f", {units.ratio(c.gain_over_zero)} of 0 workers" if c.gain_over_zero and c.best.num_workers else ""
            text = f"num_workers={c.best.num_workers}{gain}"
            label = c.configuration.label_of(names) or c.label
            found.append(Bar(label, c.best.measurement.samples_per_s, text))
    return sorted(found, key=lambda bar: -bar.samples_per_s)


def _datasets(summary: Summary) -> int:
    return len({str(c.configuration.columns["dataset"]) for c in summary.configurations})


def timelines(batches: Sequence[BatchTime]) -> list[Timeline]:
    """The per-batch times of a run, one value per candidate, ascending."""
    lines = []
    for num_workers in sorted({batch.num_workers for batch in batches}):
        mine = [batch for batch in batches if batch.num_workers == num_workers]
        waits, consumes = tuple(batch.wait_s for batch in mine), tuple(batch.consume_s for batch in mine)
        lines.append(Timeline(num_workers, waits, consumes, tuple(batch.warm_up for batch in mine)))
    return lines


def draw_comparison(panels: Sequence[Comparison], title: str) -> Figure:
    """Time against num_workers: one panel per dataset, intervals as bars, the recommended candidate ringed."""
    shown = panels[:_MOST_PANELS]
    names = [curve.label for panel in shown for curve in panel.curves[:_MOST_LINES] if len(panel.curves) > 1]
    figure = Picture(figsize=(_width(names), 4.4 * max(1, len(shown))), dpi=DPI, layout="constrained")
    left_out = f" (the first {len(shown)} of {len(panels)} datasets)" if len(panels) > len(shown) else ""
    figure.suptitle(titled(title + left_out))
    for axes, panel in zip(stacked(figure, len(shown)), shown, strict=True):
        for index, curve in enumerate(panel.curves):
            # Side by side, or the intervals of equal configurations would cover each other.
            _draw_curve(axes, curve, index, _SPREAD * (index / max(1, len(panel.curves) - 1) - 0.5))
        _label_workers(axes, panel)
        axes.set_ylabel(panel.quantity)
        axes.set_title(titled(panel.dataset), fontsize="medium")
        if len(panel.curves) > 1:
            axes.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _draw_curve(axes: Axes, curve: Curve, index: int, shift: float) -> None:
    named = index < _MOST_LINES
    colour = COLOURS[index % len(COLOURS)] if named else GREY
    x = [point.num_workers + shift for point in curve.points]
    y = [point.seconds for point in curve.points]
    errors = [[point.below for point in curve.points], [point.above for point in curve.points]]
    style = "-" if index < len(COLOURS) else "--"
    axes.errorbar(
        x, y, yerr=errors, color=colour, linestyle=style, marker=MARKERS[index % len(MARKERS)], markersize=5,
        capsize=3, linewidth=1.5, label=plain(curve.label) if named else None, zorder=2 if named else 1,
    )  # fmt: skip
    for point in curve.points:
        if point.num_workers == curve.best and named:
            axes.plot(point.num_workers + shift, point.seconds, "o", markersize=13, mfc="none", mec=colour, zorder=3)


def _label_workers(axes: Axes, panel: Comparison) -> None:
    ticks = sorted({point.num_workers for curve in panel.curves for point in curve.points})
    if len(ticks) <= 20:
        axes.set_xticks(ticks)
    axes.set_xlabel("num_workers (ring: recommended)")
    values = [point.seconds for curve in panel.curves for point in curve.points if point.seconds > 0]
    if values and max(values) > 20 * min(values):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    tidy(axes)


def draw_bars(chosen: Sequence[Bar], title: str) -> Figure:
    """The best setting per configuration as bars of samples per second; only the fastest ones if there are many."""
    shown = chosen[:_MOST_BARS]
    figure = Picture(
        figsize=(_width([bar.label for bar in shown]), 1.4 + 0.4 * len(shown)), dpi=DPI, layout="constrained"
    )
    axes = figure.subplots()
    # By position, not by label: categories of the same name would be drawn as one bar.
    axes.barh(range(len(shown)), [bar.samples_per_s for bar in shown], color=COLOURS[0], height=0.6)
    axes.set_yticks(range(len(shown)), [plain(bar.label) for bar in shown])
    for position, bar in enumerate(shown):
        axes.annotate(
            f"{units.per_second(bar.samples_per_s)}  {bar.text}", (bar.samples_per_s, position), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize="small",
        )  # fmt: skip
    axes.invert_yaxis()
    # Room for the text at the end of the longest bar.
    axes.set_xlim(0, 1.75 * max((bar.samples_per_s for bar in shown), default=1.0))
    axes.set_xlabel("samples per second with the best setting")
    axes.spines[["top", "right"]].set_visible(False)
    left_out = len(chosen) - len(shown)
    axes.set_title(title + (f" (the {len(shown)} fastest, {left_out} more)" if left_out else ""))
    return figure


def draw_timelines(lines: Sequence[Timeline], title: str) -> Figure:
    """Per-batch times, a panel per candidate: waiting below, consumer on top, warm-up shaded."""
    shown = lines[:_MOST_PANELS]
    figure = Picture(figsize=(7.2, 1.0 + 1.35 * max(1, len(shown))), dpi=DPI, layout="constrained")
    left_out = f" (the first {len(shown)} of {len(lines)} candidates)" if len(lines) > len(shown) else ""
    figure.suptitle(titled(title + left_out))
    panels = stacked(figure, len(shown), same_height=True)
    top = 1.05 * max(
        (wait + consume for line in shown for wait, consume in zip(line.wait_s, line.consume_s, strict=True)),
        default=1.0,
    )
    for axes, line in zip(panels, shown, strict=True):
        _draw_timeline(axes, line, top)
    if panels:
        panels[0].legend(fontsize="small", frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0))
        panels[-1].set_xlabel("batch, in the order of arrival")
    return figure


def _draw_timeline(axes: Axes, line: Timeline, top: float) -> None:
    edges = [index - 0.5 for index in range(len(line.wait_s) + 1)]
    total = [wait + consume for wait, consume in zip(line.wait_s, line.consume_s, strict=True)]
    axes.stairs(total, edges, baseline=line.wait_s, fill=True, color=COLOURS[1], label="consumer")
    axes.stairs(line.wait_s, edges, fill=True, color=COLOURS[0], label="waiting for the loader")
    shaded = [top if warm_up else 0.0 for warm_up in line.warm_up]
    axes.stairs(shaded, edges, fill=True, color=FAINT, zorder=0, label="warm-up, not counted")
    axes.set_xlim(-0.5, max(0.5, len(line.wait_s) - 0.5))
    axes.set_ylim(0, top)
    axes.set_ylabel(f"{line.num_workers} worker{'' if line.num_workers == 1 else 's'}\ns", fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)


def _width(names: Iterable[str]) -> float:
    """Inches for a figure with the names beside its axes; long ones would leave no room for the axes."""
    return 6.2 + 0.08 * max(map(len, names), default=12)
