"""The Hydra application: checks and announces, searches one configuration per job, reports at the end.

A job records its failure and returns: it never raises into Hydra, whose basic sweeper would hide the other jobs
and skip its callbacks. The report is made after Hydra has returned: an exception in a callback is only a
warning there.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import multiprocessing
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from nws_sweep import arms, config, grid, host, storage
from nws_sweep.errors import ConfigurationError, DatasetError, NotARunError, NwsSweepError, TrialError, one_line
from nws_sweep.grid import Plan
from nws_sweep.records import ArmSpec, Configuration, SearchResult
from nws_sweep.runner import search

if TYPE_CHECKING:
    from nws_sweep.analysis import Summary
    from nws_sweep.terminal import View

logger = logging.getLogger(__name__)


class Invocation:
    """One call of the command line: its terminal, and its plan once it is known."""

    plan: Plan | None = None

    @functools.cached_property
    def view(self) -> View:
        """The terminal, made when it is first needed: --help does not wait for rich."""
        from nws_sweep.terminal import View

        return View()


# Hydra makes the callback and calls the task by itself; this is how both meet the call that they belong to. In another
# process (a launcher's worker) there is none, and a job works alone.
_current: ContextVar[Invocation | None] = ContextVar("nws_sweep_invocation", default=None)


def invocation() -> Invocation:
    """The current invocation, or one of its own for a job that runs in a launcher's worker process."""
    current = _current.get()
    if current is None:
        current = Invocation()
        _current.set(current)
    return current


def run() -> int:
    """Runs what the command line (``sys.argv``) says.

    Returns:
        The exit status: 0 if every configuration was measured, 1 if one or more failed, 130 if interrupted.

    Raises:
        NwsSweepError: If the command line or the configuration is wrong.
    """
    current = Invocation()
    _current.set(current)
    config.register()
    interrupted = False
    try:
        hydra.main(version_base="1.3", config_path=config.config_path(), config_name="config")(task)()
    except KeyboardInterrupt:
        interrupted = True
    if current.plan is None:  # --help, --cfg and the like
        return 130 if interrupted else 0
    if interrupted:
        with contextlib.suppress(NotARunError):  # nothing was begun
            conclude(Path(current.plan.folder), current.view)
        return 130
    return conclude(Path(current.plan.folder), current.view)


def conclude(folder: Path, view: View) -> int:
    """Writes the report and shows its table; the exit status is 1 if anything failed."""
    from nws_sweep import report

    view.status("writing the report")
    summary, written = report.write(folder)
    view.conclude(summary, written)
    return status_of(summary)


def status_of(summary: Summary) -> int:
    """0 if every configuration was measured without a failure, else 1."""
    complete = all(c.run.result.complete for c in summary.configurations)
    return 0 if complete and not summary.failures and not summary.stored.unreadable else 1


def prepare(composed: DictConfig, *, is_grid: bool) -> None:
    """Checks everything that is about to run and announces it; called before Hydra makes a folder.

    Raises:
        NwsSweepError: If a value, a dataset or the output folder is wrong.
    """
    current = invocation()
    if is_grid:
        plan, shown = grid.check(composed, GlobalHydra.instance().config_loader())
    else:
        plan, shown = grid.check_single(composed)
    _check_writable(Path(plan.folder))
    current.view.announce(plan)
    _check_datasets(shown, current.view)
    current.plan = replace(plan, folder=str(Path(plan.folder).absolute()))


def _check_writable(folder: Path) -> None:
    """Finds the nearest folder that exists and asks whether something may be made in it."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{folder}: the output folder cannot be made, since {existing} is not writable")


def _check_datasets(shown: list[Configuration], view: View) -> None:
    """Makes each distinct dataset and consumer once: what is missing is told or downloaded before the first trial."""
    distinct = {repr((c.dataset, c.consumer, c.collate_fn)): c for c in shown}
    arms.preload(configuration.dataset for configuration in distinct.values())
    for configuration in distinct.values():
        name = configuration.columns["dataset"]
        view.status(f"preparing dataset {name}")
        try:
            with arms.start(_spec(configuration), on_progress=view.status):
                pass
        except TrialError as error:
            raise DatasetError(f"dataset {name} cannot be made: {error}") from error


def task(composed: DictConfig) -> None:
    """The Hydra job: searches one configuration and writes its files."""
    hydra_config = cast("DictConfig", HydraConfig.get())
    configuration = grid.configuration_of(composed, hydra_config)
    measure(configuration, Path(hydra_config.runtime.output_dir), invocation())


def measure(configuration: Configuration, folder: Path, current: Invocation) -> SearchResult:
    """Searches one configuration; its files are written as it goes, its failure is part of them."""
    start = SearchResult(
        configuration=configuration, host=host.describe(), started_at=datetime.now().astimezone().isoformat()
    )
    storage.save(folder, start)
    view = current.view
    columns = current.plan.varying if current.plan else tuple(configuration.columns)
    view.configuration_started(configuration.label_of(columns))
    observer = _Recorder(folder, view)

    @contextlib.contextmanager
    def open_arm(configuration: Configuration) -> Iterator[arms.Arm]:
        spec = _spec(configuration, str(folder / storage.ARM_LOG))
        with arms.start(spec, configuration.measure.timeout_s, view.status) as arm:
            yield arm

    try:
        return search(start, open_arm, observer)
    except Exception as error:
        logger.exception("the search failed")
        return _record_failure(observer.latest or start, error, folder, view)


def _record_failure(result: SearchResult, error: Exception, folder: Path, view: View) -> SearchResult:
    reason = str(error) if isinstance(error, NwsSweepError) else one_line(f"{type(error).__name__}: {error}")
    failed = replace(result, error=reason)
    storage.save(folder, failed)
    view.failed(reason)
    return failed


def _spec(configuration: Configuration, log_path: str | None = None) -> ArmSpec:
    return ArmSpec(
        dataset=configuration.dataset,
        consumer=configuration.consumer,
        collate_fn=configuration.collate_fn,
        seed=configuration.seed,
        start_method=multiprocessing.get_start_method(allow_none=True),
        log_path=log_path,
    )


class _Recorder:
    """Writes every trial to disk as soon as it is done, then shows it."""

    def __init__(self, folder: Path, view: View) -> None:
        self._folder = folder
        self._view = view
        self.latest: SearchResult | None = None

    def trial_started(self, num_workers: int) -> None:
        self._view.trial_started(num_workers)

    def trial_finished(self, result: SearchResult) -> None:
        self.latest = result
        storage.save(self._folder, result)
        self._view.trial_finished(result)

    def search_finished(self, result: SearchResult) -> None:
        self.latest = result
        storage.save(self._folder, result)
        self._view.search_finished(result)
