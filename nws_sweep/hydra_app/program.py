"""What nws_sweep does in another Hydra program: callbacks that start a hook
(``programs.program_hook``) in each job.

The answer of a job is written in the job, which may run in any process, and the report
of a multirun when the program ends. Hydra turns an exception in a callback into a
warning, so a wrong option raises SystemExit.

- ``+nws_sweep=search``: the program runs until training begins; that loader is
  searched, and the job ends by SystemExit, which few programs catch, and which Hydra is
  made to take for the return of the job.
- ``+nws_sweep=autotune``: the program runs unchanged, and its training DataLoader tunes
  itself.
- ``+nws_sweep=watch``: the program runs unchanged, and its log says how long training
  waits for data.
"""

import atexit
import logging
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core import utils
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from nws_sweep.analysis.summary import summarise
from nws_sweep.config.embedding import GROUP
from nws_sweep.config.project_keys import keys_of
from nws_sweep.config.schema import column_value, folder_name
from nws_sweep.errors import NwsSweepError
from nws_sweep.hydra_app import composing
from nws_sweep.hydra_app.grid import without_hydra
from nws_sweep.programs.program_hook import ProgramHook, Reporting, SearchEnded, Wanted
from nws_sweep.programs.reports import is_first_rank, report
from nws_sweep.programs.search_hook import SearchHook
from nws_sweep.programs.tuning_hook import TuningHook
from nws_sweep.records import SearchRecord, atomic, storage
from nws_sweep.report import formats

logger = logging.getLogger(__name__)

FOLDER = "nws_sweep"  # of a run, or of a multirun with one folder per job
_OPTION = "hydra.callbacks.nws_sweep.loader="


class ProgramCallback(Callback):
    """Starts a hook in each job; subclasses say which.

    Args:
        loader: The selected DataLoader; see ``programs.program_hook``.
        options: Of the hook.
    """

    kind: type[ProgramHook]  # of the hook

    def __init__(self, loader: Wanted = None, **options: Any) -> None:
        # Set before the first job, since launchers pickle the callback.
        self._options: dict[str, Any] = {"loader": loader, **options}
        self._grid: Path | None = None  # folder of the multirun; None for a single run
        self._hook: ProgramHook | None = None
        self._config: DictConfig | None = None  # of the job

    def keep(self, record: SearchRecord) -> None:
        """Writes the answer of a job, if there is more than the line that was
        logged."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Prepares the report."""
        composing.note_callback()
        if is_first_rank():
            self._grid = Path(config.hydra.sweep.dir).absolute() / FOLDER
            # Hydra 1.3 does not call on_multirun_end after a failed job.
            atexit.register(_report_grid, self._grid, os.getpid())

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Starts the hook."""
        composing.note_callback()
        reporting = Reporting(
            announce=logger.info,
            warn=logger.error,
            keep=self.keep,
            progress=False,
            option=_OPTION,
        )
        try:
            self._hook = self.kind(reporting, **self._options)
        except (NwsSweepError, TypeError) as error:
            # TypeError: there is no such option
            raise SystemExit(f"nws_sweep: {error}") from error
        self._config = config
        # Hydra calls on_job_end only after an Exception
        atexit.register(self._hook.end, config.hydra.job.name)
        self._hook.start()

    def on_job_end(
        self, config: DictConfig, job_return: JobReturn, **kwargs: Any
    ) -> None:
        """Ends the hook."""
        if self._hook is not None:
            self._hook.end(config.hydra.job.name)

    def save(self, record: SearchRecord) -> Path | None:
        """Writes the files of the job's answer; returns their folder, None in ranks
        other than 0."""
        config = self._config
        if config is None or not is_first_rank():
            return None
        overrides = [
            override
            for override in config.hydra.overrides.task
            if _key(override) != GROUP
        ]
        folder = Path(config.hydra.runtime.output_dir) / FOLDER
        if self._grid:
            folder = self._grid / folder_name(overrides, nameless=())
        # a loader that was chosen may be of any split
        is_training = self._options["loader"] is None
        storage.save(
            folder,
            of_program(
                record, without_hydra(config), overrides, is_training=is_training
            ),
        )
        return folder


def of_program(
    record: SearchRecord,
    config: DictConfig,
    overrides: Sequence[str],
    *,
    is_training: bool = True,
) -> SearchRecord:
    """Adds a column for each override, and the keys of the DataLoader's settings in the
    program's config, to a record.

    An override that sets a column, as ``data.batch_size=64`` sets batch_size, needs no
    separate column.
    """
    columns = dict(record.configuration.columns)
    for override in overrides:
        key = _key(override)
        value = column_value(config, key, override)
        last_part = key.rpartition(".")[2]
        if columns.get(last_part) != value:
            columns[key] = value
    record = replace(
        record, configuration=replace(record.configuration, columns=columns)
    )
    if record.facts is None:
        return record
    return replace(
        record,
        facts=replace(record.facts, project=keys_of(config, is_training=is_training)),
    )


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+")


def _report_grid(folder: Path, process: int) -> None:
    # not in a forked process
    if os.getpid() == process and storage.holds_results(folder):
        report(folder)


def _is_about_a_failure(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], SearchEnded))


class SearchCallback(ProgramCallback):
    """Searches a DataLoader of each job; options are keywords of
    ``nws_sweep.search``."""

    kind = SearchHook

    def keep(self, record: SearchRecord) -> None:
        """Writes the answer and its report."""
        if folder := self.save(record):
            report(folder, prints=self._grid is None)
            for configuration in summarise(storage.find(folder)).configurations:
                for line in configuration.conclusion.lines:
                    logger.info("%s", line)
                overrides = formats.overrides_in_place(configuration)
                if overrides:
                    logger.info("set    %s", overrides)
                for line in formats.left_out(configuration):
                    logger.info("note   %s", line)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Starts the hook, and makes Hydra catch the end of the job, as it catches
        Exception."""
        super().on_job_start(config, **kwargs)
        # Hydra's run_job catches ``Exception`` around the job, by this name. A
        # callback cannot replace the job, and programs would catch an Exception in
        # place of SearchEnded, and train on.
        setattr(utils, "Exception", (Exception, SearchEnded))  # noqa: B010
        # Hydra 1.4 would write into the job's log that it has failed
        for handler in logging.getLogger().handlers:
            handler.addFilter(_is_about_a_failure)

    def on_job_end(
        self, config: DictConfig, job_return: JobReturn, **kwargs: Any
    ) -> None:
        """Makes Hydra take the job for completed, or for failed if the search failed or
        there was none."""
        vars(utils).pop("Exception", None)
        super().on_job_end(config, job_return, **kwargs)
        hook = self._hook
        if hook is None:
            return
        if hook.status and (
            hook.ending is not None or job_return.status is JobStatus.COMPLETED
        ):
            job_return.status = JobStatus.FAILED
            job_return.return_value = SearchEnded(hook.status)
        elif hook.ending is not None:
            # also if the program has made another error of it
            job_return.status, job_return.return_value = JobStatus.COMPLETED, None


class AutotuneCallback(ProgramCallback):
    """Tunes the training DataLoader of each job while it runs; options are keywords of
    ``nws_sweep.autotune``."""

    kind = TuningHook

    def keep(self, record: SearchRecord) -> None:
        """Writes the answer."""
        if folder := self.save(record):
            for configuration in summarise(storage.find(folder)).configurations:
                atomic.write_text(
                    folder / storage.BEST, formats.best_file(configuration).file
                )
            logger.info(
                "`python -m nws_sweep report %s` shows more", shlex.quote(str(folder))
            )


class WatchCallback(ProgramCallback):
    """Says how long training waits for data in each job, and changes nothing."""

    kind = TuningHook

    def __init__(self, loader: Wanted = None) -> None:
        super().__init__(loader, watches=True)
