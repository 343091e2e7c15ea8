"""The best setting of each configuration at its time and its memory; from a pure value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import drawing
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.drawing import COLOURS, EDGE, SMALL, WIDTH, Box
from nws_sweep.facets import BETWEEN, DATASET, cell, values
from nws_sweep.vector import INK, MUTED

_MOST_PANELS = 6
_MOST_NAMED = 6
_MOST_DOTS = 300  # that are drawn one by one
_HEIGHT = 2.85  # inches
_PER_SAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A configuration at its best setting: its name, what it holds in memory, B, and what 1000 samples take, s."""

    label: str
    num_workers: int
    memory_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The configurations of one dataset.

    Attributes:
        title: The dataset; empty if there is only one.
        key: What the labels are values of.
        front: Those of which none other is both quicker and leaner, the leanest first.
        others: The rest.
    """

    title: str
    key: str
    front: tuple[Spot, ...]
    others: tuple[Spot, ...]


def fields(summary: Summary) -> tuple[Field, ...]:
    """A field per dataset that has at least two configurations to compare."""
    axes = values(summary)
    names = [name for name in axes if name != DATASET]
    found: dict[str, list[Spot]] = {name: [] for name in axes.get(DATASET, ())}
    for c in summary.configurations:
        if spot := _spot(c, names):
            found.setdefault(cell(c, DATASET) if DATASET in axes else "", []).append(spot)
    key = BETWEEN.join(names)
    return tuple(_field(title, key, spots) for title, spots in found.items() if len(spots) > 1)


def _spot(c: ConfigurationSummary, names: Sequence[str]) -> Spot | None:
    found = c.best.measurement if c.best else None
    if c.best is None or found is None or not found.memory_bytes or not found.samples_per_s:
        return None
    label = BETWEEN.join(cell(c, name) for name in names)
    seconds = _PER_SAMPLES / found.samples_per_s
    return Spot(label=label, num_workers=c.best.num_workers, memory_bytes=found.memory_bytes, seconds=seconds)


def _field(title: str, key: str, spots: Sequence[Spot]) -> Field:
    front = tuple(_front(spots))
    return Field(title=title, key=key, front=front, others=tuple(spot for spot in spots if spot not in front))


def _front(spots: Sequence[Spot]) -> Iterator[Spot]:
    """Those of which none other is both quicker and leaner."""
    least = None
    for spot in sorted(spots, key=lambda spot: (spot.memory_bytes, spot.seconds)):
        if least is None or spot.seconds < least:
            least = spot.seconds
            yield spot


def draw_fields(fields: Sequence[Field], title: str) -> Figure:
    """A panel per dataset: a configuration is a dot; those that nothing beats are numbered, and named below."""
    chart = fields[:_MOST_PANELS]
    columns = min(2, len(chart))
    rows = -(-len(chart) // columns)
    top = drawing.head(title) + drawing.lines(1, SMALL)
    below = drawing.lines(max(len(named(field.front)) for field in chart) + 1, SMALL)
    figure = drawing.sheet(top + rows * (_HEIGHT + below) + 0.05, title)
    left_out = f" (the first {len(chart)} of {len(fields)} datasets)" if len(fields) > len(chart) else ""
    about = f"numbered: no other is both quicker and leaner{left_out}"
    drawing.write(figure, about, EDGE, top - drawing.lines(1, SMALL) / 2)
    width = (WIDTH - EDGE) / columns
    for index, field in enumerate(chart):
        row, column = divmod(index, columns)
        upper = top + row * (_HEIGHT + below)
        box = Box(column * width + 0.7, upper + 0.32, width - 0.85, _HEIGHT - 0.85)
        _draw_field(drawing.axes_at(figure, box), field)
        _name(figure, field, box.left, upper + _HEIGHT, width - 0.85)
    return figure


def _draw_field(axes: Axes, field: Field) -> None:
    spots = (*field.front, *field.others)
    scale, unit = memory_scale(max(spot.memory_bytes for spot in spots))
    axes.set(xlabel=f"memory of all processes, {unit}", ylabel="seconds per 1000 samples")
    axes.set_xlim(*_around([spot.memory_bytes / scale for spot in spots]))
    axes.set_ylim(*_around([spot.seconds for spot in spots]))
    axes.plot(
        [s.memory_bytes / scale for s in field.others], [s.seconds for s in field.others], "o", color=MUTED,
        markersize=4, rasterized=len(field.others) > _MOST_DOTS,
    )  # fmt: skip
    front = [(s.memory_bytes / scale, s.seconds) for s in field.front]
    axes.plot(*zip(*front, strict=True), "o-", color=COLOURS[0], markersize=5.5, linewidth=1)
    for number, spot in enumerate(named(field.front), 1):
        axes.annotate(
            str(number), (spot.memory_bytes / scale, spot.seconds), xytext=(-5, -5), textcoords="offset points",
            ha="right", va="top", fontsize=SMALL, color=INK,
        )  # fmt: skip
    axes.xaxis.set_major_locator(drawing.few(5))
    axes.yaxis.set_major_locator(drawing.few(4))
    drawing.caption(axes, field.title)
    drawing.grid_lines(axes, "both")


def _around(reach: Sequence[float]) -> tuple[float, float]:
    """An axis that has room for numbers, and that does not blow up what is nearly equal; never below 0."""
    least, most = min(reach), max(reach)
    room = max(0.15 * (most - least), 0.08 * most)
    return max(0.0, least - 1.6 * room), most + room


def _name(figure: Figure, field: Field, left: float, top: float, width: float) -> None:
    """What the numbers stand for."""
    most = int(width / 0.085)
    key = f"{field.key}: num_workers" if field.key else "num_workers"
    drawing.write(figure, drawing.plain(drawing.shortened(key, most)), left, top)
    for index, spot in enumerate(named(field.front), 1):
        text = f"{spot.label}: {spot.num_workers}" if spot.label else str(spot.num_workers)
        drawing.write(figure, str(index), left, top + drawing.lines(index, SMALL))
        drawing.write(
            figure, drawing.plain(drawing.shortened(text, most)), left + 0.2, top + drawing.lines(index, SMALL)
        )


def named(front: Sequence[Spot]) -> list[Spot]:
    """Those that have names: all, or of many the ends and others between them."""
    if len(front) <= _MOST_NAMED:
        return list(front)
    chosen = drawing.spaced(len(front), _MOST_NAMED)
    return [spot for index, spot in enumerate(front) if index in chosen]


def memory_scale(most_bytes: float) -> tuple[float, str]:
    """The unit for values up to this one, and its bytes."""
    return (1e9, "GB") if most_bytes >= 1e9 else (1e6, "MB")
