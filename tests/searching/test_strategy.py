import math
import multiprocessing
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nws_sweep.model.known import queue_settings
from nws_sweep.model.queue import QueueSettings
from nws_sweep.records import STRATEGIES, LoaderSettings, MeasureRules, SearchRules
from nws_sweep.searching import other_settings
from nws_sweep.searching.estimates import estimates_of
from nws_sweep.searching.observations import Observation, Round, Stop, Strategy
from nws_sweep.searching.other_settings import OtherSettingsSearch
from nws_sweep.searching.strategy import make
from tests import factories
from tests.factories import loader_settings, search_rules
from tests.fakes import FACTS

Costs = Mapping[int, float | None]
BASE = loader_settings(prefetch_factor=2)


def seen(num_workers: int, cost_s: float | None) -> Observation:
    return Observation(settings=BASE.with_workers(num_workers), cost_s=cost_s)


def settings(*num_workers: int) -> tuple[LoaderSettings, ...]:
    return tuple(BASE.with_workers(n) for n in num_workers)


def made(rules: SearchRules, **others: Any) -> Strategy:
    # candidates are precise after one round
    measure = MeasureRules(windows=1, precision=10.0)
    return make(
        factories.configuration(search=rules, loader=BASE, measure=measure), **others
    )


def measured_out(*num_workers: int) -> Round:
    """These candidates are measured until they are precise."""
    return Round(candidates=settings(*num_workers), window_s=math.inf, are_rivals=False)


def search(strategy: Strategy, costs: Costs) -> tuple[list[int], str]:
    """The candidates in the order of measuring, and the reason to stop."""
    observations: list[Observation] = []
    while isinstance(decision := strategy.decide(observations), Round):
        observations += [
            seen(chosen.num_workers, costs[chosen.num_workers])
            for chosen in decision.candidates
        ]
    assert isinstance(decision, Stop)
    return [observation.num_workers for observation in observations], decision.reason


@pytest.mark.parametrize(
    ("patience", "costs", "tried", "reason"),
    [
        (
            3,
            [9, 5, 6, 6, 6, 6, 1],
            6,
            "4 candidates after num_workers=1 did not improve on it (patience 3)",
        ),
        # Any improvement of the best resets the count; an improvement on the previous
        # candidate does not.
        (
            1,
            [9, 9.5, 8.999, 9.5, 9.5, 1],
            5,
            "2 candidates after num_workers=2 did not improve on it (patience 1)",
        ),
        (
            1,
            [4, None, None, 1],
            3,
            "2 candidates after num_workers=0 did not improve on it (patience 1)",
        ),
        (
            1,
            [None, None, None, None],
            2,
            "2 candidates could not be measured (patience 1)",
        ),
        (0, [2], 1, "all 1 candidates were measured within patience 0"),
        (None, [1, 5, None, 9, 9, 9], 6, "all 6 candidates were measured"),
    ],
)
def test_patience_stops_after_more_candidates_without_improvement_and_exhaustive_never(
    patience: int | None, costs: list[float | None], tried: int, reason: str
) -> None:
    rules = search_rules(tuple(range(len(costs))), patience=patience or 0)
    strategy = made(
        replace(rules, strategy="exhaustive" if patience is None else "patience")
    )
    assert search(strategy, dict(enumerate(costs))) == (list(range(tried)), reason)


def test_candidates_that_are_certain_to_be_measured_are_decided_together_beside_the_best() -> (
    None
):
    strategy = made(search_rules(tuple(range(10)), strategy="patience", patience=2))
    assert strategy.decide([]) == measured_out(0, 1, 2)
    with_reference = replace(strategy, rules=replace(strategy.rules, reference=8))
    assert with_reference.decide([]) == measured_out(0, 1, 2, 8)
    observed = [
        by_rounds(BASE.with_workers(n), cost_s)
        for n, cost_s in enumerate((5.0, 3.0, 4.0))
    ]
    assert strategy.decide(observed) == replace(
        measured_out(3, 4), beside=settings(1), ended=settings(0, 2)
    )
    beside = [
        by_rounds(BASE.with_workers(1), 3.0, 3.0),
        replace(by_rounds(BASE.with_workers(3), 3.0), cost_s=None),
    ]
    later = [*observed[::2], beside[0], replace(beside[1], paces_s={1: 3.0})]
    assert strategy.decide(later) == replace(
        measured_out(3, 4), ended=settings(0, 2)
    ), "one round beside is enough"
    closed = [observed[0], replace(observed[1], may_continue=False), observed[2]]
    assert strategy.decide(closed) == replace(
        measured_out(3, 4), ended=settings(0, 1, 2)
    ), "its row is final"
    # An observation out of order counts when the order reaches it.
    assert strategy.decide([seen(8, 1.0)]) == measured_out(0, 1, 2)
    assert isinstance(
        strategy.decide([seen(8, 1.0), *(seen(n, 5.0 + n) for n in range(4))]), Stop
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_begins_with_a_round(strategy: str) -> None:
    assert isinstance(made(search_rules((0, 2), strategy=strategy)).decide([]), Round)


def by_rounds(chosen: LoaderSettings, *costs: float) -> Observation:
    """A candidate with these costs in consecutive rounds that may continue."""
    mean_s = sum(costs) / len(costs)
    return Observation(
        settings=chosen,
        cost_s=mean_s,
        paces_s=dict(enumerate(costs)),
        may_continue=True,
    )


def also(*names: str) -> Strategy:
    return made(search_rules((2,), settings=names), cores=2.0)


def prefetching(factor: int) -> LoaderSettings:
    return replace(BASE.with_workers(2), prefetch_factor=factor)


def test_a_faster_value_continues_until_all_others_are_decided() -> None:
    costs_s = {
        2: (1.0, 1.0, 1.0),
        1: (2.0, 2.0, 2.0),
        4: (0.8, 0.8, 0.8),
        8: (0.6, 1.0, 0.9),
    }
    decision = also("prefetch_factor").decide(
        [by_rounds(prefetching(n), *each) for n, each in costs_s.items()]
    )
    assert decision == Round(
        candidates=(prefetching(2), prefetching(4), prefetching(8)),
        ended=(prefetching(1),),
        window_s=0.5,
    )


def test_values_that_stay_close_have_four_seconds() -> None:
    def goes_on(rounds: int, epoch_s: float) -> bool:
        costs = [(1.0, 1.4)[number % 2] for number in range(rounds)]
        other = replace(
            by_rounds(replace(prefetching(2), pin_memory=True), *costs),
            timed_s=rounds * epoch_s,
        )
        best = replace(by_rounds(prefetching(2), *reversed(costs)), timed_s=100.0)
        return isinstance(also("pin_memory").decide([best, other]), Round)

    assert [goes_on(rounds, 0.5) for rounds in (4, 6, 8)] == [True, True, False]
    assert [goes_on(rounds, 1.5) for rounds in (2, 3)] == [True, False]


def test_the_next_setting_is_compared_with_the_best_value_of_the_previous_one() -> None:
    strategy = also("prefetch_factor", "pin_memory")
    assert isinstance(strategy, OtherSettingsSearch)
    known = [
        by_rounds(prefetching(factor), *[cost] * 6)
        for factor, cost in ((2, 1.0), (1, 2.0), (4, 0.8), (8, 0.9))
    ]
    pinned = replace(prefetching(4), pin_memory=True)
    assert strategy.decide(known) == Round(
        candidates=(prefetching(4), pinned), window_s=0.5
    )
    stop = strategy.decide(known, replace(FACTS, accelerator=None))
    assert isinstance(stop, Stop)
    assert stop.reason.endswith(
        "takes 20 % less time; pin_memory has no effect without an accelerator"
    )
    known.append(by_rounds(pinned, *[0.8] * 6))
    assert strategy.decide(known) == Stop(
        reason="num_workers=2 was the fastest; prefetch_factor=4 takes 20 % less time; no other pin_memory is faster"
    )
    found = estimates_of(known, 0.03)
    assert found is not None
    assert found.answer == prefetching(4)


@pytest.mark.parametrize(
    ("before_s", "reason"),
    [(1.0, "all 2 candidates were measured"), (1.2, "num_workers=5 was the fastest")],
)
def test_rounds_beside_other_settings_do_not_reopen_the_search_of_num_workers(
    before_s: float, reason: str
) -> None:
    """The machine is slower in the later rounds; earlier times may be others as
    replayed with later records."""
    best = BASE.with_workers(5)
    known = [
        by_rounds(BASE.with_workers(3), *[1.1] * 3),
        by_rounds(best, *[before_s] * 3, *[2.0] * 3),
    ]
    variants = [replace(best, prefetch_factor=factor) for factor in (1, 4, 8)]
    known += [
        replace(by_rounds(one, 1.8), paces_s=dict.fromkeys((3, 4, 5), 1.8))
        for one in variants
    ]
    decision = made(
        search_rules((3, 5), settings=("prefetch_factor",)), cores=2.0
    ).decide(known)
    assert decision == Stop(reason=f"{reason}; prefetch_factor=1 takes 10 % less time")


@pytest.mark.parametrize(("spent_s", "goes_on"), [(0.0, True), (1.0, False)])
def test_a_setting_measured_by_an_earlier_program_ends_no_search_of_num_workers(
    spent_s: float, goes_on: bool
) -> None:
    """Its rounds are unknown; one of this program that failed has none."""
    known = Observation(
        settings=replace(prefetching(2), pin_memory=True), cost_s=None, spent_s=spent_s
    )
    decision = made(search_rules((0, 2), settings=("pin_memory",))).decide(
        [seen(0, 2.0), known]
    )
    assert (decision == measured_out(2)) == goes_on


@pytest.mark.parametrize(
    ("name", "workers", "values"),
    [
        ("prefetch_factor", 2, (1, 4, 8)),
        ("prefetch_factor", 0, ()),
        ("persistent_workers", 2, (True,)),
        (
            "multiprocessing_context",
            2,
            tuple(multiprocessing.get_all_start_methods()[1:]),
        ),
    ],
)
def test_the_values_of_a_setting_to_measure(
    name: str, workers: int, values: tuple[object, ...]
) -> None:
    best = BASE.with_workers(workers)
    decision = made(search_rules((workers,), settings=(name,)), cores=8.0).decide(
        [by_rounds(best, 1.0, 1.0, 1.0)]
    )
    tried = decision.candidates[1:] if isinstance(decision, Round) else ()
    assert sorted(map(str, (getattr(one, name) for one in tried))) == sorted(
        map(str, values)
    )


def test_the_best_predicted_value_is_measured_until_a_round_confirms_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs_s = {2: 1.0, 1: 2.0, 4: 0.8, 8: 0.7}
    model = SimpleNamespace(cost_s=lambda settings: costs_s[settings.prefetch_factor])
    monkeypatch.setattr(other_settings, "model_from", lambda *_: model)
    search, best = also("prefetch_factor"), by_rounds(prefetching(2), *[1.0] * 6)
    assert search.decide([best]) == Round(
        candidates=(prefetching(2), prefetching(8)), window_s=0.5
    )
    costs_s.update({4: 0.6, 8: 1.0})  # as predicted after the first round
    # its first window did not count
    untimed = replace(by_rounds(prefetching(8), 0.7), cost_s=None, paces_s={})
    assert search.decide([best, untimed]) == Round(
        candidates=(prefetching(8),), window_s=0.5
    )
    noisy = by_rounds(prefetching(2), *[0.4, 1.6] * 3)  # one round decides nothing
    decision = search.decide([noisy, by_rounds(prefetching(8), 0.38)])
    assert decision == Round(candidates=(prefetching(2), prefetching(8)), window_s=0.5)
    confirmed = search.decide([best, by_rounds(prefetching(8), 0.7)])
    assert isinstance(confirmed, Stop)
    assert confirmed.reason.endswith("prefetch_factor=8 takes 30 % less time")
    costs_s.update(dict.fromkeys((1, 4, 8), 1.0))
    assert search.decide([best]) == Stop(
        reason="all 1 candidates were measured; no other prefetch_factor is predicted to be faster"
    )


def test_more_workers_that_start_once_are_tried_where_their_start_was_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers that start in each epoch are the best at 4; those that persist, at 16."""

    def cost_s(queue: QueueSettings) -> float:
        start_s = 0.0 if queue.persistent_workers else 0.05 * queue.num_workers
        return 1.0 / min(16, max(1, queue.num_workers)) + start_s

    model = SimpleNamespace(cost_s=cost_s)
    monkeypatch.setattr(other_settings, "model_from", lambda *_: model)
    rules = search_rules(tuple(range(33)), settings=("persistent_workers",))
    workers: Any = SimpleNamespace(decide=lambda *_: Stop(reason="4 is the fastest"))
    search = OtherSettingsSearch(
        rules=rules, measure=MeasureRules(windows=1, precision=10.0), base=BASE,
        workers=workers, cores=2.0, start_method="fork",
    )  # fmt: skip

    def timed(settings: LoaderSettings, first: int) -> Observation:
        """In six rounds, of which the first has this number."""
        pace_s = cost_s(queue_settings(settings, 2.0))
        rounds = dict.fromkeys(range(first, first + 6), pace_s)
        return replace(by_rounds(settings, pace_s), paces_s=rounds)

    measured = [timed(BASE.with_workers(number), 0) for number in (0, 2, 4, 8)]
    persistent = replace(BASE, persistent_workers=True)
    eight, sixteen = persistent.with_workers(8), persistent.with_workers(16)
    first = search.decide(measured)
    assert isinstance(first, Round)
    assert first.candidates == (BASE.with_workers(4), eight)
    measured.append(timed(eight, 6))
    second = search.decide(measured)
    assert isinstance(second, Round)
    assert second.candidates == (eight, sixteen)
    stopped = search.decide([*measured, timed(sixteen, 12)])
    assert isinstance(stopped, Stop)
    assert stopped.reason.endswith("num_workers=16 takes 50 % less time")


@pytest.mark.parametrize(
    ("spent_s", "saved", "new", "is_compared"),
    [
        (20.0, 0.5, (), False),
        (21.0, 0.5, (), True),
        (21.0, 0.0, (), False),
        (21.0, 0.5, (8,), False),
    ],
)
def test_a_setting_that_promises_to_save_does_not_wait_until_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
    spent_s: float,
    saved: float,
    new: tuple[int, ...],
    is_compared: bool,
) -> None:
    """The search of num_workers, which may take 60 s, would go on."""

    def cost_s(queue: QueueSettings) -> float:
        return 1.0 - saved * queue.persistent_workers

    model = SimpleNamespace(cost_s=cost_s)
    monkeypatch.setattr(other_settings, "model_from", lambda *_: model)
    two, four = BASE.with_workers(2), BASE.with_workers(4)
    goes_on = Round(candidates=(two, four, *map(BASE.with_workers, new)))
    workers: Any = SimpleNamespace(decide=lambda *_: goes_on)
    search = OtherSettingsSearch(
        rules=search_rules((2, 4), settings=("persistent_workers",)), base=BASE,
        measure=MeasureRules(), workers=workers, cores=2.0, start_method="fork", limit_s=60.0,
    )  # fmt: skip
    measured = [replace(by_rounds(s, 1.0), spent_s=spent_s) for s in (two, four)]
    decision = search.decide(measured)
    assert isinstance(decision, Round)
    assert (decision != goes_on) == is_compared
    persistent = replace(two, persistent_workers=True)
    assert (persistent in decision.candidates) == is_compared


def test_workers_that_start_once_are_predicted_with_each_number_that_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No workers are the best of those that start in each epoch."""
    costs_s = {
        (0, False): 1.0,
        (2, False): 3.0,
        (2, True): 0.5,
        (4, False): 3.0,
        (4, True): 0.4,
    }
    model = SimpleNamespace(
        cost_s=lambda queue: costs_s[queue.num_workers, queue.persistent_workers]
    )
    monkeypatch.setattr(other_settings, "model_from", lambda *_: model)
    search = made(search_rules((0, 2, 4), settings=("persistent_workers",)), cores=2.0)
    known = [
        by_rounds(BASE.with_workers(n), *[costs_s[n, False]] * 6) for n in (0, 2, 4)
    ]
    persistent = replace(BASE.with_workers(4), persistent_workers=True)
    assert search.decide(known) == Round(
        candidates=(BASE.with_workers(0), persistent), window_s=0.5
    )
    costs_s.update({(2, True): 0.99, (4, True): 0.99})
    stopped = search.decide(known)
    assert isinstance(stopped, Stop)
    assert stopped.reason.endswith(
        "no other persistent_workers is predicted to be faster"
    )


@pytest.mark.parametrize(
    ("own", "strategy", "names"),
    [
        ({}, "adaptive", ("prefetch_factor", "persistent_workers")),
        ({"prefetch_factor": 4}, "adaptive", ("persistent_workers",)),
        ({"persistent_workers": True}, "adaptive", ("prefetch_factor",)),
        ({}, "online", ("prefetch_factor",)),
        ({}, "exhaustive", ()),
    ],
)
def test_what_is_searched_by_itself(
    own: dict[str, Any], strategy: str, names: tuple[str, ...]
) -> None:
    rules = search_rules((0, 2), strategy=strategy, settings=None)
    assert rules.searched(loader_settings(2, **own)) == names


def test_twice_the_workers_with_a_shorter_queue_are_tried_if_they_did_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = SimpleNamespace(cost_s=lambda settings: 1.0 / settings.num_workers)
    monkeypatch.setattr(other_settings, "model_from", lambda *_: model)
    search = made(search_rules((4, 8), settings=("prefetch_factor",)))
    best, more = (BASE.with_workers(n) for n in (4, 8))
    known = by_rounds(best, *[1.0] * 6)
    shorter = replace(more, prefetch_factor=1)
    assert search.decide([known, seen(8, None)]) == Round(
        candidates=(best, shorter), window_s=0.5
    )
    assert isinstance(search.decide([known, by_rounds(more, *[2.0] * 6)]), Stop)
