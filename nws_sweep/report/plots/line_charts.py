"""Values against num_workers: throughput or time, a panel per dataset, from a pure
value."""

import textwrap
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Quantity, time_of
from nws_sweep.records import Estimate, Trial
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import BETWEEN
from nws_sweep.report.plots.style import (
    COLOURS,
    DASHES,
    LETTER,
    MARKERS,
    MUTED,
    PAPER,
    WIDTH,
)

# of one picture, one for each dataset: a thousand take minutes, and no page shows them
MOST_PANELS = 24
_MOST_NAMED = 8  # curves in the legend
_ALIKE = 0.05  # relative difference of values up to which curves are drawn as one


_Measure = Callable[[ConfigurationSummary, Trial], Estimate | None]


@dataclass(frozen=True, slots=True)
class Curve:
    """The line of a configuration."""

    label: str  # values of the columns that differ within the panel
    # by num_workers, ascending, with the settings of the configuration
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
        return [*values, self.value] if self.value else values


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A quantity against num_workers."""

    quantity: str  # label of the vertical axis, with its unit
    # columns of the curves' labels; empty if there is one curve in each panel
    legend_title: str
    panels: dict[str, list[Curve]]  # by title
    left_out: str = ""  # what the title says if there are too many panels

    @property
    def recommended(self) -> list[tuple[str, Curve, Estimate]]:
        """The recommended candidates of the curves in the legend: panel, curve,
        value."""
        recommended = []
        for title, curves in self.panels.items():
            for curve in curves:
                if curve.value and curve.look is not None:
                    recommended.append((title, curve, curve.value))
        return recommended


def throughput(summary: Summary) -> Chart:
    """Charts samples per second of an epoch, or steady ones if its length is unknown,
    where measured."""
    return _chart(summary, summary.rate_unit, ConfigurationSummary.rate)


def times(summary: Summary) -> Chart:
    """Charts seconds per epoch, or per batch if the length of an epoch is unknown,
    where measured."""
    quantity = Quantity.EPOCH if summary.has_lengths else Quantity.BATCH
    return _chart(
        summary,
        f"seconds per {quantity.value}",
        lambda _, trial: _time(trial, quantity),
    )


def _time(trial: Trial, quantity: Quantity) -> Estimate | None:
    """Gives the time of an epoch, s, with the relative interval of its batches, or of a
    batch; None if unknown."""
    time_s, batch_s = time_of(trial, quantity), time_of(trial, Quantity.BATCH)
    return (
        batch_s.scaled(time_s.value / batch_s.value) if time_s and batch_s else time_s
    )


def _chart(summary: Summary, quantity: str, measure: _Measure) -> Chart:
    within, divided = facets.facets(summary)
    most: dict[str, float] = {}  # samples per second of the fastest of each panel
    for title, configuration in divided:
        most[title] = max(most.get(title, 0.0), configuration.best_rate)

    def slowness(place: tuple[str, ConfigurationSummary]) -> float:
        title, configuration = place
        return -configuration.best_rate / (most[title] or 1.0)

    # of the labels: first of the configurations nearest to the fastest of their panel
    looks: dict[str, int] = {}
    panels: dict[str, list[Curve]] = {title: [] for title in most}
    for title, configuration in sorted(divided, key=slowness):
        label = facets.label(configuration, within)
        look = looks.setdefault(label, len(looks))
        curve = _curve(configuration, label, look, measure)
        if curve.points:
            panels[title].append(curve)
    merged = {title: _merged(curves) for title, curves in panels.items() if curves}
    left_out = ""
    if len(merged) > MOST_PANELS:
        left_out = f" (the {MOST_PANELS} fastest of {len(merged)} datasets)"
        for title in sorted(merged, key=lambda title: -most[title])[MOST_PANELS:]:
            del merged[title]
    return Chart(
        quantity=quantity,
        legend_title=BETWEEN.join(within),
        panels=merged,
        left_out=left_out,
    )


def _curve(
    configuration: ConfigurationSummary, label: str, look: int, measure: _Measure
) -> Curve:
    """Makes the curve of a configuration that has been measured."""
    best = configuration.best
    assert best is not None  # ``facets`` leaves the others out
    points = {}
    for trial in configuration.worker_trials:
        value = measure(configuration, trial) if trial.objective_s is not None else None
        if value:
            points[trial.num_workers] = value
    return Curve(
        label=label,
        points=points,
        best=best.num_workers,
        value=measure(configuration, best) if configuration.answer else None,
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
    """Draws the panels with a legend below."""
    count = len(chart.panels)
    columns = {1: 1, 2: 2, 4: 2}.get(count, 3)
    figure, panels = style.panels(
        title + chart.left_out, count, columns, 3.4 if count == 1 else 2.0
    )
    for axes, (name, curves) in zip(panels, chart.panels.items(), strict=True):
        axes.set_title(style.fitting(name, WIDTH / columns - 0.6))
        _draw_panel(axes, curves)
    for axes in panels[::columns]:
        axes.set_ylabel(chart.quantity)
    label = _axis({curve.changed for _, curve, _ in chart.recommended})
    for axes in panels[-columns:]:
        axes.set_xlabel(textwrap.fill(label, int((WIDTH / columns - 0.3) / LETTER)))
    if chart.legend_title:
        style.legend(
            figure,
            _entries(chart, panels),
            f"{style.fitting(chart.legend_title, WIDTH - 1)}:",
        )
    return figure


def _axis(changed: Set[str]) -> str:
    """Labels the horizontal axis: what rings mark, with the settings of the recommended
    candidates."""
    if not changed:
        return "num_workers"
    if len(changed) > 1:
        return "num_workers (ring: recommended, some with other settings)"
    (settings,) = changed
    return (
        f"num_workers (ring: recommended, {settings})"
        if settings
        else "num_workers (ring: recommended)"
    )


def _entries(chart: Chart, panels: Sequence[Axes]) -> list[Artist | Container]:
    entries: dict[object, Artist | Container] = {}
    for axes in panels:
        handles, _ = axes.get_legend_handles_labels()
        entries |= {handle.get_label(): handle for handle in handles}
    nameless = sum(
        curve.look is None for curves in chart.panels.values() for curve in curves
    )
    more = Line2D([], [], color=MUTED, linewidth=0.5, label=f"{nameless} more")
    return [*entries.values(), more] if nameless else [*entries.values()]


def _draw_panel(axes: Axes, curves: list[Curve]) -> None:
    for curve in curves:
        _draw_curve(axes, curve)
    values: list[float] = []
    numbers: set[int] = set()
    for curve in curves:
        values += [estimate.value for estimate in curve.values]
        numbers |= {*curve.points, curve.best}
    style.scale_values(axes, values)
    axes.grid(axis="y")
    candidates = sorted(numbers)
    axes.set_xlim(candidates[0] - 0.5, candidates[-1] + 0.5)
    axes.xaxis.set_major_locator(
        MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 4, 5, 10])
    )
    axes.set_xticks(candidates, minor=True)


def _draw_curve(axes: Axes, curve: Curve) -> None:
    """Draws points with their intervals, the recommended candidate ringed."""
    if curve.look is None:
        axes.plot(*_places(curve.points), color=MUTED, linewidth=0.5, zorder=1)
        return
    dash, index = divmod(curve.look, len(COLOURS))
    colour = COLOURS[index]
    axes.errorbar(
        *_places(curve.points), style.errors([*curve.points.values()]), color=colour, elinewidth=1,
        linestyle=DASHES[dash], marker=MARKERS[index], markersize=4.5, markerfacecolor=PAPER if dash else colour,
        label=style.fitting(curve.label, 3.1),
    )  # fmt: skip
    if curve.value:
        axes.plot(
            curve.best, curve.value.value, "o", markersize=11, markerfacecolor="none", markeredgecolor=colour,
            markeredgewidth=1.2, clip_on=False,
        )  # fmt: skip


def _places(points: Mapping[int, Estimate]) -> tuple[list[int], list[float]]:
    return [*points], [estimate.value for estimate in points.values()]
