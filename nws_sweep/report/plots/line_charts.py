"""Times against num_workers, a panel for each dataset, from a pure value."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Quantity
from nws_sweep.records import Estimate
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import BETWEEN, MOST_DATASETS
from nws_sweep.report.plots.style import (
    COLOURS,
    DASHES,
    MARKERS,
    MUTED,
    PAPER,
    WIDTH,
)

_MOST_NAMED = 8  # curves in the legend
_ALIKE = 0.05  # relative difference of values up to which curves are drawn as one
_LABELS = (0, 1, 2)  # at least, on the axis of num_workers
_APART = 0.09  # of the axis, between two of its labels


@dataclass(frozen=True, slots=True)
class Curve:
    """The line of a configuration."""

    label: str  # values of the columns that differ within the panel
    # seconds by num_workers, ascending, with the settings of the configuration
    points: Mapping[int, Estimate]
    best: int  # recommended num_workers
    value: Estimate | None  # of the recommended candidate
    changed: str = ""  # its settings that differ from the configuration
    # number of its colour, marker and dash; None if it is not in the legend
    look: int | None = 0

    @property
    def values(self) -> list[Estimate]:
        """The values of all points, and of the recommended candidate, which may have
        other settings."""
        values = [*self.points.values()]
        if self.value:
            return [*values, self.value]
        return values


@dataclass(frozen=True, slots=True)
class Panel:
    """The curves of one dataset."""

    quantity: Quantity  # that takes the seconds
    curves: list[Curve]

    @property
    def fastest(self) -> Curve | None:
        """The curve with the fastest recommended candidate; None without an answer."""
        decided = [curve for curve in self.curves if curve.value]
        return min(decided, key=_recommended_s, default=None)

    @property
    def numbers(self) -> set[int]:
        """The num_workers of all points and rings."""
        numbers = set()
        for curve in self.curves:
            numbers |= {*curve.points, curve.best}
        return numbers


def _recommended_s(curve: Curve) -> float:
    return curve.value.value if curve.value else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Times against num_workers."""

    # columns of the curves' labels; empty if there is one curve in each panel
    legend_title: str
    panels: dict[str, Panel]  # by dataset
    left_out: str = ""  # what the title says if there are too many panels

    @property
    def changed(self) -> set[str]:
        """The settings of ringed candidates that differ from the configuration."""
        return {
            curve.changed
            for panel in self.panels.values()
            for curve in panel.curves
            if curve.value and curve.look is not None
        }


def times(summary: Summary) -> Chart:
    """Charts the measured times of each dataset of which two num_workers were measured
    with the same settings."""
    within, datasets = facets.within_dataset(summary), facets.by_dataset(summary)
    looks = _looks([*datasets.values()], within)
    panels = {}
    for dataset, configurations in datasets.items():
        panel = _panel(configurations, within, looks)
        if any(len(curve.points) > 1 for curve in panel.curves):
            panels[dataset] = panel
    left_out = ""
    if len(panels) > MOST_DATASETS:
        left_out = f" ({MOST_DATASETS} of {len(panels)} datasets)"
        panels = dict([*panels.items()][:MOST_DATASETS])
    return Chart(legend_title=BETWEEN.join(within), panels=panels, left_out=left_out)


def _looks(
    datasets: Sequence[Sequence[ConfigurationSummary]], within: Sequence[str]
) -> dict[str, int]:
    """Numbers the labels of curves: first those of the configurations that are nearest
    to the fastest of their dataset."""
    nearness: dict[str, float] = {}
    for configurations in datasets:
        most = max(configuration.best_rate for configuration in configurations) or 1.0
        for configuration in configurations:
            label = facets.label(configuration, within)
            near = configuration.best_rate / most
            nearness[label] = max(near, nearness.get(label, 0.0))
    ordered = sorted(nearness, key=lambda label: -nearness[label])
    return {label: look for look, label in enumerate(ordered)}


def _panel(
    configurations: Sequence[ConfigurationSummary],
    within: Sequence[str],
    looks: Mapping[str, int],
) -> Panel:
    quantity = facets.quantity_of(configurations)
    curves = []
    for configuration in sorted(configurations, key=lambda c: -c.best_rate):
        label = facets.label(configuration, within)
        curve = _curve(configuration, label, looks[label], quantity)
        if curve.points:
            curves.append(curve)
    return Panel(quantity, _merged(curves))


def _curve(
    configuration: ConfigurationSummary, label: str, look: int, quantity: Quantity
) -> Curve:
    """Makes the curve of a configuration that has been measured."""
    best = configuration.best
    assert best is not None  # ``facets`` leaves the others out
    points = {}
    for trial in configuration.worker_trials:
        if trial.objective_s is None:
            continue
        value = facets.time_with_interval(trial, quantity)
        if value:
            points[trial.num_workers] = value
    answer = configuration.answer
    return Curve(
        label=label,
        points=points,
        best=best.num_workers,
        value=facets.time_with_interval(answer, quantity) if answer else None,
        changed=configuration.changed_settings,
        look=look if look < _MOST_NAMED else None,
    )


def _merged(curves: Sequence[Curve]) -> list[Curve]:
    """Unites curves of the same candidates and best setting that differ little."""
    merged: list[Curve] = []
    for curve in curves:
        if curve.look is None:
            continue
        alike = [
            place for place, earlier in enumerate(merged) if _are_alike(curve, earlier)
        ]
        if alike:
            merged[alike[0]] = _united(merged[alike[0]], curve)
        else:
            merged.append(curve)
    return merged + [curve for curve in curves if curve.look is None]


def _united(first: Curve, second: Curve) -> Curve:
    points = {}
    for number, estimate in first.points.items():
        ends = (*estimate.ends, *second.points[number].ends)
        points[number] = replace(estimate, low=min(ends), high=max(ends))
    return replace(first, label=f"{first.label}, {second.label}", points=points)


def _are_alike(first: Curve, second: Curve) -> bool:
    if (first.best, first.changed) != (second.best, second.changed):
        return False
    if first.points.keys() != second.points.keys():
        return False
    pairs = zip(first.values, second.values, strict=False)
    return all(abs(a.value / b.value - 1) <= _ALIKE for a, b in pairs)


@style.styled()
def draw(chart: Chart, title: str) -> Figure:
    """Draws the panels, with the same axis of num_workers, and a legend below."""
    count = len(chart.panels)
    row = 2.7 if count == 1 else 1.6
    figure, panels = style.panels(title + chart.left_out, count, row, sharex=True)
    for axes, (dataset, panel) in zip(panels, chart.panels.items(), strict=True):
        axes.set_title(style.fitting(dataset, WIDTH - 0.6), weight="bold")
        _draw_panel(axes, panel)
    numbers: set[int] = set()
    for panel in chart.panels.values():
        numbers |= panel.numbers
    _scale_numbers(panels[-1], numbers)
    panels[-1].set_xlabel(style.wrapped(_axis(chart.changed), WIDTH - 0.7))
    if chart.legend_title:
        heading = f"{style.fitting(chart.legend_title, WIDTH - 0.6)}:"
        style.legend(figure, _entries(chart, panels), heading)
    return figure


def _axis(changed: Set[str]) -> str:
    """Labels the horizontal axis: what rings mark, with the settings of the recommended
    candidates."""
    ring = "ring: answer"
    settings = sorted(filter(None, changed))
    if len(settings) > 1:
        ring += ", some with other settings, beside the curves"
    elif settings:
        some = "some " if "" in changed else ""
        ring += f", {some}with {settings[0]}, beside the curve"
    notes = ["each step doubles", "lines: 95 % intervals"]
    if changed:
        notes.insert(1, ring)
    return f"num_workers ({'; '.join(notes)})"


def _entries(chart: Chart, panels: Sequence[Axes]) -> list[Artist | Container]:
    entries: dict[object, Artist | Container] = {}
    for axes in panels:
        handles, _ = axes.get_legend_handles_labels()
        entries |= {handle.get_label(): handle for handle in handles}
    nameless = sum(
        curve.look is None for panel in chart.panels.values() for curve in panel.curves
    )
    more = Line2D([], [], color=MUTED, linewidth=0.5, label=f"{nameless} more")
    if nameless:
        return [*entries.values(), more]
    return [*entries.values()]


def _draw_panel(axes: Axes, panel: Panel) -> None:
    drawn_s = []
    for curve in panel.curves:
        _draw_curve(axes, curve)
        for time in curve.values:
            # curves without a look have no intervals
            drawn_s += [time.value] if curve.look is None else [time.value, *time.ends]
    unit = style.scale_times(axes, drawn_s)
    axes.set_ylabel(f"{unit} per {panel.quantity.value}")
    axes.grid(axis="y")


def _scale_numbers(axes: Axes, numbers: Set[int]) -> None:
    """Gives each doubling of the workers the same room, and labels measured numbers as
    far as they fit."""
    last = max(*numbers, *_LABELS)
    axes.set_xscale("symlog", base=2, linthresh=1, linscale=0.5)
    # a little room for the rings at both ends
    axes.set_xlim(-0.3, last * 2**0.3)
    axes.set_xticks(_spaced([0, last, *sorted(numbers), *_LABELS], _doublings(last)))
    axes.set_xticks(sorted(numbers), minor=True)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def _doublings(number: int) -> float:
    """Where a num_workers is on the axis: 0, 1, 2, 4 and 8 are equally far apart."""
    return 1 + math.log2(number) if number else 0.0


def _spaced(numbers: Iterable[int], width: float) -> list[int]:
    """Keeps the numbers, the first ones first, whose labels do not touch on an axis of
    this width."""
    kept: list[int] = []
    for number in numbers:
        place = _doublings(number)
        distances = [abs(place - _doublings(label)) for label in kept]
        if min(distances, default=width) >= _APART * width:
            kept.append(number)
    return sorted(kept)


def _draw_curve(axes: Axes, curve: Curve) -> None:
    """Draws points with their intervals, the recommended candidate ringed."""
    places = [*curve.points]
    heights = [time.value for time in curve.points.values()]
    if curve.look is None:
        axes.plot(places, heights, color=MUTED, linewidth=0.5, zorder=1)
        return
    dash, index = divmod(curve.look, len(COLOURS))
    colour = COLOURS[index]
    axes.errorbar(
        places,
        heights,
        style.errors([*curve.points.values()]),
        color=colour,
        elinewidth=1,
        linestyle=DASHES[dash],
        marker=MARKERS[index],
        markersize=4.5,
        markerfacecolor=PAPER if dash else colour,
        label=style.fitting(curve.label, 3.1),
    )
    if curve.value:
        axes.plot(
            curve.best,
            curve.value.value,
            "o",
            markersize=12,
            markerfacecolor="none",
            markeredgecolor=colour,
            markeredgewidth=1.4,
            clip_on=False,
        )
        if curve.changed:  # no point of the curve
            axes.errorbar(
                curve.best,
                curve.value.value,
                style.errors([curve.value]),
                color=colour,
                elinewidth=1,
                linestyle="none",
                marker=MARKERS[index],
                markersize=4.5,
            )
