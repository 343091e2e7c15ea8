import re
from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.analysis import what_if
from nws_sweep.analysis.what_if import WhatIf
from nws_sweep.errors import ConfigurationError
from nws_sweep.records import NO_STEP, BatchCost, LoopCosts, MeasureRules, Trial
from tests.factories import (
    configuration,
    estimate,
    loader_settings,
    measurement,
    recorded_trial,
    search_result,
    search_rules,
    trial,
)

WAITS, COMPUTES = BatchCost(cpu_s=0.0, wait_s=0.08), BatchCost(cpu_s=0.08, wait_s=0.0)
NUMBERS = range(17)


def found(*trials: Trial, batches: int | None = 650, **changes: Any) -> WhatIf:
    """The last trial is the best; 8 CPUs, 650 batches of 64 samples."""
    trials = tuple(replace(one, batches=batches) for one in trials)
    known = what_if.of(search_result(*trials, **changes), trials[-1])
    assert known is not None
    return known


def of(cost: BatchCost, **loop: float) -> WhatIf:
    return found(recorded_trial(4, cost, LoopCosts(**loop)))


@pytest.mark.parametrize(
    ("cost", "asked", "batch_s", "epoch_s"),
    [
        (WAITS, {}, 0.02, 163 * 0.08),
        (WAITS, {"num_workers": 1, "cpus": 1}, 0.08, 650 * 0.08),
        (COMPUTES, {"num_workers": 16}, 0.01, 650 * 0.01),
        (COMPUTES, {"num_workers": 16, "cpus": 2}, 0.04, 650 * 0.04),
        (WAITS, {"num_workers": 0, "training_step": 0.5}, 0.58, 650 * 0.58),
        (WAITS, {"training_step": 0.5}, 0.5, 0.08 + 650 * 0.5),
        (
            WAITS,
            {"num_workers": 2, "prefetch_factor": 4, "in_order": False},
            0.04,
            325 * 0.08,
        ),
    ],
)
def test_times_follow_from_the_costs(
    cost: BatchCost, asked: dict[str, Any], batch_s: float, epoch_s: float
) -> None:
    other, settings = of(cost).asked(**asked)
    predicted = other.predict(settings)
    assert predicted.epoch_s is not None
    found_s = (predicted.batch_s.value, predicted.epoch_s.value)
    assert found_s == pytest.approx((batch_s, epoch_s), rel=0.03)
    low, high = predicted.epoch_s.ends  # all batches cost the same
    assert low <= predicted.epoch_s.value <= high <= 1.4 * low


def test_the_start_of_persistent_workers_is_shared_out_over_the_epochs() -> None:
    loader, trial = (
        loader_settings(4, persistent_workers=True),
        recorded_trial(4, WAITS, LoopCosts(start_s=10.0)),
    )
    for epochs, start_s in ((1, 1.0), (2, 5.0), (10, 1.0)):
        rules = configuration(loader=loader, measure=MeasureRules(epochs=epochs))
        known = found(replace(trial, settings=loader), configuration=rules)
        assert known.predict(known.best).cost_s.value == pytest.approx(
            start_s + 163 * 0.08, rel=0.03
        )


def test_without_the_length_of_an_epoch_a_batch_is_predicted() -> None:
    known = found(recorded_trial(4, WAITS), batches=None)
    predicted = known.predict(known.best)
    assert (predicted.epoch_s, predicted.cost_s) == (None, predicted.batch_s)
    assert known.model.cost_s(known.best) == pytest.approx(predicted.batch_s.value)


def test_a_trial_with_the_same_settings_cpus_and_training_step_has_the_measured_times() -> (
    None
):
    first, measured = trial(0, 8.0), recorded_trial(4, WAITS)
    known = found(first, measured)
    assert known.predict(known.best).measured == measured.measurement
    without_workers = replace(
        known.best, num_workers=0, prefetch_factor=4, persistent_workers=True
    )
    assert known.predict(without_workers).measured == first.measurement
    for asked in ({"num_workers": 2}, {"cpus": 9}, {"training_step": 0.1}):
        other, settings = known.asked(**asked)
        assert other.predict(settings).measured is None


def test_the_fewest_workers_and_batches_ahead_within_the_tolerance_are_recommended() -> (
    None
):
    known = found(
        recorded_trial(4, COMPUTES),
        configuration=configuration(search=search_rules(tolerance=0.1)),
    )
    asked = (
        {"num_workers": n, "prefetch_factor": p, "in_order": p < 3}
        for p in (3, 2)
        for n in (6, 8, 16)
    )
    best = known.recommended(
        [known.predict(known.asked(**one)[1]) for one in asked]
    ).settings
    assert (best.num_workers, best.prefetch_factor, best.in_order) == (8, 2, True)


def test_the_answer_of_the_search_stays_unless_others_promise_more_than_was_measured() -> (
    None
):
    """Predicted are 13 s with 4 workers, and 6.5 s with 8."""
    for measured_s, answer in ((6.0, 4), (13.0, 8)):
        best = recorded_trial(4, COMPUTES)
        found_s = measurement(measured_s, batch_s=estimate(0.01))
        known = found(replace(best, measurement=found_s))
        rows = [
            known.predict(replace(known.best, num_workers=number)) for number in (4, 8)
        ]
        assert known.recommended(rows).settings.num_workers == answer


def test_cpus_are_doubled_until_the_training_step_no_longer_waits() -> None:
    known, settings = of(COMPUTES).asked(training_step=0.02)
    paces = known.sizing(settings, NUMBERS)
    assert list(paces) == [1, 2, 4]
    assert [batch_s for batch_s, _ in paces.values()] == pytest.approx(
        [0.08, 0.04, 0.02], rel=0.02
    )
    assert paces[4][1] == 4
    assert of(WAITS).asked(training_step=0.02)[0].sizing(settings, [1, 2])[
        1
    ] == pytest.approx((0.04, 2), rel=0.02)


def test_the_workers_on_some_cpus_are_those_that_a_prediction_for_them_recommends() -> (
    None
):
    known, settings = of(COMPUTES).asked(training_step=0.005)
    cpus, pace = [*known.sizing(settings, NUMBERS).items()][-1]
    _, on_cpus = known.asked(cpus=cpus)
    row = known.recommended(
        [known.predict(replace(on_cpus, num_workers=number)) for number in NUMBERS]
    )
    assert pace == (row.batch_s.value, row.settings.num_workers)


def test_a_recorded_training_step_counts_unless_it_computes_or_takes_no_time() -> None:
    waiting, computing = (
        of(WAITS, step_s=0.02, step_cpu_s=cpu_s) for cpu_s in (0.001, 0.02)
    )
    assert (waiting.step_s, computing.step_s, of(WAITS, step_s=1e-5).step_s) == (
        0.02,
        0.02,
        0,
    )
    without_step = configuration(training_step={"_target_": NO_STEP})
    assert (
        found(
            recorded_trial(4, WAITS, LoopCosts(step_s=0.02)), configuration=without_step
        ).step_s
        == 0
    )
    assert list(waiting.sizing(waiting.best, NUMBERS)) == [1]
    assert (
        computing.sizing(computing.best, NUMBERS)
        == of(WAITS).sizing(waiting.best, NUMBERS)
        == {}
    )


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("num_workers", True, "an integer from 0 to 4096"),
        ("prefetch_factor", 2.5, "an integer from 1 to 4096"),
        ("in_order", 1, "true or false"),
        ("cpus", "x", "a number from 0.01 to 100000"),
        ("training_step", float("nan"), "a number from 0 to 86400"),
    ],
)
def test_a_wrong_value_is_refused(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"^{re.escape(f'{name}={value!r}: must be {allowed}')}$",
    ):
        of(WAITS).asked(**{name: value})


@pytest.mark.usefixtures("forked_workers")
def test_the_start_method_of_workers_counts_before_any_was_started() -> None:
    spawned = configuration(loader=loader_settings(multiprocessing_context="spawn"))
    forked, slow = (
        found(recorded_trial(0, WAITS), configuration=one)
        for one in (configuration(), spawned)
    )
    settings = replace(forked.best, num_workers=4)
    assert slow.predict(settings).cost_s.value - forked.predict(
        settings
    ).cost_s.value == pytest.approx(2.0, rel=0.05)


def test_several_ranks_share_the_cpus_and_the_epoch() -> None:
    trial, ranks = recorded_trial(4, WAITS), (1, 2)
    one, two = (
        found(trial, batches=650 // n, configuration=configuration(ranks=n))
        for n in ranks
    )
    assert two.best.cpus == one.best.cpus / 2
    assert two.predict(two.best).cost_s.value == pytest.approx(
        one.predict(one.best).cost_s.value / 2, rel=0.1
    )


def test_of_many_numbers_a_ladder_is_shown() -> None:
    assert what_if.ladder(range(65)) == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    assert what_if.ladder([5, 7]) == [5, 7]


def test_the_fewest_workers_that_feed_a_training_step_are_those_of_the_rule() -> None:
    """A batch waits for 80 ms: n workers make one in 80 / n ms. Receiving takes 2 ms,
    which no worker saves."""
    fed = of(WAITS, receive_s=0.002).feeding()
    assert fed == {0.2: 1, 0.1: 1, 0.05: 2, 0.02: 4, 0.01: 7, 0.005: 11}
    limited = found(
        recorded_trial(4, WAITS),
        configuration=configuration(search=search_rules(max_workers=4)),
    )
    assert limited.feeding() == {
        0.2: 1,
        0.1: 1,
        0.05: 2,
        0.02: 4,
        0.01: None,
        0.005: None,
    }


def test_rare_batches_that_take_long_need_more_workers_than_the_mean_says() -> None:
    """One batch in ten takes twenty times as long: 29 ms on average, of which two
    workers make one in 15 ms."""
    usual = recorded_trial(2, BatchCost(cpu_s=0.0, wait_s=0.01))
    dear = BatchCost(cpu_s=0.0, wait_s=0.2)
    records = [
        replace(one, cost=dear) if one.number % 10 == 5 else one
        for one in usual.records
    ]
    assert (found(replace(usual, records=tuple(records))).feeding()[0.02] or 0) >= 4
