"""The figure of one configuration: how it scales with its workers, and what they cost in memory; from pure values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep import curve_plots, drawing, units
from nws_sweep.analysis import ConfigurationSummary
from nws_sweep.diagnosis import Diagnosis
from nws_sweep.drawing import COLOURS, EDGE, SMALL, Box, Key
from nws_sweep.memory_plots import memory_scale
from nws_sweep.records import Trial
from nws_sweep.vector import INK, MUTED

_STEPS = 120  # of the curve
_FEWEST = 2  # candidates without which there is nothing to compare
_PANEL = 4.4  # inches, with what is beside the axes
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


def draw(scaled: Scaling | None, paid: Prices | None, title: str) -> Figure:
    """The figure, a panel for each value that there is.

    Args:
        scaled: Throughput against num_workers.
        paid: Time against memory.
        title: Of the whole.
    """
    count = (scaled is not None) + (paid is not None)
    top = drawing.head(title)
    figure = drawing.sheet(top + 3.9, title, 2 * EDGE + _PANEL * count + 2.2 * (count == 1))
    width = _PANEL if count > 1 else 6.4
    boxes = [Box(EDGE + 0.65 + index * width, top + 0.55, width - 0.85, 2.8) for index in range(count)]
    if scaled is not None:
        drawing.legend(figure, _keys(scaled), EDGE, top + 0.02, width - 0.1)
        draw_scaling(drawing.axes_at(figure, boxes[0]), scaled, boxes[0])
    if paid is not None:
        about = "blue: at least 95 % of the best's speed; named by num_workers"
        drawing.write(figure, about, boxes[-1].left, top + 0.02 + drawing.lines(1, SMALL) / 2)
        draw_prices(drawing.axes_at(figure, boxes[-1]), paid)
    return figure


def draw_scaling(axes: Axes, scaled: Scaling, box: Box) -> None:
    """Throughput of the candidates with their intervals, the curve through them with its own, and the ceiling."""
    numbers = [rate.num_workers for rate in scaled.measured]
    if scaled.law:
        x, low, high = zip(*((rate.num_workers, rate.low, rate.high) for rate in scaled.law), strict=True)
        axes.fill_between(x, low, high, color=COLOURS[4], alpha=0.25, linewidth=0)
        axes.plot(x, [rate.value for rate in scaled.law], color=COLOURS[4], linewidth=1.5)
    if scaled.ceiling is not None and _is_near(scaled):
        axes.axhline(scaled.ceiling, color=COLOURS[1], linestyle="--", linewidth=1.2)
    axes.vlines(
        numbers,
        [rate.low for rate in scaled.measured],
        [rate.high for rate in scaled.measured],
        color=COLOURS[0],
        linewidth=1.2,
    )
    axes.plot(numbers, [rate.value for rate in scaled.measured], "o", color=COLOURS[0], markersize=5)
    for rate in scaled.measured:
        if rate.num_workers == scaled.best:
            axes.plot(rate.num_workers, rate.value, "o", markersize=12, mfc="none", mec=COLOURS[0], mew=1.3)
    axes.set(xlabel="num_workers (ring: recommended)", ylabel="samples per second")
    axes.set_xticks(curve_plots.ticks([int(number) for number in numbers], box.width))
    axes.set_ylim(0, 1.06 * _highest(scaled))
    drawing.grid_lines(axes)


def _highest(scaled: Scaling) -> float:
    """What must be seen: all points, the curve, and the ceiling if it is near."""
    ceiling = scaled.ceiling if scaled.ceiling is not None and _is_near(scaled) else 0.0
    highest = max(rate.high for rate in scaled.measured)
    return max(highest, ceiling, *(min(rate.high, 1.5 * highest) for rate in scaled.law))


def _keys(scaled: Scaling) -> list[Key]:
    keys = [Key(text="measured, 95 %", colour=COLOURS[0], marker="o")]
    if scaled.law:
        keys.append(Key(text="law of scaling, 95 %", colour=COLOURS[4]))
    if scaled.ceiling is not None and _is_near(scaled):
        keys.append(Key(text=_about_ceiling(scaled), colour=COLOURS[1], dash=(0, (3, 1.5))))
    return keys


def _is_near(scaled: Scaling) -> bool:
    """Whether the ceiling says something: one far above all points would press them to the ground."""
    return scaled.ceiling is not None and scaled.ceiling <= 2 * max(rate.value for rate in scaled.measured)


def _about_ceiling(scaled: Scaling) -> str:
    return f"the {scaled.ceiling_of} allow{'s' if scaled.ceiling_of == 'consumer' else ''} no more"


def draw_prices(axes: Axes, paid: Prices) -> None:
    """Each candidate at its memory and its time, named by its workers; below 95 % of the best's speed it is faint."""
    best = next((price for price in paid.candidates if price.num_workers == paid.best), paid.candidates[0])
    scale, unit = memory_scale(max(price.memory_bytes for price in paid.candidates))
    for price in paid.candidates:
        quick = price.seconds <= best.seconds / _QUICK
        axes.plot(price.memory_bytes / scale, price.seconds, "o", color=COLOURS[0] if quick else MUTED, markersize=5)
        axes.annotate(
            _name_of(price, paid), (price.memory_bytes / scale, price.seconds), xytext=_beside(price, paid),
            textcoords="offset points", fontsize=SMALL, color=INK,
        )  # fmt: skip
    axes.plot(best.memory_bytes / scale, best.seconds, "o", markersize=12, mfc="none", mec=COLOURS[0], mew=1.3)
    axes.set(xlabel=f"memory of all processes, {unit}", ylabel=f"seconds per {paid.unit}")
    axes.set_xlim(left=0, right=1.2 * max(price.memory_bytes for price in paid.candidates) / scale)
    if max(p.seconds for p in paid.candidates) > 20 * min(p.seconds for p in paid.candidates):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    drawing.grid_lines(axes)


def _beside(price: Price, paid: Prices) -> tuple[float, float]:
    """Where its name stands, in points: the long one below, or it would cover its neighbour's."""
    return (-40, -16) if price.num_workers == paid.leaner else (6, 4)


def _name_of(price: Price, paid: Prices) -> str:
    if price.num_workers != paid.leaner:
        return str(price.num_workers)
    best = next(one for one in paid.candidates if one.num_workers == paid.best)
    return f"{price.num_workers}: {units.memory(best.memory_bytes - price.memory_bytes)} less"
