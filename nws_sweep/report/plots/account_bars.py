"""Where the time goes, as horizontal bars of parts, a panel for each dataset; from a
pure value."""

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
from nws_sweep.records import Account, Part, Trial
from nws_sweep.report.plots import facets, style
from nws_sweep.report.plots.facets import BETWEEN
from nws_sweep.report.plots.style import COLOURS, LETTER, MUTED, WIDTH

_MOST_ROWS = 12  # of a dataset
_NAME = 2.1  # inches, the name of a row
_ROW = 0.24  # inches, the height of one with a name of one line
_HEIGHT = 0.7  # of a bar, in rows
_VISIBLE = 0.005  # of the time: a part that the legend names
# In the order of drawing; waiting and the training step as in the times of batches.
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
    has_step: bool = True  # whether any of the rows had a training step

    @property
    def left_out_text(self) -> str:
        """How many rows are not shown, in brackets; empty if all are."""
        if not self.left_out:
            return ""
        return f" ({units.counted(self.left_out, 'slower row')} left out)"

    def shows(self, part: Part) -> bool:
        """Whether the part is visible in a row."""
        return any(row.account.share(part) >= _VISIBLE for row in self.rows)


def panels_of(summary: Summary) -> dict[str, Panel]:
    """Collects where the time goes, by dataset: with the best settings of each
    configuration, or with each candidate of the only one."""
    within = facets.within_dataset(summary)
    panels = {}
    for dataset, configurations in facets.by_dataset(summary).items():
        quantity = facets.quantity_of(configurations)
        heading = "num_workers"
        if len(configurations) > 1:
            heading = f"{BETWEEN.join(within)}: num_workers"
        rows = _rows(configurations, within, quantity)
        if rows:
            has_step = any(c.configuration.has_step for c in configurations)
            panel = _panel(quantity, heading, rows)
            panels[dataset] = replace(panel, has_step=has_step)
    return dict([*panels.items()][: facets.MOST_DATASETS])


def _panel(quantity: Quantity, heading: str, rows: Sequence[Row]) -> Panel:
    """Makes a panel of the fastest rows, in their order."""
    fastest = sorted(rows, key=lambda row: row.account.total_s)[:_MOST_ROWS]
    shown = [row for row in rows if row in fastest]
    return Panel(quantity, heading, shown, len(rows) - len(shown))


def _rows(
    configurations: Sequence[ConfigurationSummary],
    within: Sequence[str],
    quantity: Quantity,
) -> list[Row]:
    """Makes a row for each candidate of a single configuration, or for the best
    settings of several, the fastest first."""
    rows = []
    if len(configurations) == 1:
        (only,) = configurations
        trials = [*only.worker_trials]
        if only.best and only.best not in trials:
            trials.append(only.best)
        rows = [_row(only, trial, quantity) for trial in trials]
    else:
        for configuration in sorted(configurations, key=lambda c: -c.best_rate):
            label = facets.label(configuration, within)
            rows.append(_row(configuration, configuration.best, quantity, label))
    return [row for row in rows if row]


def _row(
    configuration: ConfigurationSummary,
    trial: Trial | None,
    quantity: Quantity,
    label: str = "",
) -> Row | None:
    """Makes the bar of a trial; None if it is not known where its time goes."""
    account = accounts.account_of(trial)
    if not trial or not account or not account.total_s or trial.objective_s is None:
        return None
    changed = configuration.configuration.differing(trial.settings)
    is_answer = trial is configuration.answer
    name = str(trial.num_workers)
    if label:
        name = f"{label}: {name}"
    elif is_answer:
        name = f"{name} (answer)"
    name = f"{name} {changed}".rstrip()
    uncertainty = units.uncertainty(facets.time_with_interval(trial, quantity))
    return Row(
        name=name,
        num_workers=trial.num_workers,
        label=label,
        is_answer=is_answer,
        account=account,
        total=units.seconds(account.total_s, uncertainty),
    )


@style.styled()
def draw(panels: Mapping[str, Panel], title: str) -> Figure:
    """Draws a panel for each dataset, and in it a bar for each row, the parts in the
    order of ``Part``."""
    heights = [0.75 + _height(panel) for panel in panels.values()]
    figure, places = style.panels(
        title, len(panels), sum(heights) / len(heights), height_ratios=heights
    )
    names = [row.name for panel in panels.values() for row in panel.rows]
    longest = min(_NAME, LETTER * max(map(len, names)))
    room = WIDTH - longest - 0.6  # inches, for titles
    for axes, (dataset, panel) in zip(places, panels.items(), strict=True):
        _draw_panel(axes, panel)
        lines = [style.fitting(dataset, room)] if dataset else []
        lines.append(style.in_two_lines(panel.heading, room))
        axes.set_title("\n".join(lines))
    has_step = any(panel.has_step for panel in panels.values())
    entries = [
        Patch(color=colour, label=accounts.name_of(part, has_step=has_step))
        for part, colour in _COLOURS.items()
        if any(panel.shows(part) for panel in panels.values())
    ]
    style.legend(figure, entries)
    return figure


def _names(panel: Panel) -> list[str]:
    return [style.in_two_lines(row.name, _NAME) for row in panel.rows]


def _height(panel: Panel) -> float:
    """The height of the bars, inches: names of two lines must not touch."""
    lines = 1 + max(name.count("\n") for name in _names(panel))
    return len(panel.rows) * (_ROW + style.LINE * (lines - 1))


def _draw_panel(axes: Axes, panel: Panel) -> None:
    """Draws the bars, and the whole time behind them."""
    totals_s = [row.account.total_s for row in panel.rows]
    factor, unit = style.time_unit(max(totals_s))
    ends = np.zeros(len(panel.rows))
    for part, colour in _COLOURS.items():
        seconds = [row.account.seconds[part] for row in panel.rows]
        lengths = factor * np.array(seconds)
        bars = axes.barh(range(len(ends)), lengths, _HEIGHT, left=ends, color=colour)
        ends += lengths
    axes.bar_label(bars, [row.total for row in panel.rows], padding=4)
    style.name_rows(axes, _names(panel))
    axes.set_xlim(0, 1.2 * factor * max(totals_s))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"{unit} per {panel.quantity.value}{panel.left_out_text}")
