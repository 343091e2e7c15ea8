"""Which settings a training should have from now on: records with a known truth."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.model import choice
from nws_sweep.online import texts
from nws_sweep.online.decision import Keep, Situation, Try, decide
from nws_sweep.online.tuner import decision_for
from nws_sweep.records import (
    ONLINE_STRATEGY,
    BatchCost,
    LoaderSettings,
    LoopCosts,
    SearchRules,
    Trial,
    Tuning,
)
from nws_sweep.searching.estimates import estimates_of
from nws_sweep.searching.observations import Observation
from tests.factories import loader_settings, recorded_trial
from tests.online.test_tuner import tuner

pytestmark = pytest.mark.usefixtures("forked_workers")
BASE, WAITS = loader_settings(2, prefetch_factor=2), BatchCost(cpu_s=0.0, wait_s=0.08)
TOLERANCE = 0.03


def trial_of(
    num_workers: int, cost: BatchCost, step_s: float, stall: float = 0.5
) -> Trial:
    trial = recorded_trial(num_workers, cost, LoopCosts(step_s=step_s, fork_s=0.01))
    assert trial.measurement
    settings = loader_settings(num_workers, prefetch_factor=2).canonical()
    return replace(
        trial,
        settings=settings,
        measurement=replace(trial.measurement, stall_fraction=stall),
    )


def decided(
    trial: Trial,
    batches: int = 1000,
    base: LoaderSettings = BASE,
    is_new_epoch: bool = False,
    **limits: Any,
) -> Any:
    simulated = tuner(tuning=Tuning(before=base, after=trial.settings), **limits)
    simulated.trials[trial.settings] = trial
    batch = int(not is_new_epoch)
    simulated.batches_per_epoch = batch + batches
    return decision_for(simulated, batch)


def situation(
    measured_s: Mapping[LoaderSettings, float],
    predicted_s: Mapping[int, float],
    most_workers: int,
    **limits: Any,
) -> Situation:
    return Situation(
        base=loader_settings(2, prefetch_factor=2),
        current=[*measured_s][-1],
        measured_s=measured_s,
        predict_s=lambda settings: predicted_s.get(
            settings.num_workers, measured_s.get(settings, 100.0)
        ),
        rules=SearchRules(
            strategy=ONLINE_STRATEGY, candidates=(0,), tolerance=TOLERANCE
        ),
        workers=range(most_workers + 1),
        **limits,
    )


def workers(num_workers: int) -> LoaderSettings:
    return loader_settings(num_workers, prefetch_factor=2).canonical()


def test_measured_beats_predicted() -> None:
    """Four workers were predicted to take half the time of two, and did not."""
    measured_s = {workers(2): 0.04, workers(4): 0.05}
    decision = decide(situation(measured_s, {2: 0.04, 4: 0.02}, 4))
    assert decision == Keep(workers(2))


def test_what_is_predicted_to_be_better_than_all_that_was_measured_is_tried() -> None:
    measured_s = {workers(2): 0.04, workers(4): 0.03}
    predicted_s = {2: 0.04, 4: 0.03, 8: 0.015}
    assert decide(situation(measured_s, predicted_s, 8)) == Try(
        workers(8), predicted_s=0.015, current_s=0.03
    )
    assert decide(situation(measured_s, predicted_s, 7)) == Keep(workers(4))


def test_settings_that_do_not_fit_are_replaced_by_the_best_that_do_or_named() -> None:
    full = situation(
        {workers(2): 0.04},
        {2: 0.04, 4: 0.02, 8: 0.01},
        8,
        refusal=lambda _: "too large",
    )
    assert decide(full) == Keep(workers(2), "too large")
    few = replace(
        full, refusal=lambda settings: "too large" if settings.num_workers > 4 else ""
    )
    assert decide(few) == Try(workers(4), predicted_s=0.02, current_s=0.04)


@pytest.mark.parametrize(("in_vain", "is_last"), [(2, False), (3, True)])
def test_predictions_that_did_not_come_true_are_not_followed_for_ever(
    in_vain: int, is_last: bool
) -> None:
    measured_s = {workers(2): 0.04} | {
        workers(2 + number): 0.05 for number in range(1, in_vain + 1)
    }
    predicted_s = dict.fromkeys(range(2, in_vain + 3), 0.04) | {16: 0.01}
    decision = decide(situation(measured_s, predicted_s, 16))
    assert decision == (
        Keep(workers(2))
        if is_last
        else Try(workers(16), predicted_s=0.01, current_s=0.04)
    )


def test_the_queue_is_tried_with_the_best_as_measured_once_no_number_of_workers_promises() -> (
    None
):
    """Without workers it was fastest, whatever is predicted of queues with two."""
    measured_s = {workers(2): 0.04, workers(0): 0.01}
    decision = decide(situation(measured_s, {}, 2, prefetches=True))
    assert decision == Keep(workers(0))
    two = situation({workers(2): 0.04}, {}, 2, prefetches=True)
    tried = decide(
        replace(
            two,
            workers=range(2, 3),
            predict_s=lambda settings: 0.04 / settings.prefetched,
        )
    )
    assert (tried.settings.num_workers, tried.settings.prefetch_factor) == (2, 8)


@pytest.mark.parametrize(("unordered_s", "reorders", "is_tried"), [
    (0.012, True, True), (0.012, False, False), (0.0151, True, False),
])  # fmt: skip
def test_batches_in_any_order_are_proposed_if_they_promise_more_than_further_workers(
    unordered_s: float, reorders: bool, is_tried: bool
) -> None:
    def predict_s(settings: LoaderSettings) -> float:
        return (
            {4: 0.02, 8: 0.015}.get(settings.num_workers, 1.0)
            if settings.in_order
            else unordered_s
        )

    decision = decide(
        replace(
            situation({workers(4): 0.02}, {}, 8, reorders=reorders), predict_s=predict_s
        )
    )
    assert isinstance(decision, Try)
    assert decision.settings == (
        replace(workers(4), in_order=False) if is_tried else workers(8)
    )
    named = "num_workers=4 in_order=False" if is_tried else "num_workers=8"
    assert texts.named(decision.settings, workers(4)) == named


def test_fewer_workers_wait_for_a_new_epoch() -> None:
    between_epochs = situation({workers(8): 0.02}, {8: 0.02, 2: 0.02}, 8)
    assert decide(replace(between_epochs, must_save_time=True)) == Keep(workers(8))
    assert decide(between_epochs) == Try(workers(2), predicted_s=0.02, current_s=0.02)


@pytest.mark.parametrize("seed", range(30))
def test_equal_measurements_give_the_answer_of_a_search(seed: int) -> None:
    draw = random.Random(seed)
    numbers = draw.sample(range(33), draw.randint(1, 6))
    measured_s = {
        workers(number): math.exp(draw.gauss(0.0, draw.choice((0.01, 0.3))))
        for number in numbers
    }
    estimates = estimates_of(
        [
            Observation(settings=settings, cost_s=cost_s)
            for settings, cost_s in measured_s.items()
        ],
        TOLERANCE,
    )
    assert estimates
    decision = decide(situation(measured_s, {}, 32))
    assert decision == Keep(estimates.answer)
    assert estimates.answer == choice.choose(measured_s, TOLERANCE)


@pytest.mark.parametrize(("step_s", "workers"), [(0.04, 2), (0.02, 4), (0.01, 8)])
def test_the_fewest_workers_that_keep_up_are_chosen(
    step_s: float, workers: int
) -> None:
    decision = decided(trial_of(0, WAITS, step_s))
    assert decision.settings.num_workers == workers
    assert decision.predicted_s == pytest.approx(step_s, rel=0.05)
    assert decision.current_s == pytest.approx(0.08 + step_s, rel=0.05)


def test_a_training_that_hardly_waits_is_left_alone_until_the_next_epoch() -> None:
    trial = trial_of(16, WAITS, 0.02, stall=0.01)
    assert decided(trial) == Keep(trial.settings)
    assert decided(trial, is_new_epoch=True).settings.num_workers < 8


def test_spawned_workers_take_longer_to_start() -> None:
    """Each imports torch, 2 s of CPU time."""
    trial, base = (
        trial_of(0, WAITS, 0.02),
        loader_settings(2, prefetch_factor=2, multiprocessing_context="spawn"),
    )
    assert decided(trial, batches=1) == Keep(trial.settings)
    assert isinstance(decided(trial, batches=10), Try)
    assert decided(trial, batches=10, base=base) == Keep(trial.settings)
    assert isinstance(decided(trial, batches=1000, base=base), Try)


def test_a_larger_prefetch_factor_is_chosen_where_batches_take_very_different_times() -> (
    None
):
    costs = [
        BatchCost(cpu_s=0.0, wait_s=0.9 if number % 20 == 7 else 0.03)
        for number in range(60)
    ]
    trial = trial_of(4, costs[0], 0.03)
    records = (
        replace(trial.records[0], number=n, position=n / 60, cost=cost)
        for n, cost in enumerate(costs)
    )
    varied = replace(trial, records=tuple(records))
    fixed, free = (
        decided(varied, prefetches=prefetches, most_workers=4)
        for prefetches in (False, True)
    )
    assert free.settings.prefetch_factor in (4, 8)
    assert isinstance(fixed, Keep) or free.predicted_s < fixed.predicted_s


def test_the_queue_is_not_shortened_where_that_saves_nothing() -> None:
    """A short queue has no reserve: the times of batches vary more than their
    records."""
    decision = decided(
        trial_of(16, WAITS, 0.04, stall=0.01), prefetches=True, is_new_epoch=True
    )
    assert (decision.settings.num_workers, decision.settings.prefetch_factor) == (2, 2)
