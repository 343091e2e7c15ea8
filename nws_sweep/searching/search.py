"""The search of one configuration: measures what the strategy decides until the
strategy stops."""

from contextlib import closing
from dataclasses import replace
from datetime import datetime

from nws_sweep.errors import TimeLimitReached
from nws_sweep.model.time_limit import limit_s
from nws_sweep.records import Configuration, SearchRecord
from nws_sweep.searching import strategy as strategies
from nws_sweep.searching.observations import Stop, Strategy
from nws_sweep.searching.rounds import Rounds
from nws_sweep.system import host, processes
from nws_sweep.trials.environment import Environment, Observer


def new_record(configuration: Configuration) -> SearchRecord:
    """Makes the record of a search that begins now."""
    started_at = datetime.now().astimezone().isoformat()
    return SearchRecord(
        configuration=configuration,
        host=host.describe(configuration.ranks),
        started_at=started_at,
    )


def search(
    start: SearchRecord,
    environment: Environment,
    observer: Observer,
    guess: int | None = None,
) -> SearchRecord:
    """Searches one configuration; returns all trials, the verdict and the reason to
    stop.

    Args:
        start: The result so far; finished trials are not measured again.
        environment: Trial processes, clock and machine.
        observer: Receives every trial as soon as it is finished.
        guess: The best num_workers of a similar configuration, measured first; None for
            no guess.
    """
    configuration = start.configuration
    cores = environment.cores(configuration.ranks)
    strategy = strategies.make(configuration, cores, guess, processes.start_method())
    with closing(
        Rounds(start, environment, observer, limit_s(configuration))
    ) as rounds:
        is_provisional = False
        try:
            reason = _measure(strategy, rounds)
        except TimeLimitReached:
            reason = f"the time limit of {limit_s(configuration):g} s was spent"
            is_provisional = True
            rounds.stop(f"stopped when {reason}")
        except KeyboardInterrupt:
            observer.interrupted(rounds.record)
            raise
        record = _concluded(rounds, reason, is_provisional=is_provisional)
    observer.search_finished(record)
    return record


def _measure(strategy: Strategy, rounds: Rounds) -> str:
    """Measures until the strategy stops, or samples are wrong; returns the reason."""
    ranks = rounds.start.configuration.ranks
    while True:
        decision = strategy.decide(rounds.observations(), rounds.facts)
        if isinstance(decision, Stop):
            rounds.stop()
            return f"{decision.reason}, each rank" if ranks > 1 else decision.reason
        rounds.take(decision)
        if rounds.wrong_samples:
            rounds.stop()
            return f"workers deliver wrong samples: {rounds.wrong_samples}"


def _concluded(rounds: Rounds, reason: str, *, is_provisional: bool) -> SearchRecord:
    """Adds the verdict and the reason to stop to the record; a provisional record has
    finished trials only."""
    record = replace(rounds.record, stop_reason=reason)
    estimates = rounds.estimates
    if estimates is not None:
        record = replace(
            record, verdict=replace(estimates.verdict(), provisional=is_provisional)
        )
    if is_provisional:
        record = replace(
            record, trials=tuple(trial for trial in record.trials if trial.finished)
        )
    # the limit came first: the search is repeated if it is asked for again
    if not record.trials:
        error = f"nothing was measured: {reason}; set a larger one"
        record = replace(record, error=error)
    return record
