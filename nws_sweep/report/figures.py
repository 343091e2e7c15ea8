"""The pictures of a report, the most important first; each is drawn on request from a
pure value."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nws_sweep import units
from nws_sweep.analysis import accounts
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.model.stages import nested
from nws_sweep.records import BatchTime, atomic
from nws_sweep.report import plots
from nws_sweep.report.plots import (
    account_bars,
    batch_times,
    line_charts,
    stage_bars,
    style,
)
from nws_sweep.report.plots.line_charts import Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMES = "time_vs_num_workers"
ACCOUNTS = "where_the_time_goes"
_MOST_NAMED = 4  # datasets in a description
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
    of_all = (*_times(summary), *_accounts(summary))
    if summary.stored.is_grid:
        return of_all
    (only,) = summary.configurations
    return (*of_all, *of_configuration(only, batches))


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
    yield Illustration(plots.STAGES, partial(stage_bars.draw, stages), title, alt)


def _times(summary: Summary) -> Iterator[Illustration]:
    chart = line_charts.times(summary)
    if not chart.panels:
        return
    answers = [_answer(name, panel) for name, panel in chart.panels.items()]
    alt = f"Time against num_workers{chart.left_out}{_listed(answers)}"
    title = "Time against num_workers"
    yield Illustration(TIMES, partial(line_charts.draw, chart), title, alt)


def _answer(dataset: str, panel: Panel) -> str:
    fastest = panel.fastest
    if fastest is None or fastest.value is None:
        return ""
    settings = f"num_workers={fastest.best} {fastest.changed}".rstrip()
    answer = f"{_short(dataset)}{settings}{_bracketed(fastest.label)}"
    time = units.interval(fastest.value)
    if time == units.UNKNOWN:
        return f"{answer}, whose time is still unknown"
    return f"{answer} takes {time} per {panel.quantity.value}"


def _accounts(summary: Summary) -> Iterator[Illustration]:
    panels = account_bars.panels_of(summary)
    if not panels:
        return
    largest = [_largest_part(name, panel) for name, panel in panels.items()]
    title = "Where the time goes"
    draw = partial(account_bars.draw, panels)
    yield Illustration(ACCOUNTS, draw, title, f"{title}{_listed(largest)}")


def _largest_part(dataset: str, panel: account_bars.Panel) -> str:
    """Says what takes most of the time with the answer; without one, with the fastest
    settings."""
    fastest = min(panel.rows, key=lambda row: row.account.total_s)
    row = next((row for row in panel.rows if row.is_answer), fastest)
    part = next(iter(row.account.seconds))
    name = accounts.name_of(part, has_step=panel.has_step)
    share = units.share(row.account.share(part))
    settings = f"num_workers={row.num_workers}{_bracketed(row.label)}"
    return f"{_short(dataset)}{name} {share} with {settings}"


def _listed(sentences: Sequence[str]) -> str:
    """Joins what is known of the first datasets, after a colon."""
    filled = [sentence for sentence in sentences if sentence]
    shown, left_out = "; ".join(filled[:_MOST_NAMED]), len(filled) - _MOST_NAMED
    more = f"; and {left_out} more" if left_out > 0 else ""
    return f": {shown}{more}." if shown else "."


def _batches(
    configuration: ConfigurationSummary, batches: Batches
) -> Iterator[Illustration]:
    lines = batch_times.timelines(batches(configuration))
    if not lines:
        return
    best, answer = None, configuration.answer
    if answer:
        best = (answer.num_workers, configuration.changed_settings)
    draw = partial(batch_times.draw_timelines, lines, best=best)
    title = f"Time of each batch: {configuration.label}"
    alt = "Waiting and step of each batch, in the order of arrival."
    yield Illustration(plots.BATCH_TIMES, draw, title, alt)


def _short(dataset: str) -> str:
    if dataset:
        return f"{style.shortened(dataset, 60)}: "
    return ""


def _bracketed(label: str) -> str:
    if label:
        return f" ({style.shortened(label, 60)})"
    return ""
