"""Waiting and training step time of each batch, a panel per candidate; from a pure
value."""

import math
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
from nws_sweep.records import BatchTime
from nws_sweep.report.plots import style
from nws_sweep.report.plots.style import BAND, COLOURS

# num_workers, and the settings that differ from the configuration
Candidate = tuple[int, str]

_MOST_PANELS = 6
_MOST_STEPS = 1600  # of all panels together; more are not visible


def timelines(batches: Iterable[BatchTime]) -> dict[Candidate, list[BatchTime]]:
    """Groups batches, in their order, by their candidate, ascending."""
    candidate_of = attrgetter("num_workers", "settings")
    ordered = sorted(batches, key=candidate_of)
    return {candidate: list(line) for candidate, line in groupby(ordered, candidate_of)}


def coarser(line: Sequence[BatchTime], size: int) -> list[BatchTime]:
    """Averages each ``size`` successive batches, at the place of the first batch."""
    means = []
    for start in range(0, len(line), size):
        group = line[start : start + size]
        wait_s, step_s = (
            fmean(batch.wait_s for batch in group),
            fmean(batch.step_s for batch in group),
        )
        means.append(replace(group[0], wait_s=wait_s, step_s=step_s))
    return means


def picked(candidates: Sequence[Candidate], best: Candidate | None) -> list[Candidate]:
    """Selects the candidates that are shown: all, or of many the recommended, the ends
    and some evenly between."""
    if len(candidates) <= _MOST_PANELS:
        return list(candidates)
    last, panels = len(candidates) - 1, _MOST_PANELS - 2
    chosen = {round(step * last / panels) for step in range(panels + 1)}
    return [
        candidate
        for index, candidate in enumerate(candidates)
        if index in chosen or candidate == best
    ]


@style.styled()
def draw_timelines(
    lines: Mapping[Candidate, Sequence[BatchTime]],
    title: str,
    best: Candidate | None = None,
) -> Figure:
    """Draws a panel for each candidate: waiting below, training step on top, warm-up
    shaded."""
    candidates = picked([*lines], best)
    if len(lines) > len(candidates):
        title += f" ({len(candidates)} of {units.counted(len(lines), 'setting')})"
    figure, panels = style.panels(title, len(candidates), 1.15, sharey=True)
    shown, largest = [], 1
    for axes, candidate in zip(panels, candidates, strict=True):
        size = math.ceil(len(lines[candidate]) * len(candidates) / _MOST_STEPS)
        line = coarser(lines[candidate], size)
        axes.set_title(_panel_title(candidate, best), weight="bold")
        _draw_timeline(axes, line, size)
        shown += line
        largest = max(largest, size)
    panels[-1].set_ylim(0, 1.05 * highest(shown))
    panels[-1].set_xlabel("batch, in the order of arrival")
    means = f" (means of up to {largest} batches)" if largest > 1 else ""
    entries = {
        f"waiting for the loader, s{means}": COLOURS[0],
        "training step, s": COLOURS[1],
    }
    if any(batch.warm_up for batch in shown):
        entries["warm-up, not counted"] = BAND
    style.legend(
        figure, [Patch(color=colour, label=text) for text, colour in entries.items()]
    )
    return figure


def _panel_title(candidate: Candidate, best: Candidate | None) -> str:
    num_workers, settings = candidate
    title = f"{units.counted(num_workers, 'worker')} {settings}".rstrip()
    return f"{title} (answer)" if candidate == best else title


def highest(batches: Sequence[BatchTime]) -> float:
    """Finds the longest batch after warm-up, s, or of all if there is only warm-up,
    which would hide the rest."""
    counted = [batch for batch in batches if not batch.warm_up] or batches
    return max(batch.wait_s + batch.step_s for batch in counted) or 1.0


def _draw_timeline(axes: Axes, line: Sequence[BatchTime], size: int) -> None:
    edges = [batch.index - 0.5 for batch in line]
    edges.append(line[-1].index + size - 0.5)
    for is_warm_up, batches in groupby(line, key=lambda batch: batch.warm_up):
        if is_warm_up:
            places = [batch.index for batch in batches]
            axes.axvspan(
                places[0] - 0.5,
                places[-1] + size - 0.5,
                color=BAND,
                linewidth=0,
                zorder=0,
            )
    axes.stairs(
        [batch.wait_s + batch.step_s for batch in line],
        edges,
        fill=True,
        color=COLOURS[1],
    )
    axes.stairs([batch.wait_s for batch in line], edges, fill=True, color=COLOURS[0])
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4, min_n_ticks=3))
