"""Horizontal bars, from pure values: where the time goes, and the stages of a sample.

A stage has two: its share of a worker's time, and what the epoch would save without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from nws_sweep import units
from nws_sweep.analysis import accounts
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Quantity
from nws_sweep.model.stages import Stage
from nws_sweep.records import Account, Part, Trial
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import BETWEEN
from nws_sweep.report.plots.style import COLOURS, MUTED, WIDTH

MOST_PANELS = 12  # of one picture, one for each dataset
_MOST_ROWS = 12  # of a dataset
_NAME = 2.0  # inches, the name of a row
_ROW = 0.24  # inches, its height
_HEIGHT = 0.7  # of a bar, in rows
_STAGE_HEIGHT = 0.38
_VISIBLE = 0.005  # of the time: a part that the legend names
# waiting and the training step as in the times of batches
_COLOURS: Mapping[Part, str] = {
    Part.STEP: COLOURS[1],
    Part.MAKING: COLOURS[0],
    Part.SAMPLER: COLOURS[5],
    Part.MAIN: COLOURS[3],
    Part.STARTING: COLOURS[2],
    Part.OTHERS: COLOURS[4],
    Part.UNSEEN: MUTED,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A bar."""

    account: Account
    total: str  # its whole time, with the digits that its interval leaves


@dataclass(frozen=True, slots=True)
class Panel:
    """The accounts of one dataset."""

    quantity: Quantity  # of which each account is
    heading: str  # what the names of the rows are
    rows: dict[str, Row]  # by name
    left_out: int = 0  # rows that are not shown


def account_panels(summary: Summary) -> dict[str, Panel]:
    """Collects where the time goes, by dataset: with the answer of each configuration,
    or with each candidate of the only one."""
    panels = {}
    for dataset, configurations in facets.by_dataset(summary).items():
        if len(configurations) == 1:
            panel = _of_candidates(configurations[0])
        else:
            panel = _of_answers(configurations, facets.within_dataset(summary))
        if panel.rows:
            panels[dataset] = panel
    return dict([*panels.items()][:MOST_PANELS])


def _of_candidates(configuration: ConfigurationSummary) -> Panel:
    trials = [*configuration.worker_trials]
    best = configuration.best
    if best and best not in trials:
        trials.append(best)
    rows = {_name(configuration, trial): trial for trial in trials}
    return _panel([configuration], "num_workers", rows)


def _of_answers(
    configurations: Sequence[ConfigurationSummary], within: Sequence[str]
) -> Panel:
    heading = f"{BETWEEN.join(within)}: num_workers"
    rows = {}
    for configuration in sorted(configurations, key=lambda c: -c.best_rate):
        if configuration.best:
            workers = _name(configuration, configuration.best)
            rows[f"{facets.label(configuration, within)}: {workers}"] = (
                configuration.best
            )
    return _panel(configurations, heading, rows)


def _name(configuration: ConfigurationSummary, trial: Trial) -> str:
    changed = configuration.configuration.differing(trial.settings)
    return f"{trial.num_workers} {changed}".rstrip()


def _panel(
    configurations: Sequence[ConfigurationSummary],
    heading: str,
    trials: Mapping[str, Trial],
) -> Panel:
    quantity, rows = facets.quantity_of(configurations), {}
    for name, trial in trials.items():
        account = accounts.account_of(trial)
        if account and account.total_s and trial.objective_s is not None:
            uncertainty = units.uncertainty(facets.time_with_interval(trial, quantity))
            rows[name] = Row(account, units.seconds(account.total_s, uncertainty))
    return Panel(
        quantity=quantity,
        heading=heading,
        rows=dict([*rows.items()][:_MOST_ROWS]),
        left_out=max(0, len(rows) - _MOST_ROWS),
    )


@style.styled()
def draw_accounts(panels: Mapping[str, Panel], title: str) -> Figure:
    """Draws a panel for each dataset, and in it a bar for each row, the parts in the
    order of ``Part``."""
    heights = [0.55 + _ROW * len(panel.rows) for panel in panels.values()]
    figure, all_axes = style.panels(
        title, len(panels), sum(heights) / len(heights), height_ratios=heights
    )
    shown = set()
    for axes, (dataset, panel) in zip(all_axes, panels.items(), strict=True):
        heading = BETWEEN.join(filter(None, (dataset, panel.heading)))
        axes.set_title(style.fitting(heading, WIDTH - 0.6))
        shown |= _draw_accounts(axes, panel)
    entries = [
        Patch(color=_COLOURS[part], label=part.value) for part in Part if part in shown
    ]
    style.legend(figure, entries)
    return figure


def _draw_accounts(axes: Axes, panel: Panel) -> set[Part]:
    """Draws the bars, and the whole time behind them; returns the parts that are
    visible."""
    accounts_shown = [row.account for row in panel.rows.values()]
    longest_s = max(account.total_s for account in accounts_shown)
    factor, unit = style.time_unit(longest_s)
    rows = range(len(accounts_shown))
    ends, shown = np.zeros(len(rows)), set()
    for part in Part:
        lengths = np.array([factor * account.seconds[part] for account in accounts_shown])
        bars = axes.barh(rows, lengths, _HEIGHT, left=ends, color=_COLOURS[part])
        ends += lengths
        if any(account.share(part) >= _VISIBLE for account in accounts_shown):
            shown.add(part)
    axes.bar_label(bars, [row.total for row in panel.rows.values()], padding=4)
    _name_rows(axes, [style.fitting(name, _NAME) for name in panel.rows])
    axes.set_xlim(0, 1.2 * factor * longest_s)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    label = f"{unit} per {panel.quantity.value}"
    if panel.left_out:
        label += f" ({units.counted(panel.left_out, 'slower row')} left out)"
    axes.set_xlabel(label)
    return shown


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names the rows, the first one on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


@style.styled()
def draw_stages(stages: Sequence[Stage], title: str) -> Figure:
    """Draws two bars for each stage whose saving is known."""
    figure, (axes,) = style.panels(title, 1, 0.6 + 0.46 * len(stages))
    places = np.arange(len(stages))
    shares = [100 * stage.share for stage in stages]
    # 0 if the epoch would take longer
    saved = [100 * max(0.0, stage.saved or 0.0) for stage in stages]
    workers = [units.counted(stage.workers_without or 0, "worker") for stage in stages]
    upper = axes.barh(
        places - _STAGE_HEIGHT / 2, shares, _STAGE_HEIGHT, color=COLOURS[0],
        label="share of a sample's time",
    )  # fmt: skip
    lower = axes.barh(
        places + _STAGE_HEIGHT / 2, saved, _STAGE_HEIGHT, color=COLOURS[1],
        label="share of the epoch saved if it took no time",
    )  # fmt: skip
    axes.bar_label(upper, fmt="{:.0f} %", padding=4)
    savings = [
        f"{percent:.0f} %, then {enough}"
        for percent, enough in zip(saved, workers, strict=True)
    ]
    axes.bar_label(lower, savings, padding=4)
    _name_rows(axes, [style.ending(stage.label, _NAME) for stage in stages])
    axes.set_xlim(0, 1.6 * max([*shares, *saved]))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel("percent")
    style.legend(figure, [upper, lower])
    return figure
