"""One job of a grid, which searches a configuration and writes its files."""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from nws_sweep.errors import NotARunError, NwsSweepError, one_line
from nws_sweep.executor.dataset_server import spec_of
from nws_sweep.executor.environment import Environment
from nws_sweep.hydra_app import resuming
from nws_sweep.hydra_app.call import Call, services
from nws_sweep.report import writer
from nws_sweep.results import Configuration, SearchRecord, Trial, atomic, storage
from nws_sweep.results.result_cache import ResultStore
from nws_sweep.searching import earlier_results
from nws_sweep.searching.search import new_record, search
from nws_sweep.searching.session import Session
from nws_sweep.system import host

logger = logging.getLogger(__name__)

_SAVE_EVERY_S = 5.0  # unfinished trials


def measure(
    configuration: Configuration, folder: Path, composed: DictConfig, call: Call, working_folder: str
) -> SearchRecord | None:
    """Searches one configuration and writes its files during the search; None after a failure, which they record."""
    call.interrupts.check()
    record, message = resuming.resume(folder, configuration, host.describe(configuration.ranks))
    if message:
        logger.warning(message)
        call.view.note(message)
    if record is not None and record.is_final:
        skip_final(storage.StoredRun(folder=folder, result=record), call)
        return record
    call.view.configuration_started(_label(configuration, call))
    start = record or initial_record(configuration, call.results)
    recorder = _Recorder(folder, call)
    if start.is_final:  # an earlier point of the grid does the same
        return _finished(start, folder, call, recorder)
    atomic.remove_temporary(folder)
    start = replace(start, trials=start.results, error="", stop_reason="", verdict=None)  # the search goes on
    session = Session(
        store=ResultStore(composed.paths.cache_dir),
        reuse=composed.reuse if record is None else "never",
        lock_file=composed.paths.lock_file,
        working_folder=working_folder,
        has_same_data=lambda stored: _has_same_data(stored, configuration, call, working_folder),
    )

    def search_here(started: SearchRecord) -> SearchRecord:
        result = _search(started, folder, call, recorder, working_folder)
        _draw(folder, call)  # while no other job of this machine measures
        return result

    try:
        storage.save(folder, start)
        result, is_stored = session.run(start, search_here, call.view.status, call.view.note)
        if is_stored:
            reason = f"{result.stop_reason} (measured before, at {result.started_at})"
            return _finished(replace(result, stop_reason=reason, cost_s=0.0), folder, call, recorder)
    except (Exception, SystemExit) as error:  # a service may call sys.exit
        logger.exception("the search failed")
        _record_failure(recorder.latest or start, error, folder, call)
        return None
    call.remember(result, folder)
    return result


def _has_same_data(stored: SearchRecord, configuration: Configuration, call: Call, working_folder: str) -> bool:
    """Whether a stored result is of the samples and the code that the dataset has now."""
    if stored.facts is None:
        return False
    try:
        facts = call.facts(configuration, working_folder)
    except NwsSweepError:  # the search reports it
        return False
    return (facts.samples, facts.code) == (stored.facts.samples, stored.facts.code)


def _finished(result: SearchRecord, folder: Path, call: Call, recorder: "_Recorder") -> SearchRecord:
    """A result that was not measured here, after its files have been written."""
    recorder.search_finished(result)
    call.remember(result, folder)
    _draw(folder, call)
    return result


def skip_final(run: storage.StoredRun, call: Call) -> None:
    """Shows a result of an earlier program, and makes it available to later searches."""
    call.remember(run.result, run.folder)
    call.view.configuration_finished(_label(run.result.configuration, call), run.result)
    if not writer.has_pictures(run.folder):  # the earlier program was killed before it had drawn them
        atomic.remove_temporary(run.folder)
        _draw(run.folder, call)


def _label(configuration: Configuration, call: Call) -> str:
    columns = call.plan.varying if call.plan else configuration.columns
    return configuration.label_of(columns)


def _search(start: SearchRecord, folder: Path, call: Call, recorder: "_Recorder", working_folder: str) -> SearchRecord:
    log = str(folder / storage.TRIAL_LOG)
    start_process = call.dataset_server.factory(
        lambda configuration: spec_of(configuration, working_folder, log), call.view.status
    )
    environment = Environment(start_process=start_process, check_interrupts=call.interrupts.check)
    guess = earlier_results.first_guess(start.configuration, call.results)
    with services(start.configuration), call.interrupts.deferred():
        return search(start, environment, recorder, guess)


def _draw(folder: Path, call: Call) -> None:
    """Draws the figures of a point of a grid; those of a single run are part of its report."""
    if call.plan is None or call.plan.configurations > 1:
        writer.try_pictures(folder)


def initial_record(configuration: Configuration, earlier: Sequence[SearchRecord] = ()) -> SearchRecord:
    """The record at the start of a search, with the trials that the same grid has measured already."""
    start = new_record(configuration)
    if same := earlier_results.measured_once(configuration, earlier):
        return replace(same, started_at=start.started_at)
    trials = earlier_results.same_trials(configuration, earlier)
    for record in earlier:
        if trials and record.configuration.dataset == configuration.dataset:
            return replace(start, trials=trials, facts=record.facts)
    return replace(start, trials=trials)


def record_lost_job(folder: Path, configuration: Configuration, error: BaseException, call: Call) -> None:
    """Records the error that ended a job in its folder, beside the trials that the job has saved."""
    with contextlib.suppress(NotARunError):
        stored = storage.load(folder).result
        if not stored.complete:  # the job's own record, which may know more of the configuration
            return _record_failure(stored, error, folder, call)
    record, _ = resuming.resume(folder, configuration, host.describe(configuration.ranks))
    if record is None:
        _record_failure(initial_record(configuration), error, folder, call)


def _record_failure(result: SearchRecord, error: BaseException, folder: Path, call: Call) -> None:
    reason = str(error) if isinstance(error, NwsSweepError) else one_line(f"{type(error).__name__}: {error}")
    call.view.failed(reason)
    try:
        storage.save(folder, replace(result, error=reason))
    except OSError as unwritable:  # such as a full disk: the other configurations may still be saved
        logger.error("the failure could not be written: %s", unwritable)


class _Recorder:
    """Saves every trial as soon as it is finished, and unfinished trials between rounds."""

    def __init__(self, folder: Path, call: Call) -> None:
        self._folder = folder
        self._view = call.view
        self.note = self._view.note
        self.slice_started = self._view.slice_started
        self.interrupted = self._save
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
