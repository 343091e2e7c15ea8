"""Measures the best settings of an earlier result again and compares the times."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nws_sweep import units
from nws_sweep.analysis.summary import Summary
from nws_sweep.analysis.time_ratios import Change, Quantity, Ratio, change_of, time_of, times_of
from nws_sweep.dataloading import pickling
from nws_sweep.errors import ConfigurationError, NwsSweepError
from nws_sweep.executor.dataset_server import DatasetServer, spec_of
from nws_sweep.hydra_app.job import initial_record, services
from nws_sweep.measurement.environment import Environment
from nws_sweep.report.progress import ProgressReporter, printer_for
from nws_sweep.results import Configuration, Trial
from nws_sweep.system import host_lock
from nws_sweep.tuning.runner import search

_PRECISION_FACTOR = 3  # the interval must be narrower than the allowed difference
_TIME_FACTOR = 2
_OF_PROGRAM = (
    "the dataset was an object of a program, which the command line cannot make; in the program, "
    "search(..., reuse=False).save(DIR) measures again, and `nws-sweep compare` takes both folders"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The best setting of one configuration, in the earlier result and measured again."""

    label: str
    then: Trial | None  # None if the earlier result has no best trial
    now: Trial | None = None  # None if the new trial failed
    ratio: Ratio | None = None  # new time / earlier time
    change: Change | None = None
    reason: str = ""  # why there is no ratio

    @property
    def holds(self) -> bool:
        """True if the times do not differ, or not certainly."""
        return self.change in (Change.SAME, Change.UNCLEAR)


def checks(summary: Summary, within: float, measure: Callable[[Configuration], Trial]) -> Iterator[Check]:
    """Measures the best setting of each configuration again; times may differ by the share ``within``, above 0."""
    for found in summary.configurations:
        try:
            if found.best is None:
                raise ConfigurationError("the result has no best setting: no candidate could be measured")
            if pickling.is_pickled(found.configuration.dataset):
                raise ConfigurationError(_OF_PROGRAM)
            now = measure(recheck_configuration(found.configuration, found.best, within))
            yield compare(found.label, found.best, now, within)
        except NwsSweepError as error:
            yield Check(label=found.label, then=found.best, reason=str(error))


def compare(label: str, then: Trial, now: Trial, within: float) -> Check:
    """Compares the times of two trials of equal settings; see ``checks``."""
    times = times_of(then, now)
    if times is None:
        return Check(label=label, then=then, now=now, reason=now.reason or "the two trials have no comparable time")
    # The value alone decides if it is within the limit or has no interval: noise must not raise an alarm.
    change = change_of(replace(times.ratio, half_width=0.0), within)
    if change is not Change.SAME and times.ratio.half_width is not None:
        change = change_of(times.ratio, within)
    return Check(label=label, then=then, now=now, ratio=times.ratio, change=change)


def recheck_configuration(configuration: Configuration, best: Trial, within: float) -> Configuration:
    """The configuration that measures one setting, with an interval narrower than the allowed difference."""
    rules = configuration.measure
    precise = replace(
        rules,
        precision=min(rules.precision, within / _PRECISION_FACTOR),
        trial_limit_s=_TIME_FACTOR * rules.trial_limit_s,
    )
    only = replace(
        configuration.search, strategy="exhaustive", candidates=(best.num_workers,), reference=None, settings=(),
        time_limit_s=None,
    )  # fmt: skip
    return replace(configuration, loader=best.settings, search=only, measure=precise)


def measure_again(configuration: Configuration) -> Trial:
    """The trial of the only candidate; relative paths of the dataset start in the current folder."""
    print_line, here = printer_for(True), str(Path.cwd())
    with host_lock.held(host_lock.usual(), print_line), DatasetServer() as dataset_server:
        start_process = dataset_server.factory(lambda chosen: spec_of(chosen, here), print_line)
        environment = Environment(start_process=start_process)
        with services(configuration):
            result = search(initial_record(configuration), environment, ProgressReporter(print_line, print_line))
    return result.trials[0]


def table(found: Iterable[Check]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table for the terminal."""
    rows = []
    for check in found:
        workers = str(check.then.num_workers) if check.then else units.NOTHING
        batch_s = (units.interval(time_of(one, Quantity.BATCH) if one else None) for one in (check.then, check.now))
        result = check.change.value if check.change else f"failed: {check.reason}"
        rows.append([check.label, workers, *batch_s, str(check.ratio or units.NOTHING), result])
    return ["", "num_workers", "per batch before", "now", "now / before", ""], rows
