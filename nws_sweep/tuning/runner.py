"""The search of one configuration: measures what the strategy decides until the strategy stops."""

from __future__ import annotations

from dataclasses import replace

from nws_sweep.errors import TimeBudgetSpent
from nws_sweep.measurement.candidate import Candidate
from nws_sweep.measurement.environment import Environment, Observer
from nws_sweep.measurement.rounds import Rounds
from nws_sweep.replay.model import model_of, queue_settings
from nws_sweep.results import SearchRecord, Trial
from nws_sweep.system import processes
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
        try:
            reason, provisional = _follow(strategy, rounds)
        except KeyboardInterrupt:
            observer.interrupted(rounds.search.record)
            raise
    result, verdict = replace(rounds.search.record, stop_reason=reason), strategy.verdict(_observations(rounds))
    if provisional:
        result = replace(result, trials=tuple(trial for trial in result.trials if trial.finished))
    result = replace(result, verdict=verdict and replace(verdict, provisional=provisional))
    observer.search_finished(result)
    return result


def _follow(strategy: Strategy, rounds: Rounds) -> tuple[str, bool]:
    """Measures until the strategy stops; returns the reason, and True if the time budget ended the search."""
    rules, is_first = rounds.search.start.configuration.search, not rounds.search.start.trials
    try:
        while True:
            rounds.deadline = _deadline(rounds.search.record, rounds.search.began)
            decision = strategy.decide(_observations(rounds))
            if isinstance(decision, Measure):
                rounds.measure(decision.candidates, decision.beside)
            elif isinstance(decision, MeasureRound):
                rounds.compare_in_round(decision.candidates, decision.dropped, decision.window_s)
            elif rounds.conclude():  # otherwise a candidate must be measured again
                suffix = ", each rank" if rounds.search.start.configuration.ranks > 1 else ""
                return decision.reason + suffix, False
            if is_first and rules.strategy == "adaptive":
                rounds.search.end_profile()
            is_first = False
            if rounds.search.stream_error and rounds.conclude():
                return f"workers deliver wrong samples: {rounds.search.stream_error}", False
    except TimeBudgetSpent:
        default = f"the default limit ({DEFAULT_LIMIT}) was reached; search.time_budget_s=SECONDS sets another"
        budget_s = rules.time_budget_s
        spent = default if budget_s is None else f"search.time_budget_s={budget_s:g} was spent"
        rounds.stop(f"stopped when {spent}")
        return spent, True


def _deadline(result: SearchRecord, began: float) -> float | None:
    """When the search must end: by its budget or, for an adaptive search without one, by the default limit."""
    rules = result.configuration.search
    if rules.time_budget_s is not None:
        return began + rules.time_budget_s
    epochs_s = [trial.measurement.epoch_s for trial in result.trials if trial.measurement and trial.measurement.epoch_s]
    if rules.strategy != "adaptive" or result.configuration.measure.mode == "epoch" or not epochs_s:
        return None
    return began + (1 + len(rules.also)) * max(_LEAST_LIMIT_S, _LIMIT_EPOCHS * min(epochs_s))


def _observations(rounds: Rounds) -> list[Observation]:
    """The observations of trials from the start and of candidates."""
    start, facts = rounds.search.start, rounds.search.facts
    kept = []
    for trial in start.trials:
        has_length = trial.measurement is not None and trial.measurement.epoch_s is not None
        batches = facts.batches_of(trial.settings, start.configuration.ranks) if has_length and facts else None
        kept.append(replace(_observation(trial, start.configuration.ranks), batches=batches, spent_s=0.0))
    observed = [_observation(c.progress.trial, start.configuration.ranks, c) for c in rounds.search.candidates]
    return [*kept, *_replayed(observed, rounds)]


def _replayed(observed: list[Observation], rounds: Rounds) -> list[Observation]:
    """Observations with costs of whole epochs: what the replay of all records says, corrected by what was measured."""
    progresses = {candidate.settings: candidate.progress for candidate in rounds.search.candidates}
    base = rounds.search.start.configuration.loader
    usual = [o for o in observed if o.settings == with_workers(base, o.num_workers) and o.cost_s is not None]
    if not usual or rounds.search.start.configuration.ranks > 1:
        return observed
    cpus = progresses[usual[0].settings].cores
    model = model_of([progresses[o.settings].trial for o in usual], usual[0].batches, cpus)
    if model is None:
        return observed
    known = {one.settings: one for one in model.known}
    found = []
    for o in observed:
        queue = queue_settings(o.settings, cpus)
        if o not in usual or queue not in known:
            found.append(replace(o, model=model))
            continue
        value = model.epoch_s(queue) if o.batches else model.batch_s(queue)
        by_round = {number: value / known[queue].factor * ratio for number, ratio in known[queue].by_round.items()}
        found.append(replace(o, cost_s=value, by_round=by_round, batch_s=model.batch_s(queue), model=model))
    return found


def _observation(trial: Trial, ranks: int, candidate: Candidate | None = None) -> Observation:
    found = trial.measurement
    return Observation(
        settings=trial.settings,
        cost_s=trial.objective_s,
        by_round=candidate.progress.by_round if candidate else {},
        batch_s=found.batch_s.value if found and found.batch_s else None,
        startup_s=found.startup_s if found else None,
        cpu_s=found.cpu_s / ranks if found and found.cpu_s is not None else None,
        consume_s=found.consume_s if found else None,
        batches=candidate.progress.batches_per_epoch if candidate else None,
        spent_s=trial.cost_s,
        may_continue=candidate is not None and candidate.may_continue,
    )
