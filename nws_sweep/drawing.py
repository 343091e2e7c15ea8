"""The one style of all figures, and how they are saved.

Drawn with ``matplotlib.figure.Figure``: no pyplot, no global state, no display.
"""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nws_sweep.storage import write_bytes

# Okabe and Ito's palette, which colour-blind people can tell apart, less its yellow, which white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
GREY, FAINT = "#BBBBBB", "#DDDDDD"
DPI = 120


class Picture(Figure):
    """A figure that notebooks show by themselves, without pyplot."""

    def _repr_png_(self) -> bytes:
        return png(self)


def plain(text: str) -> str:
    """The text as it is: between dollar signs matplotlib reads formulas."""
    return text.replace("$", r"\$")


def titled(text: str) -> str:
    """The text in lines that fit the narrowest figure."""
    return plain(textwrap.fill(text, 70, break_on_hyphens=False))


def stacked(figure: Figure, count: int, *, same_height: bool = False) -> list[Axes]:
    """So many axes, one below the other."""
    if not count:
        return []
    return [axes for row in figure.subplots(count, squeeze=False, sharey=same_height) for axes in row]


def tidy(axes: Axes) -> None:
    """Only the lines that are read."""
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    """Writes the figure as a PNG."""
    write_bytes(path, png(figure))


def png(figure: Figure) -> bytes:
    """The figure as a PNG."""
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()
