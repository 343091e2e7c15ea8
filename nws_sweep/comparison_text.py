"""A comparison of two runs or grids as text: a table, then lines for what it cannot hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nws_sweep import cells, formats, units
from nws_sweep.analysis import ConfigurationSummary, Summary
from nws_sweep.comparing import Difference, Pair, RunComparison
from nws_sweep.contrast import Change

HEADER = ["", "num_workers", "time of a", "A", "B", "B / A", "verdict"]
_FAILED = "failed"


def render(comparison: RunComparison) -> str:
    """The comparison as it is printed, with a line break at the end."""
    table = formats.markdown_table(HEADER, [row(pair) for pair in comparison.pairs])
    heading = f"A: {origin(comparison.a)}\nB: {origin(comparison.b)}\n"
    return f"{heading}\n{table}\n" + "\n".join(_lines(comparison)) + "\n"


def verdict(pair: Pair) -> str:
    """What has become of it, in a word or two."""
    if pair.change is not None:
        return pair.change.value
    sides = [name for name, one in (("A", pair.a), ("B", pair.b)) if one.best is None]
    return f"{_FAILED} in {' and '.join(sides)}"


def setting(one: ConfigurationSummary) -> str:
    """The best num_workers, with what it has otherwise than the configuration; ``-`` if nothing could be measured."""
    return cells.of_trial(one.best, one.configuration).candidate if one.best else units.NOTHING


def origin(summary: Summary) -> str:
    """Where and when it was measured."""
    started_at = summary.stored.runs[0].result.started_at
    return f"{summary.stored.folder}, measured on {summary.host.hostname}, started at {started_at}"


def row(pair: Pair) -> list[str]:
    """The cells of a configuration under ``HEADER``."""
    settings = dict.fromkeys((setting(pair.a), setting(pair.b)))
    times, ratio = pair.times, pair.ratio
    return [
        pair.label,
        " -> ".join(settings),
        times.quantity.value if times else units.NOTHING,
        units.interval(times.base if times else None),
        units.interval(times.other if times else None),
        units.ratio_interval(ratio.value, ratio.low, ratio.high) if ratio else units.NOTHING,
        verdict(pair),
    ]


def about_all(comparison: RunComparison) -> Iterator[str]:
    """How many there are of each verdict, and what a verdict means."""
    yield _total(comparison)
    yield (
        f"B is slower or faster where all of the 95 % interval of B / A is beyond {100 * comparison.within:g} %, "
        "the same where all of it is within."
    )
    if any(pair.change is Change.UNCLEAR for pair in comparison.pairs):
        yield "More can be told after longer measuring (measure=rigorous), or with a larger --within."


def _lines(comparison: RunComparison) -> Iterator[str]:
    yield from about_all(comparison)
    yield from (f"note: {pair.label}: {note}" for pair in comparison.pairs for note in pair.notes)
    yield from (f"only in A: {label}" for label in comparison.only_a)
    yield from (f"only in B: {label}" for label in comparison.only_b)
    yield from (f"differs: {_told(difference)}" for difference in comparison.settings)
    yield from (f"hosts differ: {_told(difference)}" for difference in comparison.hosts)
    for name, one in (("A", comparison.a), ("B", comparison.b)):
        yield from (f"warning: {name}: {line}" for line in one.stored.unreadable)


def _total(comparison: RunComparison) -> str:
    """How many there are of each: ``3 configurations in both: 1 slower, 2 same``."""
    verdicts = Counter(verdict(pair) for pair in comparison.pairs)
    number = len(comparison.pairs)
    counts = ", ".join(f"{count} {name}" for name, count in verdicts.items())
    return f"{number} configuration{'s' if number != 1 else ''} in both: {counts}"


def _told(difference: Difference) -> str:
    return f"{difference.name}: {difference.a} in A, {difference.b} in B"
