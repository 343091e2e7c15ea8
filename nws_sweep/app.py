"""The Hydra application: checks and announces, searches one configuration per job, reports at the end.

A job records its failure and returns: it never raises into Hydra, whose basic sweeper would hide the other jobs
and skip its callbacks. The report is made after Hydra has returned: an exception in a callback is only a
warning there.
"""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import DictConfig

from nws_sweep import arms, config, embedding, grid, host, hostlock, learning, storage
from nws_sweep.arms import Supervision
from nws_sweep.errors import ConfigurationError, DatasetError, NwsSweepError, TrialError, one_line
from nws_sweep.grid import Plan
from nws_sweep.nursery import Nursery
from nws_sweep.records import ArmSpec, Configuration, SearchCost, SearchRecord, Trial
from nws_sweep.runner import search
from nws_sweep.surroundings import ArmFactory, Surroundings

if TYPE_CHECKING:
    from nws_sweep.terminal import View

logger = logging.getLogger(__name__)

# How often unfinished trials are saved, and that it takes a small part of the time however much there is to write.
_SAVE_EVERY_S = 2.0
_SAVE_SHARE = 20


class Invocation:
    """One call of the command line: its terminal, its plan and the folder of its results once they are known."""

    plan: Plan | None = None
    folder: Path | None = None

    def __init__(self) -> None:
        # What its searches have found, without single batches; a launcher's worker processes have one each.
        self.results: list[SearchRecord] = []
        self.nursery = Nursery()

    @functools.cached_property
    def view(self) -> View:
        """The terminal, made when it is first needed: --help does not wait for rich."""
        from nws_sweep.terminal import View

        return View()

    def has_results(self) -> bool:
        """Whether any job has begun to write its result."""
        return self.folder is not None and storage.holds_results(self.folder)

    def stop_view(self) -> None:
        """Gives the terminal back, if it was taken: cursor and all."""
        if "view" in self.__dict__:
            self.view.stop()


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
    try:
        return _run_and_conclude(current)
    finally:
        current.nursery.close()
        current.stop_view()


def _run_and_conclude(current: Invocation) -> int:
    application = hydra.main(version_base="1.3", config_path=embedding.config_path(), config_name="config")(task)
    status = 0
    try:
        application()
    except KeyboardInterrupt:
        status = 130
    except Exception:
        # What was measured before, by other jobs of a grid, must not go unreported.
        if not current.has_results():
            raise
        logger.exception("a job failed")
        status = 1
    if current.folder is None or not current.has_results():  # --help, --cfg, or nothing was begun
        return status
    return max(status, conclude(current.folder, current.view))


def conclude(folder: Path, view: View) -> int:
    """Writes the report and shows its table; the exit status is 1 if anything failed."""
    from nws_sweep import report

    view.status("writing the report")
    summary, written = report.write(folder)
    view.conclude(summary, written)
    return 0 if summary.succeeded else 1


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
    _check_datasets(shown, current)
    current.plan = plan
    current.folder = storage.claim(Path(plan.folder).absolute())


def _check_writable(folder: Path) -> None:
    """Finds the nearest folder that exists and asks whether something may be made in it."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{folder}: the output folder cannot be made, since {existing} is not writable")


def _check_datasets(shown: list[Configuration], current: Invocation) -> None:
    """Makes each distinct dataset and consumer once: what is missing is told or downloaded before the first trial."""
    view = current.view
    distinct = {repr((c.dataset, c.consumer, c.collate_fn, c.services)): c for c in shown}
    arms.preload(node for c in distinct.values() for node in (c.dataset, c.consumer))
    for configuration in distinct.values():
        name = configuration.columns["dataset"]
        view.status(f"preparing dataset {name}")
        try:
            spec = _spec(configuration, str(Path.cwd()))
            with _services(configuration), current.nursery.start(spec, Supervision(on_progress=view.status)):
                pass
        except TrialError as error:
            raise DatasetError(f"dataset {name} cannot be made: {error}") from error


@contextmanager
def _services(configuration: Configuration) -> Iterator[None]:
    """Whatever must run while the configuration is measured."""
    with ExitStack() as stack:
        for name, node in configuration.services.items():
            try:
                stack.enter_context(instantiate(dict(node), _convert_="all"))
            except NwsSweepError:
                raise
            except Exception as error:  # whatever is wrong with it
                cause = error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
                raise ConfigurationError(one_line(f"services.{name}: {type(cause).__name__}: {cause}")) from error
        yield


def task(composed: DictConfig) -> None:
    """The Hydra job: searches one configuration and writes its files."""
    hydra_config = cast("DictConfig", HydraConfig.get())
    configuration = grid.configuration_of(composed, hydra_config)
    folder, current = Path(hydra_config.runtime.output_dir), invocation()
    if current.folder is None:  # without the callback nothing was checked, but the report is made all the same
        current.folder = folder
    lock_file = composed.paths.lock_file
    measure(configuration, folder, hydra_config.runtime.cwd, current, lock_file)


def measure(
    configuration: Configuration, folder: Path, working_folder: str, current: Invocation, lock_file: str | None = None
) -> SearchRecord:
    """Searches one configuration; its files are written as it goes, its failure is part of them.

    Args:
        configuration: What to measure.
        folder: Where its files belong.
        working_folder: Where relative paths of its dataset begin.
        current: The call of the command line that this belongs to.
        lock_file: Held while measuring, so that there is one measurement at a time on this machine; None for none.
    """
    start = _start_of(configuration, current.results)
    columns = current.plan.varying if current.plan else tuple(configuration.columns)
    current.view.configuration_started(configuration.label_of(columns))
    free = storage.free_folder(folder)
    if start.complete:
        return _repeat(start, folder, free, current.view)
    observer = _Recorder(free, current.view)
    try:
        storage.save(free, start)
        return _search(start, free, working_folder, current, observer, lock_file)
    except Exception as error:
        logger.exception("the search failed")
        return _record_failure(observer.latest or start, error, free, current.view)


def _repeat(known: SearchRecord, folder: Path, free: Path, view: View) -> SearchRecord:
    """A configuration that was searched before under another name, or is in the grid twice: then it has its files."""
    if free == folder:
        storage.save(folder, known)
    view.search_finished(known)
    return known


def _search(
    start: SearchRecord,
    folder: Path,
    working_folder: str,
    current: Invocation,
    observer: _Recorder,
    lock_file: str | None,
) -> SearchRecord:
    view, asked_at = current.view, time.monotonic()
    with hostlock.held(lock_file, str(folder), view.status):
        start = replace(start, cost=SearchCost(waiting_s=time.monotonic() - asked_at))
        surroundings = Surroundings(open_arm=_arm_factory(folder, working_folder, current))
        guess = learning.first_guess(start.configuration, current.results)
        with _services(start.configuration):
            result = search(start, surroundings, observer, guess)
    current.results += learning.without_bursts([result])
    return result


def _start_of(configuration: Configuration, earlier: Sequence[SearchRecord]) -> SearchRecord:
    """The result to begin with: what the same grid has measured already is not measured again."""
    started_at = datetime.now().astimezone().isoformat()
    if same := learning.same_search(configuration, earlier):
        where = same.configuration.label_of(same.configuration.columns)
        return replace(
            same,
            configuration=configuration,
            started_at=started_at,
            stop_reason=f"{same.stop_reason} (measured once, as {where})",
            cost_s=0.0,
            cost=SearchCost(),
        )
    known = learning.same_trials(configuration, earlier)
    facts = next((r.facts for r in earlier if known and r.configuration.dataset == configuration.dataset), None)
    return SearchRecord(
        configuration=configuration, host=host.describe(), started_at=started_at, trials=known, facts=facts
    )


def _arm_factory(folder: Path, working_folder: str, current: Invocation) -> ArmFactory:
    def open_arm(configuration: Configuration, memory_bytes: int | None) -> AbstractContextManager[arms.Arm]:
        spec = _spec(configuration, working_folder, str(folder / storage.ARM_LOG))
        supervision = Supervision(
            timeout_s=configuration.measure.timeout_s,
            memory_budget_bytes=memory_bytes,
            on_progress=current.view.status,
        )
        return current.nursery.start(spec, supervision)

    return open_arm


def _record_failure(result: SearchRecord, error: Exception, folder: Path, view: View) -> SearchRecord:
    reason = str(error) if isinstance(error, NwsSweepError) else one_line(f"{type(error).__name__}: {error}")
    failed = replace(result, error=reason)
    view.failed(reason)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        storage.save(folder, failed)
    except OSError as unwritable:  # a full disk, say: the other configurations may still find room
        logger.error("the failure could not be written: %s", unwritable)
    return failed


def _spec(configuration: Configuration, working_folder: str, log_path: str | None = None) -> ArmSpec:
    return ArmSpec(
        dataset=configuration.dataset,
        consumer=configuration.consumer,
        collate_fn=configuration.collate_fn,
        seed=configuration.seed,
        start_method=multiprocessing.get_start_method(allow_none=True),
        working_folder=working_folder,
        log_path=log_path,
    )


class _Recorder:
    """Writes every trial to disk as soon as it is done, and between rounds what there is of the others."""

    def __init__(self, folder: Path, view: View) -> None:
        self._folder = folder
        self._view = view
        self._saved_at = time.monotonic()
        self._saving_s = 0.0
        self.latest: SearchRecord | None = None

    def turn_started(self, num_workers: int) -> None:
        self._view.turn_started(num_workers)

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        self._save(result)
        self._view.trial_finished(trial, result.configuration)

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        if time.monotonic() - self._saved_at > max(_SAVE_EVERY_S, _SAVE_SHARE * self._saving_s):
            self._save(result_so_far())

    def interrupted(self, result: SearchRecord) -> None:
        self._save(result)

    def search_finished(self, result: SearchRecord) -> None:
        self._save(result)
        self._view.search_finished(result)

    def _save(self, result: SearchRecord) -> None:
        self.latest = result
        began = time.monotonic()
        storage.save(self._folder, result)
        self._saved_at = time.monotonic()
        self._saving_s = self._saved_at - began
