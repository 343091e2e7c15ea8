"""SVG documents become parts of HTML pages. Pure: text in, text out.

Colours of the figures that stand for a role (ink, grid, a series) have one value here, and a name in CSS there: a dark
page gives the names other values.
"""

from __future__ import annotations

import re
from html import escape

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
# The style sheet would reach the whole page, and the page has a background of its own.
_LEFT_OUT = re.compile(rf'<g id="{BACKGROUND}">.*?</g>|<style.*?</style>|<metadata.*?</metadata>|<!--.*?-->', re.S)


def inline(document: str, prefix: str, title: str, description: str) -> str:
    """An element for an HTML page of matplotlib's SVG: as wide as it may be, with the ink of the text around it.

    The prefix is that of its identifiers; title and description are for those who do not see it.
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
    """Its identifiers with the prefix, its colours with their names in CSS."""
    tag = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}-", tag)
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: _CSS.get(colour[0], colour[0]), tag)
