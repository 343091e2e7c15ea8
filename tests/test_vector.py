from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from nws_sweep import drawing, vector
from nws_sweep.drawing import Box, Picture

DOCUMENT = """<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="30pt" height="15pt"
 viewBox="0 0 30 15" version="1.1">
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="background"><path d="M 0 0" style="fill: #ffffff"/></g>
 <defs><path id="m1" d="M 1 1"/></defs>
 <g id="axes_1" clip-path="url(#c1)"><use xlink:href="#m1" x="1" style="fill: #0072b2; stroke: #1f2328"/></g>
 <text style="fill: #1f2328">a &lt; b</text>
 <clipPath id="c1"><rect style="stroke: #dddddd"/></clipPath>
</svg>"""


def figure() -> Picture:
    made = drawing.sheet(2.0, "What <script>alert(1)</script> $took$")
    axes = drawing.axes_at(made, Box(0.7, 0.5, 6.0, 1.0))
    axes.plot([0, 1], [1.0, 1 / 3], "o-", color=drawing.COLOURS[0])
    drawing.grid_lines(axes)
    return made


def inlined() -> ElementTree.Element:
    return ElementTree.fromstring(vector.inline(DOCUMENT, "first", "A <title>", "It & that"))


def test_coordinates_are_rounded_and_texts_are_not() -> None:
    text = '<path d="M 1.23456 -0.98765"/><text>1.23456</text>'
    assert vector.compact(text) == '<path d="M 1.23 -0.98"/><text>1.23456</text>'


def test_identifiers_and_what_refers_to_them_have_the_prefix_and_others_are_gone() -> None:
    text = ElementTree.tostring(inlined(), encoding="unicode")
    assert re.findall(r'\bid="([^"]+)"', text) == ["first-title", "first-desc", "first-m1", "first-c1"]
    assert 'href="#first-m1"' in text
    assert 'clip-path="url(#first-c1)"' in text


def test_it_says_what_it_is_to_those_who_do_not_see_it() -> None:
    root = inlined()
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "first-title first-desc")
    assert [child.text for child in list(root)[:2]] == ["A <title>", "It & that"]


def test_it_is_as_wide_as_there_is_room() -> None:
    root = inlined()
    assert root.get("viewBox") == "0 0 30 15"
    assert root.get("style") == "--wide:40px;width:100%;max-width:var(--wide);height:auto"
    assert (root.get("width"), root.get("height")) == (None, None)


def test_colours_follow_the_page() -> None:
    text = vector.inline(DOCUMENT, "p", "t", "d")
    assert "fill: var(--series-1, #0072b2); stroke: currentColor" in text
    assert "stroke: var(--grid, #ddd)" in text


def test_what_would_reach_the_whole_page_is_gone() -> None:
    text = vector.inline(DOCUMENT, "p", "t", "d")
    assert not re.search(r"<\?xml|<!DOCTYPE|<style|<metadata|background", text)
    assert text.startswith("<svg ")


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [*vector.SERIES[:-1], vector.MUTED])
def test_data_can_be_seen_on_white_and_on_dark_paper(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 3
    assert contrast(colour, "#14161a") >= 3


def test_a_document_has_text_as_text_without_dates_and_is_the_same_again() -> None:
    text = drawing.svg(figure())
    assert "What &lt;script&gt;alert(1)&lt;/script&gt; $took$" in text
    assert "'DejaVu Sans', 'Verdana', sans-serif" in text
    assert not re.search(r"<dc:date>|Matplotlib v|<metadata", text)
    assert text == drawing.svg(figure())


def test_a_figure_becomes_a_part_of_a_page() -> None:
    text = vector.inline(drawing.svg(figure()), "p", "<b>", "a & b")
    root = ElementTree.fromstring(text)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg", "title", "desc", "defs", "g", "path", "use", "text", "clipPath", "rect",
    }  # fmt: skip
    assert "#000000" not in text
    assert '<title id="p-title">&lt;b&gt;</title>' in text
