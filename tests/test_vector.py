from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from nws_sweep import vector

DOCUMENT = """<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="30pt" height="15pt" viewBox="0 0 30 15"
 xmlns="http://www.w3.org/2000/svg" version="1.1">
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="background"><path d="M 0 0" style="fill: #ffffff"/></g>
 <defs><path id="m1" d="M 1 1"/></defs>
 <g id="axes_1" clip-path="url(#c1)"><use xlink:href="#m1" x="1" style="fill: #0072b2; stroke: #1f2328"/></g>
 <text style="fill: #1f2328">a &lt; b #1f2328</text>
 <clipPath id="c1"><rect style="stroke: #dddddd"/></clipPath>
</svg>"""


def test_a_document_becomes_a_part_of_a_page() -> None:
    text = vector.inline(DOCUMENT, "first", "A <title>", "It & that")
    assert text.startswith("<svg ")
    assert not re.search(r"<\?xml|<!DOCTYPE|<style|<metadata|background", text)  # what would reach the whole page
    root = ElementTree.fromstring(text)
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "first-title first-desc")
    assert [child.text for child in list(root)[:2]] == ["A <title>", "It & that"]
    assert root.get("viewBox") == "0 0 30 15"
    assert root.get("style") == "--wide:40px;width:100%;max-width:var(--wide);height:auto"
    assert (root.get("width"), root.get("height")) == (None, None)
    found = re.findall(r'\bid="([^"]+)"', text)
    assert found == ["first-title", "first-desc", "first-m1", "first-axes_1", "first-c1"]
    assert 'href="#first-m1"' in text
    assert 'clip-path="url(#first-c1)"' in text
    # Colours follow the page.
    assert "fill: var(--series-1, #0072b2); stroke: currentColor" in text
    assert "stroke: var(--grid, #ddd)" in text
    assert "a &lt; b #1f2328<" in text


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("paper", ["#ffffff", "#14161a"])
@pytest.mark.parametrize("colour", [*vector.SERIES[:-1], vector.MUTED])
def test_data_can_be_seen_on_white_and_on_dark_paper(colour: str, paper: str) -> None:
    dark, light = sorted((luminance(colour), luminance(paper)))
    assert (light + 0.05) / (dark + 0.05) >= 3
