"""Measures again what was found: whether the best settings still take the time that they took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from pathlib import Path

from nws_sweep import handover, host, hostlock, services, storage, units
from nws_sweep.analysis import ConfigurationSummary, Summary, summarise
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.nursery import Nursery, spec_of
from nws_sweep.progress import Narrator, Say
from nws_sweep.records import Configuration, Estimate, SearchRecord, Trial
from nws_sweep.runner import search
from nws_sweep.surroundings import Surroundings

_PRECISER = 3  # an interval that decides must be narrower than what it decides about
_LONGER = 2


class Change(str, Enum):
    """What has become of a time."""

    SAME = "same"
    SLOWER = "slower"
    FASTER = "faster"
    UNCLEAR = "can't tell"  # the interval of the ratio reaches to both sides of the limit
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One configuration's best setting, then and now.

    Attributes:
        label: The configuration.
        then: The trial that was found to be the best; None if none was.
        now: The same settings measured again; None if that failed.
        ratio: Time now / time then; None without both. Its interval where both have one.
        change: Whether that is within the limit.
        reason: Why it failed; empty if it did not.
    """

    label: str
    then: Trial | None
    now: Trial | None
    ratio: Estimate | None
    change: Change
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
    ratio = _ratio(then, now)
    if ratio is None:
        return Check(label=label, then=then, now=now, ratio=None, change=Change.FAILED, reason=now.reason)
    return Check(label=label, then=then, now=now, ratio=ratio, change=_change(ratio, within))


def _change(ratio: Estimate, within: float) -> Change:
    """Beyond the limit only if the whole interval is: a noisy machine must raise no alarm."""
    least, most = 1 / (1 + within), 1 + within
    if least <= ratio.value <= most:
        return Change.SAME
    low, high = ratio.low or ratio.value, ratio.high or ratio.value
    if low > most:
        return Change.SLOWER
    return Change.FASTER if high < least else Change.UNCLEAR


def _ratio(then: Trial, now: Trial) -> Estimate | None:
    """Of a batch's steady time where both have one, which has an interval; else of an epoch's."""
    one, other = _batch(then), _batch(now)
    if one is not None and other is not None:
        bounded = None not in (one.low, one.high, other.low, other.high)
        return Estimate(
            value=other.value / one.value,
            low=(other.low or 0) / (one.high or 1) if bounded else None,
            high=(other.high or 0) / (one.low or 1) if bounded else None,
            n=min(one.n, other.n),
        )
    if then.objective_s is None or now.objective_s is None:
        return None
    return Estimate(value=now.objective_s / then.objective_s, low=None, high=None, n=1)


def _batch(trial: Trial) -> Estimate | None:
    return trial.measurement.batch_s if trial.measurement and trial.objective_s is not None else None


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
            yield Check(
                label=configuration.label, then=then, now=None, ratio=None, change=Change.FAILED, reason=str(error)
            )


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
        with services.running(configuration):
            (trial,) = search(start, Surroundings(open_arm=open_arm), Narrator(say)).trials
    return trial


def table(checks: Iterable[Check]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of what is shown."""
    header = ["", "num_workers", "per batch then", "now", "now / then", ""]
    return header, [_row(check) for check in checks]


def _row(check: Check) -> list[str]:
    then, now = check.then, check.now
    verdict = check.change.value + (f": {check.reason}" if check.reason else "")
    return [
        check.label,
        str(then.num_workers) if then else units.NOTHING,
        units.interval(_batch(then)) if then else units.NOTHING,
        units.interval(_batch(now)) if now else units.NOTHING,
        _shown(check.ratio),
        verdict,
    ]


def _shown(ratio: Estimate | None) -> str:
    if ratio is None:
        return units.NOTHING
    interval = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    return f"{ratio.value:.2f}{interval}"
