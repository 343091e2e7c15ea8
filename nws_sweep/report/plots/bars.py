"""Horizontal bars, from pure values: where the time goes, and the stages of a sample.

A stage has two: its share of a worker's time, and what the epoch would save without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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

_MOST_ROWS = 12  # of a dataset
_NAME = 2.1  # inches, the name of a row
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

    name: str
    num_workers: int
    label: str  # of its configuration; empty if there is only one
    is_answer: bool
    account: Account
    total: str  # its whole time, with the digits that its interval leaves


@dataclass(frozen=True, slots=True)
class Panel:
    """The accounts of one dataset."""

    quantity: Quantity  # of which each account is
    heading: str  # what the names of the rows are
    rows: list[Row]
    left_out: int = 0  # slower rows that are not shown


def account_panels(summary: Summary) -> dict[str, Panel]:
    """Collects where the time goes, by dataset: with the best settings of each
    configuration, or with each candidate of the only one."""
    within = facets.within_dataset(summary)
    panels = {}
    for dataset, configurations in facets.by_dataset(summary).items():
        quantity = facets.quantity_of(configurations)
        if len(configurations) == 1:
            heading = "num_workers"
            rows = _of_candidates(configurations[0], quantity)
        else:
            heading = f"{BETWEEN.join(within)}: num_workers"
            rows = _of_configurations(configurations, within, quantity)
        if rows:
            fastest = sorted(rows, key=lambda row: row.account.total_s)[:_MOST_ROWS]
            shown = [row for row in rows if row in fastest]
            panels[dataset] = Panel(quantity, heading, shown, len(rows) - len(shown))
    return dict([*panels.items()][: facets.MOST_DATASETS])


def _of_candidates(
    configuration: ConfigurationSummary, quantity: Quantity
) -> list[Row]:
    trials = [*configuration.worker_trials]
    best = configuration.best
    if best and best not in trials:
        trials.append(best)
    rows = []
    for trial in trials:
        row = _row(configuration, trial, quantity)
        if row and row.is_answer:
            row = replace(row, name=f"{row.name} (answer)")
        rows.append(row)
    return [row for row in rows if row]


def _of_configurations(
    configurations: Sequence[ConfigurationSummary],
    within: Sequence[str],
    quantity: Quantity,
) -> list[Row]:
    rows = []
    for configuration in sorted(configurations, key=lambda c: -c.best_rate):
        row = _row(configuration, configuration.best, quantity)
        if row:
            label = facets.label(configuration, within)
            rows.append(replace(row, name=f"{label}: {row.name}", label=label))
    return rows


def _row(
    configuration: ConfigurationSummary, trial: Trial | None, quantity: Quantity
) -> Row | None:
    """Makes the bar of a trial; None if it is not known where its time goes."""
    account = accounts.account_of(trial)
    if not trial or not account or not account.total_s or trial.objective_s is None:
        return None
    changed = configuration.configuration.differing(trial.settings)
    uncertainty = units.uncertainty(facets.time_with_interval(trial, quantity))
    return Row(
        name=f"{trial.num_workers} {changed}".rstrip(),
        num_workers=trial.num_workers,
        label="",
        is_answer=trial is configuration.answer,
        account=account,
        total=units.seconds(account.total_s, uncertainty),
    )


@style.styled()
def draw_accounts(panels: Mapping[str, Panel], title: str) -> Figure:
    """Draws a panel for each dataset, and in it a bar for each row, the parts in the
    order of ``Part``."""
    heights = [0.75 + _ROW * len(panel.rows) for panel in panels.values()]
    figure, all_axes = style.panels(
        title, len(panels), sum(heights) / len(heights), height_ratios=heights
    )
    shown = set()
    for axes, (dataset, panel) in zip(all_axes, panels.items(), strict=True):
        axes.set_title(
            "\n".join(
                style.fitting(line, WIDTH - _NAME - 0.6)
                for line in (dataset, panel.heading)
                if line
            )
        )
        shown |= _draw_accounts(axes, panel)
    entries = [
        Patch(color=_COLOURS[part], label=part.value) for part in Part if part in shown
    ]
    style.legend(figure, entries)
    return figure


def _draw_accounts(axes: Axes, panel: Panel) -> set[Part]:
    """Draws the bars, and the whole time behind them; returns the parts that are
    visible."""
    accounts_shown = [row.account for row in panel.rows]
    totals_s = [account.total_s for account in accounts_shown]
    factor, unit = style.time_unit(min(totals_s))
    rows = range(len(accounts_shown))
    ends, shown = np.zeros(len(rows)), set()
    for part in Part:
        lengths = np.array(
            [factor * account.seconds[part] for account in accounts_shown]
        )
        bars = axes.barh(rows, lengths, _HEIGHT, left=ends, color=_COLOURS[part])
        ends += lengths
        if any(account.share(part) >= _VISIBLE for account in accounts_shown):
            shown.add(part)
    axes.bar_label(bars, [row.total for row in panel.rows], padding=4)
    _name_rows(axes, [style.fitting(row.name, _NAME) for row in panel.rows])
    axes.set_xlim(0, 1.2 * factor * max(totals_s))
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
    axes.set_xlim(0, 150)  # with room for the texts
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel("percent")
    style.legend(figure, [upper, lower])
    return figure
