"""SVG documents become small, and parts of HTML pages. Pure: text in, text out.

Colours of the figures that stand for a role (ink, grid, a series) have one value here, and a name in CSS there: a dark
page gives the names other values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# Okabe and Ito's colours, which colour-blind people can tell apart; those that white or dark paper (#14161a) swallows
# are left out or darker: each has a contrast of 3 at least to both, as WCAG asks of graphics. The last one is the ink.
INK = "#1f2328"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#3a93c9", INK)
MUTED = "#858585"  # lines of little weight that still have to be seen
GRID, BAND = "#dddddd", "#e9e9e9"
PAPER = "#ffffff"
FIXED_DARK, FIXED_LIGHT = "#101418", "#fdfdfd"  # text on coloured ground, whatever the page is like
BACKGROUND = "background"  # identifier of what is behind a figure

_CSS = {
    INK: "currentColor",
    MUTED: f"var(--muted, {MUTED})",
    GRID: "var(--grid, #ddd)",
    BAND: f"var(--band, {BAND})",
    PAPER: "var(--paper, #fff)",
    **{colour: f"var(--series-{number}, {colour})" for number, colour in enumerate(SERIES[:-1], 1)},
}
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def compact(document: str) -> str:
    """The document with coordinates in hundredths of a point, which nobody can see."""
    return re.sub(r"<(?:path|use|image)\b[^>]*>", _rounded, document)


def _rounded(tag: re.Match[str]) -> str:
    return re.sub(r"(\d+\.\d{2})\d+", r"\1", tag[0])


def inline(document: str, prefix: str, title: str, description: str) -> str:
    """An element for an HTML page, which is as wide as it may be, and has the ink of the text around it.

    Args:
        document: The SVG.
        prefix: Of its identifiers.
        title: For those who do not see it.
        description: Likewise.
    """
    root = ElementTree.fromstring(document)
    _strip(root)
    _colour(root)
    _identify(root, prefix)
    _introduce(root, prefix, title, description)
    return _serialised(root)


def _strip(root: Element) -> None:
    """Without its background, and without its style sheet, which would reach the whole page."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}style", f"{{{_SVG}}}metadata") or child.get("id") == BACKGROUND:
                parent.remove(child)


def _colour(root: Element) -> None:
    for element in root.iter():
        if style := element.get("style"):
            element.set("style", re.sub(r"#[0-9a-f]{6}\b", lambda colour: _CSS.get(colour[0], colour[0]), style))


def _identify(root: Element, prefix: str) -> None:
    """Identifiers with the prefix, and only those that something refers to."""
    used = set(_references(root))
    for element in root.iter():
        for name, value in list(element.attrib.items()):
            if name == "id":
                if value in used:
                    element.set(name, f"{prefix}-{value}")
                else:
                    del element.attrib[name]
            elif "#" in value:
                element.set(name, re.sub(r"(?<=^#)|(?<=url\(#)", f"{prefix}-", value))


def _references(root: Element) -> Iterator[str]:
    for element in root.iter():
        for name, value in element.attrib.items():
            if name != "id":
                yield from re.findall(r"(?:^#|url\(#)([^)]+)", value)


def _introduce(root: Element, prefix: str, title: str, description: str) -> None:
    """What it is, how wide it may be, and the style of its lines, which stood in its style sheet."""
    width = float(str(root.get("viewBox")).split()[2]) * 4 / 3  # a point in px
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}-title {prefix}-desc")
    root.set("style", f"--wide:{width:.0f}px;width:100%;max-width:var(--wide);height:auto")
    root.set("stroke-linejoin", "round")
    root.set("fill", _CSS[INK])  # of black text, whose colour matplotlib leaves out
    for index, (name, text) in enumerate((("title", title), ("desc", description))):
        element = Element(f"{{{_SVG}}}{name}", {"id": f"{prefix}-{name}"})
        element.text = text
        root.insert(index, element)


def _serialised(root: Element) -> str:
    """Without the prefixes of names, which HTML does not know."""
    for element in root.iter():
        element.tag = element.tag.replace(f"{{{_SVG}}}", "")
        if reference := element.attrib.pop(f"{{{_XLINK}}}href", None):
            element.set("href", reference)
    root.set("xmlns", _SVG)
    return re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode"))
