"""A job of a grid, which searches a configuration and writes its files."""

import contextlib
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from nws_sweep import units
from nws_sweep.errors import NotARunError, NwsSweepError, one_line
from nws_sweep.hydra_app import resuming
from nws_sweep.hydra_app.call import Call, services
from nws_sweep.records import Configuration, SearchRecord, Trial, atomic, storage
from nws_sweep.records.result_cache import ResultStore
from nws_sweep.report import snippets, writer
from nws_sweep.searching import earlier_results
from nws_sweep.searching.search import new_record, search
from nws_sweep.searching.session import Session
from nws_sweep.system import host
from nws_sweep.trials.dataset_server import spec_of
from nws_sweep.trials.environment import Environment

logger = logging.getLogger(__name__)

_SAVE_EVERY_S = 5.0  # unfinished trials


class Job:
    """Searches a configuration, and writes the files of the search into a folder.

    Args:
        folder: Of the configuration.
        call: What the jobs share.
        working_folder: Where relative paths of the dataset begin.
    """

    def __init__(self, folder: Path, call: Call, working_folder: str = "") -> None:
        self._folder, self._call, self._working_folder = folder, call, working_folder
        self._recorder = _Recorder(folder, call)

    def measure(
        self, configuration: Configuration, composed: DictConfig
    ) -> SearchRecord | None:
        """Searches and writes the files during the search; None after a failure, which
        they record."""
        self._call.interrupts.check()
        resumed = self._resumed(configuration)
        if resumed is not None and resumed.is_final:
            self.skip_final(resumed)
            return resumed
        self._call.view.configuration_started(self._label(configuration))
        start = resumed or initial_record(configuration, self._call.results.values())
        if start.is_final:  # an earlier point of the grid does the same
            return self._finished(start)
        # the search goes on
        start = replace(
            start, trials=start.results, error="", stop_reason="", verdict=None
        )
        session = Session(
            store=ResultStore(composed.paths.cache_dir),
            reuse=composed.reuse if resumed is None else "never",
            lock_file=composed.paths.lock_file,
            working_folder=self._working_folder,
            has_same_data=self._has_same_data,
        )
        try:
            return self._run(session, start)
        except (Exception, SystemExit) as error:  # a service may call sys.exit
            logger.exception("the search failed")
            self._record_failure(self._recorder.latest or start, error)
            return None

    def _resumed(self, configuration: Configuration) -> SearchRecord | None:
        """Loads what an earlier call has measured into the folder; None for nothing."""
        resumed, message = resuming.resume(
            self._folder, configuration, host.describe(configuration.ranks)
        )
        if message:
            logger.warning(message)
            self._call.view.note(message)
        return resumed

    def _run(self, session: Session, start: SearchRecord) -> SearchRecord:
        atomic.remove_temporary(self._folder)
        storage.save(self._folder, start)
        view = self._call.view
        result, is_stored = session.run(start, self._search, view.status, view.note)
        if is_stored:
            when = f"measured on {units.moment(result.started_at)}"
            reason = f"{result.stop_reason} ({when})"
            return self._finished(replace(result, stop_reason=reason, cost_s=0.0))
        self._call.remember(result, self._folder)
        return result

    def _has_same_data(self, stored: SearchRecord) -> bool:
        """Whether a stored result is of the samples and the code that the dataset has
        now."""
        if stored.facts is None:
            return False
        try:
            facts = self._call.facts(stored.configuration, self._working_folder)
        except NwsSweepError:  # the search reports it
            return False
        return (facts.samples, facts.code) == (stored.facts.samples, stored.facts.code)

    def _search(self, start: SearchRecord) -> SearchRecord:
        call, log = self._call, str(self._folder / storage.TRIAL_LOG)
        spec = spec_of(start.configuration, self._working_folder, log)
        start_process = call.dataset_server.factory(spec, call.view.status)
        environment = Environment(
            start_process=start_process, check_interrupts=call.interrupts.check
        )
        guess = earlier_results.first_guess(start.configuration, call.results.values())
        with services(start.configuration), call.interrupts.deferred():
            result = search(start, environment, self._recorder, guess)
        self._draw()  # while no other job of this machine measures
        return result

    def _finished(self, result: SearchRecord) -> SearchRecord:
        """Writes the files of a result that was not measured here, and returns the
        result."""
        self._recorder.search_finished(result)
        self._call.remember(result, self._folder)
        self._draw()
        return result

    def skip_final(self, result: SearchRecord) -> None:
        """Shows a result of an earlier program, and makes it available to later
        searches."""
        self._call.remember(result, self._folder)
        self._call.view.configuration_finished(
            self._label(result.configuration), result
        )
        # the earlier program was killed before it had drawn them
        if not writer.has_pictures(self._folder):
            atomic.remove_temporary(self._folder)
            self._draw()

    def _label(self, configuration: Configuration) -> str:
        plan = self._call.plan
        return configuration.label_of(plan.varying if plan else configuration.columns)

    def _draw(self) -> None:
        """Draws the figures of a point of a grid; the report of a single run has its
        figures."""
        plan = self._call.plan
        if plan is None or plan.configurations > 1:
            writer.try_pictures(self._folder)

    def record_lost(self, configuration: Configuration, error: BaseException) -> None:
        """Records the error that ended the job, beside the trials that it has saved."""
        with contextlib.suppress(NotARunError):
            stored = storage.load(self._folder).result
            # the job's own record, which may know more of the configuration
            if not stored.complete:
                return self._record_failure(stored, error)
        record, _ = resuming.resume(
            self._folder, configuration, host.describe(configuration.ranks)
        )
        if record is None:
            self._record_failure(initial_record(configuration), error)

    def _record_failure(self, result: SearchRecord, error: BaseException) -> None:
        reason = (
            str(error)
            if isinstance(error, NwsSweepError)
            else one_line(f"{type(error).__name__}: {error}")
        )
        self._call.view.failed(reason)
        try:
            storage.save(self._folder, replace(result, error=reason))
        except OSError as unwritable:
            # such as a full disk: the other configurations may still be saved
            logger.error("the failure could not be written: %s", unwritable)


def initial_record(
    configuration: Configuration, earlier: Collection[SearchRecord] = ()
) -> SearchRecord:
    """Makes the record at the start of a search, with the trials that the same grid has
    measured already."""
    start = new_record(configuration)
    if same := earlier_results.measured_once(configuration, earlier):
        return replace(same, started_at=start.started_at)
    trials = earlier_results.same_trials(configuration, earlier)
    for record in earlier:
        if trials and record.configuration.dataset == configuration.dataset:
            return replace(start, trials=trials, facts=record.facts)
    return replace(start, trials=trials)


class _Recorder:
    """Saves every trial as soon as it is finished, and unfinished trials between
    rounds."""

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
        self._view.trial_finished(trial, result)

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self._save(result_so_far())

    def search_finished(self, result: SearchRecord) -> None:
        self._save(result)
        logger.info("%s", snippets.answer_line(result))
        self._view.search_finished(result)

    def _save(self, result: SearchRecord) -> None:
        self.latest = result
        storage.save(self._folder, result)
        self._saved_at = time.monotonic()
