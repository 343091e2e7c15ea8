"""The figure of one configuration: how it scales with its workers, and what they cost in memory; from pure values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import drawing, memory_plots
from nws_sweep.analysis import ConfigurationSummary
from nws_sweep.curve_plots import Point
from nws_sweep.diagnosis import Diagnosis
from nws_sweep.drawing import COLOURS
from nws_sweep.memory_plots import Prices

_STEPS = 120  # of the curve
_FEWEST = 2  # candidates without which there is nothing to compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Throughput against num_workers, samples/s."""

    measured: tuple[Point, ...]  # the candidates, ascending by num_workers
    law: tuple[Point, ...]  # the curve through those with workers; empty without one
    ceiling: float | None  # what no number of workers can exceed; None if nothing is known of it
    ceiling_of: str  # what sets it, ``consumer`` or ``CPUs``
    best: int  # the recommended candidate


def scaling(summary: ConfigurationSummary) -> Scaling | None:
    """How a configuration scales; None if fewer than two candidates have a pace."""
    measured = tuple(
        Point(trial.num_workers, rate.value, *rate.ends)
        for trial in summary.worker_trials
        if trial.objective_s is not None and (found := trial.measurement) and found.batch_s and (rate := found.rate)
    )
    diagnosis, best = summary.diagnosis, summary.best
    if len(measured) < _FEWEST or best is None or diagnosis is None:
        return None
    found, floor_s = best.measurement, diagnosis.evidence.floor_s
    samples = (found.samples_per_s or 0.0) * found.batch_s.value if found and found.batch_s else 0.0
    return Scaling(
        measured=measured,
        law=tuple(_law(diagnosis, samples, int(measured[-1].num_workers))),
        ceiling=samples / floor_s if samples and floor_s > 0 else None,
        ceiling_of="consumer" if diagnosis.evidence.consume_s >= floor_s else "CPUs",
        best=best.num_workers,
    )


def _law(diagnosis: Diagnosis, samples: float, most: int) -> Iterator[Point]:
    law = diagnosis.law
    if law is None or not samples or most < 1:
        return
    for step in range(_STEPS + 1):
        number = 1 + (most - 1) * step / _STEPS
        quick_s, slow_s = law.interval_s(number)
        yield Point(number, samples / law.batch_s(number), samples / slow_s, samples / quick_s)


@drawing.styled
def draw(scaled: Scaling | None, paid: Prices | None, title: str) -> Figure:
    """The figure, a panel for each value that there is.

    Args:
        scaled: Throughput against num_workers.
        paid: Time against memory.
        title: Of the whole.
    """
    count = (scaled is not None) + (paid is not None)
    figure, panels = drawing.panels(title, count, count, 3.4)
    if scaled is not None:
        _draw_scaling(panels[0], scaled)
        drawing.legend(figure, panels[0].get_legend_handles_labels()[0])
    if paid is not None:
        memory_plots.draw_prices(panels[-1], paid)
    return figure


def _draw_scaling(axes: Axes, scaled: Scaling) -> None:
    """Throughput of the candidates with their intervals, the curve through them with its own, and the ceiling."""
    numbers, values, lows, highs = _columns(scaled.measured)
    ends = [[v - low for v, low in zip(values, lows, strict=True)], [h - v for v, h in zip(values, highs, strict=True)]]
    axes.errorbar(numbers, values, ends, fmt="o", color=COLOURS[0], markersize=5, label="measured, 95 %")
    tops = [max(highs)]
    if scaled.law:
        x, y, low, high = _columns(scaled.law)
        axes.plot(x, y, color=COLOURS[4], label="law of scaling, 95 %")
        axes.fill_between(x, low, high, color=COLOURS[4], alpha=0.25, linewidth=0)
        tops.append(min(max(high), 1.5 * max(highs)))
    # A ceiling far above all points would press them to the ground, and says nothing.
    if scaled.ceiling is not None and scaled.ceiling <= 2 * max(values):
        about = f"the {scaled.ceiling_of} allow{'s' if scaled.ceiling_of == 'consumer' else ''} no more"
        axes.axhline(scaled.ceiling, color=COLOURS[1], linestyle="--", linewidth=1.2, label=about)
        tops.append(scaled.ceiling)
    if scaled.best in numbers:
        drawing.ring(axes, scaled.best, values[numbers.index(scaled.best)])
    axes.set(xlabel="num_workers (ring: recommended)", ylabel="samples per second", ylim=(0, 1.06 * max(tops)))
    axes.grid(axis="y")
    drawing.label_workers(axes, numbers)


def _columns(points: tuple[Point, ...]) -> tuple[list[float], list[float], list[float], list[float]]:
    return (
        [p.num_workers for p in points], [p.value for p in points], [p.low for p in points], [p.high for p in points]
    )  # fmt: skip
