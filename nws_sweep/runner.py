"""The search of one configuration: asks the strategy, measures what it wants, until the strategy says stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from nws_sweep import processes
from nws_sweep.candidate import Candidate
from nws_sweep.errors import TimeBudgetSpent
from nws_sweep.records import LoaderSettings, SearchCost, SearchRecord, SearchRules, Trial
from nws_sweep.rounds import Rounds
from nws_sweep.strategies import Measure, Observation, Race, Strategy, make, with_workers
from nws_sweep.surroundings import Surroundings

# How long a search without a budget may take where the length of an epoch is known; for each setting in also again.
_LEAST_LIMIT_S, _LIMIT_EPOCHS = 30.0, 10
DEFAULT_LIMIT = f"{_LEAST_LIMIT_S:g} s or {_LIMIT_EPOCHS} epochs, whichever is longer"


class Observer(Protocol):
    """Is told what happens while it happens: the files and the terminal."""

    def turn_started(self, num_workers: int) -> None:
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


def search(
    start: SearchRecord, surroundings: Surroundings, observer: Observer, guess: int | None = None
) -> SearchRecord:
    """Searches num_workers for one configuration.

    Args:
        start: The result so far, usually without trials; finished ones that it has are not measured again.
        surroundings: Where arms come from, the clock, the machine.
        observer: Told of every trial as soon as it is done.
        guess: A value of num_workers that was the best in a similar case, which is tried first; None for none.

    Returns:
        The result with all trials, the verdict, and why the search stopped.
    """
    progress = _Progress(start, surroundings, observer)
    configuration = start.configuration
    rules = configuration.search
    # It decides about one rank, with its share of the CPUs and of their time.
    cores = surroundings.cores_of_each(configuration.ranks)
    strategy = make(rules, configuration.loader, configuration.measure, cores, guess, processes.start_method())
    with Rounds(configuration, surroundings, progress, _deadline(start, progress.began)) as rounds:
        progress.rounds = rounds
        try:
            reason = _follow(strategy, rounds, progress)
        except KeyboardInterrupt:
            observer.interrupted(progress.result)
            raise
    result = progress.concluded(reason, strategy)
    observer.search_finished(result)
    return result


def _follow(strategy: Strategy, rounds: Rounds, progress: _Progress) -> str:
    """Does what the strategy says until it stops; the reason."""
    try:
        while True:
            decision = strategy.decide(progress.observations)
            if isinstance(decision, Measure):
                rounds.measure(_with_reference(decision, progress.result), decision.beside)
            elif isinstance(decision, Race):
                rounds.race(decision.candidates, decision.dropped, decision.window_s)
            elif rounds.conclude():  # else there is one that must be measured again
                of_each = ", each rank" if progress.result.configuration.ranks > 1 else ""
                return decision.reason + of_each + _about_reference(progress.result)
            progress.profiled()
            rounds.deadline = _deadline(progress.result, progress.began)
            if rounds.unshared and rounds.conclude():
                return f"no candidate with workers is right: {rounds.unshared}"
    except TimeBudgetSpent:
        budget_s = progress.result.configuration.search.time_budget_s
        default = f"the default limit ({DEFAULT_LIMIT}) was reached; search.time_budget_s=SECONDS sets another"
        spent = default if budget_s is None else f"search.time_budget_s={budget_s:g} was spent"
        rounds.give_up(f"stopped when {spent}")
        progress.provisional = True
        return spent


def _deadline(result: SearchRecord, began: float) -> float | None:
    """When the search must end: by its budget, or an adaptive one without a budget in proportion to an epoch."""
    rules = result.configuration.search
    if rules.time_budget_s is not None:
        return began + rules.time_budget_s
    epochs_s = [trial.measurement.epoch_s for trial in result.trials if trial.measurement and trial.measurement.epoch_s]
    if rules.strategy != "adaptive" or result.configuration.measure.mode == "epoch" or not epochs_s:
        return None
    return began + (1 + len(rules.also)) * max(_LEAST_LIMIT_S, _LIMIT_EPOCHS * min(epochs_s))


def _with_reference(decision: Measure, result: SearchRecord) -> tuple[LoaderSettings, ...]:
    """The reference is measured with the first candidates, to tell the gain over it wherever the search stops."""
    reference = result.configuration.search.reference
    known = {trial.num_workers for trial in result.trials} | {s.num_workers for s in decision.candidates}
    if reference is None or reference in known:
        return decision.candidates
    return (*decision.candidates, with_workers(result.configuration.loader, reference))


def _observation(trial: Trial, ranks: int, candidate: Candidate | None = None) -> Observation:
    found = trial.measurement
    return Observation(
        settings=trial.settings,
        cost_s=trial.objective_s,
        by_round=candidate.by_round if candidate else {},
        batch_s=found.batch_s.value if found and found.batch_s else None,
        startup_s=found.startup_s if found else None,
        cpu_s=found.cpu_s / ranks if found and found.cpu_s is not None else None,
        consume_s=found.consume_s if found else None,
        batches=candidate.batches_per_epoch if candidate else None,
        spent_s=trial.cost_s,
        open=candidate is not None and candidate.may_go_on,
    )


def _batches(trial: Trial, result: SearchRecord) -> int | None:
    """Batches of an epoch of a trial that was measured elsewhere; None if unknown."""
    if result.facts is None or trial.measurement is None or trial.measurement.epoch_s is None:
        return None
    return result.configuration.batches_of(trial.settings, result.facts)


def _about_reference(result: SearchRecord) -> str:
    """What the reference says about a strategy that stopped before it had come so far."""
    rules: SearchRules = result.configuration.search
    if rules.strategy != "patience":  # the others look for themselves
        return ""
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

    def __init__(self, start: SearchRecord, surroundings: Surroundings, observer: Observer) -> None:
        kept = tuple(trial for trial in start.trials if trial.finished)
        self._start = replace(start, trials=kept)
        self._clock = surroundings.clock
        self.began = surroundings.clock()
        self._observer = observer
        self._profile: SearchCost | None = None
        self.provisional = False
        self.rounds: Rounds | None = None

    @property
    def _candidates(self) -> list[Candidate]:
        return self.rounds.candidates if self.rounds else []

    @property
    def result(self) -> SearchRecord:
        """All trials, those that are done in the order of their ends."""
        facts = next((c.facts for c in self._candidates if c.facts is not None), self._start.facts)
        trials = (*self._start.trials, *(candidate.trial for candidate in self._candidates))
        cost_s = self._start.cost_s + self._clock() - self.began
        return replace(self._start, trials=trials, facts=facts, cost_s=cost_s, cost=self._cost(cost_s))

    @property
    def observations(self) -> list[Observation]:
        """What the strategy is shown."""
        result, ranks = self.result, self._start.configuration.ranks
        kept = [replace(_observation(t, ranks), batches=_batches(t, result), spent_s=0.0) for t in self._start.trials]
        return [*kept, *(_observation(candidate.trial, ranks, candidate) for candidate in self._candidates)]

    def profiled(self) -> None:
        """A decision was carried out; the first one of a search, unless it goes on, was the look at the loader."""
        if self._profile is None and not self._start.trials:
            self._profile = replace(self._costs(), profile_s=self._clock() - self.began)

    def concluded(self, reason: str, strategy: Strategy) -> SearchRecord:
        """The result of a search that is over."""
        result = self.result
        if self.provisional:  # those who had no time for anything
            result = replace(result, trials=tuple(trial for trial in result.trials if trial.finished))
        verdict = strategy.verdict(self.observations)
        if verdict is not None:
            verdict = replace(verdict, provisional=self.provisional)
        return replace(result, stop_reason=reason, verdict=verdict)

    def _costs(self) -> SearchCost:
        parts = [candidate.costs for candidate in self._candidates]
        return SearchCost(
            startup_s=sum(part.startup_s for part in parts),
            warm_up_s=sum(part.warm_up_s for part in parts),
            measuring_s=sum(part.measuring_s for part in parts),
            samples_s=self.rounds.samples_s if self.rounds else 0.0,
        )

    def _cost(self, total_s: float) -> SearchCost:
        """Where the time went; what the profile took is told as such, and not once more among the rest."""
        parts, profile = self._costs(), self._profile or SearchCost()
        if self._start.configuration.search.strategy != "adaptive":
            profile = SearchCost()
        spent = SearchCost(
            profile_s=profile.profile_s,
            startup_s=parts.startup_s - profile.startup_s,
            warm_up_s=parts.warm_up_s - profile.warm_up_s,
            measuring_s=parts.measuring_s - profile.measuring_s,
            samples_s=parts.samples_s - profile.samples_s,
        )
        before = self._start.cost or SearchCost()  # of earlier calls, and of waiting for this one
        known = replace(before.plus(spent), other_s=0.0)
        return replace(known, other_s=total_s - known.total_s)

    def turn_began(self, candidate: Candidate) -> None:
        self._observer.turn_started(candidate.num_workers)

    def candidate_done(self, candidate: Candidate) -> None:
        self._observer.trial_finished(self.result, candidate.trial)

    def round_ended(self) -> None:
        self._observer.round_finished(lambda: self.result)

    def note(self, line: str) -> None:
        self._observer.note(line)
