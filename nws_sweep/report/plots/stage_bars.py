"""The stages of a sample: the share of a worker's time that each takes, beside what the epoch would save without it."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.model.stages import Stage
from nws_sweep.report.plots import style
from nws_sweep.report.plots.style import COLOURS

_HEIGHT = 0.38  # of a bar, in rows
_NAME = 3.0  # inches


@style.styled()
def draw(stages: Sequence[Stage], title: str) -> Figure:
    """Draws two bars for each stage whose saving is known."""
    figure, (axes,) = style.panels(title, 1, 1, 1.0 + 0.42 * len(stages))
    places = np.arange(len(stages))
    shares = [100 * stage.share for stage in stages]
    saved = [100 * max(0.0, stage.saved or 0.0) for stage in stages]  # 0 if the epoch would take longer
    workers = [units.counted(stage.workers_without or 0, "worker") for stage in stages]
    upper = axes.barh(places - _HEIGHT / 2, shares, _HEIGHT, color=COLOURS[0])
    lower = axes.barh(places + _HEIGHT / 2, saved, _HEIGHT, color=COLOURS[1])
    axes.bar_label(upper, fmt="{:.0f} %", padding=4)
    savings = [f"{percent:.0f} %, then {enough}" for percent, enough in zip(saved, workers, strict=True)]
    axes.bar_label(lower, savings, padding=4)
    axes.legend([upper, lower], ["share of a sample's time", "share of the epoch saved if it took no time"])
    style.name_rows(axes, [style.fitting(stage.label[::-1], _NAME)[::-1] for stage in stages])
    axes.set_xlim(0, 1.25 * max([*shares, *saved]))
    axes.set_xlabel("percent")
    return figure
