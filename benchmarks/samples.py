"""Cost of comparing samples for a search of a map-style dataset: pairs of searches with
and without it."""

import random
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import support, sweep_search
from benchmarks.catalogue import SEARCH_WORKLOADS, Workload, chosen
from benchmarks.results import Results, Table
from nws_sweep.records import MeasureRules, SearchRecord, SearchRules
from nws_sweep.system import host_lock

NAMES = ("latency", "cpu", "memory", "jpeg", "cifar")
# All candidates and six windows each, so that searches differ only in the comparison.
_COLUMNS = ("workload", "about", "with / without", "lowest to highest")
_CANDIDATES = (0, 1, 2, 4, 8)
_MEASURE = MeasureRules(precision=1.0, window_s=0.25)

# seconds with comparing samples / seconds without, by workload
Pairs = Mapping[str, Sequence[float]]


def run(rounds: int, only: Sequence[str], output: Path, command: str) -> None:
    """Searches with and without comparing samples, and writes the results.

    ``rounds`` is the number of pairs of each workload; ``only`` has names of workloads,
    empty for ``NAMES``.
    """
    workloads = chosen(SEARCH_WORKLOADS, only or NAMES)
    pairs: dict[str, list[float]] = {workload.name: [] for workload in workloads}
    with host_lock.held(support.LOCK_FILE, support.print_line):
        support.start_fork_server()
        for workload in workloads:  # not counted: reads files, loads libraries
            _search(workload, 0, False)
        for number in range(rounds):
            for workload in workloads:
                pairs[workload.name].append(_pair(workload, number))
                support.print_line(f"{workload.name}: {pairs[workload.name][-1]}")
    results_of(workloads, pairs).write(output, support.origin(command, rounds, "round"))


def _pair(workload: Workload, number: int) -> float:
    order = [None, False]
    random.Random(f"{workload.name}-{number}").shuffle(order)
    records = {check: _search(workload, number, check) for check in order}
    return records[None].cost_s / records[False].cost_s


def _search(
    workload: Workload, number: int, check_samples: bool | None
) -> SearchRecord:
    rules = SearchRules(strategy="exhaustive", candidates=_CANDIDATES)
    configuration = sweep_search.configuration_of(workload, rules, number)
    with tempfile.TemporaryDirectory() as folder:
        record = sweep_search.find(
            replace(configuration, measure=_MEASURE, check_samples=check_samples),
            Path(folder) / "log",
            lambda _: None,
        )
    failed = [trial.reason for trial in record.trials if trial.reason]
    if failed:
        raise ValueError(f"{workload.name}: {failed[0]}")
    return replace(record, trials=())


def results_of(workloads: Sequence[Workload], pairs: Pairs) -> Results:
    """The ratios of each workload, and of all."""
    rows = [
        _row(workload.name, workload.about, pairs[workload.name])
        for workload in workloads
        if pairs[workload.name]
    ]
    every = [ratio for ratios in pairs.values() for ratio in ratios]
    return Results(
        title="What comparing samples costs a search",
        headline=f"With comparing samples a search takes {statistics.median(every):.3f} times as long in the median.",
        about="Pairs of searches of the same workload with and without comparing samples, in random order.",
        tables=[
            Table("pairs", _COLUMNS, [*rows, _row("all", f"{len(every)} pairs", every)])
        ],
    )


def _row(name: str, about: str, ratios: Sequence[float]) -> tuple[str, ...]:
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    return name, about, f"{statistics.median(ratios):.3f}", spread
