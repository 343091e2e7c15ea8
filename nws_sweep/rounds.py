"""Measures candidates in turn: while one is timed, the others stand still.

In each round every candidate that has not enough yet takes one turn, in an order that is drawn anew, so that drift of
the machine meets all of them alike. Arms stay alive, paused, as long as there is room for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, TypeVar

from nws_sweep import pagecache
from nws_sweep.candidate import Candidate
from nws_sweep.errors import ConfigurationError, TimeBudgetSpent, TrialError, WrongSamples
from nws_sweep.limits import Load, load_of, shortage
from nws_sweep.records import Configuration, LoaderSettings
from nws_sweep.sample_check import SampleWatch, about_handles
from nws_sweep.surroundings import Surroundings, TrialArm
from nws_sweep.warming import Warmer

Answer = TypeVar("Answer")


class Watcher(Protocol):
    """Is told what the rounds are doing."""

    def turn_began(self, candidate: Candidate) -> None:
        """A candidate is started, or goes on."""

    def candidate_done(self, candidate: Candidate) -> None:
        """A candidate's trial is finished."""

    def round_ended(self) -> None:
        """All had their turn; the machine is quiet."""

    def note(self, line: str) -> None:
        """Something was found that the user should know before the search ends."""


class Rounds:
    """The candidates of one configuration; leaving the context ends all their arms.

    Args:
        configuration: What is held fixed.
        surroundings: Arms, clock and machine.
        watcher: Told what is being done.
        deadline: Moment on the surroundings' clock after which nothing new begins; None for none.

    Attributes:
        deadline: Moment on the surroundings' clock after which nothing new begins; None for none.
        candidates: All that were begun or skipped.
        samples_s: Seconds that comparing samples took.
        unshared: Why no candidate with workers can be right; empty while that was not found.
    """

    def __init__(
        self,
        configuration: Configuration,
        surroundings: Surroundings,
        watcher: Watcher,
        deadline: float | None = None,
    ) -> None:
        self._configuration = configuration
        self._rules = configuration.measure
        self._surroundings = surroundings
        self._watcher = watcher
        self.deadline = deadline
        self._budget_bytes = surroundings.memory_budget(self._rules.memory_budget_bytes)
        self._warmer = Warmer(configuration, surroundings)
        named = self._rules.cache_files if self._rules.cache == "cold" else None
        self._files: tuple[str, ...] | None = None if named is None else pagecache.files_below(named)
        self._wrong_length = ""
        self._arms = ExitStack()
        self._round = 0
        self._locks = False
        self._going_on: list[Candidate] = []
        self._samples = SampleWatch()
        self._checked: set[LoaderSettings] = set()
        self._handles_reported = False
        self.unshared = ""
        self.samples_s = 0.0
        self.candidates: list[Candidate] = []

    def __enter__(self) -> Rounds:
        self._arms.callback(self._warmer.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._arms.close()  # all of them, even if it is interrupted

    def measure(self, chosen: Sequence[LoaderSettings], beside: Sequence[LoaderSettings] = ()) -> None:
        """Measures new candidates until each has enough.

        Args:
            chosen: Their settings.
            beside: Those of earlier candidates that are measured on for the comparison, if they are still alive.

        Raises:
            TimeBudgetSpent: If the deadline has passed.
        """
        waiting = [self._candidate(settings) for settings in sorted(chosen, key=lambda s: s.num_workers)]
        while waiting and not self.unshared:
            begun: list[Candidate] = []
            while waiting and self._make_room(waiting[0], beside, begun):
                candidate = waiting.pop(0)
                self._begin(candidate)
                begun.append(candidate)
            self._take_rounds(begun, [c for c in self.candidates if c.settings in beside and c.alive])

    def race(
        self, chosen: Sequence[LoaderSettings], dropped: Sequence[LoaderSettings] = (), window_s: float | None = None
    ) -> None:
        """One round: each candidate takes a turn; those that are new are started for it.

        Args:
            chosen: Who takes part.
            dropped: Candidates whose trials end here.
            window_s: Length of their windows at least, s; None for that of the configuration.

        Raises:
            TimeBudgetSpent: If the deadline has passed.
        """
        self._drop(dropped)
        known = [candidate for candidate in self.candidates if candidate.settings in chosen]
        new = [settings for settings in chosen if settings not in {candidate.settings for candidate in known}]
        if new and self._rules.interleave == 1:  # nobody may stand still while another is measured
            self.measure(new)
            return
        for candidate in self._ordered([*known, *map(self._candidate, new)]):
            if self.unshared:
                break
            if candidate in self.candidates:
                if candidate.alive:  # it may have made room for another in this very round
                    self._take_turn(candidate, window_s)
            elif self._make_room(candidate, chosen, ()):
                self._admit(candidate)
                if not candidate.done:  # it may have been skipped
                    self._take_turn(candidate, window_s)
                else:
                    self._watcher.candidate_done(candidate)
        self._round += 1
        self._watcher.round_ended()

    def conclude(self) -> bool:
        """Ends the trials that are not done; whether all could be ended: one that cannot be true begins anew."""
        for candidate in self.candidates:
            if not candidate.done:
                candidate.conclude()
                self._tell_if_done(candidate)
        return all(candidate.done for candidate in self.candidates)

    def give_up(self, note: str) -> None:
        """Ends all trials with what there is of them; those that have nothing stay unfinished.

        Args:
            note: Why they have no more.
        """
        for candidate in self.candidates:
            if not candidate.done:
                candidate.leave(note)
                self._tell_if_done(candidate)

    def _drop(self, dropped: Sequence[LoaderSettings]) -> None:
        for candidate in self.candidates:
            if candidate.settings in dropped and candidate.alive:
                was_done = candidate.done
                candidate.leave(f"out of the race after {len(candidate.by_round)} rounds")
                if not was_done:
                    self._watcher.candidate_done(candidate)

    def _tell_if_done(self, candidate: Candidate) -> None:
        if candidate.done:
            self._watcher.candidate_done(candidate)

    def _candidate(self, settings: LoaderSettings) -> Candidate:
        return Candidate(settings, self._configuration, self._surroundings, self.deadline, self._let_others_go_on)

    def _let_others_go_on(self, stalled: Candidate) -> None:
        """One does not come forward: it may wait for a lock that another held when it was stopped.

        The others fill their queues and are idle then, and hold nothing. From now on nobody is stopped before that.
        """
        self._locks = True
        self._going_on = [other for other in self.candidates if other.alive and other is not stalled]
        for candidate in self.candidates:
            candidate.settles = True
        for candidate in self._going_on:
            candidate.go_on()

    def _stop_others(self) -> None:
        going_on, self._going_on = self._going_on, []
        for candidate in going_on:
            candidate.stand_still()

    def _check_time(self) -> None:
        self._surroundings.check_interrupts()
        if self.deadline is not None and self._surroundings.clock() >= self.deadline:
            raise TimeBudgetSpent

    def _admit(self, candidate: Candidate) -> None:
        candidate.settles = self._locks
        self.candidates.append(candidate)
        self._arms.callback(candidate.close)

    def _begin(self, candidate: Candidate) -> None:
        self._check_time()
        self._admit(candidate)
        if not candidate.done:  # it may have been skipped
            self._watcher.turn_began(candidate)
            self._drop_files()
            candidate.open(self._memory_left())
            self._stop_others()
            self._learn(candidate)
        if candidate.done:
            self._watcher.candidate_done(candidate)

    def _take_rounds(self, begun: Sequence[Candidate], companions: Sequence[Candidate]) -> None:
        """Rounds until all that were begun are done; their companions take part in as many as make an interval."""
        first = self._round
        while unfinished := [candidate for candidate in begun if not candidate.done]:
            going_along = [c for c in companions if c.alive and self._round - first < self._rules.bursts]
            for candidate in self._ordered([*unfinished, *going_along]):
                self._take_turn(candidate)
            self._round += 1
            self._watcher.round_ended()

    def _ordered(self, candidates: list[Candidate]) -> list[Candidate]:
        """In an order drawn anew; but while nothing is known of a batch, the smallest shows what it weighs."""
        if any(candidate.bursts for candidate in self.candidates):
            random.Random(f"{self._configuration.seed}-{self._round}").shuffle(candidates)
        return candidates

    def _take_turn(self, candidate: Candidate, window_s: float | None = None) -> None:
        self._check_time()
        was_done = candidate.done
        self._watcher.turn_began(candidate)
        if candidate.bursts or not (reason := self._shortage(candidate)):
            self._drop_files()
            self._warmer.go_ahead_of(candidate, self._memory_left())
            candidate.turn(self._allowance(candidate), self._round, window_s)
            self._stop_others()
            self._check_samples(candidate)
            self._learn(candidate)
        else:  # it was begun before anything was known of a batch
            candidate.skip(reason)
        if candidate.done and not was_done:
            self._watcher.candidate_done(candidate)

    def _check_samples(self, candidate: Candidate) -> None:
        """Fails a candidate whose workers deliver wrong samples; of an iterable dataset all that have workers."""
        logged, facts = candidate.logged, candidate.facts
        if logged is None or facts is None or candidate.settings in self._checked:
            return
        if self._configuration.check_samples is False:
            return
        self._checked.add(candidate.settings)
        began = self._surroundings.clock()
        try:
            ask = self._ask_new if facts.iterable else self._ask_without_workers
            candidate.warn(self._samples.check(logged, candidate.settings, facts, candidate.cost_s, ask))
        except WrongSamples as error:
            self.unshared = str(error) if facts.iterable else ""
            for one in self.candidates if facts.iterable else [candidate]:
                if one.num_workers:
                    one.fail(error)
        finally:
            self.samples_s += self._surroundings.clock() - began

    def _ask_without_workers(self, question: Callable[[TrialArm], Answer]) -> Answer | None:
        """What a process that holds the dataset, and has no workers, answers; None if it cannot."""
        for candidate in self.candidates:
            if candidate.num_workers == 0 and candidate.alive:
                return candidate.ask(question)
        return self._ask_new(question)

    def _ask_new(self, question: Callable[[TrialArm], Answer]) -> Answer | None:
        """The same of a process of its own, where to answer would disturb the iterator of another."""
        try:
            with self._surroundings.open_arm(self._configuration, self._memory_left()) as arm:
                return question(arm)
        except TrialError:
            return None

    def _learn(self, candidate: Candidate) -> None:
        """Takes from a candidate what concerns all: its files, where they came from, a length that is wrong."""
        self._report_handles(candidate)
        self._learn_files(candidate)
        self._warmer.notice(candidate)
        self._wrong_length = self._wrong_length or candidate.wrong_length
        if self._wrong_length:
            for other in self.candidates:
                other.forget_length(self._wrong_length)

    def _report_handles(self, candidate: Candidate) -> None:
        if not self._handles_reported and candidate.facts is not None and candidate.facts.handles:
            self._handles_reported = True
            self._watcher.note(about_handles(candidate.facts))

    def _make_room(self, candidate: Candidate, beside: Sequence[LoaderSettings], begun: Sequence[Candidate]) -> bool:
        """Whether the candidate may begin now; those that are done make room. One that can never fit is skipped."""
        while True:
            alive = [other for other in self.candidates if other.alive]
            reason = self._shortage(candidate)
            if len(alive) < self._rules.interleave and not reason:
                return True
            dispensable = [other for other in alive if other.done and other.settings not in beside]
            dispensable = dispensable or [
                other for other in alive if other.done and len(alive) >= self._rules.interleave
            ]
            if dispensable:
                _slowest(dispensable).close()
            elif any(not other.done for other in begun):
                return False  # they get their rounds first, and can be ended then
            elif alive:
                _slowest([other for other in alive if other.settings not in beside] or alive).close()
            else:
                candidate.skip(reason)
                return True

    def _shortage(self, candidate: Candidate) -> str:
        load = self._load()
        room = self._surroundings.room(self._memory_left())
        return shortage(candidate.settings, load, room, self._configuration.ranks)

    def _load(self) -> Load:
        """What is known of batches and workers by those that were started."""
        started = [candidate for candidate in self.candidates if candidate.bursts]
        memory = {c.num_workers: c.trial.measurement.memory_bytes for c in started if c.trial.measurement}
        return load_of(
            [burst for c in started for burst in c.bursts], {k: v for k, v in memory.items() if v is not None}
        )

    def _memory_left(self) -> int | None:
        if self._budget_bytes is None:
            return None
        return max(0, self._budget_bytes - sum(candidate.usage.memory_bytes or 0 for candidate in self.candidates))

    def _allowance(self, candidate: Candidate) -> int | None:
        """What a candidate may hold now: what is left, and what it holds already."""
        left = self._memory_left()
        return None if left is None else left + (candidate.usage.memory_bytes or 0)

    def _learn_files(self, candidate: Candidate) -> None:
        """Finds the files that are dropped before each turn, as soon as a dataset can be asked for them."""
        if self._rules.cache != "cold" or self._files is not None or not candidate.alive:
            return
        self._files = pagecache.files_below(candidate.files)
        if not self._files:
            raise ConfigurationError(
                "measure.cache=cold: the dataset's attributes name no files; name files or folders in "
                "measure.cache_files=[...]"
            )
        candidate.begin_anew()  # its beginning was not cold

    def _drop_files(self) -> None:
        if self._files:
            self._surroundings.drop_files(self._files)


def _slowest(candidates: Sequence[Candidate]) -> Candidate:
    """The one that is the least likely to be wanted again."""
    return max(candidates, key=lambda candidate: candidate.trial.objective_s or float("inf"))
