"""The adaptive search with records of batches, without noise: epochs whose batches differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nws_sweep.replay.model import queue_settings
from nws_sweep.replay.queue import replay
from nws_sweep.results import BatchCost, LoaderSettings, MeasureRules, SearchRules, Span
from nws_sweep.tuning.forecast import apart, forecast_of
from nws_sweep.tuning.paired_comparison import MeasureRound, Observation, with_workers
from nws_sweep.tuning.strategy import make
from tests.factories import loader_settings
from tests.replay.test_model import LOOP, epoch, of_trial

CPUS = 2.0
BASE = loader_settings(prefetch_factor=2)


def epoch_s(costs: list[BatchCost], num_workers: int) -> float:
    return replay(costs, LOOP, queue_settings(with_workers(BASE, num_workers), CPUS)).epoch_s


def observation(costs: list[BatchCost], settings: LoaderSettings, rounds: int) -> Observation:
    """Each round takes batches of 0.2 s, at least two of each worker; the raw cost is that of the first ones."""
    n = settings.num_workers
    mean_s = sum(cost.wait_s + cost.cpu_s for cost in costs) / len(costs)
    in_round = max(2 * max(1, n), round(0.2 / mean_s * max(1, n)))
    known = of_trial(costs, n, min(len(costs), (rounds + 1) * in_round))
    made = known.records.made
    returned_s = replay([one.cost for one in made], LOOP, known.settings).returned_s
    by_round, spans = {}, []
    for number in range(rounds):
        first, last = ((number + k) * in_round for k in (1, 2))
        if last <= len(made):
            span_s = returned_s[last - 1] - returned_s[first - 1]
            by_round[number + 1] = len(costs) * span_s / in_round
            spans.append(Span(measured_s=span_s, replayed_s=span_s, batches=in_round, round=number + 1))
    raw_s = sum(by_round.values()) / len(by_round) if by_round else len(costs) * returned_s[-1] / len(made)
    known = replace(known, measured_s=raw_s, spans=tuple(spans))
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
        forecast = forecast_of(sorted(found, key=lambda o: o.num_workers), CPUS, "fork")
        found = [forecast.corrected(o) for o in found] if forecast else found
        decision = strategy.decide(found)
        if not isinstance(decision, MeasureRound):
            verdict = strategy.verdict(found)
            assert verdict is not None
            return verdict.recommended.num_workers, number
        for settings in decision.candidates:
            rounds[settings] = rounds.get(settings, 0) + 1
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("kind", ["equal", "lognormal", "second half"])
def test_the_best_workers_are_found_for_epochs_whose_batches_differ(kind: str) -> None:
    costs = epoch(kind)
    picked, rounds = search(costs)
    least_s = min(epoch_s(costs, n) for n in range(0, 65, 2))
    assert epoch_s(costs, picked) <= 1.08 * least_s
    assert rounds <= 12


def test_candidates_to_start_differ_by_more_than_a_tenth() -> None:
    assert apart(range(14, 25), [12, 20]) == [14, 16, 18, 22]


def test_a_resumed_trial_keeps_its_cost() -> None:
    found = observation(epoch("lognormal"), with_workers(BASE, 4), 2)
    forecast = forecast_of([found], CPUS, "fork")
    assert forecast is not None
    assert forecast.corrected(found).cost_s != found.cost_s
    resumed = replace(found, by_round={})
    assert forecast.corrected(resumed) == resumed
