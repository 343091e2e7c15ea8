"""Converts SVG documents to parts of HTML pages. Pure: text in, text out.

Colours with a role (ink, grid, a series) have a value here, and a CSS variable in the page, which dark pages override.
"""

from __future__ import annotations

import re
from html import escape

# Okabe and Ito's colours for colour-blind readers, some left out or darkened: each has a contrast of at least 3 to
# white and to dark paper (#14161a), as WCAG asks for graphics. The last one is the ink.
INK = "#1f2328"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#3a93c9", INK)
MUTED = "#858585"  # secondary lines
GRID, BAND = "#dddddd", "#e9e9e9"
PAPER = "#ffffff"
FIXED_DARK, FIXED_LIGHT = "#101418", "#fdfdfd"  # text on coloured cells, in light and dark pages
BACKGROUND = "background"  # identifier of the patch behind a figure

_CSS = {
    INK: "currentColor",
    MUTED: f"var(--muted, {MUTED})",
    GRID: "var(--grid, #ddd)",
    BAND: f"var(--band, {BAND})",
    PAPER: "var(--paper, #fff)",
    **{colour: f"var(--series-{number}, {colour})" for number, colour in enumerate(SERIES[:-1], 1)},
}
# The style sheet would apply to the whole page, which also has its own background.
_LEFT_OUT = re.compile(rf'<g id="{BACKGROUND}">.*?</g>|<style.*?</style>|<metadata.*?</metadata>|<!--.*?-->', re.S)


def inline(document: str, prefix: str, title: str, description: str) -> str:
    """An SVG element for an HTML page from a document of matplotlib, in the ink of the text around it.

    ``prefix`` makes its identifiers unique in the page; title and description are for screen readers.
    """
    found = re.search(r'<svg[^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*)', document, re.S)
    if found is None:
        raise ValueError("no SVG")
    content = re.sub(r"<[^/!?][^>]*>", lambda tag: _adapted(tag[0], prefix), _LEFT_OUT.sub("", found[3]))
    width_px = float(found[1]) * 4 / 3
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'viewBox="0 0 {found[1]} {found[2]}" aria-labelledby="{prefix}-title {prefix}-desc" stroke-linejoin="round" '
        f'fill="currentColor" style="--wide:{width_px:.0f}px;width:100%;max-width:var(--wide);height:auto">'
        f'<title id="{prefix}-title">{escape(title)}</title><desc id="{prefix}-desc">{escape(description)}</desc>'
    ) + re.sub(r">\s+<", "><", content).strip()


def _adapted(tag: str, prefix: str) -> str:
    """Adds the prefix to identifiers, and replaces colours by CSS variables."""
    tag = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}-", tag)
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: _CSS.get(colour[0], colour[0]), tag)
