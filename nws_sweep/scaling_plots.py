"""The figure of one configuration: how it scales with its workers, and what they cost in memory; from pure values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import curve_plots, drawing, units
from nws_sweep.analysis import ConfigurationSummary
from nws_sweep.diagnosis import Diagnosis
from nws_sweep.drawing import COLOURS
from nws_sweep.memory_plots import memory_scale
from nws_sweep.records import Trial
from nws_sweep.vector import MUTED

_STEPS = 120  # of the curve
_FEWEST = 2  # candidates without which there is nothing to compare
_QUICK = 0.95  # of the best's speed


@dataclass(frozen=True, slots=True)
class Rate:
    """Samples per second with a number of workers, and the ends of the 95 % interval (the value itself if none)."""

    num_workers: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Throughput against num_workers.

    Attributes:
        measured: The candidates, ascending by num_workers.
        law: The curve through those with workers; empty without one.
        ceiling: Samples per second that no number of workers can exceed; None if nothing is known of it.
        ceiling_of: What sets it, ``consumer`` or ``CPUs``.
        best: The recommended candidate.
    """

    measured: tuple[Rate, ...]
    law: tuple[Rate, ...]
    ceiling: float | None
    ceiling_of: str
    best: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a candidate costs: seconds (of an epoch, or per batch) and memory, B."""

    num_workers: int
    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Time against memory.

    Attributes:
        candidates: Ascending by num_workers.
        unit: What the seconds are of.
        best: The recommended candidate.
        leaner: The one that is nearly as fast for far less memory; None if there is none.
    """

    candidates: tuple[Price, ...]
    unit: str
    best: int
    leaner: int | None


def scaling(summary: ConfigurationSummary) -> Scaling | None:
    """How a configuration scales; None if fewer than two candidates have a pace."""
    measured = tuple(_rates(summary))
    diagnosis, best = summary.diagnosis, summary.best
    if len(measured) < _FEWEST or best is None or diagnosis is None:
        return None
    samples = _samples_per_batch(best)
    floor_s = diagnosis.evidence.floor_s
    return Scaling(
        measured=measured,
        law=tuple(_law_rates(diagnosis, samples, int(measured[-1].num_workers))),
        ceiling=samples / floor_s if samples and floor_s > 0 else None,
        ceiling_of="consumer" if diagnosis.evidence.consume_s >= floor_s else "CPUs",
        best=best.num_workers,
    )


def _rates(summary: ConfigurationSummary) -> Iterator[Rate]:
    for trial in summary.worker_trials:
        found = trial.measurement
        rate = found.rate if found and found.batch_s else None
        if trial.objective_s is not None and rate is not None:
            yield Rate(trial.num_workers, rate.value, *rate.ends)


def _samples_per_batch(trial: Trial) -> float:
    found = trial.measurement
    return (found.samples_per_s or 0.0) * found.batch_s.value if found and found.batch_s else 0.0


def _law_rates(diagnosis: Diagnosis, samples: float, most: int) -> Iterator[Rate]:
    law = diagnosis.law
    if law is None or not samples or most < 1:
        return
    for step in range(_STEPS + 1):
        number = 1 + (most - 1) * step / _STEPS
        quick_s, slow_s = law.interval_s(number)
        yield Rate(number, samples / law.batch_s(number), samples / slow_s, samples / quick_s)


def prices(summary: ConfigurationSummary) -> Prices | None:
    """What the candidates of a configuration cost; None if fewer than two tell their memory."""
    trials = [t for t in summary.worker_trials if t.objective_s is not None]
    candidates = tuple(
        Price(num_workers=t.num_workers, seconds=t.objective_s, memory_bytes=t.measurement.memory_bytes)
        for t in trials
        if t.objective_s is not None and t.measurement and t.measurement.memory_bytes
    )
    if len(candidates) < _FEWEST or summary.best is None:
        return None
    by_epoch = all(t.measurement and t.measurement.epoch_s is not None for t in trials)
    return Prices(
        candidates=candidates,
        unit="epoch" if by_epoch else "batch",
        best=summary.best.num_workers,
        leaner=summary.leaner.num_workers if summary.leaner else None,
    )


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
        _draw_prices(panels[-1], paid)
    return figure


def _draw_scaling(axes: Axes, scaled: Scaling) -> None:
    """Throughput of the candidates with their intervals, the curve through them with its own, and the ceiling."""
    numbers, values = zip(*((rate.num_workers, rate.value) for rate in scaled.measured), strict=True)
    ends = [[rate.value - rate.low for rate in scaled.measured], [rate.high - rate.value for rate in scaled.measured]]
    axes.errorbar(numbers, values, ends, fmt="o", color=COLOURS[0], markersize=5, label="measured, 95 %")
    highest = max(rate.high for rate in scaled.measured)
    top = highest
    if scaled.law:
        x = [rate.num_workers for rate in scaled.law]
        axes.plot(x, [rate.value for rate in scaled.law], color=COLOURS[4], label="law of scaling, 95 %")
        low, high = [rate.low for rate in scaled.law], [rate.high for rate in scaled.law]
        axes.fill_between(x, low, high, color=COLOURS[4], alpha=0.25, linewidth=0)
        top = max(top, min(max(high), 1.5 * highest))
    # A ceiling far above all points would press them to the ground, and says nothing.
    if scaled.ceiling is not None and scaled.ceiling <= 2 * max(values):
        about = f"the {scaled.ceiling_of} allow{'s' if scaled.ceiling_of == 'consumer' else ''} no more"
        axes.axhline(scaled.ceiling, color=COLOURS[1], linestyle="--", linewidth=1.2, label=about)
        top = max(top, scaled.ceiling)
    if scaled.best in numbers:
        curve_plots.ring(axes, scaled.best, values[numbers.index(scaled.best)])
    axes.set(xlabel="num_workers (ring: recommended)", ylabel="samples per second", ylim=(0, 1.06 * top))
    curve_plots.label_workers(axes, numbers)
    axes.grid(axis="y")


def _draw_prices(axes: Axes, paid: Prices) -> None:
    """Each candidate at its memory and its time, named by its workers; below 95 % of the best's speed it is faint."""
    best = next((price for price in paid.candidates if price.num_workers == paid.best), paid.candidates[0])
    scale, unit = memory_scale(max(price.memory_bytes for price in paid.candidates))
    for price in paid.candidates:
        quick, place = price.seconds <= best.seconds / _QUICK, (price.memory_bytes / scale, price.seconds)
        axes.plot(*place, "o", color=COLOURS[0] if quick else MUTED, markersize=5)
        if price.num_workers == paid.leaner:  # the long name stands below, or it would cover its neighbour's
            name = f"{price.num_workers}: {units.memory(best.memory_bytes - price.memory_bytes)} less"
            axes.annotate(name, place, xytext=(-40, -16), textcoords="offset points")
        else:
            axes.annotate(str(price.num_workers), place, xytext=(6, 4), textcoords="offset points")
    curve_plots.ring(axes, best.memory_bytes / scale, best.seconds)
    axes.set_title("blue: at least 95 % of the best's speed,\nnamed by num_workers")
    axes.set(xlabel=f"memory of all processes, {unit}", ylabel=f"seconds per {paid.unit}")
    axes.set_xlim(left=0, right=1.2 * max(price.memory_bytes for price in paid.candidates) / scale)
    if max(p.seconds for p in paid.candidates) > 20 * min(p.seconds for p in paid.candidates):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(axis="y")
