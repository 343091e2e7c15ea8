"""Values against num_workers: throughput or time, a panel per dataset, from a pure value."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Quantity, time_of
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import BETWEEN
from nws_sweep.report.plots.style import COLOURS, DASHES, LETTER, MARKERS, MUTED, PAPER, WIDTH
from nws_sweep.results import Estimate, Trial

_MOST_NAMED = 8  # curves in the legend
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
    look: int | None = 0  # number of its colour, marker and dash; None if it is not in the legend

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
    left_out: str = ""  # what the title says if there are too many panels

    @property
    def recommended(self) -> list[tuple[str, Curve, Estimate]]:
        """The recommended candidates of the curves in the legend: panel, curve, value."""
        every = ((title, curve) for title, curves in self.panels.items() for curve in curves)
        return [(title, curve, curve.value) for title, curve in every if curve.value and curve.look is not None]


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
    looks: dict[str, int] = {}  # of the labels, those of the configurations nearest to the fastest of their panel first
    most: dict[str, float] = {}  # samples per second of the fastest of each panel
    for title, c in divided:
        most[title] = max(most.get(title, 0.0), c.best_rate)
    panels: dict[str, list[Curve]] = {title: [] for title in most}
    for title, c in sorted(divided, key=lambda each: -each[1].best_rate / (most[each[0]] or 1.0)):
        label = facets.label(c, within)
        look = looks.setdefault(label, len(looks))
        if c.best and (curve := _curve(c, c.best, label, measure)).points:
            panels[title].append(replace(curve, look=look if look < _MOST_NAMED else None))
    merged = {title: _merged(curves) for title, curves in panels.items() if curves}
    shown, left_out = facets.of_many(merged, most)
    return Chart(quantity=quantity, legend_title=BETWEEN.join(within), panels=shown, left_out=left_out)


def _curve(c: ConfigurationSummary, best: Trial, label: str, measure: _Measure) -> Curve:
    points = {trial.num_workers: value for trial in _measured(c) if (value := measure(c, trial))}
    recommended = measure(c, best) if c.answer else None
    return Curve(label, points, best.num_workers, recommended, c.changed_settings)


def _merged(curves: Sequence[Curve]) -> list[Curve]:
    """The curves, those of the same candidates and best that differ little as one with the intervals of all."""
    named = [curve for curve in curves if curve.look is not None]
    merged: list[Curve] = []
    for curve in named:
        for place, other in enumerate(merged):
            if _are_alike(curve, other):
                points = {n: _spanning(one, curve.points[n]) for n, one in other.points.items()}
                merged[place] = replace(other, label=f"{other.label}, {curve.label}", points=points)
                break
        else:
            merged.append(curve)
    return merged + [curve for curve in curves if curve.look is None]


def _are_alike(one: Curve, other: Curve) -> bool:
    if (one.best, one.changed) != (other.best, other.changed) or one.points.keys() != other.points.keys():
        return False
    pairs = zip(one.values, other.values, strict=False)
    return all(abs(a.value / b.value - 1) <= _ALIKE for a, b in pairs)


def _spanning(one: Estimate, other: Estimate) -> Estimate:
    return replace(one, low=min(one.ends[0], other.ends[0]), high=max(one.ends[1], other.ends[1]))


@style.styled()
def draw(chart: Chart, title: str) -> Figure:
    """The panels with a legend below."""
    count = len(chart.panels)
    columns = 1 if count == 1 else 2 if count in (2, 4) else 3
    figure, panels = style.panels(title + chart.left_out, count, columns, 3.4 if count == 1 else 2.0)
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
    others = sum(curve.look is None for curves in chart.panels.values() for curve in curves)
    more = [Line2D([], [], color=MUTED, linewidth=0.5, label=f"{others} more")] if others else []
    return [*named.values(), *more]


def _draw_panel(axes: Axes, curves: list[Curve]) -> None:
    for curve in curves:
        _draw_curve(axes, curve)
    style.scale_values(axes, [one.value for curve in curves for one in curve.values])
    axes.grid(axis="y")
    candidates = sorted({number for curve in curves for number in (*curve.points, curve.best)})
    axes.set_xlim(candidates[0] - 0.5, candidates[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 4, 5, 10]))
    axes.set_xticks(candidates, minor=True)


def _draw_curve(axes: Axes, curve: Curve) -> None:
    """Points with their intervals, the recommended candidate ringed."""
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
    return [*points], [one.value for one in points.values()]
