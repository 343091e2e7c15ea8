"""A comparison of two runs or grids as text: a table, then a summary, notes and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nws_sweep import units
from nws_sweep.analysis.comparing import Pair, RunComparison
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.analysis.time_ratios import Change
from nws_sweep.report import formatted, snippets

_HEADER = ["", "num_workers", "time of a", "A", "B", "B / A", "verdict"]


def render(comparison: RunComparison) -> str:
    """The comparison as printed text."""
    table = snippets.markdown_table(_HEADER, [_row(pair) for pair in comparison.pairs])
    heading = f"A: {_origin(comparison.a)}\nB: {_origin(comparison.b)}\n"
    return f"{heading}\n{table}\n" + "\n".join(_lines(comparison)) + "\n"


def _origin(summary: Summary) -> str:
    """The folder, the host and the start time of a run or a grid."""
    started_at = summary.stored.runs[0].result.started_at
    return f"{summary.stored.folder}, measured on {summary.hosts[0].hostname}, started at {started_at}"


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


def _about_all(comparison: RunComparison) -> Iterator[str]:
    """The number of pairs by verdict (``3 configurations in both: 1 slower, 2 same``), and the rule of the verdict."""
    verdicts = Counter(map(_verdict, comparison.pairs))
    counts = ", ".join(f"{count} {name}" for name, count in verdicts.items())
    yield f"{units.counted(len(comparison.pairs), 'configuration')} in both: {counts}"
    yield (
        f"B is slower or faster if the whole 95 % interval of B / A lies beyond {100 * comparison.within:g} %, "
        "the same if it lies within."
    )
    if Change.UNCLEAR.value in verdicts:
        yield "Longer measurements (measure=rigorous) or a larger --within can decide inconclusive cases."


def _lines(comparison: RunComparison) -> Iterator[str]:
    yield from _about_all(comparison)
    yield from (f"note: {pair.label}: {note}" for pair in comparison.pairs for note in pair.notes)
    yield from (f"only in A: {label}" for label in comparison.only_a)
    yield from (f"only in B: {label}" for label in comparison.only_b)
    for what, differences in (("differs", comparison.settings), ("hosts differ", comparison.hosts)):
        yield from (f"{what}: {one.name}: {one.a} in A, {one.b} in B" for one in differences)
    for name, summary in (("A", comparison.a), ("B", comparison.b)):
        yield from (f"warning: {name}: {line}" for line in summary.stored.unreadable)
