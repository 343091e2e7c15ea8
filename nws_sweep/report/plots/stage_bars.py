"""What makes a sample expensive, as horizontal bars, from a pure value.

A stage has two: its share of a worker's time, and what the epoch would save without it.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from nws_sweep import units
from nws_sweep.model.stages import Stage
from nws_sweep.report.plots import style
from nws_sweep.report.plots.style import COLOURS

_NAME = 2.1  # inches, the name of a stage
_HEIGHT = 0.38  # of a bar, in rows


@style.styled()
def draw(stages: Sequence[Stage], title: str) -> Figure:
    """Draws two bars for each stage whose saving is known."""
    figure, (axes,) = style.panels(title, 1, 0.6 + 0.46 * len(stages))
    places = np.arange(len(stages))
    shares = [100 * stage.share for stage in stages]
    # 0 if the epoch would take longer
    saved = [100 * max(0.0, stage.saved or 0.0) for stage in stages]
    workers = [units.counted(stage.workers_without or 0, "worker") for stage in stages]
    upper = axes.barh(
        places - _HEIGHT / 2,
        shares,
        _HEIGHT,
        color=COLOURS[0],
        label="share of a sample's time",
    )
    lower = axes.barh(
        places + _HEIGHT / 2,
        saved,
        _HEIGHT,
        color=COLOURS[1],
        label="share of the epoch saved if it took no time",
    )
    axes.bar_label(upper, fmt="{:.0f} %", padding=4)
    savings = [
        f"{percent:.0f} %, then {enough}"
        for percent, enough in zip(saved, workers, strict=True)
    ]
    axes.bar_label(lower, savings, padding=4)
    style.name_rows(axes, [style.ending(stage.label, _NAME) for stage in stages])
    axes.set_xlim(0, 150)  # with room for the texts
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel("percent")
    style.legend(figure, [upper, lower])
    return figure
