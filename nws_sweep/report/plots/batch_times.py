"""Waiting and training step time of each batch, a panel per candidate; from a pure value."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from nws_sweep.report.plots import style
from nws_sweep.report.plots.style import BAND, COLOURS
from nws_sweep.results import BatchTime

_MOST_PANELS = 6
_MOST_STEPS = 1600  # of all panels together; more are not visible


@dataclass(frozen=True, slots=True)
class Timeline:
    """Per-batch times of one candidate, s: all batches in order, and whether each one was warm-up.

    ``together`` is the number of batches in each mean.
    """

    num_workers: int
    wait_s: tuple[float, ...]
    step_s: tuple[float, ...]
    warm_up: tuple[bool, ...]
    together: int = 1


def timelines(batches: Sequence[BatchTime]) -> list[Timeline]:
    """The per-batch times of a run, one timeline per candidate, ascending."""
    by_workers = attrgetter("num_workers")
    lines = []
    for num_workers, mine in groupby(sorted(batches, key=by_workers), by_workers):
        wait_s, step_s, warm_up = zip(*((one.wait_s, one.step_s, one.warm_up) for one in mine), strict=True)
        lines.append(Timeline(num_workers, wait_s, step_s, warm_up))
    return lines


def coarser(line: Timeline, most: int) -> Timeline:
    """Averages successive batches, so that the timeline has at most ``most`` steps."""
    size = -(-len(line.wait_s) // most)
    wait_s, step_s = (
        tuple(fmean(times[start : start + size]) for start in range(0, len(times), size))
        for times in (line.wait_s, line.step_s)
    )
    return Timeline(line.num_workers, wait_s, step_s, line.warm_up[::size], size)


def picked(lines: Sequence[Timeline], best: int | None) -> list[Timeline]:
    """The timelines that are shown: all, or of many the recommended, the first, the last and evenly spaced others."""
    if len(lines) <= _MOST_PANELS:
        return list(lines)
    chosen = {round(step * (len(lines) - 1) / (_MOST_PANELS - 2)) for step in range(_MOST_PANELS - 1)}
    return [line for index, line in enumerate(lines) if index in chosen or line.num_workers == best]


@style.styled()
def draw_timelines(lines: Sequence[Timeline], title: str, best: int | None = None) -> Figure:
    """A panel per candidate: waiting below, training step on top, warm-up shaded."""
    shown = [coarser(line, _MOST_STEPS // min(len(lines), _MOST_PANELS)) for line in picked(lines, best)]
    left_out = f" ({len(shown)} of {len(lines)} candidates)" if len(lines) > len(shown) else ""
    figure, panels = style.panels(title + left_out, len(shown), 1, 1.05, sharey=True)
    for axes, line in zip(panels, shown, strict=True):
        workers = f"{line.num_workers} worker{'' if line.num_workers == 1 else 's'}"
        axes.set_title(f"{workers} (best)" if line.num_workers == best else workers, weight="bold")
        _draw_timeline(axes, line, highest(shown))
    panels[-1].set_xlabel("batch, in the order of arrival")
    most = max(line.together for line in shown)
    means = f" (means of up to {most} batches)" if most > 1 else ""
    entries = {f"waiting for the loader, s{means}": COLOURS[0], "training step, s": COLOURS[1]}
    if any(any(line.warm_up) for line in shown):
        entries["warm-up, not counted"] = BAND
    style.legend(figure, [Patch(color=colour, label=text) for text, colour in entries.items()])
    return figure


def highest(lines: Sequence[Timeline]) -> float:
    """The longest batch after warm-up, s, or of all if there is none; warm-up would hide the others."""
    every = [step for line in lines for step in zip(line.wait_s, line.step_s, line.warm_up, strict=True)]
    counted = [wait + step for wait, step, warm_up in every if not warm_up]
    return max(counted or [wait + step for wait, step, _ in every]) or 1.0


def _draw_timeline(axes: Axes, line: Timeline, top: float) -> None:
    edges = [(index - 0.5) * line.together for index in range(len(line.wait_s) + 1)]
    for is_warm_up, steps in groupby(enumerate(line.warm_up), key=lambda step: step[1]):
        numbers = [number for number, _ in steps]
        if is_warm_up:
            axes.axvspan(edges[numbers[0]], edges[numbers[-1] + 1], color=BAND, linewidth=0, zorder=0)
    total = [wait + step for wait, step in zip(line.wait_s, line.step_s, strict=True)]
    axes.stairs(total, edges, fill=True, color=COLOURS[1])
    axes.stairs(line.wait_s, edges, fill=True, color=COLOURS[0])
    axes.set_xlim(edges[0], max(edges[-1], edges[0] + 1))
    axes.set_ylim(0, 1.05 * top)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4, min_n_ticks=3))
