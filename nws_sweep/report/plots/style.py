"""The style of all figures, and how they are saved.

Figures are made as ``matplotlib.figure.Figure``, without pyplot or a display, and
placed by constrained layout.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from nws_sweep.records import Estimate

# Okabe and Ito's colours for colour-blind readers, some left out or darkened: each
# has a contrast of at least 3 to white, as WCAG asks for graphics. The last one is the
# ink.
INK = "#1f2328"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#3a93c9", INK)
MUTED = "#858585"  # secondary lines
BAND = "#e9e9e9"
PAPER = "#ffffff"
MARKERS = "osD^vX"
DASHES = ("-", (0, (4, 1.6)), (0, (1.2, 1.4)))
# inches: the letters of a picture that is as wide as a phone stay legible
WIDTH = 5.2
LINE = 0.2  # inches, a line of text
TITLE = 0.4  # inches, a title of one line
LETTER = 0.087  # inches, an average letter
_TITLE_WIDTH = 50  # characters
_LOG_FROM = 20  # largest / smallest value from which an axis is logarithmic
_ROOM = 1.2  # times the largest value, and below the smallest, on a logarithmic axis
_TICKS = 3  # labelled on each axis, at least
# seconds from which a unit is used, units of a second
_TIME_UNITS = ((120.0, 1 / 60, "min"), (1.0, 1.0, "s"), (1e-3, 1e3, "ms"))

_STYLE = matplotlib.rc_params_from_file(
    Path(__file__).parents[1] / "templates/figures.mplstyle", use_default_template=False
)
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@contextmanager
def styled() -> Iterator[None]:
    """Applies the style, also as a decorator; letters that the font lacks are drawn as
    boxes, without a warning."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Gg]lyph .* missing")
        warnings.filterwarnings(
            "ignore", message=r"(?s)Matplotlib currently does not support"
        )
        yield


class Picture(Figure):
    """A figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        return rendered(self, "png")


def panels(
    title: str, count: int, row: float, **how: Any
) -> tuple[Picture, list[Axes]]:
    """Makes a figure with a title and ``count`` axes below each other, which are
    ``row`` inches high."""
    lines = textwrap.wrap(
        shortened(title, 3 * _TITLE_WIDTH), _TITLE_WIDTH, break_on_hyphens=False
    )
    size = WIDTH, TITLE + LINE * (len(lines) - 1) + count * row
    figure = Picture(
        figsize=size, dpi=120, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
    )
    figure.suptitle(
        "\n".join(map(plain, lines)), x=0.01, ha="left", size=11, weight="bold"
    )
    return figure, [*figure.subplots(count, 1, squeeze=False, **how).flat]


def legend(
    figure: Figure, entries: Sequence[Artist | Container], title: str = ""
) -> None:
    """Places the entries below the panels, in as many columns as fit."""
    longest = max(len(str(entry.get_label())) for entry in entries)
    columns = max(1, int(figure.get_figwidth() / (LETTER * longest + 0.5)))
    rows = -(-len(entries) // columns) + bool(title)
    figure.set_figheight(figure.get_figheight() + 0.1 + 1.2 * LINE * rows)
    figure.legend(
        handles=list(entries),
        loc="outside lower left",
        ncols=columns,
        title=title or None,
        alignment="left",
    )


def scale_times(axes: Axes, times_s: Sequence[float]) -> str:
    """Scales the vertical axis to times in s, and labels it in their units: from 0, or
    logarithmic if they differ widely.

    Args:
        axes: The panel.
        times_s: All that is drawn, with the ends of intervals.

    Returns:
        What the label begins with: the unit, or that each tick has its own.
    """
    shortest_s, longest_s = min(times_s), max(times_s)
    if longest_s > _LOG_FROM * shortest_s > 0:
        axes.set_yscale("log")
        axes.set_ylim(shortest_s / _ROOM, longest_s * _ROOM)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda time_s, _: _in_its_unit(time_s))
        axes.yaxis.set_minor_formatter(NullFormatter())
        return "log time"
    factor, unit = time_unit(longest_s)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(TimeLocator(factor))
    axes.yaxis.set_major_formatter(lambda time_s, _: f"{factor * time_s:.6g}")
    return unit


class TimeLocator(MaxNLocator):
    """Places ticks at round numbers of a unit on an axis in s."""

    def __init__(self, factor: float) -> None:
        super().__init__(5, min_n_ticks=_TICKS)
        self._factor = factor

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Places ticks between two times in s."""
        factor = self._factor
        ticks = super().tick_values(factor * vmin, factor * vmax)
        return [tick / factor for tick in ticks]


def _in_its_unit(time_s: float) -> str:
    # round numbers of seconds are no round numbers of minutes
    factor, unit = time_unit(min(time_s, 1.0))
    return f"{factor * time_s:.6g} {unit}"


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names the rows, the first one on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def time_unit(longest_s: float) -> tuple[float, str]:
    """Selects the unit of an axis by its longest time, as tables write it: how many
    there are in a second, and its name."""
    for least_s, factor, name in _TIME_UNITS:
        if longest_s >= least_s:
            return factor, name
    return 1e6, "µs"


def errors(estimates: Sequence[Estimate]) -> NDArray[np.float64]:
    """Computes the distances from each value to both ends of its interval, for ``xerr``
    and ``yerr``."""
    values = [estimate.value for estimate in estimates]
    ends = np.transpose([estimate.ends for estimate in estimates])
    return np.abs(ends - values)


def plain(text: str) -> str:
    """Removes line breaks and control characters from a text."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())


def shortened(text: str, most: int) -> str:
    """Cuts the middle of texts longer than ``most`` characters: names differ at their
    ends."""
    if len(text) <= most:
        return text
    kept = max(2, most - 1)
    before = kept // 2
    return f"{text[:before]}…{text[before - kept :]}"


def fitting(text: str, inches: float) -> str:
    """Writes the text in a line, shortened to about this width."""
    return shortened(plain(text), int(inches / LETTER))


def ending(name: str, inches: float) -> str:
    """Writes a name of code in a line of about this width: without the packages and
    classes that stand before its end, if they do not fit."""
    line, most = plain(name), int(inches / LETTER)
    while len(line) > most and "." in line.rstrip("."):
        line = line.partition(".")[2]
    if len(line) <= most:
        return line
    return f"…{line[1 - most :]}"


def in_two_lines(text: str, inches: float) -> str:
    """Writes the text in at most two lines of about this width, shortened if it is
    longer."""
    most = int(inches / LETTER)
    lines = textwrap.wrap(plain(text), most, break_on_hyphens=False)
    if len(lines) > 2:
        lines = [lines[0], shortened(" ".join(lines[1:]), most)]
    return "\n".join(lines)


def wrapped(text: str, inches: float) -> str:
    """Breaks the text into lines of about this width."""
    return textwrap.fill(plain(text), int(inches / LETTER))


def rendered(figure: Figure, kind: str) -> bytes:
    """Renders the figure as ``png`` or ``svg``; an SVG keeps text as text, and equal
    figures give equal documents."""
    content = io.BytesIO()
    with styled():
        figure.savefig(
            content, format=kind, metadata=_NO_METADATA if kind == "svg" else None
        )
    if kind == "png":
        return content.getvalue()
    # Coordinates are cut to hundredths of a point.
    return re.sub(
        rb"<path[^>]*>",
        lambda tag: re.sub(rb"(\.\d\d)\d+", rb"\1", tag[0]),
        content.getvalue(),
    )
