"""The pictures of a report: what there is to show of a run or a grid, the most important first.

Each stands for a figure that is drawn when it is asked for, from a pure value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nws_sweep import (
    bar_plots,
    batch_plots,
    cost_plots,
    curve_plots,
    heat_plots,
    memory_plots,
    scaling_plots,
    storage,
    units,
)
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.batch_table import BatchTime
from nws_sweep.drawing import shortened
from nws_sweep.facets import Facets, facets
from nws_sweep.scaling_plots import Prices, Rate, Scaling

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
    return tuple(_of_grid(summary, shared, batches) if summary.stored.is_grid else _of_run(summary, shared, batches))


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
    yield from _times(shared)
    yield from _waiting(shared)
    yield from _batches(only, batches)
    yield from _costs(summary)


def _of_grid(summary: Summary, shared: Facets, batches: Batches) -> Iterator[Illustration]:
    yield from _throughput(shared)
    yield from _best(summary)
    yield from _heat(summary)
    yield from _waiting(shared)
    yield from _memory(summary)
    if fastest := summary.fastest:
        yield from _batches(fastest, batches)
    yield from _costs(summary)


def _scaling(c: ConfigurationSummary) -> Iterator[Illustration]:
    scaled, paid = scaling_plots.scaling(c), scaling_plots.prices(c)
    if scaled is None and paid is None:
        return
    title = _titled("Throughput, and time against memory" if scaled and paid else "Scaling", c)
    yield Illustration(
        name=storage.SCALING_PLOT, title=title, alt=_about_scaling(scaled, paid),
        draw=lambda: scaling_plots.draw(scaled, paid, title),
    )  # fmt: skip


def _about_scaling(scaled: Scaling | None, paid: Prices | None) -> str:
    parts = []
    if scaled:
        first = scaled.measured[0]
        best = [rate for rate in scaled.measured if rate.num_workers == scaled.best]
        recommended = f", {_rate(best[0])} with the recommended {scaled.best}" if best else ""
        parts.append(f"Samples per second against num_workers: {_rate(first)} with {first.num_workers:g}{recommended}.")
    if paid:
        held = next((price for price in paid.candidates if price.num_workers == paid.best), None)
        parts.append(
            f"Seconds per {paid.unit} against memory"
            + (f": the recommended candidate holds {units.memory(held.memory_bytes)}." if held else ".")
        )
    return " ".join(parts)


def _times(shared: Facets) -> Iterator[Illustration]:
    chart = curve_plots.times(shared)
    if chart is None:
        return
    title = "Time against num_workers"
    alt = f"{chart.quantity.capitalize()} against num_workers."
    for panel in chart.panels:
        for curve in panel.curves:
            alt += "".join(
                f" With the recommended {point.num_workers} it is {units.number(point.value)}."
                for point in curve.points
                if point.num_workers == curve.best
            )
    yield Illustration(name=storage.TIME_PLOT, title=title, alt=alt, draw=lambda: curve_plots.draw(chart, title))


def _batches(c: ConfigurationSummary, batches: Batches) -> Iterator[Illustration]:
    lines = batch_plots.timelines(batches(c))
    if not lines:
        return
    best = c.best.num_workers if c.best else None
    title = _titled("Time of each batch", c)
    alt = f"Waiting and consumer of each batch, {_count(len(lines), 'candidate')}, in the order of arrival."
    if c.best and c.best.measurement and c.best.measurement.wait_s is not None:
        waiting, consumer = c.best.measurement.wait_s, c.best.measurement.consume_s
        alt += f" A batch of the best waits {units.seconds(waiting)} and is consumed in {units.seconds(consumer)}."
    yield Illustration(
        name=storage.BATCHES_PLOT, title=title, alt=alt, draw=lambda: batch_plots.draw_timelines(lines, title, best)
    )


def _rate(rate: Rate) -> str:
    return units.rate(rate.value, rate.low, rate.high)


def _heat(summary: Summary) -> Iterator[Illustration]:
    chart = heat_plots.heat_map(summary)
    if chart is None:
        return
    title = f"Best throughput by {chart.down} and {chart.across}"
    cells = [heat for sheet in chart.sheets for row in sheet.rows for heat in row if heat]
    most, least = (choose(cells, key=lambda heat: heat.samples_per_s) for choose in (max, min))
    alt = (
        f"A map of the best throughput over {chart.across} and {chart.down}"
        f"{f', of each {chart.third}' if chart.third else ''}: "
        f"{heat_plots.told(least)} to {heat_plots.told(most)} samples per second."
    )
    yield Illustration(
        name=storage.HEAT_PLOT, title=title, alt=alt, draw=lambda: heat_plots.draw_heat_map(chart, title)
    )


def _memory(summary: Summary) -> Iterator[Illustration]:
    chart = memory_plots.fields(summary)
    if not chart:
        return
    title = "Time against memory, best setting of each configuration"
    spots = [spot for field in chart for spot in field.front]
    least, most = min(spots, key=lambda s: s.memory_bytes), min(spots, key=lambda s: s.seconds)
    alt = (
        "Seconds per 1000 samples against memory at the best setting of each configuration. The leanest holds "
        f"{units.memory(least.memory_bytes)} and takes {units.seconds(least.seconds)}; the quickest holds "
        f"{units.memory(most.memory_bytes)} and takes {units.seconds(most.seconds)}."
    )
    yield Illustration(
        name=storage.MEMORY_PLOT, title=title, alt=alt, draw=lambda: memory_plots.draw_fields(chart, title)
    )


def _costs(summary: Summary) -> Iterator[Illustration]:
    chart = cost_plots.costs(summary)
    if not chart.costs:
        return
    title = "Where the time of the search went"
    total_s = sum(chart.parts_s)
    parts = ", ".join(
        f"{part} {units.share(seconds / total_s)}"
        for part, seconds in zip(cost_plots.PARTS, chart.parts_s, strict=True)
    )
    alt = f"{_count(len(chart.costs), 'search', 'es')} took {units.seconds(total_s)}: {parts}."
    yield Illustration(name=storage.COST_PLOT, title=title, alt=alt, draw=lambda: cost_plots.draw_costs(chart, title))


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
        f"{bar_plots.told(last)} to {bar_plots.told(first)} samples per second; the "
        f"fastest has num_workers={first.num_workers}{_named(*_settings(chart.columns, first.cells))}."
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
        least, most = f"{min(shares):.0f}", f"{max(shares):.0f}"
        alt += f" At the best settings {least if least == most else f'{least} to {most}'} %."
    yield Illustration(name=storage.WAITING_PLOT, title=title, alt=alt, draw=lambda: curve_plots.draw(chart, title))


def _titled(text: str, c: ConfigurationSummary) -> str:
    return f"{text}: {c.label}" if c.label else text


def _count(number: int, what: str, ending: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else ending}"


def _settings(columns: Sequence[str], cells: Sequence[str]) -> list[str]:
    return [f"{name}={value}" for name, value in zip(columns, cells, strict=True)]


def _named(*names: str) -> str:
    """What it is of, in brackets."""
    known = [shortened(name, 60) for name in names if name]
    return f" ({', '.join(known)})" if known else ""
