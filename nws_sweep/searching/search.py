"""The search of one configuration: measures what the strategy decides until the strategy stops."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from nws_sweep.errors import TimeLimitReached
from nws_sweep.executor.environment import Environment, Observer
from nws_sweep.replay.known import known_of
from nws_sweep.replay.prediction import Records
from nws_sweep.results import Configuration, SearchRecord, Trial
from nws_sweep.searching.candidate import Candidate
from nws_sweep.searching.estimates import Estimates, estimates_of
from nws_sweep.searching.observations import (
    Measure,
    MeasureRound,
    Observation,
    Strategy,
    for_the_whole_epoch,
    model_from,
)
from nws_sweep.searching.rounds import Rounds
from nws_sweep.searching.search_progress import SearchProgress
from nws_sweep.searching.strategy import OtherSettingsSearch, make
from nws_sweep.system import host, processes

_LIMIT_S, _LIMIT_OF_SETTING_S = 60.0, 30.0  # of an adaptive search without a limit, and of each further setting


def new_record(configuration: Configuration) -> SearchRecord:
    """The record of a search that begins now."""
    started_at = datetime.now().astimezone().isoformat()
    return SearchRecord(configuration=configuration, host=host.describe(configuration.ranks), started_at=started_at)


def search(
    start: SearchRecord,
    environment: Environment,
    observer: Observer,
    guess: int | None = None,
    began_s: float | None = None,
) -> SearchRecord:
    """Searches one configuration; returns all trials, the verdict and the reason to stop.

    Args:
        start: The result so far; its finished trials are not measured again.
        environment: Trial processes, clock and machine.
        observer: Receives every trial as soon as it is finished.
        guess: The best num_workers of a similar configuration, measured first; None for none.
        began_s: When the search began, on the environment's clock; None for now.
    """
    configuration = start.configuration
    cores, method = environment.cores(configuration.ranks), processes.start_method()
    strategy = make(configuration.search, configuration.loader, configuration.measure, cores, guess, method)
    began_s = environment.clock() if began_s is None else began_s
    progress = SearchProgress(start, environment, began_s, began_s + limit_s(configuration))
    with Rounds(progress, observer) as rounds:
        progress.standardized = lambda trials: _standardized(trials, _estimates(progress))
        try:
            reason, provisional = _follow(strategy, rounds)
        except KeyboardInterrupt:
            observer.interrupted(progress.record)
            raise
    found = _estimates(progress)
    verdict = replace(found.verdict(), provisional=provisional) if found else None
    result = replace(progress.record, stop_reason=reason, verdict=verdict)
    if provisional:
        result = replace(result, trials=tuple(trial for trial in result.trials if trial.finished))
    if not result.trials:  # the limit came first: the search is repeated if it is asked for again
        result = replace(result, error=f"no candidate was measured: {reason}")
    observer.search_finished(result)
    return result


def _follow(strategy: Strategy, rounds: Rounds) -> tuple[str, bool]:
    """Measures until the strategy stops; returns the reason, and True if the time limit ended the search."""
    configuration = rounds.search.start.configuration
    try:
        while True:
            facts = rounds.search.facts
            if isinstance(strategy, OtherSettingsSearch) and facts and facts.accelerator is None:
                strategy = replace(strategy, has_accelerator=False)
            decision = strategy.decide(_observations(rounds.search))
            if isinstance(decision, Measure):
                rounds.measure(decision.candidates, decision.beside)
            elif isinstance(decision, MeasureRound):
                rounds.end_trials(decision.dropped, "eliminated after {}", eliminated=True)
                rounds.end_trials(decision.displaced, "ended after {} to start more workers")
                rounds.compare_in_round(decision.candidates, decision.window_s)
            elif unfinished := rounds.conclude():
                rounds.compare_in_round(unfinished)
            else:
                suffix = ", each rank" if configuration.ranks > 1 else ""
                return decision.reason + suffix, False
            if rounds.search.stream_error:
                rounds.stop("")
                rounds.conclude()  # those without figures
                return f"workers deliver wrong samples: {rounds.search.stream_error}", False
    except TimeLimitReached:
        spent = limit_spent(configuration)
        rounds.stop(f"stopped when {spent}")
        return spent, True


def limit_spent(configuration: Configuration) -> str:
    """The reason to stop at the limit."""
    return f"time_limit_s={limit_s(configuration):g} was spent"


def limit_s(configuration: Configuration) -> float:
    """Seconds after which a search ends: its limit or, for an adaptive search without one, the default limit.

    Searching prefetch_factor adds nothing to the default.
    """
    rules = configuration.search
    if rules.time_limit_s is not None:
        return rules.time_limit_s
    if rules.strategy != "adaptive" or configuration.measure.mode == "epoch":
        return math.inf
    return _LIMIT_S + _LIMIT_OF_SETTING_S * len({*(rules.settings or ())} - {"prefetch_factor"})


def _estimates(search: SearchProgress) -> Estimates | None:
    return estimates_of(_observations(search), search.start.configuration.search.tolerance)


def _observations(search: SearchProgress) -> list[Observation]:
    """The observations of trials from the start and of candidates."""
    trials: list[tuple[Trial, Candidate | None]] = [(trial, None) for trial in search.start.trials]
    trials += [(candidate.progress.trial, candidate) for candidate in search.candidates]
    found: list[Observation] = []
    for trial, candidate in sorted(trials, key=lambda pair: pair[0].num_workers):
        instead = next((o.known.records for o in found if o.known), None)
        found.append(_observation(trial, search, candidate, instead))
    if search.facts is not None and not search.facts.is_shuffled:
        return found  # which batches come together matters, and a replay would put them together at random
    base = search.start.configuration.loader
    model = model_from((o for o in found if o.settings == base.with_workers(o.num_workers)), processes.start_method())
    return [for_the_whole_epoch(o, model) for o in found] if model else found


def _standardized(trials: Sequence[Trial], found: Estimates | None) -> tuple[Trial, ...]:
    """The trials of this search with the times by which they are compared, so that the choice can be seen from them.

    Those with too few windows for an interval of their own have one by the noise of all rounds.
    """
    if found is None:
        return tuple(trials)
    compared = {
        o.settings: (found.costs_s[o.settings] * (o.batches or 1), found.half_width(o))
        for o in found.observations
        if o.by_round
    }
    return tuple(one.scaled_to(*compared[one.settings]) if one.settings in compared else one for one in trials)


def _observation(
    trial: Trial, search: SearchProgress, candidate: Candidate | None, instead: Records | None
) -> Observation:
    configuration = search.start.configuration
    cores, epochs = search.environment.cores(configuration.ranks), configuration.measure.epochs
    shared_by = trial.batches or 1  # the objective is the time of an epoch, or of a batch if its length is unknown
    by_round = candidate.progress.by_round if candidate else {}
    return Observation(
        settings=trial.settings,
        cost_s=None if trial.objective_s is None else trial.objective_s / shared_by,
        by_round={n: cost_s / shared_by for n, cost_s in by_round.items()},
        known=known_of(trial, trial.batches, cores, instead, epochs),
        batches=trial.batches,
        spent_s=trial.cost_s if candidate else 0.0,
        timed_s=sum(one.elapsed_s for one in candidate.progress.windows if one.counts) if candidate else 0.0,
        may_continue=candidate is not None and candidate.may_continue,
        eliminated=candidate is not None and candidate.eliminated,
    )
