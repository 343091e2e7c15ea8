from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from nws_sweep.errors import ConfigurationError
from nws_sweep.records import LoaderSettings, MeasureRules, SearchRules
from nws_sweep.strategies import (
    Also,
    Exhaustive,
    Measure,
    Observation,
    Patience,
    Race,
    Stop,
    Strategy,
    make,
    with_workers,
)
from tests.factories import loader_settings, search_rules

Costs = Mapping[int, float | None]
BASE = loader_settings(prefetch_factor=2)
TOLERANCE, PRECISION = 0.03, 0.05


def seen(num_workers: int, cost_s: float | None) -> Observation:
    return Observation(settings=with_workers(BASE, num_workers), cost_s=cost_s)


def settings(*num_workers: int) -> tuple[LoaderSettings, ...]:
    return tuple(with_workers(BASE, n) for n in num_workers)


def exhaustive(*candidates: int) -> Exhaustive:
    return Exhaustive(candidates=candidates, base=BASE, tolerance=TOLERANCE, precision=PRECISION)


def patient(candidates: Iterable[int], maximum_patience: int) -> Patience:
    return Patience(
        candidates=tuple(candidates),
        maximum_patience=maximum_patience,
        base=BASE,
        tolerance=TOLERANCE,
        precision=PRECISION,
    )


def made(rules: SearchRules) -> Strategy:
    return make(rules, BASE, MeasureRules())


def search(strategy: Strategy, costs: Costs) -> tuple[list[int], str]:
    """The candidates in the order of measuring, and why the search stopped."""
    observations: list[Observation] = []
    while isinstance(decision := strategy.decide(observations), Measure):
        observations += [seen(chosen.num_workers, costs[chosen.num_workers]) for chosen in decision.candidates]
    assert isinstance(decision, Stop)
    return [observation.num_workers for observation in observations], decision.reason


def patience(maximum_patience: int, costs: Costs) -> tuple[list[int], str]:
    return search(patient(costs, maximum_patience), costs)


def test_exhaustive_measures_every_candidate_in_order_whatever_it_costs() -> None:
    costs = {0: 1.0, 2: 5.0, 4: None, 8: 9.0}
    assert search(exhaustive(0, 2, 4, 8), costs) == ([0, 2, 4, 8], "all 4 candidates were measured")


def test_patience_stops_when_one_more_than_its_number_has_not_improved() -> None:
    costs = {0: 9.0, 1: 5.0, 2: 6.0, 3: 6.0, 4: 6.0, 5: 6.0, 6: 1.0}
    assert patience(3, costs) == (
        [0, 1, 2, 3, 4, 5],
        "4 candidates after num_workers=1 did not improve on it (patience 3)",
    )


def test_patience_of_zero_stops_at_the_first_candidate_that_does_not_improve() -> None:
    costs = {0: 9.0, 1: 5.0, 2: 6.0, 3: 1.0}
    assert patience(0, costs) == ([0, 1, 2], "1 candidate after num_workers=1 did not improve on it (patience 0)")


def test_an_improvement_however_small_starts_the_count_anew() -> None:
    costs = {0: 9.0, 1: 9.5, 2: 8.999, 3: 9.5, 4: 9.5, 5: 1.0}
    assert patience(1, costs) == (
        [0, 1, 2, 3, 4],
        "2 candidates after num_workers=2 did not improve on it (patience 1)",
    )


def test_better_than_the_one_before_but_not_than_the_best_is_no_improvement() -> None:
    costs = {0: 3.0, 1: 9.0, 2: 8.0, 3: 7.0, 4: 1.0}
    assert patience(2, costs)[0] == [0, 1, 2, 3]


def test_an_equal_cost_is_no_improvement() -> None:
    costs = {0: 4.0, 1: 4.0, 2: 4.0, 3: 1.0}
    assert patience(1, costs) == ([0, 1, 2], "2 candidates after num_workers=0 did not improve on it (patience 1)")


def test_a_failed_candidate_has_not_improved() -> None:
    costs = {0: 4.0, 1: None, 2: None, 3: 1.0}
    assert patience(1, costs) == ([0, 1, 2], "2 candidates after num_workers=0 did not improve on it (patience 1)")


def test_a_failed_candidate_between_improvements_is_borne() -> None:
    costs = {0: None, 1: 4.0, 2: None, 3: 2.0}
    assert patience(1, costs) == ([0, 1, 2, 3], "all 4 candidates were measured within patience 1")


def test_when_all_candidates_fail_patience_runs_out_and_none_is_named_as_the_best() -> None:
    costs = {0: None, 1: None, 2: None, 3: None}
    assert patience(1, costs) == ([0, 1], "2 candidates could not be measured (patience 1)")


def test_running_out_of_candidates_ends_the_search_too() -> None:
    costs = {0: 4.0, 1: 3.0, 2: 2.0}
    assert patience(3, costs) == ([0, 1, 2], "all 3 candidates were measured within patience 3")


def test_a_single_candidate_is_measured_once() -> None:
    assert patience(0, {4: 2.0}) == ([4], "all 1 candidates were measured within patience 0")
    assert search(exhaustive(4), {4: None}) == ([4], "all 1 candidates were measured")


@pytest.mark.parametrize("name", ["patience", "exhaustive"])
def test_a_new_strategy_that_is_shown_what_was_observed_goes_on_where_the_search_was(name: str) -> None:
    costs: Costs = {0: 9.0, 1: 5.0, 2: None, 3: 6.0, 4: 1.0}
    rules = search_rules(tuple(costs), strategy=name, maximum_patience=1)
    order, reason = search(made(rules), costs)
    for count in range(len(order)):
        decision = made(rules).decide([seen(candidate, costs[candidate]) for candidate in order[:count]])
        assert isinstance(decision, Measure)
        assert decision.candidates[0].num_workers == order[count]
    assert made(rules).decide([seen(n, costs[n]) for n in order]) == Stop(reason=reason)


def sequential(maximum_patience: int, costs: Costs) -> list[int]:
    """The rule as it is written: one candidate after the other."""
    best, without_improvement, tried = float("inf"), 0, []
    for candidate, cost in costs.items():
        tried.append(candidate)
        if cost is not None and cost < best:
            best, without_improvement = cost, 0
        else:
            without_improvement += 1
        if without_improvement > maximum_patience:
            break
    return tried


@pytest.mark.parametrize("seed", range(200))
def test_asking_for_several_candidates_at_once_tries_none_that_one_after_the_other_would_not(seed: int) -> None:
    rng = random.Random(seed)
    costs = {n: rng.choice([None, *range(1, 12)]) for n in range(rng.randint(1, 15))}
    maximum_patience = rng.randint(0, 4)
    assert patience(maximum_patience, costs)[0] == sequential(maximum_patience, costs)


def test_the_candidates_that_are_certain_are_asked_for_together_beside_the_best() -> None:
    strategy = patient(range(10), 2)
    assert strategy.decide([]) == Measure(candidates=settings(0, 1, 2))
    observed = [seen(0, 5.0), seen(1, 3.0), seen(2, 4.0)]
    assert strategy.decide(observed) == Measure(candidates=settings(3, 4), beside=settings(1))


def test_what_was_observed_out_of_order_counts_when_its_turn_comes() -> None:
    strategy = patient(range(10), 1)
    reference = seen(8, 1.0)
    assert strategy.decide([reference]) == Measure(candidates=settings(0, 1))
    assert isinstance(strategy.decide([seen(0, 5.0), seen(1, 6.0), seen(2, 7.0), reference]), Stop)
    near = seen(1, 1.0)
    assert strategy.decide([near]) == Measure(candidates=settings(0))


def test_rules_are_handed_to_the_strategy_that_they_name() -> None:
    assert made(search_rules((0, 3), strategy="exhaustive")) == exhaustive(0, 3)
    rules = search_rules((0, 3), strategy="patience", maximum_patience=2)
    assert made(rules) == patient((0, 3), 2)


def test_an_unknown_strategy_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^search\.strategy=magic: allowed are adaptive, patience, exhaustive$"
    ):
        made(search_rules(strategy="magic"))


def raced(chosen: LoaderSettings, *costs: float) -> Observation:
    """A candidate that cost so much in each round, and can go on."""
    mean_s = sum(costs) / len(costs)
    return Observation(settings=chosen, cost_s=mean_s, by_round=dict(enumerate(costs)), open=True)


def also(*names: str) -> Also:
    return Also(
        workers=exhaustive(2), names=names, base=BASE, tolerance=TOLERANCE, precision=PRECISION, window_s=0.5, cores=2.0
    )


def prefetching(factor: int) -> LoaderSettings:
    return replace(with_workers(BASE, 2), prefetch_factor=factor)


def test_whoever_is_faster_beyond_noise_goes_on_while_others_are_in_doubt() -> None:
    decision = also("prefetch_factor").decide(
        [
            raced(prefetching(2), 1.0, 1.0, 1.0),
            raced(prefetching(1), 2.0, 2.0, 2.0),
            raced(prefetching(4), 0.8, 0.8, 0.8),
            raced(prefetching(8), 0.97, 0.85, 1.02),
        ]
    )
    assert decision == Race(
        candidates=(prefetching(2), prefetching(4), prefetching(8)), dropped=(prefetching(1),), window_s=0.5
    )


def test_the_next_setting_is_searched_beside_the_best_of_the_one_before() -> None:
    known = [raced(prefetching(factor), *[cost] * 6) for factor, cost in ((2, 1.0), (1, 2.0), (4, 0.8), (8, 0.9))]
    decision = also("prefetch_factor", "pin_memory").decide(known)
    pinned = replace(prefetching(4), pin_memory=True)
    assert decision == Race(candidates=(prefetching(4), pinned), window_s=0.5)
    found = also("prefetch_factor", "pin_memory").decide([*known, raced(pinned, *[0.8] * 6)])
    assert found == Stop(
        reason="all 1 candidates were measured; prefetch_factor=4 takes 20 % less time; no other pin_memory is faster "
        "beyond noise"
    )


@pytest.mark.parametrize(("start_method", "most"), [("fork", 16), ("spawn", 2), ("forkserver", 2)])
def test_the_start_of_workers_counts_before_any_was_started(start_method: str, most: int) -> None:
    rules = SearchRules(strategy="adaptive", candidates=tuple(range(33)))
    seen = Observation(
        settings=with_workers(BASE, 0), cost_s=1.7, by_round={0: 1.7}, batch_s=0.067, startup_s=0.07, cpu_s=0.001,
        batches=25, open=True,
    )  # fmt: skip
    decision = make(rules, BASE, MeasureRules(), 2.0, start_method=start_method).decide([seen])
    assert isinstance(decision, Race)
    started = [settings.num_workers for settings in decision.candidates if settings.num_workers]
    assert (max(started) <= most, max(started) >= most / 2) == (True, True)
