"""A comparison of two runs or grids as text: a table, then a summary, notes and differences."""

from __future__ import annotations

from collections import Counter

from nws_sweep import units
from nws_sweep.analysis.comparing import Pair, RunComparison
from nws_sweep.analysis.summary import ConfigurationSummary
from nws_sweep.report import formatted, page, snippets

_HEADER = ["", "num_workers", "time of a", "A", "B", "B / A", "verdict"]


def render(comparison: RunComparison) -> str:
    """The comparison as printed text."""
    table = snippets.markdown_table(_HEADER, [_row(pair) for pair in comparison.pairs])
    verdicts = Counter(map(_verdict, comparison.pairs))
    counts = ", ".join(f"{count} {name}" for name, count in verdicts.items())
    return page.rendered("comparison.txt", comparison=comparison, table=table, counts=counts)


def _row(pair: Pair) -> list[str]:
    """The cells of a configuration under ``_HEADER``."""
    times = pair.times
    return [
        pair.label,
        " -> ".join(dict.fromkeys((_setting(pair.a), _setting(pair.b)))),
        times.quantity.value if times else units.NOTHING,
        units.interval(times.base if times else None),
        units.interval(times.other if times else None),
        str(times.ratio) if times else units.NOTHING,
        _verdict(pair),
    ]


def _setting(one: ConfigurationSummary) -> str:
    return formatted.of_trial(one.best, one.configuration).candidate if one.best else units.NOTHING


def _verdict(pair: Pair) -> str:
    sides = [name for name, one in (("A", pair.a), ("B", pair.b)) if one.best is None]
    return pair.change.value if pair.change else f"failed in {' and '.join(sides)}"
