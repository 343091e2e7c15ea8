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
_HEIGHT = 2.9  # inches
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
    """A field per dataset that has at least two configurations to compare; the first few of many datasets."""
    axes = values(summary)
    names = [name for name in axes if name != DATASET]
    found: dict[str, list[Spot]] = {name: [] for name in axes.get(DATASET, ())}
    for c in summary.configurations:
        if spot := _spot(c, names):
            found.setdefault(cell(c, DATASET) if DATASET in axes else "", []).append(spot)
    key = BETWEEN.join(names)
    chosen = [_field(title, key, spots) for title, spots in found.items() if len(spots) > 1]
    return tuple(chosen[:_MOST_PANELS])


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


def draw_fields(chart: Sequence[Field], title: str) -> Figure:
    """A panel per dataset: a configuration is a dot, and those that nothing beats have names."""
    columns = min(2, len(chart))
    rows = -(-len(chart) // columns)
    top = drawing.head(title) + drawing.lines(1, SMALL)
    figure = drawing.sheet(top + rows * _HEIGHT, title)
    key = chart[0].key
    about = f"blue: nothing is both quicker and leaner; named by {key}: num_workers" if key else ""
    drawing.write(figure, drawing.plain(drawing.shortened(about, 110)), EDGE, top - drawing.lines(1, SMALL) / 2)
    width = (WIDTH - EDGE) / columns
    for index, field in enumerate(chart):
        row, column = divmod(index, columns)
        box = Box(column * width + 0.7, top + row * _HEIGHT + 0.32, width - 0.85, _HEIGHT - 0.85)
        _draw_field(drawing.axes_at(figure, box), field, box)
    return figure


def _draw_field(axes: Axes, field: Field, box: Box) -> None:
    spots = (*field.front, *field.others)
    scale, unit = memory_scale(max(spot.memory_bytes for spot in spots))
    right, top = 1.08 * max(s.memory_bytes for s in spots) / scale, 1.12 * max(s.seconds for s in spots)
    axes.set(xlim=(0, right), ylim=(0, top), xlabel=f"memory of all processes, {unit}")
    axes.set_ylabel("seconds per 1000 samples")
    axes.plot(
        [s.memory_bytes / scale for s in field.others], [s.seconds for s in field.others], "o", color=MUTED,
        markersize=4, rasterized=len(field.others) > _MOST_DOTS,
    )  # fmt: skip
    front = [(s.memory_bytes / scale, s.seconds) for s in field.front]
    axes.plot(*zip(*front, strict=True), "o-", color=COLOURS[0], markersize=5.5, linewidth=1)
    _name(axes, field, scale, box, right, top)
    axes.xaxis.set_major_locator(drawing.few(5))
    axes.yaxis.set_major_locator(drawing.few(4))
    axes.set_title(drawing.plain(drawing.shortened(field.title, 40)), fontsize=SMALL, loc="left", pad=5, color=INK)
    drawing.grid_lines(axes, "both")


def _name(axes: Axes, field: Field, scale: float, box: Box, right: float, top: float) -> None:
    """Names below the dots, where there is nothing: left of the front all is slower or larger."""
    taken: list[tuple[float, float, float]] = []
    for spot in named(field.front):
        text = drawing.shortened(f"{spot.label}: {spot.num_workers}" if spot.label else str(spot.num_workers), 34)
        width = drawing.text_width(text)
        x, y = spot.memory_bytes / scale / right * box.width, spot.seconds / top * box.height
        left = min(max(0.04, x - width / 2), box.width - width)
        below = y - 0.16
        while any(abs(below - other) < 0.15 and left < end and begin < left + width for begin, end, other in taken):
            below -= 0.15
        if below < 0.06:
            continue
        taken.append((left, left + width, below))
        axes.annotate(
            drawing.plain(text), (spot.memory_bytes / scale, spot.seconds), fontsize=SMALL, color=INK, va="center",
            xytext=(left * right / box.width, below * top / box.height), textcoords="data",
        )  # fmt: skip


def named(front: Sequence[Spot]) -> list[Spot]:
    """Those that have names: all, or of many the ends and others between them."""
    if len(front) <= _MOST_NAMED:
        return list(front)
    chosen = {round(step * (len(front) - 1) / (_MOST_NAMED - 1)) for step in range(_MOST_NAMED)}
    return [spot for index, spot in enumerate(front) if index in chosen]


def memory_scale(most_bytes: float) -> tuple[float, str]:
    """The unit for values up to this one, and its bytes."""
    return (1e9, "GB") if most_bytes >= 1e9 else (1e6, "MB")
