from __future__ import annotations

import re
from pathlib import Path

from nws_sweep import drawing
from nws_sweep.drawing import Picture


@drawing.styled
def figure() -> Picture:
    made, (axes,) = drawing.panels("What <script>alert(1)</script> $took$", 1, 1, 1.0)
    drawing.legend(made, axes.plot([0, 1], [1.0, 1 / 3], "o-", label="数"), "key")
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
