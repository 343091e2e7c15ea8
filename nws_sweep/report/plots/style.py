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
_CUT = 1.5  # times the largest value, where intervals end at the latest
_ROOM = 1.2  # times the largest value on a logarithmic axis, at least
_GROUPED_FROM = 10_000  # numbers with a comma
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


def scale_values(axes: Axes, values: Sequence[float]) -> None:
    """Labels the vertical axis, which begins at 0, or is logarithmic if the values
    differ widely.

    The values decide its length: an interval that is much longer is cut.
    """
    low, high = axes.get_ylim()
    if max(values) > _LOG_FROM * min(values) > 0:
        axes.set_yscale("log")
        bottom, top = min(values) / _CUT, max(values) * _CUT
        # the ends were chosen for a linear axis, where points are farther from them
        axes.set_ylim(max(low, bottom), min(max(high, max(values) * _ROOM), top))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, min(high, max(values) * _CUT) or None)
        axes.yaxis.set_major_locator(MaxNLocator(5, min_n_ticks=_TICKS))
    axes.yaxis.set_major_formatter(
        lambda value, _: f"{value:,.0f}" if value >= _GROUPED_FROM else f"{value:.6g}"
    )


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names the rows, the first one on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def time_unit(shortest_s: float) -> tuple[float, str]:
    """Selects the unit of an axis by its shortest time, as tables write it: how many
    there are in a second, and its name."""
    for least_s, factor, name in _TIME_UNITS:
        if shortest_s >= least_s:
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


def ending(text: str, inches: float) -> str:
    """Writes the end of the text in a line of about this width: names of code differ
    there."""
    line, most = plain(text), int(inches / LETTER)
    if len(line) <= most:
        return line
    return f"…{line[1 - most :]}"


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
