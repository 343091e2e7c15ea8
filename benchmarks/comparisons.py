"""Rows that searches print, compared with bare loops and with what is possible.
Pure."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.catalogue import Workload
from benchmarks.journal import Outcome, Row, Run, Setting

_Key = tuple[str, str, int, Setting]  # workload, neighbour, repeat
# a row beats a limit if it is lower by more; the clock of a sleep and of a thread is
# not exact
_TOLERATED = 0.03
# standard errors of the mean cost of the batches that a search draws, tolerated too
_ERRORS_OF_MEAN = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A row of a search, and the bare loops with the same settings beside the same
    neighbour in the same repeat."""

    workload: Workload
    beside: str
    repeat: int
    row: Row
    # mean of the loops; None if there are none, or epochs are too short
    bare_batch_s: float | None
    bare_epoch_s: float | None
    limit_s: float  # least possible seconds per batch; 0 if unknown

    @property
    def error(self) -> float | None:
        """Printed / bare - 1, of a batch, or of the epoch if it is too short for steady
        batches; None without both."""
        if self.row.batch_s is not None and self.bare_batch_s is not None:
            return self.row.batch_s / self.bare_batch_s - 1
        if (
            self.row.epoch_s is not None
            and self.bare_epoch_s is not None
            and self.bare_batch_s is None
        ):
            return self.row.epoch_s / self.bare_epoch_s - 1
        return None

    @property
    def is_covered(self) -> bool | None:
        """Whether the printed interval of a batch contains the bare loops' mean; None
        without both."""
        low_s, high_s = self.row.low_s, self.row.high_s
        if low_s is None or high_s is None or self.bare_batch_s is None:
            return None
        return low_s <= self.bare_batch_s <= high_s

    @property
    def beats_the_limit(self) -> bool:
        """Whether a printed time of a batch, or of the epoch divided by its batches, is
        less than is possible."""
        drawn = self.workload.batch_size * max(1, self.row.batches)
        tolerated = (
            _TOLERATED
            + _ERRORS_OF_MEAN * self.workload.planted.spread / math.sqrt(drawn)
        )
        printed_s = [
            self.row.batch_s or math.inf,
            (self.row.epoch_s or math.inf) / self.workload.batches,
        ]
        return min(printed_s) < (1 - tolerated) * self.limit_s


def comparisons(
    outcomes: Iterable[Outcome],
    runs: Iterable[Run],
    workloads: Iterable[Workload],
    cpus: int,
) -> list[Comparison]:
    """A comparison for each row that has a figure."""
    by_key: dict[_Key, list[Run]] = {}
    for run in runs:
        key = (run.workload, run.beside, run.repeat, run.setting)
        by_key.setdefault(key, []).append(run)
    by_name = {workload.name: workload for workload in workloads}
    return [
        _compared(outcome, row, by_key, by_name[outcome.workload], cpus)
        for outcome in outcomes
        for row in outcome.rows
        if row.batch_s is not None or row.epoch_s is not None
    ]


def _compared(
    outcome: Outcome,
    row: Row,
    by_key: Mapping[_Key, Sequence[Run]],
    workload: Workload,
    cpus: int,
) -> Comparison:
    key = (outcome.workload, outcome.beside, outcome.repeat, row.setting)
    runs = by_key.get(key, ())
    return Comparison(
        workload=workload,
        beside=outcome.beside,
        repeat=outcome.repeat,
        row=row,
        bare_batch_s=_mean(run.batch_s for run in runs),
        bare_epoch_s=_mean(run.epoch_s for run in runs),
        limit_s=workload.least_batch_s(row.workers, cpus),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.fmean(numbers) if numbers else None


def errors(compared: Iterable[Comparison]) -> list[float]:
    """The distances of the rows from bare loops, as shares."""
    return [
        abs(comparison.error) for comparison in compared if comparison.error is not None
    ]


def bare_errors(runs: Iterable[Run]) -> list[float]:
    """How far two bare loops with the same settings in the same repeat are apart: the
    noise in the other errors."""
    by_key: dict[_Key, list[float]] = {}
    for run in runs:
        if time_s := run.batch_s or run.epoch_s:
            key = (run.workload, run.beside, run.repeat, run.setting)
            by_key.setdefault(key, []).append(time_s)
    return [
        abs(times_s[1] / times_s[0] - 1)
        for times_s in by_key.values()
        if len(times_s) == 2
    ]


def coverage(compared: Iterable[Comparison]) -> tuple[float, int] | None:
    """The share of printed intervals that contain the bare loops' mean, and their
    number; None without any."""
    covered = [
        comparison.is_covered
        for comparison in compared
        if comparison.is_covered is not None
    ]
    return (statistics.fmean(covered), len(covered)) if covered else None


def has_an_answer(outcome: Outcome) -> bool:
    """Whether a search answered after it had measured a candidate with workers;
    num_workers=0 alone says nothing."""
    measured = [row for row in outcome.rows if not row.fault]
    return outcome.pick is not None and any(row.workers for row in measured)
