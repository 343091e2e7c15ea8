"""The search of a DataLoader or a dataset of this process, which is pickled for trial
processes."""

import functools
import math
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from nws_sweep import units
from nws_sweep.api.request import Request
from nws_sweep.dataloading import pickling
from nws_sweep.dataloading.inputs import LoaderInput
from nws_sweep.errors import OutOfTime, TimeLimitReached
from nws_sweep.model.time_limit import limit_s
from nws_sweep.records import Configuration, SearchRecord
from nws_sweep.records.result_cache import ResultStore
from nws_sweep.report import snippets
from nws_sweep.report.progress import ProgressReporter
from nws_sweep.searching.search import new_record, search
from nws_sweep.searching.session import Session
from nws_sweep.system import host_lock, processes, temporary
from nws_sweep.trials import forking
from nws_sweep.trials.dataset_server import DatasetServer, spec_of
from nws_sweep.trials.environment import Environment, ProcessFactory
from nws_sweep.trials.on_demand import START_LIMIT_S


class LoaderSearch:
    """Searches a DataLoader in trial processes, in this rank only.

    Args:
        loader_input: What is measured.
        request: The keywords of ``search``.
        point: Further columns of tables, by the axes of a grid.
    """

    def __init__(
        self,
        loader_input: LoaderInput,
        request: Request,
        point: Mapping[str, Any] | None = None,
    ) -> None:
        self._input, self._request = loader_input, request
        self.configuration = self._configuration(point or {})
        self.is_comparable = bool(loader_input.fingerprint)  # with other searches
        reuse = request.options.reuse
        self._session = Session(
            store=ResultStore() if self.is_comparable else None,
            reuse=reuse,
            lock_file=host_lock.usual(),
        )
        # A search that does not use what is stored does not replace it by less than
        # an answer.
        keep = None if reuse == "never" else self._session.keep
        self._reporter = ProgressReporter(request.progress, keep)

    def _configuration(self, point: Mapping[str, Any]) -> Configuration:
        loader_input, options = self._input, self._request.options
        settings = loader_input.settings
        columns = {
            "dataset": loader_input.name,
            "batch_size": settings.batch_size,
            "pin_memory": settings.pin_memory,
            "prefetch_factor": settings.prefetch_factor,
            "patience": options.search.patience,
            **point,
        }
        return Configuration(
            columns=columns,
            dataset=pickling.placeholder(loader_input.name, loader_input.fingerprint),
            training_step=options.training_step,
            loader=settings,
            measure=options.measure,
            search=options.search,
            check_samples=options.check_samples,
            ranks=options.ranks,
        )

    def run(self) -> tuple[SearchRecord, bool]:
        """Searches; returns the record, and whether an earlier search has stored it."""
        check_pickling = functools.cache(self._check_pickling)

        def check_and_announce(line: str) -> None:
            """Ends a search that cannot be pickled before it waits for another
            search."""
            check_pickling()
            self._reporter.note(line)

        start = new_record(self.configuration)
        try:
            with closing(self._reporter), processes.ended_by_taken_signals():
                record, is_stored = self._session.run(
                    start, self._measure, check_and_announce, self._reporter.note
                )
        except TimeLimitReached:  # while the dataset was made
            raise OutOfTime(
                f"the dataset was not made within {units.seconds(START_LIMIT_S)}"
            ) from None
        if is_stored:
            name, when = self._input.name, units.moment(record.started_at)
            self._reporter.answer(f"{name}: {snippets.answer_line(record)}")
            self._reporter.note(
                f"{name}: measured on {when}; reuse=False measures again"
            )
        return record, is_stored

    def _measure(self, start: SearchRecord) -> SearchRecord:
        with temporary.folder() as folder, DatasetServer() as dataset_server:
            pickled = self._pickled(Path(folder))
            self._reporter.note(announcement(self._input, start))
            spec = spec_of(pickled, str(Path.cwd()))
            start_process = dataset_server.factory(spec, self._reporter.print_line)
            if self._input.settings_unknown:
                start = _with_settings_of_maker(start, start_process)
            environment = Environment(
                start_process=start_process, fork_s=forking.seconds_of_a_fork()
            )
            self._reporter.begin(limit_s(self.configuration))
            return search(start, environment, self._reporter)

    def _check_pickling(self) -> None:
        with temporary.folder() as folder:
            self._pickled(Path(folder))

    def _pickled(self, folder: Path) -> Configuration:
        """Pickles the DataLoader and the training step into a folder; returns what
        trial processes make from them."""
        pickled = replace(self.configuration, dataset=self._input.pickle_into(folder))
        if callable(self._request.training_step):
            step = pickling.write(
                "the training step",
                self._request.training_step,
                folder / "training_step",
            )
            pickled = replace(pickled, training_step=step)
        return pickled


def announcement(loader_input: LoaderInput, start: SearchRecord) -> str:
    """Says what is measured, for how long, and what an earlier search has measured."""
    configuration = start.configuration
    name = loader_input.name
    if loader_input.wrapper:
        name += f" (only the DataLoader in a {loader_input.wrapper})"
    at_most_s, limit = limit_s(configuration), "without a time limit"
    if at_most_s < math.inf:
        limit = f"at most {units.limit(at_most_s)}"
    line = f"measuring {name}{configuration.rank_suffix}: {limit}"
    if start.measured_numbers:
        measured = ", ".join(map(str, start.measured_numbers))
        when = f"measured on {units.moment(start.started_at)}"
        line += f"; num_workers={measured} {when}, before an earlier search was ended"
    return line


def _with_settings_of_maker(
    start: SearchRecord, start_process: ProcessFactory
) -> SearchRecord:
    """Sets the settings of the DataLoader that a function returned, or DataLoader's
    defaults."""
    configuration = start.configuration
    with start_process(None, time.perf_counter() + START_LIMIT_S) as process:
        settings = process.facts.loader
    assert settings is not None  # the trial process always reports it
    columns = dict(configuration.columns)
    for name in columns:
        if hasattr(settings, name):
            columns[name] = getattr(settings, name)
    return replace(
        start, configuration=replace(configuration, loader=settings, columns=columns)
    )
