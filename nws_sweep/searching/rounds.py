"""Measures candidates in rounds of time slices: while one candidate is timed, the others are paused.

In each round every unfinished candidate has one time slice. The order is random in each round, so machine drift
affects all candidates equally. Trial processes stay alive, paused, as long as resources are free.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from nws_sweep import units
from nws_sweep.errors import ConfigurationError, TimeLimitReached
from nws_sweep.executor.environment import Observer
from nws_sweep.results import LoaderSettings, MeasureRules
from nws_sweep.searching.candidate import Candidate, CandidateProcess
from nws_sweep.searching.sample_check import SampleChecker
from nws_sweep.searching.search_progress import SearchProgress
from nws_sweep.system import page_cache

_COMPARE_THREADS_S = 0.5
_FEWER_THREADS = 0.8  # share of the time with the program's own number of threads that is worth a warning


def threads_warning(times_s: Mapping[int, float]) -> str:
    """A warning if the program's number of torch's threads, the first one, is much slower than another; else empty."""
    own, best = next(iter(times_s), 1), min(times_s, key=lambda number: times_s[number], default=1)
    if not times_s or times_s[best] > _FEWER_THREADS * times_s[own]:
        return ""
    return (
        f"without workers, torch.set_num_threads({best}), or OMP_NUM_THREADS={best}, would save "
        f"{units.share(1 - times_s[best] / times_s[own])} of loading: a sample takes {units.seconds(times_s[best])} "
        f"instead of {units.seconds(times_s[own])} with {own} threads"
    )


def cold_files(rules: MeasureRules) -> tuple[str, ...]:
    """What ``measure.cache=cold`` drops from the page cache; ConfigurationError if there are no such files."""
    if rules.cache != "cold":
        return ()
    named = rules.cache_files or ()
    if files := page_cache.files_below(named):
        return files
    raise ConfigurationError(
        f"measure.cache=cold: no files in measure.cache_files=[{', '.join(named)}]; "
        "name the files or folders that the dataset reads"
    )


class Rounds(ExitStack):
    """The rounds of one search; leaving the context ends all trial processes, also after an interrupt."""

    def __init__(self, search: SearchProgress, observer: Observer) -> None:
        super().__init__()
        self.search = search
        self._environment = search.environment
        self._observer = observer
        self._samples = SampleChecker(self.search, observer, self._resume_others)
        self._cold_files = cold_files(search.start.configuration.measure)  # dropped before each time slice
        self._number = 0
        self._waits_until_idle = False
        self._resumed: list[Candidate] = []
        self._reported: list[Candidate] = []  # whose trials have finished
        self._has_compared_threads = False

    def measure(self, chosen: Sequence[LoaderSettings], beside: Sequence[LoaderSettings] = ()) -> None:
        """Measures new candidates until their trials are finished; those that do not fit start later.

        Candidates ``beside`` them, if still alive, take part in ``measure.windows`` rounds. TimeLimitReached after the
        deadline.
        """
        waiting = [self._candidate(settings) for settings in sorted(chosen, key=lambda s: s.num_workers)]
        started: list[Candidate] = []
        first = self._number
        while not self.search.stream_error and (waiting or any(not candidate.progress.done for candidate in started)):
            taking = [candidate for candidate in started if not candidate.progress.done]
            if self._number - first < self.search.start.configuration.measure.windows:
                taking += [candidate for candidate in self.search.candidates if candidate.process.settings in beside]
            while waiting and not self.search.stream_error and self.search.admits(waiting[0], beside, started):
                started.append(waiting.pop(0))
                self._start(started[-1])
            self._take_round(taking)

    def end_trials(self, dropped: Sequence[LoaderSettings], note: str, *, eliminated: bool = False) -> None:
        """Ends trials whose processes run; ``note`` says why, with a place for the number of rounds.

        ``eliminated`` if they end because others are better.
        """

        def end(one: Candidate) -> None:
            rounds = units.counted(len(one.progress.by_round), "round")
            one.retire(note.format(rounds), eliminated=eliminated)

        self._end([one for one in self.search.candidates if one.process.settings in dropped and one.alive], end)

    def compare_in_round(self, chosen: Sequence[LoaderSettings], window_s: float = math.inf) -> None:
        """Takes one round with windows of at least ``window_s``; starts new candidates.

        TimeLimitReached after the deadline.
        """
        known = [candidate for candidate in self.search.candidates if candidate.process.settings in chosen]
        new = [settings for settings in chosen if settings not in {candidate.process.settings for candidate in known}]
        if new and self.search.start.configuration.measure.interleave == 1:  # no process may be paused for another
            self.measure(new)
        else:
            self._take_round([*known, *map(self._candidate, new)], chosen, window_s)

    def conclude(self) -> list[LoaderSettings]:
        """Finishes all trials; the settings of those without figures, or that were impossible and restart."""
        self._end(self.search.candidates, Candidate.conclude)
        return [candidate.process.settings for candidate in self.search.candidates if not candidate.progress.done]

    def __exit__(self, *error: Any) -> bool | None:
        """Ends all trial processes at the same time: a busy machine takes seconds for each of them."""
        self.search.end_processes()
        return super().__exit__(*error)

    def stop(self, note: str) -> None:
        """Finishes the trials that have figures with a note, and ends all trial processes, at the same time."""
        self.search.end_processes()
        self._end(self.search.candidates, lambda candidate: candidate.retire(note))

    def _compare_threads(self, candidate: Candidate) -> None:
        """Warns, once, if another number of torch's threads loads samples faster without workers."""
        is_beside_others = self.search.start.configuration.ranks > 1
        if candidate.process.settings.num_workers or self._has_compared_threads or is_beside_others:
            return
        self._has_compared_threads = True
        counts = (1, max(1, int(self._environment.cores(1))))
        times_s = candidate.process.ask(lambda process: process.thread_times(counts, _COMPARE_THREADS_S))
        if warning := threads_warning(times_s or {}):
            candidate.progress.warnings += (warning,)

    def _end(self, candidates: Sequence[Candidate], end: Callable[[Candidate], object]) -> None:
        try:
            for candidate in candidates:
                end(candidate)
        finally:  # those that ended before a limit, too
            self._report_ends()

    def _report_ends(self) -> None:
        """Reports the trials that have finished meanwhile."""
        finished = [one for one in self.search.candidates if one.progress.done and one not in self._reported]
        if not finished:  # a record replays batches of all trials
            return
        self._reported += finished
        record = self.search.record
        for trial in record.trials:
            if trial.settings in [one.process.settings for one in finished]:
                self._observer.trial_finished(record, trial)

    def _candidate(self, settings: LoaderSettings) -> Candidate:
        search = self.search
        process = CandidateProcess(
            settings, search.start.configuration, self._environment, search.deadline_s, lambda: self._waits_until_idle
        )
        return Candidate(process, self._resume_others, search.next_place)

    def _resume_others(self, stalled: Candidate | None = None) -> bool:
        """Resumes all others: one may hold a lock. From then on processes are paused only when they are idle.

        False if there are no others.
        """
        self._resumed = []
        for other in self.search.candidates:
            if other.process.running is not None and other is not stalled:
                other.process.running.resume()
                self._resumed.append(other)
                self._waits_until_idle = True
        return bool(self._resumed)

    def _pause_others(self) -> None:
        while self._resumed:
            process = self._resumed.pop().process
            process.pause()
            process.read_usage()

    def _take_round(
        self, taking: list[Candidate], beside: Sequence[LoaderSettings] = (), window_s: float = math.inf
    ) -> None:
        """Takes a time slice of each candidate in random order; the first round, which sizes batches, in order."""
        if any(candidate.progress.windows for candidate in self.search.candidates):
            random.Random(f"{self.search.start.configuration.seed}-{self._number}").shuffle(taking)
        for candidate in taking:
            if self.search.stream_error:
                break
            if candidate not in self.search.candidates:
                self.search.admits(candidate, beside, ())
                self._start(candidate, window_s)
            elif candidate.alive:  # it may have been closed in this round to free resources
                self._take_slice(candidate, window_s)
        self._number += 1
        self._observer.round_finished(lambda: self.search.record)

    def _start(self, candidate: Candidate, window_s: float = math.inf) -> None:
        self.search.candidates.append(candidate)
        self.callback(candidate.process.close)
        if candidate.progress.done:  # it was skipped
            self._report_ends()
        else:
            self._take_slice(candidate, window_s)

    def _take_slice(self, candidate: Candidate, window_s: float) -> None:
        self._environment.check_interrupts()
        if candidate.process.is_late:
            raise TimeLimitReached
        self._observer.slice_started(candidate.process.settings.num_workers)
        self._environment.drop_files(self._cold_files)
        candidate.time_slice(self.search.memory_left, self._number, window_s)
        self._pause_others()
        self._samples.check(candidate)
        self._pause_others()
        self._compare_threads(candidate)
        self._pause_others()
        if noticed := self.search.notice_size(candidate):
            self._observer.note(noticed)
        self.search.notice_length(candidate)
        self._report_ends()
