"""Waiting and training step time of each batch, a panel per candidate; from a pure value."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from nws_sweep import units
from nws_sweep.report.plots import style
from nws_sweep.report.plots.style import BAND, COLOURS
from nws_sweep.results import BatchTime

Candidate = tuple[int, str]  # num_workers, and the settings that differ from the configuration

_MOST_PANELS = 6
_MOST_STEPS = 1600  # of all panels together; more are not visible


def timelines(batches: Iterable[BatchTime]) -> dict[Candidate, list[BatchTime]]:
    """The batches of each candidate in their order, by the candidate, ascending."""
    candidate = attrgetter("num_workers", "settings")
    return {key: list(line) for key, line in groupby(sorted(batches, key=candidate), candidate)}


def coarser(line: Sequence[BatchTime], size: int) -> list[BatchTime]:
    """The means of ``size`` successive batches each, at the place of the first of them."""
    groups = [line[start : start + size] for start in range(0, len(line), size)]
    return [
        replace(group[0], wait_s=fmean(one.wait_s for one in group), step_s=fmean(one.step_s for one in group))
        for group in groups
    ]


def picked(candidates: Sequence[Candidate], best: Candidate | None) -> list[Candidate]:
    """The candidates that are shown: all, or of many the recommended, the first, the last and evenly spaced others."""
    if len(candidates) <= _MOST_PANELS:
        return list(candidates)
    chosen = {round(step * (len(candidates) - 1) / (_MOST_PANELS - 2)) for step in range(_MOST_PANELS - 1)}
    return [candidate for index, candidate in enumerate(candidates) if index in chosen or candidate == best]


@style.styled()
def draw_timelines(lines: Mapping[Candidate, Sequence[BatchTime]], title: str, best: Candidate | None = None) -> Figure:
    """A panel per candidate: waiting below, training step on top, warm-up shaded."""
    candidates = picked([*lines], best)
    sizes = {one: -(-len(lines[one]) * len(candidates) // _MOST_STEPS) for one in candidates}
    shown = {one: coarser(lines[one], size) for one, size in sizes.items()}
    left_out = f" ({len(candidates)} of {len(lines)} candidates)" if len(lines) > len(candidates) else ""
    figure, panels = style.panels(title + left_out, len(candidates), 1, 1.05, sharey=True)
    for axes, (one, line) in zip(panels, shown.items(), strict=True):
        name = " ".join(filter(None, [units.counted(one[0], "worker"), one[1], "(best)" if one == best else ""]))
        axes.set_title(name, weight="bold")
        _draw_timeline(axes, line, sizes[one])
    panels[-1].set_ylim(0, 1.05 * highest(shown.values()))
    panels[-1].set_xlabel("batch, in the order of arrival")
    means = f" (means of up to {max(sizes.values())} batches)" if max(sizes.values()) > 1 else ""
    entries = {f"waiting for the loader, s{means}": COLOURS[0], "training step, s": COLOURS[1]}
    if any(one.warm_up for line in shown.values() for one in line):
        entries["warm-up, not counted"] = BAND
    style.legend(figure, [Patch(color=colour, label=text) for text, colour in entries.items()])
    return figure


def highest(lines: Iterable[Sequence[BatchTime]]) -> float:
    """The longest batch after warm-up, s, or of all if there is none; warm-up would hide the others."""
    every = [one for line in lines for one in line]
    counted = [one for one in every if not one.warm_up]
    return max(one.wait_s + one.step_s for one in counted or every) or 1.0


def _draw_timeline(axes: Axes, line: Sequence[BatchTime], size: int) -> None:
    edges = [*(one.index - 0.5 for one in line), line[-1].index + size - 0.5]
    for is_warm_up, steps in groupby(line, key=lambda one: one.warm_up):
        if is_warm_up:
            places = [one.index for one in steps]
            axes.axvspan(places[0] - 0.5, places[-1] + size - 0.5, color=BAND, linewidth=0, zorder=0)
    axes.stairs([one.wait_s + one.step_s for one in line], edges, fill=True, color=COLOURS[1])
    axes.stairs([one.wait_s for one in line], edges, fill=True, color=COLOURS[0])
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4, min_n_ticks=3))
