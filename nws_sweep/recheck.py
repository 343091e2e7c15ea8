"""Measures again what was found: whether the best settings still take the time that they took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from nws_sweep import handover, host, hostlock, storage, units
from nws_sweep.analysis import ConfigurationSummary, Summary, summarise
from nws_sweep.contrast import Change, Quantity, Ratio, change_of, time_of, times_of
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.invocation import services
from nws_sweep.nursery import Nursery, spec_of
from nws_sweep.progress import Narrator, Say
from nws_sweep.records import Configuration, SearchRecord, Trial
from nws_sweep.runner import search
from nws_sweep.surroundings import Surroundings

_PRECISER = 3  # an interval that decides must be narrower than what it decides about
_LONGER = 2
_NOTHING_SHARED = "there is no time that both have"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One configuration's best setting, then and now.

    Attributes:
        label: The configuration.
        then: The trial that was found to be the best; None if none was.
        now: The same settings measured again; None if that failed.
        ratio: Time now / time then; None without both.
        change: Whether that is within the limit; None without a ratio.
        reason: Why there is none; empty if there is one.
    """

    label: str
    then: Trial | None
    now: Trial | None
    ratio: Ratio | None
    change: Change | None
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the earlier result."""
        return self.change in (Change.SAME, Change.UNCLEAR)


def compare(label: str, then: Trial, now: Trial, within: float) -> Check:
    """Holds the times of two trials of equal settings against each other.

    Args:
        label: The configuration.
        then: The earlier one.
        now: The later one.
        within: The share by which they may differ, 0.1 for 10 %.
    """
    times = times_of(then, now)
    if times is None:
        return Check(label=label, then=then, now=now, ratio=None, change=None, reason=now.reason or _NOTHING_SHARED)
    return Check(label=label, then=then, now=now, ratio=times.ratio, change=_change(times.ratio, within))


def _change(ratio: Ratio, within: float) -> Change:
    """By the value alone if that is within the limit, or has no interval: a noisy machine must raise no alarm."""
    by_value = change_of(replace(ratio, half_width=0.0), within)
    return by_value if by_value is Change.SAME or ratio.half_width is None else change_of(ratio, within)


def recheck(folder: Path, within: float, say: Say, lock_file: str | None = hostlock.DEFAULT) -> Iterator[Check]:
    """Measures the best setting of each configuration of a run or a grid again.

    Args:
        folder: The run's or the grid's folder; its datasets' relative paths begin in the current one.
        within: The share by which a time may differ, above 0.
        say: Called with lines while it goes on.
        lock_file: The host's lock; None for none.

    Raises:
        NotARunError: If the folder is neither.
    """
    summary = summarise(storage.find(folder))
    yield from _checks(summary, within, lambda chosen: _measure(chosen, say, lock_file))


def _checks(summary: Summary, within: float, measure: Callable[[Configuration], Trial]) -> Iterator[Check]:
    for configuration in summary.configurations:
        try:
            yield _check(configuration, within, measure)
        except NwsSweepError as error:
            then = configuration.best
            yield Check(label=configuration.label, then=then, now=None, ratio=None, change=None, reason=str(error))


def _check(found: ConfigurationSummary, within: float, measure: Callable[[Configuration], Trial]) -> Check:
    if found.best is None:
        raise ConfigurationError("there was no best setting: nothing could be measured")
    if handover.is_handed_over(found.configuration.dataset):
        raise ConfigurationError("its dataset was an object of a program, which cannot be made again from here")
    now = measure(once_more(found.configuration, found.best, within))
    return compare(found.label, found.best, now, within)


def once_more(configuration: Configuration, best: Trial, within: float) -> Configuration:
    """The configuration that measures one setting, precisely enough to decide about the limit."""
    rules = configuration.measure
    precise = replace(
        rules, precision=min(rules.precision, within / _PRECISER), max_seconds=_LONGER * rules.max_seconds
    )
    only = replace(
        configuration.search, strategy="exhaustive", candidates=(best.num_workers,), reference=None, also=(),
        time_budget_s=None,
    )  # fmt: skip
    return replace(configuration, loader=best.settings, search=only, measure=precise)


def _measure(configuration: Configuration, say: Say, lock_file: str | None) -> Trial:
    start = SearchRecord(
        configuration=configuration, host=host.describe(), started_at=datetime.now().astimezone().isoformat()
    )
    here = str(Path.cwd())
    with hostlock.held(lock_file, "an earlier result again", say), Nursery() as nursery:
        open_arm = nursery.factory(lambda chosen: spec_of(chosen, here), say)
        with services(configuration):
            (trial,) = search(start, Surroundings(open_arm=open_arm), Narrator(say, say)).trials
    return trial


def table(checks: Iterable[Check]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of what is shown."""
    header = ["", "num_workers", "per batch then", "now", "now / then", ""]
    return header, [_row(check) for check in checks]


def _row(check: Check) -> list[str]:
    then, now, ratio = check.then, check.now, check.ratio
    return [
        check.label,
        str(then.num_workers) if then else units.NOTHING,
        units.interval(time_of(then, Quantity.BATCH)) if then else units.NOTHING,
        units.interval(time_of(now, Quantity.BATCH)) if now else units.NOTHING,
        units.ratio_interval(ratio.value, ratio.low, ratio.high) if ratio else units.NOTHING,
        check.change.value if check.change else f"failed: {check.reason}",
    ]
