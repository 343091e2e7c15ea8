from __future__ import annotations

import re
from pathlib import Path

import pytest
from matplotlib.lines import Line2D

from nws_sweep import drawing
from nws_sweep.drawing import Picture

NAME = "What <script>alert(1)</script> $took$"


@drawing.styled
def figure(title: str = NAME, count: int = 1, label: str = "数") -> Picture:
    made, panels = drawing.panels(title, count, 2, 1.0)
    for axes in panels:
        axes.plot([0, 1], [1.0, 1 / 3], "o-", color=drawing.COLOURS[0])
    drawing.legend(made, [Line2D([], [], label=label)] * 8, "key")
    return made


def test_a_long_name_keeps_its_ends() -> None:
    assert drawing.shortened("abcdefghij", 10) == "abcdefghij"
    assert drawing.shortened("abcdefghijk", 7) == "abc…ijk"
    assert drawing.fitting("a\n$x$\tb" + 80 * "c", 7 * drawing.LETTER) == "a $…ccc"


def test_a_figure_is_saved_as_png_and_svg_beside_each_other(tmp_path: Path) -> None:
    paths = drawing.save(figure(), tmp_path / "scaling")
    assert [path.name for path in paths] == ["scaling.png", "scaling.svg"]
    assert [path.read_bytes()[:5] for path in paths] == [b"\x89PNG\r", b"<?xml"]
    assert figure()._repr_png_() == paths[0].read_bytes()


def test_a_document_has_text_as_text_without_dates_and_is_the_same_again() -> None:
    text = drawing.rendered(figure(), "svg").decode()
    assert "What &lt;script&gt;alert(1)&lt;/script&gt; $took$" in text
    assert "'DejaVu Sans', 'Verdana', sans-serif" in text
    assert not re.search(r"<dc:date>|Matplotlib v|<metadata", text)
    assert text == drawing.rendered(figure(), "svg").decode()


def test_there_is_room_for_the_title_the_panels_and_a_legend_in_as_many_columns_as_fit() -> None:
    short, long = figure(), figure("word " * 40, 3, "a long name " * 3)
    assert (len(short.axes), len(long.axes)) == (1, 3)
    assert [made.legends[0]._ncols for made in (short, long)] == [13, 2]  # type: ignore[attr-defined]
    rows, lines = 1, 2
    more_of_legend = 1.2 * (4 - 1) * drawing.LINE
    more = rows + lines * drawing.LINE + more_of_legend
    assert long.get_figheight() - short.get_figheight() == pytest.approx(more)
