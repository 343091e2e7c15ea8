"""The search of one configuration: measures what the strategy decides until the strategy stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nws_sweep.errors import TimeLimitReached
from nws_sweep.measurement.candidate import Candidate
from nws_sweep.measurement.environment import Environment, Observer
from nws_sweep.measurement.rounds import Rounds
from nws_sweep.measurement.search_progress import SearchProgress
from nws_sweep.replay.model import known_of
from nws_sweep.replay.prediction import Records
from nws_sweep.results import Configuration, SearchRecord, Trial
from nws_sweep.system import processes
from nws_sweep.tuning.forecast import forecast_of
from nws_sweep.tuning.paired_comparison import Measure, MeasureRound, Observation, Strategy, with_workers
from nws_sweep.tuning.strategy import make

# Limit of an adaptive search without a budget, if the length of an epoch is known; again for each setting in also.
_LEAST_LIMIT_S, _LIMIT_EPOCHS = 30.0, 10
DEFAULT_LIMIT = f"{_LEAST_LIMIT_S:g} s or {_LIMIT_EPOCHS} epochs, whichever is longer"


def search(start: SearchRecord, environment: Environment, observer: Observer, guess: int | None = None) -> SearchRecord:
    """Searches one configuration; returns all trials, the verdict and the reason to stop.

    Args:
        start: The result so far; its finished trials are not measured again.
        environment: Trial processes, clock and machine.
        observer: Receives every trial as soon as it is finished.
        guess: The best num_workers of a similar configuration, measured first; None for none.
    """
    configuration = start.configuration
    cores, method = environment.cores_of_each(configuration.ranks), processes.start_method()
    strategy = make(configuration.search, configuration.loader, configuration.measure, cores, guess, method)
    with Rounds(start, environment, observer) as rounds:
        rounds.search.predicted = lambda trials: _with_predictions(trials, _observations(rounds))
        try:
            reason, provisional = _follow(strategy, rounds)
        except KeyboardInterrupt:
            observer.interrupted(rounds.search.record)
            raise
    observations = _observations(rounds)
    result, verdict = replace(rounds.search.record, stop_reason=reason), strategy.verdict(observations)
    if provisional:
        result = replace(result, trials=tuple(trial for trial in result.trials if trial.finished))
    result = replace(result, verdict=verdict and replace(verdict, provisional=provisional))
    observer.search_finished(result)
    return result


def _follow(strategy: Strategy, rounds: Rounds) -> tuple[str, bool]:
    """Measures until the strategy stops; returns the reason, and True if the time budget ended the search."""
    rules = rounds.search.start.configuration.search
    try:
        while True:
            observations = _observations(rounds)
            rounds.deadline = _deadline(rounds.search.start.configuration, rounds.search.began, observations)
            decision = strategy.decide(observations)
            if isinstance(decision, Measure):
                rounds.measure(decision.candidates, decision.beside)
            elif isinstance(decision, MeasureRound):
                rounds.compare_in_round(decision.candidates, decision.dropped, decision.window_s)
            elif rounds.conclude():  # otherwise a candidate must be measured again
                suffix = ", each rank" if rounds.search.start.configuration.ranks > 1 else ""
                return decision.reason + suffix, False
            if rounds.search.stream_error and rounds.conclude():
                return f"workers deliver wrong samples: {rounds.search.stream_error}", False
    except TimeLimitReached:
        default = f"the default limit ({DEFAULT_LIMIT}) was reached; time_limit_s=SECONDS sets another"
        limit_s = rules.time_limit_s
        spent = default if limit_s is None else f"time_limit_s={limit_s:g} was spent"
        rounds.stop(f"stopped when {spent}")
        return spent, True


def _deadline(configuration: Configuration, began: float, observations: Sequence[Observation]) -> float | None:
    """When the search must end: by its budget or, for an adaptive search without one, by the default limit."""
    rules = configuration.search
    if rules.time_limit_s is not None:
        return began + rules.time_limit_s
    epochs_s = [o.cost_s for o in observations if o.cost_s is not None and o.batches is not None]
    if rules.strategy != "adaptive" or configuration.measure.mode == "epoch" or not epochs_s:
        return None
    return began + (1 + len(rules.settings)) * max(_LEAST_LIMIT_S, _LIMIT_EPOCHS * min(epochs_s))


def _observations(rounds: Rounds) -> list[Observation]:
    """The observations of trials from the start and of candidates."""
    search = rounds.search
    trials: list[tuple[Trial, Candidate | None]] = [(trial, None) for trial in search.start.trials]
    trials += [(candidate.progress.trial, candidate) for candidate in search.candidates]
    found: list[Observation] = []
    for trial, candidate in sorted(trials, key=lambda pair: pair[0].num_workers):
        instead = next((o.known.records for o in found if o.known), None)
        found.append(_observation(trial, search, candidate, instead))
    base = search.start.configuration.loader
    usual = (o for o in found if o.settings == with_workers(base, o.num_workers))
    forecast = forecast_of(usual, _cores(search), processes.start_method())
    return [forecast.corrected(o) for o in found] if forecast else found


def _with_predictions(trials: tuple[Trial, ...], observations: Sequence[Observation]) -> tuple[Trial, ...]:
    """The trials with the predicted time of an epoch, which ranks candidates."""
    seen = {o.settings: o for o in observations}
    return tuple(_with_prediction(trial, seen[trial.settings]) for trial in trials)


def _with_prediction(trial: Trial, seen: Observation) -> Trial:
    found = trial.measurement
    if found is None or seen.known is None or seen.batches is None or seen.cost_s is None:
        return trial
    return replace(trial, measurement=replace(found, epoch_s=seen.cost_s))


def _observation(
    trial: Trial, search: SearchProgress, candidate: Candidate | None, instead: Records | None
) -> Observation:
    ranks, has_length = search.start.configuration.ranks, trial.measurement and trial.measurement.epoch_s
    if candidate:
        batches = candidate.progress.batches_per_epoch
    else:
        batches = search.facts.batches_of(trial.settings, ranks) if has_length and search.facts else None
    return Observation(
        settings=trial.settings,
        cost_s=trial.objective_s,
        by_round=candidate.progress.by_round if candidate else {},
        known=known_of(trial, batches, _cores(search), instead),
        batches=batches,
        spent_s=trial.cost_s if candidate else 0.0,
        may_continue=candidate is not None and candidate.may_continue,
    )


def _cores(search: SearchProgress) -> float:
    """CPUs that the processes of one rank may use."""
    return search.environment.cores_of_each(search.start.configuration.ranks)
