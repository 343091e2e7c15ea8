"""One job of a grid: searches a configuration and writes its files."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from nws_sweep.errors import NotARunError, NwsSweepError, one_line
from nws_sweep.executor.dataset_server import spec_of
from nws_sweep.measurement import epoch_check
from nws_sweep.measurement.environment import Environment
from nws_sweep.results import Configuration, SearchCost, SearchRecord, Trial, atomic, storage
from nws_sweep.results.result_cache import ResultStore, default_folder
from nws_sweep.sweep import resuming
from nws_sweep.sweep.invocation import Invocation, services
from nws_sweep.system import host, host_lock
from nws_sweep.tuning import learning
from nws_sweep.tuning.runner import search

if TYPE_CHECKING:
    from nws_sweep.sweep.terminal import View

logger = logging.getLogger(__name__)

# How often unfinished trials are saved, and that it takes a small part of the time however much there is to write.
_SAVE_EVERY_S = 2.0
_SAVE_SHARE = 20


def measure(
    configuration: Configuration, folder: Path, composed: DictConfig, current: Invocation, working_folder: str
) -> None:
    """Searches one configuration; its files are written as it goes, its failure is part of them."""
    current.interrupts.check()
    begun = resuming.begun(folder, configuration, host.describe(), force=composed.resume.force)
    for line in begun.told:
        logger.warning(line)
        current.view.note(line)
    if begun.record is not None and begun.record.complete:
        return skip_finished(storage.StoredRun(folder=begun.folder, result=begun.record), current)
    current.view.configuration_started(_label(configuration, current))
    store = ResultStore(default_folder(composed.paths.cache_dir))
    start = begun.record or _start_of(configuration, current.results)
    if begun.record is None and (known := store.find(configuration, start.host, composed.reuse, working_folder)):
        with contextlib.suppress(NwsSweepError):  # the search will tell
            if known.facts and current.facts(configuration, working_folder).samples == known.facts.samples:
                start = _taken_over(known, f"measured before, at {known.started_at}")
    if start.error:  # once more, to its end
        start = replace(start, error="", stop_reason="", verdict=None)
    start = replace(start, forced=start.forced or current.forced)
    current.has_started = True
    if start.complete:
        storage.save(begun.folder, start)
        current.remember(start)
        return current.view.search_finished(start)
    observer = _Recorder(begun.folder, current.view, bool(configuration.check_samples))
    atomic.remove_temporary(begun.folder)
    atomic.sync_parents(begun.folder)  # Hydra has made it
    try:
        storage.save(begun.folder, start)
        with host_lock.held(composed.paths.lock_file, str(begun.folder), current.view.status):
            result = _searched(start, begun.folder, current, observer, working_folder)
            _draw(begun.folder, current)  # while no other job of this machine measures
        current.remember(result)
        store.add(result, working_folder)
    except (Exception, SystemExit) as error:  # a service may call sys.exit
        logger.exception("the search failed")
        _record_failure(observer.latest or start, error, begun.folder, current.view)


def skip_finished(run: storage.StoredRun, current: Invocation) -> None:
    """Measures nothing: what an earlier call has finished is told, and later searches learn from it."""
    current.remember(run.result)
    current.view.configuration_finished(_label(run.result.configuration, current), run.result)
    storage.write_timings(run.folder, run.result)
    if not storage.has_plots(run.folder):  # that call may have been killed before it had drawn them
        atomic.remove_temporary(run.folder)
        _draw(run.folder, current)


def _label(configuration: Configuration, current: Invocation) -> str:
    return configuration.label_of(current.plan.varying if current.plan else tuple(configuration.columns))


def _taken_over(known: SearchRecord, where: str) -> SearchRecord:
    return replace(known, stop_reason=f"{known.stop_reason} ({where})", cost_s=0.0, cost=SearchCost())


def _searched(
    start: SearchRecord, folder: Path, current: Invocation, observer: _Recorder, working_folder: str
) -> SearchRecord:
    view, log = current.view, str(folder / storage.TRIAL_LOG)
    waited = SearchCost(waiting_s=time.monotonic() - observer.began_s)
    start = replace(start, cost=waited.plus(start.cost or SearchCost()))
    start_process = current.dataset_server.factory(lambda chosen: spec_of(chosen, working_folder, log), view.status)
    environment = Environment(start_process=start_process, check_interrupts=current.interrupts.check)
    guess = learning.first_guess(start.configuration, current.results)
    with services(start.configuration), current.interrupts.deferred():
        result = search(start, environment, observer, guess)
        if start.configuration.check_samples:
            view.status("looking at how workers share the samples")
            result = epoch_check.with_epoch_check(result, start_process)
            storage.save(folder, result)
    return result


def _draw(folder: Path, current: Invocation) -> None:
    """The pictures of a configuration that is not the only one, for which the report does it."""
    if current.plan is None or current.plan.configurations > 1:
        from nws_sweep.report import writer  # here, for matplotlib takes its time

        writer.try_pictures(folder)


def _start_of(configuration: Configuration, earlier: Sequence[SearchRecord]) -> SearchRecord:
    """The result to begin with: what the same grid has measured already is not measured again."""
    started_at = datetime.now().astimezone().isoformat()
    if same := learning.same_search(configuration, earlier):
        known = _taken_over(same, f"measured once, as {same.configuration.label_of(same.configuration.columns)}")
        return replace(known, configuration=configuration, started_at=started_at)
    trials = learning.same_trials(configuration, earlier)
    facts = next((r.facts for r in earlier if trials and r.configuration.dataset == configuration.dataset), None)
    return SearchRecord(
        configuration=configuration, host=host.describe(), started_at=started_at, trials=trials, facts=facts
    )


def record_loss(folder: Path, configuration: Configuration, error: BaseException, current: Invocation) -> None:
    """Keeps in the folder of a job what ended it before its own end, beside what there is of its trials."""
    with contextlib.suppress(NotARunError):
        there = storage.load(folder).result
        if not there.complete:  # its own, which may know more of the configuration
            return _record_failure(there, error, folder, current.view)
    begun = resuming.begun(folder, configuration, host.describe(), force=True)
    if begun.record is None or not begun.record.complete:
        _record_failure(begun.record or _start_of(configuration, ()), error, begun.folder, current.view)


def _record_failure(result: SearchRecord, error: BaseException, folder: Path, view: View) -> None:
    reason = str(error) if isinstance(error, NwsSweepError) else one_line(f"{type(error).__name__}: {error}")
    view.failed(reason)
    try:
        storage.save(folder, replace(result, error=reason))
    except OSError as unwritable:  # a full disk, say: the other configurations may still find room
        logger.error("the failure could not be written: %s", unwritable)


class _Recorder:
    """Writes every trial to disk as soon as it is done, and between rounds what there is of the others."""

    def __init__(self, folder: Path, view: View, more_to_come: bool) -> None:
        self._folder = folder
        self._view = view
        self._more_to_come = more_to_come  # the search is not all that was asked for
        self.began_s = self._saved_at = time.monotonic()
        self._saving_s = 0.0
        self.latest: SearchRecord | None = None

    def slice_started(self, num_workers: int) -> None:
        self._view.slice_started(num_workers)

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        self._save(result)
        self._view.trial_finished(trial, result.configuration)

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        if time.monotonic() - self._saved_at > max(_SAVE_EVERY_S, _SAVE_SHARE * self._saving_s):
            self._save(result_so_far())

    def note(self, line: str) -> None:
        self._view.note(line)

    def interrupted(self, result: SearchRecord) -> None:
        self._save(result)

    def search_finished(self, result: SearchRecord) -> None:
        self._save(replace(result, stop_reason="") if self._more_to_come else result)
        self._view.search_finished(result)

    def _save(self, result: SearchRecord) -> None:
        self.latest = result
        began = time.monotonic()
        storage.save(self._folder, result)
        self._saved_at = time.monotonic()
        self._saving_s = self._saved_at - began
