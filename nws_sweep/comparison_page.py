"""A comparison of two runs or grids as an HTML file."""

from __future__ import annotations

from pathlib import Path

from nws_sweep import comparison_text, disk, html
from nws_sweep.comparing import Pair, RunComparison
from nws_sweep.data_table import Table, rounded


def write(comparison: RunComparison, path: Path) -> None:
    """Writes the page.

    Raises:
        OSError: If it cannot be written there.
    """
    origins = comparison_text.origin(comparison.a), comparison_text.origin(comparison.b)
    summary = tuple(comparison_text.about_all(comparison))
    disk.write_text(path, html.comparison(comparison, origins, _pairs(comparison), summary))


def _pairs(comparison: RunComparison) -> Table:
    return Table(
        header=("configuration", *comparison_text.HEADER[1:], "note"),
        rows=tuple((*comparison_text.row(pair), "; ".join(pair.notes)) for pair in comparison.pairs),
        keys=tuple(_keys(pair) for pair in comparison.pairs),
    )


def _keys(pair: Pair) -> tuple[float | None, ...]:
    times = pair.times
    values = (times.base.value, times.other.value, times.ratio.value) if times else (None, None, None)
    return (None, None, None, *map(rounded, values), None, None)
