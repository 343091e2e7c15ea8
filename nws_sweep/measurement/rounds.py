"""Measures candidates in turn: while one is timed, the others stand still.

In each round every candidate that has not enough yet takes one turn, in an order that is drawn again, so that drift of
the machine meets all of them alike. Trial processes stay alive, paused, as long as there is room for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import reduce
from typing import Protocol, TypeVar

from nws_sweep.errors import ConfigurationError, TimeBudgetSpent, TrialError, TrialSkipped, WrongSamples
from nws_sweep.measurement.candidate import Candidate
from nws_sweep.measurement.environment import Environment, TrialProcess
from nws_sweep.measurement.sample_check import SampleWatch, about_handles
from nws_sweep.results import (
    Configuration,
    DatasetFacts,
    LoaderSettings,
    SearchCost,
    SearchRecord,
    Trial,
    WindowKind,
    WindowRequest,
)
from nws_sweep.system import page_cache
from nws_sweep.system.resources import reason_not_fitting, resource_needs

Answer = TypeVar("Answer")
_NO_CONSUMER = {"_target_": "nws_sweep.dataloading.consumers.Nothing"}


class Observer(Protocol):
    """Is told what happens while it happens: the files and the terminal."""

    def slice_started(self, num_workers: int) -> None:
        """A candidate is about to be measured, or measured on."""

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        """A trial is done; ``result`` has it and all others, also those that are not finished."""

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        """Every candidate that is being measured had a turn; the result is made only if it is asked for."""

    def note(self, line: str) -> None:
        """Something was found that the user should know before the search ends."""

    def interrupted(self, result: SearchRecord) -> None:
        """The search is given up; this is what there is of it."""

    def search_finished(self, result: SearchRecord) -> None:
        """The search came to its own end."""


class PageCache:
    """Makes the state of the page cache that ``measure.cache`` asks for, before each turn that is timed.

    Drops the dataset's files, or reads ahead with a trial process of its own as soon as a candidate read from storage.

    All candidates of a configuration draw the same order of samples, so what it reads is what they will read. It stops
    after one epoch: then everything was read once.
    """

    def __init__(self, configuration: Configuration, environment: Environment) -> None:
        self._configuration = replace(configuration, consumer=_NO_CONSUMER)
        self._environment = environment
        self._state = configuration.measure.cache
        named = configuration.measure.cache_files if self._state == "cold" else None
        self._files = None if named is None else page_cache.files_below(named)
        self._stack = ExitStack()
        self._process: TrialProcess | None = None
        self._read_batches = 0
        self._reads_ahead = False

    def prepare(self, candidate: Candidate, memory_bytes: int | None) -> None:
        """Makes ready for a candidate's next turn; processes that read ahead may hold so many bytes, None for any."""
        if self._files:
            self._environment.drop_files(self._files)
        missing = candidate.position - self._read_batches
        if not self._reads_ahead or self._state != "warm" or missing <= 0:
            return
        try:
            process = self._process or self._open(memory_bytes)
            process.resume()
            window = process.window(WindowRequest(kind=WindowKind.WARM_UP, min_batches=missing))
            process.pause()
        except TrialError:  # the candidates meet the same fault, and say so
            self.close()
            return
        self._read_batches += window.batches
        if window.ended_epoch:
            self.close()

    def notice(self, candidate: Candidate) -> None:
        """Looks at a candidate's latest turn, and for the files as soon as a dataset can be asked for them.

        Raises:
            ConfigurationError: If files are to be dropped, and none are known.
        """
        self._reads_ahead = self._reads_ahead or candidate.came_from_disk
        if any(window.ended_epoch for window in candidate.windows):
            self.close()
        if self._state == "cold" and self._files is None and candidate.alive:
            named = candidate.ask(lambda process: process.files())
            if named is None:
                return
            self._files = page_cache.files_below(named)
            if not self._files:
                raise ConfigurationError(
                    "measure.cache=cold: the dataset's attributes name no files; name files or folders in "
                    "measure.cache_files=[...]"
                )
            candidate.restart()  # its beginning was not cold

    def _open(self, memory_bytes: int | None) -> TrialProcess:
        self._process = self._stack.enter_context(self._environment.start_process(self._configuration, memory_bytes))
        workers = max(1, int(self._environment.cores_of_each(self._configuration.ranks)))
        self._process.open(replace(self._configuration.loader, num_workers=workers))
        return self._process

    def close(self) -> None:
        """Ends the reading ahead for good."""
        self._state = "as_is" if self._state == "warm" else self._state
        with suppress(TrialError):
            self._stack.close()


class Rounds(ExitStack):
    """The candidates of one configuration; leaving the context ends all their trial processes, even if it is interrupted.

    Attributes:
        deadline: Moment on the environment' clock after which nothing new begins; None for none.
        began: Moment on the same clock when the search began.
        start: The result so far, with the trials that are kept.
        candidates: All that were begun or skipped.
        unshared: Why no candidate with workers can be right; empty while that was not found.
    """

    def __init__(self, start: SearchRecord, environment: Environment, observer: Observer) -> None:
        super().__init__()
        self.start = replace(start, trials=tuple(trial for trial in start.trials if trial.finished))
        self.began = environment.clock()
        self.deadline: float | None = None
        self.unshared = ""
        self.candidates: list[Candidate] = []
        self._configuration = start.configuration
        self._rules = start.configuration.measure
        self._environment = environment
        self._observer = observer
        self._budget_bytes = environment.memory_budget(self._rules.memory_budget_bytes)
        self._page_cache = PageCache(start.configuration, environment)
        self.callback(self._page_cache.close)
        self._wrong_length = ""
        self._round = 0
        self._locks = False
        self._resumed: list[Candidate] = []
        self._samples = SampleWatch()
        self._checked: set[LoaderSettings] = set()
        self._handles_reported = False
        self._profile: SearchCost | None = None
        self._samples_s = 0.0

    @property
    def facts(self) -> DatasetFacts | None:
        """What the dataset said of itself; None before it was made."""
        return next((c.facts for c in self.candidates if c.facts is not None), self.start.facts)

    @property
    def record(self) -> SearchRecord:
        """All trials, those that are done in the order of their ends, and what they cost."""
        trials = (*self.start.trials, *(candidate.trial for candidate in self.candidates))
        cost_s = self.start.cost_s + self._environment.clock() - self.began
        before = self.start.cost or SearchCost()  # of earlier calls, and of waiting for this one
        known = replace(before.plus(self._cost).plus(self._profile or SearchCost()), other_s=0.0)
        cost = replace(known, other_s=cost_s - known.total_s)
        return replace(self.start, trials=trials, facts=self.facts, cost_s=cost_s, cost=cost)

    @property
    def _cost(self) -> SearchCost:
        parts = (candidate.costs for candidate in self.candidates)
        return reduce(SearchCost.plus, parts, SearchCost(samples_s=self._samples_s))

    def end_profile(self) -> None:
        """Counts all that was spent so far as the first look at the loader, and no longer as what it was spent on."""
        spent = self._cost
        self._profile = SearchCost(
            profile_s=self._environment.clock() - self.began,
            startup_s=-spent.startup_s,
            warm_up_s=-spent.warm_up_s,
            measuring_s=-spent.measuring_s,
            samples_s=-spent.samples_s,
        )

    def measure(self, chosen: Sequence[LoaderSettings], beside: Sequence[LoaderSettings] = ()) -> None:
        """Measures new candidates until each has enough; who finds no room at first begins when another is done.

        Earlier ones beside them, if they are still alive, take part in as many rounds as make an interval.

        Raises:
            TimeBudgetSpent: If the deadline has passed.
        """
        waiting = [self._candidate(settings) for settings in sorted(chosen, key=lambda s: s.num_workers)]
        begun: list[Candidate] = []
        first = self._round
        while not self.unshared and (waiting or any(not candidate.done for candidate in begun)):
            taking = [candidate for candidate in begun if not candidate.done]
            if self._round - first < self._rules.windows:
                taking += [candidate for candidate in self.candidates if candidate.settings in beside]
            while waiting and not self.unshared and self._free_resources_for(waiting[0], beside, begun):
                begun.append(waiting.pop(0))
                self._begin(begun[-1])
            self._take_round(taking)

    def compare_in_round(
        self, chosen: Sequence[LoaderSettings], dropped: Sequence[LoaderSettings] = (), window_s: float | None = None
    ) -> None:
        """One round of windows of at least ``window_s``; new candidates are started, trials that are dropped end.

        Raises:
            TimeBudgetSpent: If the deadline has passed.
        """
        out = [candidate for candidate in self.candidates if candidate.settings in dropped and candidate.alive]
        self._end(out, lambda candidate: candidate.retire(f"out of the race after {len(candidate.by_round)} rounds"))
        known = [candidate for candidate in self.candidates if candidate.settings in chosen]
        new = [settings for settings in chosen if settings not in {candidate.settings for candidate in known}]
        if new and self._rules.interleave == 1:  # no process may stand still while another is measured
            self.measure(new)
        else:
            self._take_round([*known, *map(self._candidate, new)], chosen, window_s)

    def conclude(self) -> bool:
        """Ends the trials that are not done; whether all could be ended: one that cannot be true restarts."""
        self._end(self.candidates, Candidate.conclude)
        return all(candidate.done for candidate in self.candidates)

    def give_up(self, note: str) -> None:
        """Ends all trials with what there is of them, and a note why; those that have nothing stay unfinished."""
        self._end(self.candidates, lambda candidate: candidate.retire(note))

    def _end(self, candidates: Sequence[Candidate], end: Callable[[Candidate], object]) -> None:
        for candidate in candidates:
            was_done = candidate.done
            end(candidate)
            if candidate.done and not was_done:
                self._observer.trial_finished(self.record, candidate.trial)

    def _candidate(self, settings: LoaderSettings) -> Candidate:
        return Candidate(settings, self._configuration, self._environment, self._is_late, self._resume_others)

    def _is_late(self) -> bool:
        return self.deadline is not None and self._environment.clock() >= self.deadline

    def _resume_others(self, stalled: Candidate) -> None:
        """One may wait for a lock that another held when it was stopped; from now on no process is before it is idle."""
        self._locks = True
        self._resumed = [other for other in self.candidates if other.alive and other is not stalled]
        for candidate in self.candidates:
            candidate.waits_until_idle = True
        for candidate in self._resumed:
            candidate.resume()

    def _pause_others(self) -> None:
        resumed, self._resumed = self._resumed, []
        for other in resumed:
            other.pause()

    def _take_round(
        self, taking: list[Candidate], beside: Sequence[LoaderSettings] = (), window_s: float | None = None
    ) -> None:
        """A turn of each, in an order drawn again; but the first one shows what a batch weighs, and comes as it is."""
        if any(candidate.windows for candidate in self.candidates):
            random.Random(f"{self._configuration.seed}-{self._round}").shuffle(taking)
        for candidate in taking:
            if self.unshared:
                break
            if candidate not in self.candidates:
                self._free_resources_for(candidate, beside, ())
                self._begin(candidate, window_s)
            elif candidate.alive:  # it may have made room for another in this very round
                self._take_slice(candidate, window_s)
        self._round += 1
        self._observer.round_finished(lambda: self.record)

    def _begin(self, candidate: Candidate, window_s: float | None = None) -> None:
        candidate.waits_until_idle = self._locks
        self.candidates.append(candidate)
        self.callback(candidate.close)
        if candidate.done:  # it was skipped
            self._observer.trial_finished(self.record, candidate.trial)
        else:
            self._take_slice(candidate, window_s)

    def _take_slice(self, candidate: Candidate, window_s: float | None = None) -> None:
        self._environment.check_interrupts()
        if self._is_late():
            raise TimeBudgetSpent
        was_done = candidate.done
        self._observer.slice_started(candidate.num_workers)
        self._page_cache.prepare(candidate, self._memory_left())
        left = self._memory_left()
        allowed = None if left is None else left + (candidate.usage.memory_bytes or 0)
        candidate.time_slice(allowed, self._round, window_s)
        self._pause_others()
        self._check_samples(candidate)
        self._pause_others()
        self._learn(candidate)
        if candidate.done and not was_done:
            self._observer.trial_finished(self.record, candidate.trial)

    def _learn(self, candidate: Candidate) -> None:
        """Takes from a candidate what concerns all: handles, files, where they came from, a length that is wrong."""
        if not self._handles_reported and candidate.facts is not None and candidate.facts.handles:
            self._handles_reported = True
            self._observer.note(about_handles(candidate.facts))
        self._page_cache.notice(candidate)
        self._wrong_length = self._wrong_length or candidate.wrong_length
        if self._wrong_length:
            for other in self.candidates:
                other.forget_length(self._wrong_length)

    # Whether samples are right.

    def _check_samples(self, candidate: Candidate) -> None:
        """Fails a candidate whose workers deliver wrong samples; of an iterable dataset all that have workers."""
        logged, facts = candidate.logged, candidate.facts
        if logged is None or facts is None or candidate.settings in self._checked:
            return
        if self._configuration.check_samples is False:
            return
        self._checked.add(candidate.settings)
        began = self._environment.clock()
        try:
            ask = self._ask_new if facts.iterable else self._ask_without_workers
            candidate.warn(self._samples.check(logged, candidate.settings, facts, candidate.cost_s, ask))
        except WrongSamples as error:
            self.unshared = str(error) if facts.iterable else ""
            for one in self.candidates if facts.iterable else [candidate]:
                if one.num_workers:
                    one.fail(error)
        finally:
            self._samples_s += self._environment.clock() - began

    def _ask_without_workers(self, question: Callable[[TrialProcess], Answer]) -> Answer | None:
        """What a process that holds the dataset, and has no workers, answers; None if it cannot."""
        for candidate in self.candidates:
            if candidate.num_workers == 0 and candidate.alive:
                return candidate.ask(question)
        return self._ask_new(question)

    def _ask_new(self, question: Callable[[TrialProcess], Answer]) -> Answer | None:
        """The same of a process of its own, where to answer would disturb the iterator of another."""
        try:
            with self._environment.start_process(self._configuration, self._memory_left()) as process:
                return question(process)
        except TrialError:
            return None

    # What there is room for.

    def _free_resources_for(
        self, candidate: Candidate, beside: Sequence[LoaderSettings], begun: Sequence[Candidate]
    ) -> bool:
        """Whether the candidate may begin now; those that are done make room. One that can never fit is skipped."""
        while True:
            alive = [other for other in self.candidates if other.alive]
            is_full, reason = len(alive) >= self._rules.interleave, self._reason_not_fitting(candidate)
            if not is_full and not reason:
                return True
            done = [other for other in alive if other.done]
            dispensable = [other for other in done if other.settings not in beside] or (done if is_full else [])
            if not dispensable:
                if any(not other.done for other in begun):
                    return False  # they get their rounds first, and can be ended then
                dispensable = [other for other in alive if other.settings not in beside] or alive
            if not dispensable:
                candidate.fail(TrialSkipped(reason))
                return True
            # The slowest is the least likely to be wanted again.
            max(dispensable, key=lambda other: other.trial.objective_s or float("inf")).close()

    def _reason_not_fitting(self, candidate: Candidate) -> str:
        """Why there is no room for a candidate, by what is known of batches and workers; empty if there is."""
        started = [other for other in self.candidates if other.windows]
        found = {other.num_workers: other.trial.measurement for other in started}
        memory = {n: one.memory_bytes for n, one in found.items() if one and one.memory_bytes is not None}
        load = resource_needs([window for other in started for window in other.windows], memory)
        room = self._environment.room(self._memory_left())
        return reason_not_fitting(candidate.settings, load, room, self._configuration.ranks)

    def _memory_left(self) -> int | None:
        if self._budget_bytes is None:
            return None
        return max(0, self._budget_bytes - sum(candidate.usage.memory_bytes or 0 for candidate in self.candidates))
