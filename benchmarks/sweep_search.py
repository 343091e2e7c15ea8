"""Searches by nws_sweep with its default rules of measuring."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.catalogue import Workload
from benchmarks.epoch_times import PREFETCH_FACTOR
from nws_sweep.records import (
    Configuration,
    LoaderSettings,
    MeasureRules,
    SearchRecord,
    SearchRules,
    Trial,
)
from nws_sweep.searching.search import new_record, search
from nws_sweep.trials.dataset_server import DatasetServer, spec_of
from nws_sweep.trials.environment import Environment


def configuration_of(
    workload: Workload, rules: SearchRules, seed: int
) -> Configuration:
    """The configuration of a search; ``seed`` decides the order of the samples.

    prefetch_factor is ``PREFETCH_FACTOR`` unless the rules leave it to the search.
    """
    return Configuration(
        columns={"dataset": workload.name},
        dataset=workload.dataset,
        training_step=workload.training_step,
        loader=LoaderSettings(
            batch_size=workload.batch_size,
            prefetch_factor=None if rules.settings is None else PREFETCH_FACTOR,
            shuffle=workload.shuffle,
        ),
        measure=MeasureRules(),
        search=rules,
        seed=seed,
    )


def find(
    configuration: Configuration, log_path: Path, print_line: Callable[[str], None]
) -> SearchRecord:
    """Searches; output of trial processes is appended to ``log_path``, and each trial
    gets a line."""
    start = new_record(configuration)
    log, folder = str(log_path.absolute()), str(Path.cwd())
    with DatasetServer() as dataset_server:
        start_process = dataset_server.factory(
            spec_of(start.configuration, folder, log)
        )
        return search(
            start, Environment(start_process=start_process), TrialPrinter(print_line)
        )


class TrialPrinter:
    """An observer of a search that prints a line per finished trial."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        self._print_line(
            f"num_workers={trial.num_workers}: {trial.state.value} {trial.reason}".rstrip()
        )

    def _ignore(self, *_: object) -> None:
        pass

    slice_started = note = round_finished = interrupted = search_finished = _ignore
