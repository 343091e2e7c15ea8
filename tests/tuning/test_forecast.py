"""The adaptive search with records of batches, without noise: epochs whose batches differ."""

from dataclasses import replace

import pytest

from nws_sweep.replay import choice
from nws_sweep.replay.known import queue_settings
from nws_sweep.replay.queue import replay
from nws_sweep.results import BatchCost, LoaderSettings, MeasureRules, SearchRules, Span
from nws_sweep.tuning.estimates import estimates_of
from nws_sweep.tuning.observations import MeasureRound, Observation
from nws_sweep.tuning.strategy import make
from tests.factories import loader_settings
from tests.replay.test_model import LOOP, epoch, of_trial

CPUS = 2.0
BASE = loader_settings(prefetch_factor=2)


def epoch_s(costs: list[BatchCost], num_workers: int) -> float:
    return replay(costs, LOOP, queue_settings(BASE.with_workers(num_workers), CPUS)).epoch_s


def observation(costs: list[BatchCost], settings: LoaderSettings, rounds: int) -> Observation:
    """Each round takes batches of 0.2 s, at least two of each worker; start and end of the workers count."""
    n = settings.num_workers
    mean_s = sum(cost.wait_s + cost.cpu_s for cost in costs) / len(costs)
    in_round = max(2 * max(1, n), round(0.2 / mean_s * max(1, n)))
    known = of_trial(costs, n, min(len(costs), (rounds + 1) * in_round))
    made = known.records.made
    replayed = replay([one.cost for one in made], LOOP, known.settings)
    returned_s, end_s = replayed.returned_s, replayed.epoch_s - replayed.returned_s[-1]
    by_round, spans = {}, []
    for number in range(rounds):
        first, last = ((number + k) * in_round for k in (1, 2))
        if last <= len(made):
            span_s = returned_s[last - 1] - returned_s[first - 1]
            start_s = returned_s[in_round - 1] - span_s
            by_round[number + 1] = (max(0.0, start_s) + end_s) / len(costs) + span_s / in_round
            spans.append(Span(measured_s=span_s, replayed_s=span_s, batches=in_round, round=number + 1))
    raw_s = sum(by_round.values()) / len(by_round) if by_round else returned_s[-1] / len(made)
    known = replace(known, cost_s=raw_s, spans=tuple(spans))
    return Observation(
        settings=settings, cost_s=raw_s, by_round=by_round, known=known,
        batches=len(costs), spent_s=0.2 * rounds, may_continue=(rounds + 2) * in_round <= len(costs),
    )  # fmt: skip


def search(costs: list[BatchCost]) -> tuple[int, int]:
    """The recommended number of workers, and the number of rounds."""
    rules = SearchRules(strategy="adaptive", candidates=(*range(65), 96, 128))
    strategy = make(rules, BASE, MeasureRules(), CPUS)
    rounds: dict[LoaderSettings, int] = {}
    for number in range(30):
        found = [observation(costs, settings, count) for settings, count in rounds.items()]
        decision = strategy.decide(found)
        if not isinstance(decision, MeasureRound):
            estimates = estimates_of(found, rules.tolerance)
            assert estimates is not None
            return estimates.answer.num_workers, number
        for settings in decision.candidates:
            rounds[settings] = rounds.get(settings, 0) + 1
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("kind", ["equal", "lognormal", "second half"])
def test_the_best_workers_are_found_for_epochs_whose_batches_differ(kind: str) -> None:
    costs = epoch(kind)
    picked, rounds = search(costs)
    least = min(choice.price(epoch_s(costs, n), n, 0.03) for n in range(0, 65, 2))
    assert choice.price(epoch_s(costs, picked), picked, 0.03) <= 1.05 * least
    assert rounds <= 12
