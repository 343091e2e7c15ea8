"""The best setting of each configuration at its time and its memory; from a pure value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nws_sweep import drawing
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.drawing import COLOURS
from nws_sweep.facets import BETWEEN, DATASET, cell, values
from nws_sweep.vector import MUTED

_MOST_PANELS = 6
_MOST_NAMED = 6
_MOST_DOTS = 300  # that are drawn one by one
_NAMES = 2.9  # inches of a name
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
    fronts = {title: tuple(_front(spots)) for title, spots in found.items() if len(spots) > 1}
    return tuple(
        Field(title=title, key=key, front=front, others=tuple(spot for spot in found[title] if spot not in front))
        for title, front in fronts.items()
    )


def _spot(c: ConfigurationSummary, names: Sequence[str]) -> Spot | None:
    found = c.best.measurement if c.best else None
    if c.best is None or found is None or not found.memory_bytes or not found.samples_per_s:
        return None
    label = BETWEEN.join(cell(c, name) for name in names)
    seconds = _PER_SAMPLES / found.samples_per_s
    return Spot(label=label, num_workers=c.best.num_workers, memory_bytes=found.memory_bytes, seconds=seconds)


def _front(spots: Sequence[Spot]) -> Iterator[Spot]:
    """Those of which none other is both quicker and leaner."""
    least = None
    for spot in sorted(spots, key=lambda spot: (spot.memory_bytes, spot.seconds)):
        if least is None or spot.seconds < least:
            least = spot.seconds
            yield spot


@drawing.styled
def draw_fields(fields: Sequence[Field], title: str) -> Figure:
    """A panel per dataset: a configuration is a dot; those that nothing beats are numbered, and named beside it."""
    chart = fields[:_MOST_PANELS]
    left_out = f" (the first {len(chart)} of {len(fields)} datasets)" if len(fields) > len(chart) else ""
    figure, panels = drawing.panels(title, len(chart), 1, 2.4)
    figure.supxlabel(
        f"numbered: no other is both quicker and leaner{left_out}", x=0.01, ha="left", fontsize="medium"
    )  # fmt: skip
    for axes, field in zip(panels, chart, strict=True):
        _draw_field(axes, field)
    return figure


def _draw_field(axes: Axes, field: Field) -> None:
    spots = (*field.front, *field.others)
    scale, unit = memory_scale(max(spot.memory_bytes for spot in spots))
    axes.set_title(drawing.fitting(field.title, _NAMES))
    axes.set(xlabel=f"memory of all processes, {unit}", ylabel="seconds per 1000 samples")
    axes.set_xlim(*_around([spot.memory_bytes / scale for spot in spots]))
    axes.set_ylim(*_around([spot.seconds for spot in spots]))
    axes.grid(axis="both")
    memory, seconds = ([spot.memory_bytes / scale for spot in spots], [spot.seconds for spot in spots])
    axes.plot(memory, seconds, "o", color=MUTED, markersize=4, rasterized=len(spots) > _MOST_DOTS)
    count = len(field.front)
    axes.plot(memory[:count], seconds[:count], "o-", color=COLOURS[0], markersize=5.5, linewidth=1)
    names = []
    for number, spot in enumerate(named(field.front), 1):
        place = spot.memory_bytes / scale, spot.seconds
        axes.annotate(str(number), place, xytext=(-5, -5), textcoords="offset points", ha="right", va="top")
        text = f"{spot.label}: {spot.num_workers}" if spot.label else str(spot.num_workers)
        names.append(Line2D([], [], linestyle="", label=f"{number}  {drawing.fitting(text, _NAMES)}"))
    key = drawing.fitting(f"{field.key}: num_workers" if field.key else "num_workers", _NAMES)
    axes.legend(
        handles=names, title=key, alignment="left", loc="upper left", bbox_to_anchor=(1, 1), handlelength=0,
        handletextpad=0,
    )  # fmt: skip


def _around(reach: Sequence[float]) -> tuple[float, float]:
    """An axis that has room for numbers, and that does not blow up what is nearly equal; never below 0."""
    least, most = min(reach), max(reach)
    room = max(0.15 * (most - least), 0.08 * most)
    return max(0.0, least - 1.6 * room), most + room


def named(front: Sequence[Spot]) -> list[Spot]:
    """Those that have names: all, or of many the ends and others between them."""
    if len(front) <= _MOST_NAMED:
        return list(front)
    chosen = drawing.spaced(len(front), _MOST_NAMED)
    return [spot for index, spot in enumerate(front) if index in chosen]


def memory_scale(most_bytes: float) -> tuple[float, str]:
    """The unit for values up to this one, and its bytes."""
    return (1e9, "GB") if most_bytes >= 1e9 else (1e6, "MB")
