"""Quantities against num_workers, in a panel per dataset: throughput, time, waiting; from one pure value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from nws_sweep import drawing, units
from nws_sweep.drawing import COLOURS, DASHES, EDGE, MARKERS, SMALL, WIDTH, Box, Key
from nws_sweep.facets import Facets, Member
from nws_sweep.records import Trial
from nws_sweep.vector import BAND, INK, MUTED, PAPER

_MOST_NAMED = 8  # curves that can be told apart
_IN_A_CROWD = 6  # that have a name if there are more
_SPREAD = 0.24  # of a worker: so far apart stand points of different curves
_LOG_FROM = 20  # the largest value divided by the smallest, from which on the scale is logarithmic
_ROOM = 1.06


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
        colour: Number of its colour, the same in all panels.
        dash: Number of its style, likewise.
    """

    label: str
    points: tuple[Point, ...]
    best: int | None
    colour: int = 0
    dash: int = 0


@dataclass(frozen=True, slots=True)
class Rest:
    """Curves without names: how many, and from where to where their values reach."""

    count: int
    edges: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of the small pictures.

    Attributes:
        title: What all its curves have; empty if there is one panel only.
        curves: Those with names.
        rest: The others; None if there are none.
        bottom: Where the axis begins; 0 but where it is logarithmic.
        top: Where it ends.
    """

    title: str
    curves: tuple[Curve, ...]
    rest: Rest | None
    bottom: float
    top: float

    @property
    def is_log(self) -> bool:
        """Whether the axis is logarithmic."""
        return self.bottom > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Something against num_workers.

    Attributes:
        quantity: What the height means, with its unit.
        key: What the labels of the curves are values of; empty if there is one curve in each panel.
        panels: The panels.
    """

    quantity: str
    key: str
    panels: tuple[Panel, ...]

    @property
    def named(self) -> tuple[Curve, ...]:
        """One curve of each label, in the order of labels."""
        found = {curve.label: curve for panel in self.panels for curve in panel.curves}
        return tuple(sorted(found.values(), key=lambda curve: (curve.colour, curve.dash)))

    @property
    def has_intervals(self) -> bool:
        """Whether any point has one."""
        return any(p.low < p.high for panel in self.panels for curve in panel.curves for p in curve.points)


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
    return _chart(facets, "time spent waiting for data, %", _stall, most=100.0)


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
    facets: Facets, quantity: str, measure: Callable[[Trial], Point | None], most: float | None = None
) -> Chart | None:
    found = {panel.title: list(_curves(panel.members, measure)) for panel in facets.panels}
    found = {title: curves for title, curves in found.items() if curves}
    looks = _looks(facets, found)
    panels = [_panel(title, curves, looks) for title, curves in found.items()]
    if not panels:
        return None
    same = len(facets.across) == 1 and facets.across != ("dataset",)
    return Chart(quantity=quantity, key=facets.key, panels=_scaled(panels, same=same, most=most))


def _curves(
    members: Sequence[Member], measure: Callable[[Trial], Point | None]
) -> Iterator[tuple[Member, tuple[Point, ...]]]:
    for member in members:
        points = tuple(point for trial in member.trials if (point := measure(trial)) is not None)
        if points:
            yield member, points


_Found = Mapping[str, Sequence[tuple[Member, tuple[Point, ...]]]]


def _looks(facets: Facets, found: _Found) -> dict[str, tuple[int, int]]:
    """Number of the colour and of the dash of each label that is named."""
    cells = {member.label: member.cells for curves in found.values() for member, _ in curves}
    if len(cells) > _MOST_NAMED:
        return {label: (number, 0) for number, label in enumerate(_best_labels(facets)[:_IN_A_CROWD])}
    column = _dashed_column(list(cells.values()))
    colours = {label: _without(parts, column) for label, parts in cells.items()}
    colour_numbers = {parts: number for number, parts in enumerate(dict.fromkeys(colours.values()))}
    if column is None or len(colour_numbers) > len(COLOURS):
        return {label: (n % len(COLOURS), n // len(COLOURS)) for n, label in enumerate(cells)}
    dashes = {part: n for n, part in enumerate(dict.fromkeys(parts[column] for parts in cells.values()))}
    return {label: (colour_numbers[colours[label]], dashes[parts[column]]) for label, parts in cells.items()}


def _dashed_column(cells: Sequence[tuple[str, ...]]) -> int | None:
    """The column of labels that is shown by the style of the lines: of several, the last one with few values."""
    if not cells or len(cells[0]) < 2:
        return None
    numbers = [len({parts[column] for parts in cells}) for column in range(len(cells[0]))]
    fitting = [column for column, number in enumerate(numbers) if 1 < number <= len(DASHES)]
    return min(fitting, key=lambda column: (numbers[column], -column)) if fitting else None


def _without(parts: tuple[str, ...], column: int | None) -> tuple[str, ...]:
    return parts if column is None else (*parts[:column], *parts[column + 1 :])


def _best_labels(facets: Facets) -> list[str]:
    """Labels by the speed of their best setting: those that win a panel first, then by their share of its winner's."""
    wins: dict[str, int] = {}
    shares: dict[str, float] = {}
    for panel in facets.panels:
        rates = [(member.summary.best_rate, member.label) for member in panel.members]
        most, winner = max(rates)
        wins[winner] = wins.get(winner, 0) + 1
        for rate, label in rates:
            shares[label] = shares.get(label, 0.0) + (rate / most if most else 0.0)
    return sorted(shares, key=lambda label: (-wins.get(label, 0), -shares[label]))


def _panel(
    title: str, found: Sequence[tuple[Member, tuple[Point, ...]]], looks: Mapping[str, tuple[int, int]]
) -> tuple[str, tuple[Curve, ...], Rest | None]:
    named = [
        Curve(label=member.label, points=points, best=member.best, colour=colour, dash=dash)
        for member, points in found
        if (look := looks.get(member.label))
        for colour, dash in (look,)
    ]
    others = [points for member, points in found if member.label not in looks]
    return title, tuple(sorted(named, key=lambda c: (c.colour, c.dash))), rest_of(others) if others else None


def rest_of(curves: Sequence[tuple[Point, ...]]) -> Rest:
    """The least and the largest value of all curves at each number of workers that lies within them."""
    numbers = sorted({point.num_workers for points in curves for point in points})
    reached: dict[int, list[float]] = {number: [] for number in numbers}
    for points in curves:
        for number in numbers:
            if points[0].num_workers <= number <= points[-1].num_workers:
                reached[number].append(_between(points, number))
    edges = tuple(Point(n, max(found), min(found), max(found)) for n, found in reached.items())
    return Rest(len(curves), edges)


def _between(points: Sequence[Point], number: int) -> float:
    """The value at a number of workers, on the straight line between the candidates beside it."""
    for left, right in pairwise(points):
        if number <= right.num_workers:
            part = (number - left.num_workers) / (right.num_workers - left.num_workers)
            return left.value + max(0.0, part) * (right.value - left.value)
    return points[-1].value


def _scaled(
    parts: Sequence[tuple[str, tuple[Curve, ...], Rest | None]], *, same: bool, most: float | None
) -> tuple[Panel, ...]:
    """The panels with their axes: the same one for all where they show the same dataset."""
    everything = [list(_values(curves, rest)) for _, curves, rest in parts]
    panels = []
    for (title, curves, rest), own in zip(parts, everything, strict=True):
        reach = [value for part in everything for value in part] if same else own
        bottom, top = (0.0, most) if most else _range(reach)
        panels.append(Panel(title=title, curves=curves, rest=rest, bottom=bottom, top=top))
    return tuple(panels)


def _values(curves: Sequence[Curve], rest: Rest | None) -> Iterator[float]:
    for curve in curves:
        for point in curve.points:
            yield from (point.low, point.value, point.high)
    for point in rest.edges if rest else ():
        yield from (point.low, point.high)


def _range(reach: Sequence[float]) -> tuple[float, float]:
    top, least = max(reach), min((value for value in reach if value > 0), default=0.0)
    if least and top / least > _LOG_FROM:
        return least / 1.2, top * 1.2
    return 0.0, _ROOM * top if top else 1.0


def draw(chart: Chart | None, title: str) -> Figure:
    """The panels, with names beside the ends of the curves if there is one panel, else in a legend.

    Args:
        chart: What to draw; None for an empty figure.
        title: Of the figure.
    """
    if chart is None:
        return drawing.sheet(1.0, title)
    if len(chart.panels) == 1:
        return _draw_single(chart, title)
    columns = 2 if len(chart.panels) in (2, 4) else 3
    rows = math.ceil(len(chart.panels) / columns)
    keys = _keys(chart)
    top = drawing.head(title)
    below = top + drawing.legend_height(keys, WIDTH - 2 * EDGE) + (0.1 if keys else 0.0)
    figure = drawing.sheet(below + rows * _ROW + 0.25, title)
    drawing.legend(figure, keys, EDGE, top, WIDTH - 2 * EDGE)
    width = (WIDTH - EDGE) / columns
    for index, panel in enumerate(chart.panels):
        row, column = divmod(index, columns)
        box = Box(column * width + 0.7, below + row * _ROW + 0.28, width - 0.8, _ROW - 0.6)
        axes = drawing.axes_at(figure, box)
        _draw_panel(axes, panel, box)
        axes.set_ylabel(chart.quantity if column == 0 else "")
        if index + columns < len(chart.panels):
            axes.set_xlabel("")
        most = int((width - 0.1) / 0.088)
        drawing.caption(axes, panel.title, most)
    return figure


_ROW = 2.0  # inches


def _draw_single(chart: Chart, title: str) -> Figure:
    (panel,) = chart.panels
    top, keys = drawing.head(title), _keys(chart, by_end=True)
    names = max((drawing.text_width(key.text) for key in keys), default=0.0)
    width = 5.2 if keys else 6.6
    figure = drawing.sheet(top + 3.6, title, max(WIDTH, 0.7 + width + 0.5 + names + EDGE) if keys else WIDTH)
    box = Box(0.7, top + 0.1, width, 2.95)
    axes = drawing.axes_at(figure, box)
    _draw_panel(axes, panel, box)
    axes.set_ylabel(chart.quantity)
    _name_ends(figure, chart, panel, box)
    return figure


def _name_ends(figure: Figure, chart: Chart, panel: Panel, box: Box) -> None:
    """Names at the height of the ends of the curves, as far apart as text needs."""
    keys = _keys(chart, by_end=True)
    if not keys:
        return
    header, *entries = keys
    heights = [_height(panel, curve.points[-1].value, box) for curve in _by_end(panel)]
    heights += [box.top + box.height] * (len(entries) - len(heights))
    left = box.left + box.width + 0.14
    places = spread(heights, drawing.lines(1, SMALL) * 1.1, box.top + 0.2, box.top + box.height)
    drawing.write(figure, drawing.plain(header.text), left, min(places) - 0.22, color=INK)
    for key, place in zip(entries, places, strict=True):
        drawing.draw_key(figure, key, left, place)


def _height(panel: Panel, value: float, box: Box) -> float:
    """Where a value stands in the figure, inches from its upper edge."""
    if panel.is_log:
        share = math.log(max(value, panel.bottom) / panel.bottom) / math.log(panel.top / panel.bottom)
    else:
        share = value / panel.top
    return box.top + box.height * (1 - share)


def spread(places: Sequence[float], apart: float, least: float, most: float) -> list[float]:
    """The places, ascending, moved so that neighbours are at least so far apart, and within the ends if they fit."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + apart if moved else least))
    limit = max(most, least + apart * (len(moved) - 1))
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - apart
    return moved


def _by_end(panel: Panel) -> list[Curve]:
    return sorted(panel.curves, key=lambda curve: -curve.points[-1].value)


def _keys(chart: Chart, *, by_end: bool = False) -> list[Key]:
    """The entries of the legend: what the labels mean, each label, and the others; none for a single curve."""
    count = sum(panel.rest.count for panel in chart.panels if panel.rest)
    if not chart.key:
        return []
    curves = _by_end(chart.panels[0]) if by_end else chart.named
    keys = [Key(text=drawing.shortened(f"{chart.key}:", 60))]
    for c in curves:
        keys.append(
            Key(
                text=drawing.shortened(c.label, 40), colour=COLOURS[c.colour], marker=MARKERS[c.colour],
                dash=DASHES[c.dash], hollow=c.dash > 0,
            )
        )  # fmt: skip
    if count:
        keys.append(Key(text=f"{count} more, least to most", colour=BAND, patch=True))
    return keys


def _draw_panel(axes: Axes, panel: Panel, box: Box) -> None:
    if panel.rest:
        _draw_rest(axes, panel.rest)
    for index, curve in enumerate(panel.curves):
        # Side by side, or the intervals of equal configurations would cover each other.
        _draw_curve(axes, curve, _SPREAD * (index - (len(panel.curves) - 1) / 2) / max(1, len(panel.curves) - 1))
    if panel.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(panel.bottom, panel.top)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    if not panel.is_log:
        axes.yaxis.set_major_locator(drawing.few(4 if box.height < 2 else 6))
    _label_workers(axes, panel, box)
    drawing.grid_lines(axes)


def _tick(value: float) -> str:
    """Without an exponent."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _draw_rest(axes: Axes, rest: Rest) -> None:
    x, low, high = (
        [p.num_workers for p in rest.edges], [p.low for p in rest.edges], [p.high for p in rest.edges]
    )  # fmt: skip
    axes.fill_between(x, low, high, color=BAND, linewidth=0)
    for edge in (low, high):
        axes.plot(x, edge, color=MUTED, linewidth=0.6)


def _draw_curve(axes: Axes, curve: Curve, shift: float) -> None:
    colour = COLOURS[curve.colour]
    x, y = [point.num_workers + shift for point in curve.points], [point.value for point in curve.points]
    if any(point.low < point.high for point in curve.points):
        axes.vlines(x, [p.low for p in curve.points], [p.high for p in curve.points], color=colour, linewidth=1)
    axes.plot(
        x, y, color=colour, linestyle=DASHES[curve.dash], linewidth=1.5, marker=MARKERS[curve.colour], markersize=4.5,
        markerfacecolor=PAPER if curve.dash else colour,
    )  # fmt: skip
    for point in curve.points:
        if point.num_workers == curve.best:
            axes.plot(point.num_workers + shift, point.value, "o", markersize=10, mfc="none", mec=colour, mew=1.2)


def _label_workers(axes: Axes, panel: Panel, box: Box) -> None:
    numbers = sorted({p.num_workers for c in panel.curves for p in c.points})
    if panel.rest:
        numbers = sorted({*numbers, *(p.num_workers for p in panel.rest.edges)})
    left, right = numbers[0] - 0.5, numbers[-1] + 0.5
    margin = 0.02 * (right - left)
    axes.set_xlim(left - margin, right + margin)
    axes.set_xticks(ticks(numbers, box.width))
    ringed = any(curve.best is not None for curve in panel.curves)
    axes.set_xlabel("num_workers (ring: recommended)" if ringed else "num_workers")


def ticks(numbers: Sequence[int], width: float) -> list[int]:
    """Those of the candidates whose labels have room side by side, the last one always."""
    chosen = [numbers[-1]]
    apart = (numbers[-1] - numbers[0]) * (drawing.text_width(str(numbers[-1])) + 0.08) / width
    kept: list[int] = []
    for number in numbers[:-1]:
        if (not kept or number - kept[-1] >= apart) and chosen[0] - number >= apart:
            kept.append(number)
    return kept + chosen


def best_of(chart: Chart) -> tuple[str, Curve, Point] | None:
    """The panel, the curve and the point of the highest recommended value; None if nothing is recommended."""
    found = [
        (panel.title, curve, point)
        for panel in chart.panels
        for curve in panel.curves
        for point in curve.points
        if point.num_workers == curve.best
    ]
    return max(found, key=lambda each: each[2].value) if found else None


def about(point: Point) -> str:
    """A rate with its workers."""
    return f"{units.rate(point.value, point.low, point.high)} samples per second with num_workers={point.num_workers}"
