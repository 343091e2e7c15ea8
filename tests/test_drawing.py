from __future__ import annotations

from pathlib import Path

from nws_sweep import drawing


def test_things_go_side_by_side_in_as_many_rows_as_they_need() -> None:
    assert drawing.flow([1.0, 2.0, 2.0], 3.5) == [(0.0, 0), (1.0, 0), (0.0, 1)]
    assert drawing.flow([9.0, 1.0], 3.0) == [(0.0, 0), (0.0, 1)]
    assert drawing.flow([], 1.0) == []


def test_a_long_name_keeps_its_ends() -> None:
    assert drawing.shortened("abcdefghij", 10) == "abcdefghij"
    assert drawing.shortened("abcdefghijk", 7) == "abc…ijk"


def test_names_are_one_line_and_no_formulas() -> None:
    assert drawing.plain("a\n$x$\tb") == r"a \$x\$ b"


def test_a_longer_text_is_wider() -> None:
    assert 0 < drawing.text_width("num") < drawing.text_width("num_workers") < 1
    assert drawing.text_width("数") > 0


def test_a_figure_is_saved_as_png_and_svg_beside_each_other(tmp_path: Path) -> None:
    paths = drawing.save(drawing.sheet(1.0, "Title"), tmp_path / "v1.5")
    assert [path.name for path in paths] == ["v1.5.png", "v1.5.svg"]
    assert [path.read_bytes()[:5] for path in paths] == [b"\x89PNG\r", b"<?xml"]
