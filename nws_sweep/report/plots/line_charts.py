"""Values against num_workers: throughput or time, a panel per dataset, and predicted times, each from a pure value."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
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
from nws_sweep.results import DEFAULT_PREFETCH, Estimate, Trial, TrialState

_MOST_NAMED = 8  # curves in the legend
_SPREAD = 0.24  # workers, the horizontal distance over which curves are spread
_ALIKE = 0.05  # relative difference of values up to which curves are drawn as one


_Measure = Callable[[ConfigurationSummary, Trial], Estimate | None]


@dataclass(frozen=True, slots=True)
class Curve:
    """One configuration's line."""

    label: str  # values of the columns that differ within the panel
    points: Mapping[int, Estimate]  # by num_workers, ascending
    best: int  # recommended num_workers
    look: tuple[int, int] | None = (0, 0)  # indices of colour and dash; None if it is not in the legend


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A quantity against num_workers."""

    quantity: str  # label of the vertical axis, with its unit
    legend_title: str  # columns of the curves' labels; empty if there is one curve in each panel
    panels: dict[str, list[Curve]]  # by title

    @property
    def recommended(self) -> list[tuple[str, Curve, Estimate]]:
        """The recommended candidates of the curves in the legend: panel, curve, value."""
        curves = [(title, curve) for title, curves in self.panels.items() for curve in curves if curve.look]
        return [(title, curve, curve.points[curve.best]) for title, curve in curves if curve.best in curve.points]


def throughput(summary: Summary) -> Chart:
    """Samples per second of an epoch, or steady ones if its length is unknown, where measured."""
    of_epoch = " of an epoch" if _has_length(summary) else ""
    return _chart(summary, f"samples per second{of_epoch}", ConfigurationSummary.rate)


def times(summary: Summary) -> Chart:
    """Seconds per epoch, or per batch if the length of an epoch is unknown, where measured."""
    return _chart(summary, f"seconds per {'epoch' if _has_length(summary) else 'batch'}", _time)


def _has_length(summary: Summary) -> bool:
    measured = [trial.measurement for c in summary.configurations for trial in _succeeded(c)]
    return all(one and one.epoch_s is not None for one in measured)


def _succeeded(c: ConfigurationSummary) -> Iterator[Trial]:
    return (trial for trial in c.worker_trials if trial.state is TrialState.OK)


def _time(_: ConfigurationSummary, trial: Trial) -> Estimate | None:
    """The time that ranks trials, s, with the relative interval of its batches."""
    time_s, batch_s = trial.objective_s, trial.measurement.batch_s if trial.measurement else None
    if time_s is None or batch_s is None:
        return None if time_s is None else Estimate(value=time_s, low=None, high=None, n=1)
    return batch_s.scaled(time_s / batch_s.value)


def _chart(summary: Summary, quantity: str, measure: _Measure) -> Chart:
    shared = facets.facets(summary)
    looks, panels = _looks(shared), dict[str, list[Curve]]()
    for title, configurations in shared.panels.items():
        curves = []
        for c in sorted(configurations, key=lambda c: -c.best_rate):
            label = facets.label(c, shared.within)
            points = {trial.num_workers: value for trial in _succeeded(c) if (value := measure(c, trial))}
            if c.best and points:
                curves.append(Curve(label, points, c.best.num_workers, looks.get(label)))
        if curves:
            panels[title] = _merged(curves)
    return Chart(quantity=quantity, legend_title=BETWEEN.join(shared.within), panels=panels)


def _merged(curves: Sequence[Curve]) -> list[Curve]:
    """The curves, those of the same candidates and best that differ little as one with the intervals of all."""
    merged: list[Curve] = []
    for curve in curves:
        for place, other in enumerate(merged):
            if _are_alike(curve, other):
                points = {n: _spanning(one, curve.points[n]) for n, one in other.points.items()}
                merged[place] = replace(other, label=f"{other.label}, {curve.label}", points=points)
                break
        else:
            merged.append(curve)
    return merged


def _are_alike(one: Curve, other: Curve) -> bool:
    if one.best != other.best or one.points.keys() != other.points.keys() or not (one.look and other.look):
        return False
    return all(abs(one.points[n].value / other.points[n].value - 1) <= _ALIKE for n in one.points)


def _spanning(one: Estimate, other: Estimate) -> Estimate:
    return replace(one, low=min(one.ends[0], other.ends[0]), high=max(one.ends[1], other.ends[1]))


def _looks(shared: Facets) -> dict[str, tuple[int, int]]:
    """Indices of colour and dash for the labels in the legend: of many, the fastest ones of their panels."""
    shares: dict[str, float] = {}
    for configurations in shared.panels.values():
        most = max(c.best_rate for c in configurations) or 1.0
        for c in configurations:
            label = facets.label(c, shared.within)
            shares[label] = max(shares.get(label, 0.0), c.best_rate / most)
    named = sorted(shares, key=lambda label: -shares[label])[:_MOST_NAMED]
    return {label: (number % len(COLOURS), number // len(COLOURS)) for number, label in enumerate(named)}


@style.styled()
def draw(chart: Chart, title: str) -> Figure:
    """The panels with a legend below."""
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
        style.legend(figure, _entries(chart, panels), f"{style.fitting(chart.legend_title, WIDTH - 1)}:")
    return figure


def _entries(chart: Chart, panels: Sequence[Axes]) -> list[Artist | Container]:
    named = {handle.get_label(): handle for axes in panels for handle in axes.get_legend_handles_labels()[0]}
    others = sum(not curve.look for curves in chart.panels.values() for curve in curves)
    more = [Line2D([], [], color=MUTED, linewidth=0.5, label=f"{others} more")] if others else []
    return [*named.values(), *more]


def _draw_panel(axes: Axes, curves: list[Curve]) -> None:
    # Curves outside the legend are one thin line with gaps.
    others = [curve.points for curve in curves if not curve.look]
    numbers = [number for points in others for number in (*points, math.nan)]
    values = [value for points in others for value in (*(one.value for one in points.values()), math.nan)]
    axes.plot(numbers, values, color=MUTED, linewidth=0.5)
    named = [curve for curve in curves if curve.look]
    for index, curve in enumerate(named):
        # Side by side, so that intervals of similar curves do not overlap.
        _draw_curve(axes, curve, _SPREAD * (index - (len(named) - 1) / 2) / max(1, len(named) - 1))
    style.scale_values(axes, [one.value for curve in curves for one in curve.points.values()])
    axes.grid(axis="y")
    candidates = sorted({number for curve in curves for number in curve.points})
    axes.set_xlim(candidates[0] - 0.5, candidates[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 4, 5, 10]))
    axes.set_xticks(candidates, minor=True)


def _draw_curve(axes: Axes, curve: Curve, shift: float) -> None:
    index, dash = curve.look or (0, 0)
    colour = COLOURS[index]
    _draw_intervals(axes, curve.points, colour, shift)
    axes.plot(
        [number + shift for number in curve.points], [one.value for one in curve.points.values()], color=colour,
        linestyle=DASHES[dash], marker=MARKERS[index], markersize=4.5, markerfacecolor=PAPER if dash else colour,
        label=style.fitting(curve.label, 3.1),
    )  # fmt: skip
    if curve.best in curve.points:
        style.ring(axes, curve.best + shift, curve.points[curve.best].value, colour)


def _draw_intervals(axes: Axes, points: Mapping[int, Estimate], colour: str, shift: float = 0.0) -> None:
    lows, highs = zip(*(one.ends for one in points.values()), strict=True)
    axes.vlines([number + shift for number in points], lows, highs, color=colour, linewidth=1)


_CPU_TIMES = (1, 2, 8)  # the CPUs of the run
_FEWEST_SHOWN = 64  # workers at the end of the axis, or the next power of two beyond all that were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A time against num_workers, s."""

    quantity: str  # label of the vertical axis
    measured: Mapping[int, Estimate]
    curves: Mapping[float, Mapping[int, Estimate]]  # by the number of CPUs; the first, of the run, has intervals
    best: int  # recommended num_workers


def prediction(c: ConfigurationSummary) -> Prediction | None:
    """The predictions for a configuration; None if no costs were recorded."""
    ahead = c.best.settings.prefetched if c.best else DEFAULT_PREFETCH
    found = what_if.of(c.run.recorded, c.best, (ahead + 4) * _FEWEST_SHOWN)  # fewer have no steady pace
    if found is None:
        return None
    return Prediction(
        quantity=f"seconds per {'epoch' if found.has_length else 'batch'}",
        measured={trial.num_workers: time_s for trial in _succeeded(c) if (time_s := _time(c, trial))},
        curves={times * found.own.cpus: _predicted(found, times) for times in _CPU_TIMES},
        best=found.own.num_workers,
    )


def _predicted(found: WhatIf, times: int) -> dict[int, Estimate]:
    most = max(_FEWEST_SHOWN, *(known.settings.num_workers for known in found.model.known))
    numbers = (0, *(2**n for n in range((most - 1).bit_length() + 1)))
    settings = {n: replace(found.own, num_workers=n, cpus=times * found.own.cpus) for n in numbers}
    if times == 1:
        return {n: found.predict(one).cost_s for n, one in settings.items()}
    return {n: Estimate(value=found.cost_s(one), low=None, high=None, n=1) for n, one in settings.items()}


@style.styled()
def draw_prediction(shown: Prediction, title: str) -> Figure:
    """A curve for each number of CPUs, the first with its band; the axis of num_workers is logarithmic from 1."""
    figure, (axes,) = style.panels(title, 1, 1, 3.4)
    for colour, dash, (cpus, points) in zip(COLOURS, DASHES, shown.curves.items(), strict=False):
        label = f"predicted, {units.counted(cpus, 'CPU')}"
        axes.plot([*points], [one.value for one in points.values()], color=colour, linestyle=dash, label=label)
        lows, highs = zip(*(one.ends for one in points.values()), strict=True)
        axes.fill_between([*points], lows, highs, color=colour, alpha=0.2, linewidth=0)
    values = [one.value for one in shown.measured.values()]
    axes.plot([*shown.measured], values, "o", color=style.INK, markersize=4.5, label="measured")
    _draw_intervals(axes, shown.measured, style.INK)
    if shown.best in shown.measured:
        style.ring(axes, shown.best, shown.measured[shown.best].value, style.INK)
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.xaxis.set_major_locator(FixedLocator([*points]))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="num_workers (ring: recommended)", ylabel=shown.quantity)
    values += [one.value for points in shown.curves.values() for one in points.values()]
    style.scale_values(axes, values)
    axes.grid(axis="y")
    style.legend(figure, axes.get_legend_handles_labels()[0])
    return figure
