"""One job of a grid, which searches a configuration and writes its files; what all jobs of a call share."""

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.errors import HydraException
from omegaconf import DictConfig

from nws_sweep.config.hydra_versions import instantiate
from nws_sweep.errors import ConfigurationError, DatasetError, NotARunError, NwsSweepError, TrialError, one_line
from nws_sweep.executor.dataset_server import DatasetServer, spec_of
from nws_sweep.executor.environment import Environment
from nws_sweep.executor.trial_process import Supervision
from nws_sweep.hydra_app import resuming
from nws_sweep.hydra_app.grid import Plan
from nws_sweep.report import writer
from nws_sweep.results import Configuration, DatasetFacts, SearchRecord, Trial, atomic, storage
from nws_sweep.results.result_cache import ResultStore
from nws_sweep.searching import earlier_results
from nws_sweep.searching.search import new_record, search
from nws_sweep.system import host, host_lock
from nws_sweep.system.processes import Interrupts

if TYPE_CHECKING:
    from nws_sweep.hydra_app.terminal import View

logger = logging.getLogger(__name__)

_SAVE_EVERY_S = 5.0  # unfinished trials


@dataclass(kw_only=True, eq=False)
class Session:
    """One call of the command line. A process that a launcher started has a separate session, without a plan.

    The first two are set when all values, datasets and the folder have been checked.
    """

    plan: Plan | None = None
    folder: Path | None = None
    # Searches of this process, without windows, from which later searches learn.
    results: list[SearchRecord] = field(default_factory=list)
    _folders: list[Path] = field(default_factory=list)  # of these results
    interrupts: Interrupts = field(default_factory=Interrupts)
    dataset_server: DatasetServer = field(default_factory=DatasetServer)
    resources: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _facts: dict[str, DatasetFacts] = field(default_factory=dict)  # by what makes the dataset

    @functools.cached_property
    def view(self) -> "View":
        """The terminal, made when it is first needed: ``--help`` must not import rich."""
        from nws_sweep.hydra_app.terminal import View

        view = View()
        self.resources.callback(view.stop)
        return view

    def facts(self, configuration: Configuration, working_folder: str) -> DatasetFacts:
        """The facts of a dataset, which is made at the first call; NwsSweepError if it cannot be made."""
        # All that must be made before a configuration is measured; many points of a grid share it.
        parts = (configuration.dataset, configuration.training_step, configuration.collate_fn, configuration.services)
        key, name = repr((*parts, configuration.ranks)), configuration.columns["dataset"]
        if key not in self._facts:
            self.view.status(f"preparing dataset {name}")
            spec, supervision = spec_of(configuration, working_folder), Supervision(on_progress=self.view.status)
            try:
                with services(configuration), self.dataset_server.start(spec, supervision) as process:
                    self._facts[key] = process.facts
            except TrialError as error:
                raise DatasetError(f"dataset {name} cannot be made: {error}") from error
        return self._facts[key]

    def remember(self, result: SearchRecord, folder: Path) -> None:
        """Makes a result available to later searches, without windows to save memory."""
        self.results.append(replace(result, trials=tuple(replace(trial, windows=()) for trial in result.trials)))
        self._folders.append(folder)

    def restore(self) -> None:
        """Writes the results again whose folders something has removed meanwhile."""
        for folder, result in zip(self._folders, self.results, strict=True):
            if (folder / storage.RESULT).exists():
                continue
            try:
                storage.save(folder, result)
                self.view.note(f"{folder} was removed: its result is written again, without the times of batches")
            except OSError as error:
                self.view.note(f"{folder} was removed, and its result cannot be written again: {error}")

    def close(self) -> None:
        """Ends the processes, releases the folder and restores the terminal."""
        self.dataset_server.close()
        self.resources.close()


@contextlib.contextmanager
def services(configuration: Configuration) -> Iterator[None]:
    """Runs the services of a configuration, such as a server of its data; ConfigurationError if one fails to start."""
    with contextlib.ExitStack() as stack:
        for name, node in configuration.services.items():
            try:
                stack.enter_context(instantiate(dict(node), _convert_="all"))
            except (Exception, SystemExit) as error:  # code of the user
                # Hydra's own error names only the target.
                cause = error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
                raise ConfigurationError(one_line(f"services.{name}: {type(cause).__name__}: {cause}")) from error
        yield


def measure(
    configuration: Configuration, folder: Path, composed: DictConfig, session: Session, working_folder: str
) -> SearchRecord | None:
    """Searches one configuration and writes its files during the search; None after a failure, which they record."""
    session.interrupts.check()
    record, message = resuming.resume(folder, configuration, host.describe(configuration.ranks))
    if message:
        logger.warning(message)
        session.view.note(message)
    if record is not None and record.is_final:
        skip_final(storage.StoredRun(folder=folder, result=record), session)
        return record
    session.view.configuration_started(_label(configuration, session))
    store = ResultStore(composed.paths.cache_dir)
    start = record or _start(configuration, store, composed.reuse, session, working_folder)
    recorder = _Recorder(folder, session)
    if start.is_final:
        recorder.search_finished(start)
        session.remember(start, folder)
        _draw(folder, session)
        return start
    start = replace(start, trials=start.results, error="", stop_reason="", verdict=None)  # the search goes on
    atomic.remove_temporary(folder)
    try:
        storage.save(folder, start)
        with host_lock.held(composed.paths.lock_file, session.view.status, session.view.note):
            result = _search(start, folder, session, recorder, working_folder)
            _draw(folder, session)  # while no other job of this machine measures
        session.remember(result, folder)
        store.add(result, working_folder)
    except (Exception, SystemExit) as error:  # a service may call sys.exit
        logger.exception("the search failed")
        _record_failure(recorder.latest or start, error, folder, session)
        return None
    return result


def _start(
    configuration: Configuration, store: ResultStore, reuse: str, session: Session, working_folder: str
) -> SearchRecord:
    """The final result of an earlier call for the same samples and code; else what this call knows already."""
    start = initial_record(configuration, session.results)
    stored = store.find(configuration, start.host, reuse, working_folder)
    if stored is None or stored.facts is None:
        return start
    try:
        facts = session.facts(configuration, working_folder)
    except NwsSweepError:  # the search reports it
        return start
    if (facts.samples, facts.code) != (stored.facts.samples, stored.facts.code):
        return start
    if not stored.is_final:
        return earlier_results.continued(start, stored)
    reason = f"{stored.stop_reason} (measured before, at {stored.started_at})"
    return replace(stored, stop_reason=reason, cost_s=0.0)


def skip_final(run: storage.StoredRun, session: Session) -> None:
    """Shows a result that an earlier program found, and makes it available to later searches."""
    session.remember(run.result, run.folder)
    session.view.configuration_finished(_label(run.result.configuration, session), run.result)
    if not writer.has_pictures(run.folder):  # the earlier program was killed before it had drawn them
        atomic.remove_temporary(run.folder)
        _draw(run.folder, session)


def _label(configuration: Configuration, session: Session) -> str:
    return configuration.label_of(session.plan.varying if session.plan else tuple(configuration.columns))


def _search(
    start: SearchRecord, folder: Path, session: Session, recorder: "_Recorder", working_folder: str
) -> SearchRecord:
    view, log = session.view, str(folder / storage.TRIAL_LOG)
    start_process = session.dataset_server.factory(lambda chosen: spec_of(chosen, working_folder, log), view.status)
    environment = Environment(start_process=start_process, check_interrupts=session.interrupts.check)
    guess = earlier_results.first_guess(start.configuration, session.results)
    with services(start.configuration), session.interrupts.deferred():
        return search(start, environment, recorder, guess)


def _draw(folder: Path, session: Session) -> None:
    """Draws the figures of a point of a grid; those of a single run are part of its report."""
    if session.plan is None or session.plan.configurations > 1:
        writer.try_pictures(folder)


def initial_record(configuration: Configuration, earlier: Sequence[SearchRecord] = ()) -> SearchRecord:
    """The record at the start of a search, with the trials that the same grid has measured already."""
    start = new_record(configuration)
    if same := earlier_results.measured_once(configuration, earlier):
        return replace(same, started_at=start.started_at)
    trials = earlier_results.same_trials(configuration, earlier)
    facts = next((r.facts for r in earlier if trials and r.configuration.dataset == configuration.dataset), None)
    return replace(start, trials=trials, facts=facts)


def record_lost_job(folder: Path, configuration: Configuration, error: BaseException, session: Session) -> None:
    """Records the error that ended a job in its folder, beside the trials that the job has saved."""
    with contextlib.suppress(NotARunError):
        stored = storage.load(folder).result
        if not stored.complete:  # the job's own record, which may know more of the configuration
            return _record_failure(stored, error, folder, session)
    record, _ = resuming.resume(folder, configuration, host.describe(configuration.ranks))
    if record is None:
        _record_failure(initial_record(configuration), error, folder, session)


def _record_failure(result: SearchRecord, error: BaseException, folder: Path, session: Session) -> None:
    reason = str(error) if isinstance(error, NwsSweepError) else one_line(f"{type(error).__name__}: {error}")
    session.view.failed(reason)
    try:
        storage.save(folder, replace(result, error=reason))
    except OSError as unwritable:  # such as a full disk: the other configurations may still be saved
        logger.error("the failure could not be written: %s", unwritable)


class _Recorder:
    """Saves every trial as soon as it is finished, and unfinished trials between rounds."""

    def __init__(self, folder: Path, session: Session) -> None:
        self._folder = folder
        self._view = session.view
        self.note, self.slice_started, self.interrupted = self._view.note, self._view.slice_started, self._save
        self._saved_at = time.monotonic()
        self.latest: SearchRecord | None = None

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        self._save(result)
        self._view.trial_finished(trial, result.configuration)

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self._save(result_so_far())

    def search_finished(self, result: SearchRecord) -> None:
        self._save(result)
        self._view.search_finished(result)

    def _save(self, result: SearchRecord) -> None:
        self.latest = result
        storage.save(self._folder, result)
        self._saved_at = time.monotonic()
