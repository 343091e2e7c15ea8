"""The search of one configuration: asks the strategy, measures what it wants, until the strategy says stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from nws_sweep.candidate import Candidate
from nws_sweep.records import SearchResult, SearchRules, Trial
from nws_sweep.rounds import Rounds
from nws_sweep.strategies import Measure, Observation, make
from nws_sweep.surroundings import Surroundings


class Observer(Protocol):
    """Is told what happens while it happens: the files and the terminal."""

    def turn_started(self, num_workers: int) -> None:
        """A candidate is about to be measured, or measured on."""

    def trial_finished(self, result: SearchResult, trial: Trial) -> None:
        """A trial is done; ``result`` has it and all others, also those that are not finished."""

    def round_finished(self, result_so_far: Callable[[], SearchResult]) -> None:
        """Every candidate that is being measured had a turn; the result is made only if it is asked for."""

    def interrupted(self, result: SearchResult) -> None:
        """The search is given up; this is what there is of it."""

    def search_finished(self, result: SearchResult) -> None:
        """The search came to its own end."""


def search(start: SearchResult, surroundings: Surroundings, observer: Observer) -> SearchResult:
    """Searches num_workers for one configuration.

    Args:
        start: The result so far, usually without trials; finished ones that it has are not measured again.
        surroundings: Where arms come from, the clock, the machine.
        observer: Told of every trial as soon as it is done.

    Returns:
        The result with all trials, and why the search stopped.
    """
    progress = _Progress(start, surroundings, observer)
    configuration = start.configuration
    strategy = make(configuration.search)
    with Rounds(configuration, surroundings, progress) as rounds:
        progress.rounds = rounds
        try:
            while isinstance(decision := strategy.decide(_observations(progress.result)), Measure):
                rounds.measure(_with_reference(decision, progress.result), decision.beside)
        except KeyboardInterrupt:
            observer.interrupted(progress.result)
            raise
    result = progress.result
    reason = decision.reason + _about_reference(result)
    result = replace(result, stop_reason=reason)
    observer.search_finished(result)
    return result


def _with_reference(decision: Measure, result: SearchResult) -> tuple[int, ...]:
    """The reference is measured with the first candidates, to tell the gain over it wherever the search stops."""
    reference = result.configuration.search.reference
    known = {trial.num_workers for trial in result.trials} | set(decision.candidates)
    return decision.candidates if reference is None or reference in known else (*decision.candidates, reference)


def _observations(result: SearchResult) -> list[Observation]:
    return [Observation(trial.num_workers, trial.objective_s) for trial in result.trials]


def _about_reference(result: SearchResult) -> str:
    """What the reference says about a strategy that stopped before it had come so far."""
    rules: SearchRules = result.configuration.search
    costs = {trial.num_workers: trial.objective_s for trial in result.trials if trial.objective_s is not None}
    untried = [n for n in rules.candidates if n not in {trial.num_workers for trial in result.trials}]
    reference_s = costs.pop(rules.reference, None) if rules.reference is not None else None
    if reference_s is None or not costs or reference_s >= min(costs.values()):
        return ""
    if not any(n < (rules.reference or 0) for n in untried):
        return ""
    return (
        f"; but the reference num_workers={rules.reference} was faster, and {len(untried)} other candidates were not "
        "tried: more patience may find a better one"
    )


class _Progress:
    """Makes results of what the rounds tell."""

    def __init__(self, start: SearchResult, surroundings: Surroundings, observer: Observer) -> None:
        kept = tuple(trial for trial in start.trials if trial.finished)
        self._start = replace(start, trials=kept)
        self._clock = surroundings.clock
        self._began = surroundings.clock()
        self._observer = observer
        self.rounds: Rounds | None = None

    @property
    def result(self) -> SearchResult:
        """All trials, those that are done in the order of their ends."""
        candidates = self.rounds.candidates if self.rounds else []
        facts = next((c.facts for c in candidates if c.facts is not None), self._start.facts)
        trials = (*self._start.trials, *(candidate.trial for candidate in candidates))
        return replace(self._start, trials=trials, facts=facts, cost_s=self._start.cost_s + self._clock() - self._began)

    def turn_began(self, candidate: Candidate) -> None:
        self._observer.turn_started(candidate.num_workers)

    def candidate_done(self, candidate: Candidate) -> None:
        self._observer.trial_finished(self.result, candidate.trial)

    def round_ended(self) -> None:
        self._observer.round_finished(lambda: self.result)
