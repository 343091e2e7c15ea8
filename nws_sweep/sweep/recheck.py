"""Measures again what was found: whether the best settings still take the time that they took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from nws_sweep import units
from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import Change, Quantity, Ratio, change_of, time_of, times_of
from nws_sweep.dataloading import pickling
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.executor.dataset_server import DatasetServer, spec_of
from nws_sweep.measurement.environment import Environment
from nws_sweep.report.progress import Print, ProgressReporter
from nws_sweep.results import Configuration, SearchRecord, Trial
from nws_sweep.sweep.invocation import services
from nws_sweep.system import host, host_lock
from nws_sweep.tuning.runner import search

_PRECISER = 3  # an interval that decides must be narrower than what it decides about
_LONGER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One configuration's best setting, then and now."""

    label: str
    then: Trial | None  # the trial that was found to be the best; None if none was
    now: Trial | None = None  # the same settings measured again; None if that failed
    ratio: Ratio | None = None  # time now / time then
    change: Change | None = None  # whether that is within the limit
    reason: str = ""  # why there is no ratio

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the earlier result."""
        return self.change in (Change.SAME, Change.UNCLEAR)


def checks(summary: Summary, within: float, measure: Callable[[Configuration], Trial]) -> Iterator[Check]:
    """Measures again the best setting that was found of each configuration, as its only candidate.

    A time may differ by the share ``within``, above 0.
    """
    for found in summary.configurations:
        try:
            if found.best is None:
                raise ConfigurationError("there was no best setting: nothing could be measured")
            if pickling.is_pickled(found.configuration.dataset):
                raise ConfigurationError("its dataset was an object of a program, which cannot be made again from here")
            now = measure(once_more(found.configuration, found.best, within))
            yield compare(found.label, found.best, now, within)
        except NwsSweepError as error:
            yield Check(label=found.label, then=found.best, reason=str(error))


def compare(label: str, then: Trial, now: Trial, within: float) -> Check:
    """Holds the times of two trials of equal settings against each other; see ``checks``."""
    times = times_of(then, now)
    if times is None:
        return Check(label=label, then=then, now=now, reason=now.reason or "there is no time that both have")
    # By the value alone if that is within the limit, or has no interval: a noisy machine must raise no alarm.
    change = change_of(replace(times.ratio, half_width=0.0), within)
    if change is not Change.SAME and times.ratio.half_width is not None:
        change = change_of(times.ratio, within)
    return Check(label=label, then=then, now=now, ratio=times.ratio, change=change)


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


def measured(configuration: Configuration, print_line: Print, lock_file: str | None) -> Trial:
    """The trial of its only candidate; relative paths of the dataset begin in the current folder."""
    start = SearchRecord(
        configuration=configuration, host=host.describe(), started_at=datetime.now().astimezone().isoformat()
    )
    here = str(Path.cwd())
    with host_lock.held(lock_file, "an earlier result again", print_line), DatasetServer() as dataset_server:
        start_process = dataset_server.factory(lambda chosen: spec_of(chosen, here), print_line)
        with services(configuration):
            (trial,) = search(
                start, Environment(start_process=start_process), ProgressReporter(print_line, print_line)
            ).trials
    return trial


def table(found: Iterable[Check]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of what is shown."""
    header = ["", "num_workers", "per batch then", "now", "now / then", ""]
    return header, [_row(check) for check in found]


def _row(check: Check) -> list[str]:
    then, now, ratio = check.then, check.now, check.ratio
    return [
        check.label,
        str(then.num_workers) if then else units.NOTHING,
        units.interval(time_of(then, Quantity.BATCH) if then else None),
        units.interval(time_of(now, Quantity.BATCH) if now else None),
        str(ratio or units.NOTHING),
        check.change.value if check.change else f"failed: {check.reason}",
    ]
