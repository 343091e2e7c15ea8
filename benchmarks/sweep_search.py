"""Searches by nws_sweep with its default rules of measuring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from benchmarks.catalogue import SEARCH_WORKLOADS, Workload, chosen
from benchmarks.epoch_times import PREFETCH_FACTOR
from nws_sweep.executor.dataset_server import DatasetServer, spec_of
from nws_sweep.measurement.environment import Environment
from nws_sweep.results import Configuration, LoaderSettings, MeasureRules, SearchRecord, SearchRules, Trial
from nws_sweep.system import host
from nws_sweep.tuning.runner import search


def configuration_of(workload: Workload, rules: SearchRules, seed: int) -> Configuration:
    """The configuration of a search; ``seed`` decides the order of the samples."""
    return Configuration(
        columns={"dataset": workload.name},
        dataset=workload.dataset,
        consumer=workload.consumer,
        loader=LoaderSettings(
            batch_size=workload.batch_size, prefetch_factor=PREFETCH_FACTOR, shuffle=workload.shuffle
        ),
        measure=MeasureRules(),
        search=rules,
        seed=seed,
    )


def find(configuration: Configuration, log_path: Path, print_line: Callable[[str], None]) -> SearchRecord:
    """Searches; output of trial processes is appended to ``log_path``, and each trial gets a line."""
    started_at = datetime.now().astimezone().isoformat()
    start = SearchRecord(configuration=configuration, host=host.describe(), started_at=started_at)
    log, folder = str(log_path.absolute()), str(Path.cwd())
    with DatasetServer() as dataset_server:
        start_process = dataset_server.factory(lambda chosen: spec_of(chosen, folder, log))
        return search(start, Environment(start_process=start_process), TrialPrinter(print_line))


def warm_up(log_path: Path) -> None:
    """A short search that is not counted: the first one of a process imports modules."""
    rules = SearchRules(strategy="exhaustive", candidates=(0, 1))
    (workload,) = chosen(SEARCH_WORKLOADS, ("short",))
    configuration = configuration_of(workload, rules, 0)
    find(
        replace(configuration, measure=MeasureRules(window_s=0.01, windows=1, precision=1.0)), log_path, lambda _: None
    )


class TrialPrinter:
    """An observer of a search that prints a line per finished trial."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        self._print_line(f"num_workers={trial.num_workers}: {trial.state.value} {trial.reason}".rstrip())

    def _ignore(self, *_: object) -> None:
        pass

    slice_started = note = round_finished = interrupted = search_finished = _ignore
