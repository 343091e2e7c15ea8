"""The pictures of a report, the most important first; each is drawn on request from a
pure value."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nws_sweep import units
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.model.stages import nested
from nws_sweep.records import BatchTime, atomic
from nws_sweep.report import plots
from nws_sweep.report.plots import bars, batch_times, line_charts, style
from nws_sweep.report.plots.line_charts import Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Batches = Callable[[ConfigurationSummary], Sequence[BatchTime]]


@dataclass(frozen=True, slots=True)
class Illustration:
    """A picture of a report."""

    name: str  # of its files, without suffix
    draw: Callable[[str], "Figure"]  # of the title
    title: str
    alt: str  # a description with its figures

    def save(self, folder: Path) -> Path:
        """Draws the picture and writes it as PNG, with an SVG beside it; returns the
        path of the PNG."""
        figure = self.draw(self.title)
        for kind in ("png", "svg"):
            atomic.write_bytes(
                folder / f"{self.name}.{kind}", style.rendered(figure, kind)
            )
        return folder / f"{self.name}.png"


def of(summary: Summary, batches: Batches) -> tuple[Illustration, ...]:
    """Selects the pictures for which this run or grid has data, the most important
    first."""
    if not summary.stored.is_grid:
        (only,) = summary.configurations
        return (
            *_curves("time", line_charts.times(summary), min),
            *of_configuration(only, batches),
        )
    throughput = _curves("throughput", line_charts.throughput(summary), max)
    fastest = _batches(summary.fastest, batches) if summary.fastest else ()
    return (*throughput, *_best(summary), *fastest)


def of_configuration(
    summary: ConfigurationSummary, batches: Batches
) -> tuple[Illustration, ...]:
    """Selects the pictures in the folder of a configuration."""
    return (*_stages(summary), *_batches(summary, batches))


def _stages(configuration: ConfigurationSummary) -> Iterator[Illustration]:
    stages = [
        *nested([stage for stage in configuration.stages if stage.saved is not None])
    ]
    if not stages:
        return
    outer = [stage for stage in stages if not stage.depth]
    shares = ", ".join(
        f"{stage.name} {units.share(stage.share)}" for stage in outer[:3]
    )
    alt = f"Shares of a sample's time in the worker: {shares}."
    saving = max(outer, key=lambda stage: stage.saved or 0.0)
    if saving.saved:
        alt += f" Without {saving.name} the epoch would take {units.share(saving.saved)} less."
    title = f"What makes a sample expensive: {configuration.label}"
    yield Illustration(plots.STAGES, partial(bars.draw_stages, stages), title, alt)


def _curves(
    name: str, chart: Chart, choose: Callable[..., Any]
) -> Iterator[Illustration]:
    if not chart.panels:
        return
    alt = f"{chart.quantity.capitalize()} against num_workers{chart.left_out}."
    if chart.recommended:
        panel, curve, best = choose(
            chart.recommended, key=lambda recommended: recommended[2].value
        )
        settings = f"num_workers={curve.best} {curve.changed}".rstrip()
        alt += f" The best: {units.rate(best)} with {settings}{_named(panel, curve.label)}."
    title = f"{name.capitalize()} against num_workers"
    yield Illustration(
        f"{name}_vs_num_workers", partial(line_charts.draw, chart), title, alt
    )


def _batches(
    configuration: ConfigurationSummary, batches: Batches
) -> Iterator[Illustration]:
    lines = batch_times.timelines(batches(configuration))
    if not lines:
        return
    best = None
    if configuration.best:
        best = (configuration.best.num_workers, configuration.changed_settings)
    draw = partial(batch_times.draw_timelines, lines, best=best)
    title = f"Time of each batch: {configuration.label}"
    alt = f"Waiting and step of each batch, {units.counted(len(lines), 'candidate')}, in the order of arrival."
    yield Illustration(plots.BATCH_TIMES, draw, title, alt)


def _best(summary: Summary) -> Iterator[Illustration]:
    best = bars.best_of_each(summary)
    if not best:
        return
    first, last = best[0], best[-1]
    settings = [f"{name}={value}" for name, value in first.cells.items()]
    alt = (
        f"The best settings of {units.counted(len(best), 'configuration')}, from "
        f"{units.rate(last.rate)} to {units.rate(first.rate)} {summary.rate_unit}; the "
        f"fastest has num_workers={first.num_workers}{_named(*settings)}."
    )
    draw = partial(bars.draw_best, best, unit=summary.rate_unit)
    yield Illustration(
        "best_per_configuration", draw, "Best setting per configuration", alt
    )


def _named(*names: str) -> str:
    short = [style.shortened(name, 60) for name in names if name]
    return f" ({', '.join(short)})" if short else ""
