"""Our side of the comparisons: searches by nws_sweep, measuring by the rules that it has by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from benchmarks.catalogue import PREFETCH_FACTOR, Workload
from benchmarks.figures import OURS, Figure
from nws_sweep import host
from nws_sweep.nursery import Nursery, spec_of
from nws_sweep.records import (
    Configuration,
    Estimate,
    LoaderSettings,
    MeasureRules,
    SearchRecord,
    SearchRules,
    Trial,
)
from nws_sweep.runner import search
from nws_sweep.surroundings import ArmFactory, Surroundings


def measure(
    workload: Workload, workers: Sequence[int], number: int, log_path: Path, say: Callable[[str], None]
) -> list[Figure]:
    """Searches, and makes a figure of each trial.

    Args:
        workload: What is loaded.
        workers: The candidates.
        number: The round; it is the seed too, so that rounds differ in the order of the samples.
        log_path: File that what the arms print is appended to.
        say: Called with a line when a trial is finished.
    """
    rules = SearchRules(strategy="exhaustive", candidates=tuple(sorted(workers)))
    result = find(workload, rules, number, log_path, say)
    return [_figure(workload, trial, number) for trial in result.trials]


def find(workload: Workload, rules: SearchRules, seed: int, log_path: Path, say: Callable[[str], None]) -> SearchRecord:
    """Searches.

    Args:
        workload: What is loaded.
        rules: How it is searched.
        seed: Decides the order of the samples.
        log_path: File that what the arms print is appended to.
        say: Called with a line when a trial is finished.
    """
    start = SearchRecord(
        configuration=_configuration(workload, rules, seed),
        host=host.describe(),
        started_at=datetime.now().astimezone().isoformat(),
    )
    with Nursery() as nursery:
        return search(start, Surroundings(open_arm=arm_factory(nursery, log_path)), Teller(say))


def _configuration(workload: Workload, rules: SearchRules, seed: int) -> Configuration:
    return Configuration(
        columns={"dataset": workload.name},
        dataset=workload.dataset,
        consumer=workload.consumer,
        loader=LoaderSettings(batch_size=workload.batch_size, prefetch_factor=PREFETCH_FACTOR, shuffle=True),
        measure=MeasureRules(),
        search=rules,
        seed=seed,
    )


def arm_factory(nursery: Nursery, log_path: Path) -> ArmFactory:
    """Starts arms in a nursery; what they print is appended to the log."""

    log, folder = str(log_path.absolute()), str(Path.cwd())
    return nursery.factory(lambda configuration: spec_of(configuration, folder, log))


def _figure(workload: Workload, trial: Trial, number: int) -> Figure:
    found = trial.measurement
    believed = found if trial.objective_s is not None else None
    batch = believed.batch_s if believed else None
    return Figure(
        workload=workload.name,
        workers=trial.num_workers,
        round=number,
        kind=OURS,
        batch_s=batch.value if batch else None,
        epoch_s=believed.epoch_s if believed else None,
        half_width=half_width(batch) if batch else None,
        detail={
            "state": trial.state.value,
            "reason": trial.reason,
            "notes": list(trial.notes),
            "startup_s": found.startup_s if found else None,
            "wait_s": found.wait_s if found else None,
            "consume_s": found.consume_s if found else None,
            "cpu_s": found.cpu_s if found else None,
            "bias_bound": found.bias_bound if found else None,
            "bursts": [[b.kind.value, b.batches, b.elapsed_s, b.startup_s, b.produced] for b in trial.bursts],
            "cost_s": trial.cost_s,
        },
    )


def half_width(estimate: Estimate) -> float | None:
    """Half the width of an interval as a share of the value; None without an interval."""
    if estimate.low is None or estimate.high is None:
        return None
    return (estimate.high - estimate.low) / (2 * estimate.value)


class Teller:
    """Tells of finished trials only, a line each."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def turn_started(self, num_workers: int) -> None:
        """Not told."""

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        self._say(f"num_workers={trial.num_workers}: {trial.state.value} {trial.reason}".rstrip())

    def note(self, line: str) -> None:
        """Nothing."""

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        """Not told."""

    def interrupted(self, result: SearchRecord) -> None:
        """Not told."""

    def search_finished(self, result: SearchRecord) -> None:
        """Not told."""
