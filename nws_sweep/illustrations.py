"""The pictures of a report: what there is to show of a run or a grid, the most important first.

Each stands for a figure that is drawn when it is asked for, from a pure value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nws_sweep import bar_plots, curve_plots, plots, scaling_plots, storage, units
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.facets import Facets, facets
from nws_sweep.storage import BatchTime

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Batches = Callable[[ConfigurationSummary], Sequence[BatchTime]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Illustration:
    """One picture.

    Attributes:
        name: Of its files, without a suffix.
        title: What it is called.
        alt: What it shows, with its main figures, for those who do not see it.
        draw: Makes the figure.
    """

    name: str
    title: str
    alt: str
    draw: Callable[[], Figure]


def of(summary: Summary, batches: Batches) -> tuple[Illustration, ...]:
    """All pictures that make sense for this run or grid, the most important first.

    Args:
        summary: What was found.
        batches: Gives the per-batch times of a configuration.
    """
    shared = facets(summary)
    return tuple(_of_grid(summary, shared) if summary.stored.is_grid else _of_run(summary, shared, batches))


def of_configuration(summary: ConfigurationSummary, batches: Batches) -> tuple[Illustration, ...]:
    """The pictures that stand in the folder of a configuration, also of one of a grid.

    Args:
        summary: What was found for it.
        batches: Gives its per-batch times.
    """
    return (*_scaling(summary), *_batches(summary, batches))


def _of_run(summary: Summary, shared: Facets, batches: Batches) -> Iterator[Illustration]:
    (only,) = summary.configurations
    yield from _scaling(only)
    yield from _waiting(shared)
    yield from _batches(only, batches)


def _of_grid(summary: Summary, shared: Facets) -> Iterator[Illustration]:
    yield from _throughput(shared)
    yield from _best(summary)
    yield from _waiting(shared)


def _scaling(c: ConfigurationSummary) -> Iterator[Illustration]:
    scaled, paid = scaling_plots.scaling(c), scaling_plots.prices(c)
    if scaled is None and paid is None:
        return
    alt = "Samples per second against num_workers, and seconds against memory."
    if scaled:
        best = next(rate for rate in scaled.measured if rate.num_workers == scaled.best)
        alt += f" The best: {units.per_second(best.value)} samples per second with num_workers={scaled.best}."
    yield Illustration(
        name=storage.SCALING_PLOT,
        title="How it scales",
        alt=alt,
        draw=lambda: scaling_plots.draw(scaled, paid, c.label),
    )


def _batches(c: ConfigurationSummary, batches: Batches) -> Iterator[Illustration]:
    lines = plots.timelines(batches(c))
    if not lines:
        return
    title = "Time of each batch"
    alt = f"Waiting and consumer of every batch, {_count(len(lines), 'candidate')}."
    yield Illustration(
        name=storage.BATCHES_PLOT, title=title, alt=alt, draw=lambda: plots.draw_timelines(lines, f"{title}, {c.label}")
    )


def _throughput(shared: Facets) -> Iterator[Illustration]:
    chart = curve_plots.throughput(shared)
    if chart is None:
        return
    title = "Throughput against num_workers"
    alt = f"Samples per second against num_workers, {_count(len(shared.members), 'configuration')}."
    if best := curve_plots.best_of(chart):
        where, curve, point = best
        alt += f" The best: {curve_plots.about(point)}{_named(where, curve.label)}."
    yield Illustration(name=storage.THROUGHPUT_PLOT, title=title, alt=alt, draw=lambda: curve_plots.draw(chart, title))


def _best(summary: Summary) -> Iterator[Illustration]:
    chart = bar_plots.bars(summary)
    if not chart.bars:
        return
    first, last = chart.bars[0], chart.bars[-1]
    title = "Best setting per configuration"
    alt = (
        f"The best settings of {_count(len(chart.bars), 'configuration')}, from "
        f"{units.per_second(last.samples_per_s)} to {units.per_second(first.samples_per_s)} samples per second; the "
        f"fastest has num_workers={first.num_workers}{_named(*first.cells)}."
    )
    yield Illustration(name=storage.BEST_PLOT, title=title, alt=alt, draw=lambda: bar_plots.draw_bars(chart, title))


def _waiting(shared: Facets) -> Iterator[Illustration]:
    chart = curve_plots.waiting(shared)
    if chart is None:
        return
    title = "Time spent waiting for data"
    shares = [
        point.value for panel in chart.panels for curve in panel.curves for point in curve.points
        if point.num_workers == curve.best
    ]  # fmt: skip
    alt = "The share of the time in which the consumer waits for the loader, against num_workers."
    if shares:
        reach = f"{min(shares):.0f} %" if len(shares) == 1 else f"{min(shares):.0f} to {max(shares):.0f} %"
        alt += f" At the best settings {reach}."
    yield Illustration(name=storage.WAITING_PLOT, title=title, alt=alt, draw=lambda: curve_plots.draw(chart, title))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _named(*names: str) -> str:
    """What it is of, in brackets."""
    known = [name for name in names if name]
    return f" ({', '.join(known)})" if known else ""
