"""The one style of all figures, how they are laid out, and how they are saved.

Drawn with ``matplotlib.figure.Figure``: no pyplot, no global state, no display. Everything is placed by hand, in inches
from the upper left corner: a layout that matplotlib finds by itself costs as much time as the drawing.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from nws_sweep import vector
from nws_sweep.disk import write_bytes
from nws_sweep.vector import GRID, INK, MUTED, PAPER, SERIES

COLOURS = SERIES
MARKERS = "osD^vX"
DASHES = ("-", (0, (4, 1.6)), (0, (1.2, 1.4)))
DPI = 120
WIDTH = 7.6  # inches
EDGE = 0.12  # inches left free around everything
BIG, NORMAL, SMALL = 11.0, 9.0, 8.0  # points
_LINE = 1.45  # height of a line of text, of its size
_TITLE_WIDTH = 78  # characters
_POINTS_PER_INCH = 72
_BELOW, _BESIDE = 0.27, 0.5  # inches from the axes to their labels
_HALF = 0.31  # of the height of a bar, in rows

# Text stays text, in fonts that most machines have; the same figure gives the same bytes.
_RENDERING: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "nws_sweep",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.family": ["sans-serif"],
    "text.hinting": "none",  # a tenth of the time
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


class Picture(Figure):
    """A figure that notebooks show by themselves, without pyplot."""

    def _repr_png_(self) -> bytes:
        return png(self)


@dataclass(frozen=True, slots=True)
class Box:
    """Where something stands in a figure, inches from its upper left corner."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An entry of a legend: its text, and the line or the patch that it explains."""

    text: str
    colour: str = ""  # empty for a text that explains the others
    marker: str = ""
    dash: Any = "-"
    hollow: bool = False
    patch: bool = False


def sheet(height: float, title: str, width: float = WIDTH) -> Picture:
    """An empty figure with its title.

    Args:
        height: Inches.
        title: Stands in the upper left corner; ``head`` tells how high it is.
        width: Inches.
    """
    figure = Picture(figsize=(width, height), dpi=DPI)
    figure.patch.set_gid(vector.BACKGROUND)
    write(figure, titled(title), EDGE, EDGE, size=BIG, weight="bold", va="top")
    return figure


def head(title: str) -> float:
    """Inches from the upper edge to where the title ends."""
    return EDGE + lines(titled(title).count("\n") + 1, BIG) + 0.08


def lines(count: int, size: float) -> float:
    """Height of lines of text, inches."""
    return count * size * _LINE / _POINTS_PER_INCH


def write(figure: Figure, text: str, left: float, top: float, *, size: float = SMALL, **how: Any) -> Text:
    """Text in the figure, inches from its upper left corner; what ``plain`` made of it."""
    width, height = figure.get_size_inches()
    return figure.text(left / width, 1 - top / height, text, fontsize=size, **{"color": INK, "va": "center"} | how)


def axes_at(figure: Figure, box: Box) -> Axes:
    """Axes without a frame, in the style of all."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes(
        (box.left / width, 1 - (box.top + box.height) / height, box.width / width, box.height / height)
    )
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set(color=MUTED, linewidth=0.8)
    axes.tick_params(color=MUTED, labelcolor=INK, labelsize=SMALL, length=3, width=0.8)
    axes.xaxis.label.set(color=INK, fontsize=SMALL)
    axes.yaxis.label.set(color=INK, fontsize=SMALL)
    axes.set_axisbelow(True)
    # Where titles and labels stand is told, or matplotlib measures all that is around them, which takes its time.
    caption(axes, "")
    axes.xaxis.set_label_coords(0.5, -_BELOW / box.height)
    axes.yaxis.set_label_coords(-_BESIDE / box.width, 0.5)
    return axes


def caption(axes: Axes, text: str, most: int = 40) -> None:
    """The title of one of several axes, in no more than so many characters."""
    axes.set_title(plain(shortened(text, most)), fontsize=SMALL, loc="left", y=1.0, pad=5, color=INK)


def row_bars(axes: Axes, lefts: Sequence[float], widths: Sequence[float], colour: str, edge: str = "none") -> None:
    """Horizontal bars, one in each row."""
    corners = [
        [(left, row - _HALF), (left + width, row - _HALF), (left + width, row + _HALF), (left, row + _HALF)]
        for row, (left, width) in enumerate(zip(lefts, widths, strict=True))
        if width > 0
    ]
    axes.add_collection(PolyCollection(corners, facecolors=colour, edgecolors=edge, linewidths=0.6), autolim=False)


def grid_lines(axes: Axes, axis: Any = "y") -> None:
    """Lines behind the data to read their height by."""
    axes.grid(axis=axis, color=GRID, linewidth=0.8)


def few(most: int, *, whole: bool = False) -> MaxNLocator:
    """Ticks at round numbers, or at whole ones, not more than so many."""
    return MaxNLocator(nbins=most, integer=whole, steps=[1, 2, 2.5, 5, 10])


def legend(figure: Figure, keys: Sequence[Key], left: float, top: float, width: float) -> None:
    """The entries side by side, in as many rows as they need."""
    for key, (x, row) in zip(keys, flow([_key_width(key) for key in keys], width), strict=True):
        draw_key(figure, key, left + x, top + lines(row, SMALL) + lines(1, SMALL) / 2)


def legend_height(keys: Sequence[Key], width: float) -> float:
    """Inches that ``legend`` takes."""
    places = flow([_key_width(key) for key in keys], width)
    return lines(places[-1][1] + 1, SMALL) if places else 0.0


def flow(widths: Sequence[float], available: float) -> list[tuple[float, int]]:
    """Where things of these widths go, left to right in rows: how far from the left, and in which row."""
    places, x, row = [], 0.0, 0
    for width in widths:
        if x and x + width > available:
            x, row = 0.0, row + 1
        places.append((x, row))
        x += width
    return places


def _key_width(key: Key) -> float:
    return (0.3 if key.colour else 0.0) + text_width(key.text) + 0.18


def draw_key(figure: Figure, key: Key, left: float, middle: float) -> None:
    """One entry: its sample, 0.22 inches wide, and its text."""
    if not key.colour:
        write(figure, plain(key.text), left, middle)
        return
    width, height = figure.get_size_inches()
    x, y = [left / width, (left + 0.22) / width], 1 - middle / height
    line = Line2D([*x], [y, y], color=key.colour, linewidth=7 if key.patch else 1.6, linestyle=key.dash)
    line.set_solid_capstyle("butt")
    figure.add_artist(line)
    if key.marker:
        face = PAPER if key.hollow else key.colour
        figure.add_artist(Line2D([sum(x) / 2], [y], marker=key.marker, color=key.colour, mfc=face, markersize=5, lw=0))
    write(figure, plain(key.text), left + 0.3, middle)


def plain(text: str) -> str:
    """The text as it is, in one line: between dollar signs matplotlib reads formulas."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).replace("$", r"\$")


def shortened(text: str, most: int) -> str:
    """The text with its middle left out if it is longer than so many characters: names differ at their ends."""
    if len(text) <= most:
        return text
    kept = max(2, most - 1)
    return f"{text[: kept // 2]}…{text[-(kept - kept // 2) :]}"


def titled(text: str) -> str:
    """The text in lines that fit the figure."""
    wrapped = textwrap.wrap(shortened(text, 3 * _TITLE_WIDTH), _TITLE_WIDTH, break_on_hyphens=False)
    return "\n".join(plain(line) for line in wrapped)


@lru_cache(maxsize=4096)
def text_width(text: str, size: float = SMALL) -> float:
    """Width of a line of text, inches."""
    with _unknown_letters_allowed():
        points, _, _ = text_to_path.get_text_width_height_descent(text or " ", FontProperties(size=size), False)
    return float(points) / _POINTS_PER_INCH


def spaced(count: int, most: int) -> set[int]:
    """Of so many things in a row, the numbers of at most ``most`` (two or more) at equal distances, both ends too."""
    return {round(step * (count - 1) / (most - 1)) for step in range(most)}


@contextmanager
def _unknown_letters_allowed() -> Iterator[None]:
    """Names may be written in any script: a letter that the font lacks is drawn as a box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Gg]lyph .* missing")
        warnings.filterwarnings("ignore", message=r"(?s)Matplotlib currently does not support")
        yield


def save(figure: Figure, path: Path) -> tuple[Path, Path]:
    """Writes the figure as a PNG and as an SVG.

    Args:
        figure: What to write.
        path: Without the suffixes, which are added.

    Returns:
        The PNG and the SVG.
    """
    as_png, as_svg = files(path)
    write_bytes(as_png, png(figure))
    write_bytes(as_svg, svg(figure).encode())
    return as_png, as_svg


def files(path: Path) -> tuple[Path, Path]:
    """The PNG and the SVG of a picture, by its path without a suffix."""
    return path.with_name(f"{path.name}.png"), path.with_name(f"{path.name}.svg")


def png(figure: Figure) -> bytes:
    """The figure as a PNG."""
    content = io.BytesIO()
    with matplotlib.rc_context(_RENDERING), _unknown_letters_allowed():
        figure.savefig(content, format="png", pil_kwargs={"compress_level": 3})
    return content.getvalue()


def svg(figure: Figure) -> str:
    """The figure as an SVG document: text is text, and the same figure gives the same document."""
    content = io.StringIO()
    with matplotlib.rc_context(_RENDERING), _unknown_letters_allowed():
        figure.savefig(content, format="svg", metadata=_NO_METADATA)
    return vector.compact(content.getvalue())
