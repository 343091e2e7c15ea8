"""Time against memory of the best settings of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nws_sweep.analysis.summary import Summary
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import BETWEEN, DATASET
from nws_sweep.report.plots.style import COLOURS, MUTED

_MOST_PANELS = 6
_MOST_NAMED = 6
_MOST_DOTS = 300  # drawn as vectors
_NAMES = 2.9  # inches, a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The cost of a setting: label of its configuration, workers, memory (B), time (s)."""

    label: str = ""
    num_workers: int
    memory_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The configurations of one dataset."""

    title: str  # the dataset; empty if there is only one
    legend_title: str  # columns of the labels
    front: tuple[Spot, ...]  # the Pareto front of time and memory, ascending by memory
    others: tuple[Spot, ...]


def fields(summary: Summary) -> tuple[Field, ...]:
    """A field per dataset with at least two configurations; seconds are per 1000 samples."""
    axes = facets.values(summary)
    names = [name for name in axes if name != DATASET]
    spots: dict[str, list[Spot]] = {name: [] for name in axes.get(DATASET, ("",))}
    for c in summary.configurations:
        found = c.best.measurement if c.best else None
        if c.best and found and found.memory_bytes and found.samples_per_s:
            spot = Spot(
                label=BETWEEN.join(facets.cells(c, names)),
                num_workers=c.best.num_workers,
                memory_bytes=found.memory_bytes,
                seconds=1000 / found.samples_per_s,
            )
            spots[facets.cell(c, DATASET) if DATASET in axes else ""].append(spot)
    fields = []
    for title, mine in spots.items():
        if len(mine) > 1:
            front = tuple(_front(mine))
            others = tuple(spot for spot in mine if spot not in front)
            fields.append(Field(title=title, legend_title=BETWEEN.join(names), front=front, others=others))
    return tuple(fields)


def _front(spots: Sequence[Spot]) -> Iterator[Spot]:
    """The Pareto front: no other spot is faster with as little memory."""
    least = float("inf")
    for spot in sorted(spots, key=lambda spot: (spot.memory_bytes, spot.seconds)):
        if spot.seconds < least:
            least = spot.seconds
            yield spot


def named(front: Sequence[Spot]) -> list[Spot]:
    """The spots with names: all, or of many evenly spaced ones with both ends."""
    chosen = style.spaced(len(front), _MOST_NAMED)
    return [spot for index, spot in enumerate(front) if index in chosen]


@style.styled
def draw_fields(fields: Sequence[Field], title: str) -> Figure:
    """A panel per dataset: a dot per configuration; those on the Pareto front are numbered, and named beside it."""
    chart = fields[:_MOST_PANELS]
    left_out = f" (the first {len(chart)} of {len(fields)} datasets)" if len(fields) > len(chart) else ""
    figure, panels = style.panels(title, len(chart), 1, 2.4)
    about = f"numbered: no other is both faster and lower in memory{left_out}"
    figure.supxlabel(about, x=0.01, ha="left", fontsize="medium")
    for axes, field in zip(panels, chart, strict=True):
        _draw_field(axes, field)
    return figure


def _draw_field(axes: Axes, field: Field) -> None:
    spots = (*field.front, *field.others)
    scale, unit = (1e9, "GB") if max(spot.memory_bytes for spot in spots) >= 1e9 else (1e6, "MB")
    places = [(spot.memory_bytes / scale, spot.seconds) for spot in spots]
    axes.set(xlabel=f"memory of all processes, {unit}", ylabel="seconds per 1000 samples")
    axes.grid(visible=True)
    axes.set_title(style.fitting(field.title, _NAMES))
    axes.set_xlim(*_around([memory for memory, _ in places]))
    axes.set_ylim(*_around([seconds for _, seconds in places]))
    axes.plot(*zip(*places, strict=True), "o", color=MUTED, markersize=4, rasterized=len(places) > _MOST_DOTS)
    front = places[: len(field.front)]
    axes.plot(*zip(*front, strict=True), "o-", color=COLOURS[0], markersize=5.5, linewidth=1)
    names = []
    for number, spot in enumerate(named(field.front), 1):
        place = front[field.front.index(spot)]
        axes.annotate(str(number), place, xytext=(-5, -5), textcoords="offset points", ha="right", va="top")
        text = f"{spot.label}: {spot.num_workers}" if spot.label else str(spot.num_workers)
        names.append(Line2D([], [], linestyle="", label=f"{number}  {style.fitting(text, _NAMES)}"))
    heading = style.fitting(f"{field.legend_title}: num_workers" if field.legend_title else "num_workers", _NAMES)
    axes.legend(
        handles=names, title=heading, alignment="left", loc="upper left", bbox_to_anchor=(1, 1), handlelength=0,
        handletextpad=0,
    )  # fmt: skip


def _around(reach: Sequence[float]) -> tuple[float, float]:
    """Limits of an axis with margins for the numbers, at least 8 % of the largest value; never below 0."""
    least, most = min(reach), max(reach)
    room = max(0.15 * (most - least), 0.08 * most)
    return max(0.0, least - 1.6 * room), most + room
