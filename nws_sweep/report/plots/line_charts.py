"""Values against num_workers: throughput or time, a panel per dataset, and predicted times, each from a pure value."""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from nws_sweep import units
from nws_sweep.analysis import what_if
from nws_sweep.analysis.diagnosis import loader_of
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Quantity, time_of
from nws_sweep.analysis.what_if import WhatIf
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import BETWEEN
from nws_sweep.report.plots.style import COLOURS, DASHES, LETTER, MARKERS, MUTED, PAPER, WIDTH
from nws_sweep.results import Estimate, Trial

_MOST_NAMED = 8  # curves in the legend
_SPREAD = 0.24  # workers, the horizontal distance over which curves are spread
_ALIKE = 0.05  # relative difference of values up to which curves are drawn as one


_Measure = Callable[[ConfigurationSummary, Trial], Estimate | None]


@dataclass(frozen=True, slots=True)
class Curve:
    """One configuration's line."""

    label: str  # values of the columns that differ within the panel
    points: Mapping[int, Estimate]  # by num_workers, ascending, with the settings of the configuration
    best: int  # recommended num_workers
    value: Estimate | None  # of the recommended candidate
    changed: str = ""  # its settings that differ from the configuration
    look: tuple[int, int] | None = (0, 0)  # indices of colour and dash; None if it is not in the legend

    @property
    def values(self) -> list[Estimate]:
        """Of all points, and of the recommended candidate, which may be none of them."""
        return [*self.points.values(), *filter(None, [self.value])]


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
        return [(title, curve, curve.value) for title, curve in curves if curve.value]


def throughput(summary: Summary) -> Chart:
    """Samples per second of an epoch, or steady ones if its length is unknown, where measured."""
    return _chart(summary, summary.rate_unit, ConfigurationSummary.rate)


def times(summary: Summary) -> Chart:
    """Seconds per epoch, or per batch if the length of an epoch is unknown, where measured."""
    quantity = Quantity.EPOCH if summary.has_lengths else Quantity.BATCH
    return _chart(summary, f"seconds per {quantity.value}", lambda _, trial: _time(trial, quantity))


def _measured(c: ConfigurationSummary) -> Iterator[Trial]:
    return (trial for trial in c.worker_trials if trial.objective_s is not None)


def _time(trial: Trial, quantity: Quantity) -> Estimate | None:
    """The time of an epoch, s, with the relative interval of its batches, or of a batch; None if it is unknown."""
    time_s, batch_s = time_of(trial, quantity), time_of(trial, Quantity.BATCH)
    return batch_s.scaled(time_s.value / batch_s.value) if time_s and batch_s else time_s


def _chart(summary: Summary, quantity: str, measure: _Measure) -> Chart:
    within, divided = facets.facets(summary)
    looks, panels = _looks(within, divided), dict[str, list[Curve]]()
    for title, configurations in divided.items():
        curves = []
        for c in sorted(configurations, key=lambda c: -c.best_rate):
            label = facets.label(c, within)
            if c.best and (curve := _curve(c, c.best, label, measure)).points:
                curves.append(replace(curve, look=looks.get(label)))
        if curves:
            panels[title] = _merged(curves)
    return Chart(quantity=quantity, legend_title=BETWEEN.join(within), panels=panels)


def _curve(c: ConfigurationSummary, best: Trial, label: str, measure: _Measure) -> Curve:
    points = {trial.num_workers: value for trial in _measured(c) if (value := measure(c, trial))}
    return Curve(label, points, best.num_workers, measure(c, best), c.changed_settings)


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
    if (one.best, one.changed) != (other.best, other.changed) or one.points.keys() != other.points.keys():
        return False
    pairs = zip(one.values, other.values, strict=False)
    return bool(one.look and other.look) and all(abs(a.value / b.value - 1) <= _ALIKE for a, b in pairs)


def _spanning(one: Estimate, other: Estimate) -> Estimate:
    return replace(one, low=min(one.ends[0], other.ends[0]), high=max(one.ends[1], other.ends[1]))


def _looks(within: Sequence[str], panels: Mapping[str, Sequence[ConfigurationSummary]]) -> dict[str, tuple[int, int]]:
    """Indices of colour and dash for the labels in the legend: of many, the fastest ones of their panels."""
    shares: dict[str, float] = {}
    for configurations in panels.values():
        most = max(c.best_rate for c in configurations) or 1.0
        for c in configurations:
            label = facets.label(c, within)
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
        label = _axis({curve.changed for _, curve, _ in chart.recommended})
        axes.set_xlabel(textwrap.fill(label, int((WIDTH / columns - 0.3) / LETTER)))
    if chart.legend_title:
        style.legend(figure, _entries(chart, panels), f"{style.fitting(chart.legend_title, WIDTH - 1)}:")
    return figure


def _axis(changed: Set[str]) -> str:
    """The label of the horizontal axis: what rings mark, with the settings of the recommended candidates."""
    if not changed:
        return "num_workers"
    own = ", ".join(changed) if len(changed) == 1 else "some with other settings"
    return f"num_workers (ring: recommended{', ' if own else ''}{own})"


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
    style.scale_values(axes, [one.value for curve in curves for one in curve.values])
    axes.grid(axis="y")
    candidates = sorted({number for curve in curves for number in (*curve.points, curve.best)})
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
    if curve.value:
        style.ring(axes, curve.best + shift, curve.value.value, colour)


def _draw_intervals(axes: Axes, points: Mapping[int, Estimate], colour: str, shift: float = 0.0) -> None:
    lows, highs = ([one.ends[side] for one in points.values()] for side in (0, 1))
    axes.vlines([number + shift for number in points], lows, highs, color=colour, linewidth=1)


_CPU_TIMES = (1, 2, 8)  # the CPUs of the run
_FEWEST_SHOWN = 64  # workers at the end of the axis, or the next power of two beyond all that were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A time against num_workers, s."""

    quantity: str  # label of the vertical axis
    measured: Curve
    # With the recommended settings, by the number of CPUs; the first, of the run, has intervals.
    curves: Mapping[float, Mapping[int, Estimate]]


def prediction(c: ConfigurationSummary) -> Prediction | None:
    """The predictions for a configuration; None if no costs were recorded."""
    if c.best is None:
        return None
    ahead = loader_of(c.run.result, c.best).prefetched
    found = what_if.of(c.run.recorded, c.best, (ahead + 4) * _FEWEST_SHOWN)  # fewer have no steady pace
    if found is None:
        return None
    quantity = Quantity.EPOCH if found.has_length else Quantity.BATCH
    of_others = " with the configuration's settings" if c.changed_settings else ""
    return Prediction(
        quantity=f"seconds per {quantity.value}",
        measured=_curve(c, c.best, f"measured{of_others}", lambda _, trial: _time(trial, quantity)),
        curves={times * found.own.cpus: _predicted(found, times) for times in _CPU_TIMES},
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
        label = ", ".join(filter(None, ("predicted", units.counted(cpus, "CPU"), shown.measured.changed)))
        axes.plot([*points], [one.value for one in points.values()], color=colour, linestyle=dash, label=label)
        lows, highs = zip(*(one.ends for one in points.values()), strict=True)
        axes.fill_between([*points], lows, highs, color=colour, alpha=0.2, linewidth=0)
    measured, values = shown.measured, [one.value for one in shown.measured.points.values()]
    axes.plot([*measured.points], values, "o", color=style.INK, markersize=4.5, label=measured.label)
    _draw_intervals(axes, measured.points, style.INK)
    if measured.value:
        style.ring(axes, measured.best, measured.value.value, style.INK)
    axes.set_xscale("symlog", base=2, linthresh=1)
    axes.xaxis.set_major_locator(FixedLocator([*points]))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel=_axis({measured.changed} if measured.value else set()), ylabel=shown.quantity)
    values += [one.value for points in shown.curves.values() for one in points.values()]
    style.scale_values(axes, values)
    axes.grid(axis="y")
    style.legend(figure, axes.get_legend_handles_labels()[0])
    return figure
