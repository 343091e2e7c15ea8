"""Measures candidates in rounds of time slices: while one candidate is timed, the
others are paused.

In each round every candidate of a decision has one time slice. The order is random, so
machine drift affects all candidates equally; new candidates come last. Trial processes
stay alive, paused, as long as resources are free.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nws_sweep import units
from nws_sweep.errors import TimeLimitReached
from nws_sweep.model import choice
from nws_sweep.records import DatasetFacts, SearchRecord
from nws_sweep.searching import slices
from nws_sweep.searching.admission import Admission
from nws_sweep.searching.candidate import Candidate, observation_of_candidate, trial_of
from nws_sweep.searching.data import Data
from nws_sweep.searching.estimates import FEWEST_ROUNDS, Estimates, estimates_of
from nws_sweep.searching.observations import (
    Observation,
    Round,
    costs_of_trials,
    observation_of,
)
from nws_sweep.searching.sample_check import SampleChecker, Search
from nws_sweep.trials.environment import STALL_S, Environment, Observer
from nws_sweep.trials.on_demand import OnDemandProcess, Turns


class Rounds:
    """The state of one search, in which candidates are measured in rounds; ``close``
    ends all trial processes, also after an interrupt.

    Attributes:
        start: The record before the search, with finished trials only, which are not
            measured again.
        candidates: All candidates that were started or skipped, in the order of their
            starts.
        wrong_samples: Why every candidate with workers is wrong; empty if no such
            reason was found.
        environment: Trial processes, clock and machine.
        turns: The trial processes, of which one runs at a time.
        admission: Which candidates may have trial processes.
    """

    def __init__(
        self,
        start: SearchRecord,
        environment: Environment,
        observer: Observer,
        limit_s: float,
    ) -> None:
        self.start = replace(
            start, trials=tuple(trial for trial in start.trials if trial.finished)
        )
        self.candidates: list[Candidate] = []
        self.wrong_samples = ""
        self.environment = environment
        began_s = environment.clock()
        self.turns = Turns(began_s, began_s + limit_s)
        self._observer = observer
        self._number = 0  # of the round
        rules, ranks = start.configuration.measure, start.configuration.ranks
        budget_bytes = environment.memory_budget(rules.memory_budget_bytes)
        self.admission = Admission(
            self.candidates, environment, budget_bytes, ranks, rules.interleave
        )
        whole_batches = start.facts.whole_batches if start.facts else None
        self._data = Data(environment, rules, whole_batches=whole_batches)
        samples = SampleChecker(self, observer)
        self._slices = SliceTaker(self, self._data, samples, observer)

    def close(self) -> None:
        """Ends all trial processes at the same time."""
        self.turns.close()

    @property
    def facts(self) -> DatasetFacts | None:
        """What the dataset reported about itself; None before the first trial
        process."""
        reported = (candidate.process.facts for candidate in self.candidates)
        facts = next(filter(None, reported), self.start.facts)
        return facts and replace(facts, whole_batches=self._data.whole_batches)

    def observations(self) -> list[Observation]:
        """Returns what strategies see of each candidate, and of each finished trial of
        the start, fewest workers first."""
        configuration = self.start.configuration
        costs = costs_of_trials(
            [*self.start.trials, *map(trial_of, self.candidates)],
            cores=self.environment.cores(configuration.ranks),
            epochs=configuration.measure.shared_epochs,
            is_shuffled=self.facts is None or self.facts.is_shuffled,
        )
        return [
            replace(observation, costs=costs[observation.settings])
            for observation in self._observations_without_costs()
        ]

    def _observations_without_costs(self) -> list[Observation]:
        observations = [
            *map(observation_of, self.start.trials),
            *map(observation_of_candidate, self.candidates),
        ]
        return sorted(observations, key=lambda observation: observation.num_workers)

    @property
    def estimates(self) -> Estimates | None:
        """The times of the candidates, finished trials of the start included; None if
        none has a time.

        Estimates need no costs of batches, so these are not replayed.
        """
        tolerance = self.start.configuration.search.tolerance
        return estimates_of(self._observations_without_costs(), tolerance)

    @property
    def record(self) -> SearchRecord:
        """All trials and the cost of the search so far."""
        estimates = self.estimates
        trials = [trial_of(candidate, estimates) for candidate in self.candidates]
        cost_s = self.start.cost_s + self.environment.clock() - self.turns.began_s
        return replace(
            self.start,
            trials=(*self.start.trials, *trials),
            facts=self.facts,
            cost_s=cost_s,
        )

    def take(self, decision: Round) -> None:
        """Ends candidates, then takes one time slice of each candidate of a decision;
        starts new ones.

        A new candidate that has to wait is not started. TimeLimitReached after the
        deadline.
        """
        self._end(decision)
        wanted = (*decision.candidates, *decision.beside)
        started = [
            candidate for candidate in self.candidates if candidate.settings in wanted
        ]
        random.Random(f"{self.start.configuration.seed}-{self._number}").shuffle(
            started
        )
        for candidate in [*started, *self._new(decision)]:
            if self.wrong_samples:
                break
            is_admitted = candidate in started or self._is_admitted(candidate, decision)
            # it may have been closed in this round to free resources
            if is_admitted and candidate.may_continue:
                self._slices.take(candidate, self._number, decision.window_s)
                self._report_finished()
        self._number += 1
        _measure_impossible_again(self.candidates, self.estimates)
        self._observer.round_finished(lambda: self.record)

    def stop(self, note: str = "") -> None:
        """Makes the rows of all candidates final.

        With a note, only of candidates that have a pace, and without time for a last
        look: trial processes end at once.
        """
        if note:
            self.turns.end()
        candidates = [
            candidate for candidate in self.candidates if candidate.has_pace or not note
        ]
        self._finish(candidates, note)

    def _end(self, decision: Round) -> None:
        """Makes the rows of the candidates that a decision ends final, and ends their
        trial processes."""
        ended = [
            candidate
            for candidate in self.candidates
            if candidate.settings in decision.ended and not candidate.is_finished
        ]
        for candidate in ended:
            candidate.was_ended = decision.are_rivals
        self._finish(ended)
        for candidate in ended:
            candidate.process.close()

    def _finish(self, candidates: Sequence[Candidate], note: str = "") -> None:
        """Makes the rows of candidates final, and reports them."""
        estimates = self.estimates if candidates else None
        for candidate in candidates:
            slices.finish(candidate, note, estimates)
        self._report_finished()

    def _new(self, decision: Round) -> list[Candidate]:
        """Makes the new candidates of a decision; few workers first, which show what
        more workers would need."""
        started = {candidate.settings for candidate in self.candidates}
        new = sorted(set(decision.candidates) - started, key=choice.size)
        configuration, environment = self.start.configuration, self.environment
        return [
            Candidate(OnDemandProcess(settings, configuration, environment, self.turns))
            for settings in new
        ]

    def _is_admitted(self, candidate: Candidate, decision: Round) -> bool:
        """Whether a new candidate starts now; if it starts or is skipped, it belongs to
        the search from here on."""
        is_admitted = self.admission.admits(candidate, decision)
        is_skipped = candidate.is_finished
        if is_admitted or is_skipped:
            self.candidates.append(candidate)
            self._report_finished()
        return is_admitted

    def _report_finished(self) -> None:
        """Reports the trials that have finished meanwhile."""
        finished = [
            candidate
            for candidate in self.candidates
            if candidate.is_finished and not candidate.is_reported
        ]
        if not finished:  # a record replays batches of all trials
            return
        record = self.record
        trials = {trial.settings: trial for trial in record.trials}
        for candidate in finished:
            candidate.is_reported = True
            self._observer.trial_finished(record, trials[candidate.settings])


def _measure_impossible_again(
    candidates: Iterable[Candidate], estimates: Estimates | None
) -> None:
    """Measures candidates with an impossible pace once more; without a number if it
    stays impossible."""
    if estimates is None:
        return
    for candidate in candidates:
        figures = candidate.figures
        if candidate.may_continue and len(figures.timing.paces_s) >= FEWEST_ROUNDS:
            reason = figures.impossible(estimates.half_width(candidate.settings))
            if reason:
                candidate.restart(reason)


@dataclass(frozen=True)
class SliceTaker:
    """Takes time slices, and looks at what they show besides times: samples, threads
    and the data.

    Attributes:
        search: Has the candidates and their trial processes.
        data: The data of the search.
        samples: Checks the samples of each candidate.
        observer: Receives notes.
    """

    search: Search
    data: Data
    samples: SampleChecker
    observer: Observer

    def take(self, candidate: Candidate, number: int, window_s: float) -> None:
        """Takes a time slice of a candidate in a round; TimeLimitReached after the
        deadline.

        Each command to the trial process may have resumed the other processes, which
        are paused again.
        """
        environment, turns = self.search.environment, self.search.turns
        environment.check_interrupts()
        if candidate.process.is_late:
            raise TimeLimitReached
        self.observer.slice_started(candidate.settings.num_workers)
        environment.drop_files(self.data.cold_files)
        self.data.place(candidate)
        started_in_s = candidate.process.started_in_s
        memory_left = self.search.admission.memory_left
        slices.take_slice(candidate, number, window_s, memory_left)
        turns.pause_others()
        for look in (
            self.samples.check,
            slices.compare_threads,
            self.data.try_whole_batches,
        ):
            look(candidate)
            turns.pause_others()
        self._note_start(candidate.process.started_in_s - started_in_s)
        line = self.data.notice_size(candidate)
        if line:
            self.observer.note(line)
        self.data.notice_length(candidate, self.search.candidates)

    def _note_start(self, took_s: float) -> None:
        """Notes a slow start of a trial process."""
        if took_s > STALL_S:
            took = f"starting a process took {units.seconds(took_s)}"
            self.observer.note(
                f"{took}, which the time limit does not count: torch is imported, the dataset is made"
            )
