"""Predictions from records: whole epochs of planted costs, the factor of a trial,
pooled records."""

import math
import random
from dataclasses import replace
from statistics import fmean

import pytest

from nws_sweep.model.bottlenecks import Bottleneck, Epoch
from nws_sweep.model.epochs import Records, epoch_of, position_of, predict
from nws_sweep.model.known import ENDLESS, Known, known_of
from nws_sweep.model.model import Model
from nws_sweep.model.promise import promised_s
from nws_sweep.model.queue import QueueSettings, replay
from nws_sweep.records import BatchCost, BatchRecord, LoopCosts, Span
from tests.factories import batch_record, recorded_trial

LOOP = LoopCosts(receive_s=0.0005, fork_s=0.002, start_s=0.005, stop_s=0.005)


def epoch(kind: str, count: int = 600) -> list[BatchCost]:
    draw = random.Random(kind)
    if kind == "lognormal":
        waits_s = [draw.lognormvariate(-4.5, 0.5) for _ in range(count)]
    else:
        waits_s = (
            [0.02] * count
            if kind == "equal"
            else [0.005] * (count // 2) + [0.1] * (count // 2)
        )
    return [BatchCost(0.001, wait_s) for wait_s in waits_s]


def spread(costs: list[BatchCost], count: int) -> list[BatchRecord]:
    order = sorted(range(len(costs)), key=lambda number: number * (5**0.5 - 1) / 2 % 1)[
        :count
    ]
    return [
        batch_record(n, costs[place], position=place / len(costs))
        for n, place in enumerate(order)
    ]


def of_trial(
    costs: list[BatchCost], num_workers: int, count: int, factor: float = 1.0
) -> Known:
    settings, made = QueueSettings(num_workers, 2.0), spread(costs, count)
    records = Records(made=tuple(made), loop=LOOP, batches=len(costs), shuffled=False)
    return Known(
        settings, records, factor * epoch_of(records, settings)[0] / len(costs)
    )


@pytest.mark.parametrize("kind", ["equal", "lognormal", "second half"])
@pytest.mark.parametrize("num_workers", [0, 2, 8, 32])
def test_a_whole_epoch_is_predicted_from_a_fifth_of_it(
    kind: str, num_workers: int
) -> None:
    costs, settings = epoch(kind), QueueSettings(num_workers, 2.0)
    truth_s = replay(costs, LOOP, settings).epoch_s
    found = predict(of_trial(costs, 4, 120).records, 1.0, settings).epoch_s
    assert found.value == pytest.approx(truth_s, rel=0.12)
    low, high = found.ends
    assert low / 1.05 <= truth_s <= high * 1.05
    assert kind != "equal" or high / low < 1.01


@pytest.mark.parametrize("batches", [400, 4000])
@pytest.mark.parametrize("num_workers", [0, 3, 4, 8, 12, 16])
@pytest.mark.parametrize("shuffled", [False, True])
def test_in_a_fixed_order_costs_with_a_period_meet_the_same_workers(
    shuffled: bool, num_workers: int, batches: int
) -> None:
    """Every eighth batch is dear: one of eight workers makes all of them. Six runs of
    sixteen are recorded."""
    costs = [BatchCost(0.0, 0.01 if n % 8 else 0.2) for n in range(batches)]
    numbers = [run * (batches // 96) * 16 + n for run in range(6) for n in range(16)]
    made = tuple(
        batch_record(n, costs[number], position=number / batches)
        for n, number in enumerate(numbers)
    )
    records = Records(made=made, loop=LoopCosts(), batches=batches, shuffled=shuffled)
    settings = QueueSettings(num_workers, 2.0)
    truth_s = replay(costs, LoopCosts(), settings).epoch_s
    found_s = predict(records, 1.0, settings).epoch_s.value
    assert (abs(found_s / truth_s - 1) < 0.05) == (not shuffled or num_workers == 0)


def test_from_no_workers_alone_the_band_of_workers_is_wide() -> None:
    """What a worker transfers is unknown then."""
    costs, settings = epoch("equal"), QueueSettings(4, 2.0)
    alone = of_trial(costs, 0, 60)
    unknown, known = (
        Model(trials).predict(settings).epoch_s
        for trials in ((alone,), (alone, of_trial(costs, 2, 60)))
    )
    widths = [high / low for low, high in (unknown.ends, known.ends)]
    assert widths[0] > 1.8
    assert widths[1] < 1.3
    low, high = Model((alone,)).predict(QueueSettings(0, 2.0)).epoch_s.ends
    assert high / low < 1.3


def test_without_transfers_a_batch_is_made_as_before() -> None:
    loop = LoopCosts(receive_s=1.0, receive_wait_s=2.0, step_s=3.0)
    epoch = Epoch([BatchCost(4.0, 5.0, 6.0, threads=2.0)], loop, QueueSettings(2, 2.0))
    found = epoch.without(Bottleneck.TRANSFER, loop)
    assert found.costs == [BatchCost(4.0, 5.0, 0.0, threads=2.0)]
    assert found.loop == LoopCosts(step_s=3.0)


@pytest.mark.parametrize("num_workers", [1, 4, 16, 24])
def test_the_pace_is_that_of_a_full_queue(num_workers: int) -> None:
    """Neither of the start, nor of the end, when batches are finished that were begun
    before."""
    records = of_trial([BatchCost(0.02, 0.0)] * 100, 4, 60).records
    found = predict(
        replace(records, loop=LoopCosts()), 1.0, QueueSettings(num_workers, 2.0)
    ).batch_s
    assert found.value == pytest.approx(0.02 / min(num_workers, 2), rel=0.01)


def test_a_long_epoch_has_the_pace_of_its_first_batches() -> None:
    records = of_trial(epoch("equal"), 4, 60).records
    short, long = (
        epoch_of(replace(records, batches=n), QueueSettings(8, 2.0))[0]
        for n in (4000, 40_000)
    )
    assert long / short == pytest.approx(10, rel=0.01)


def test_the_factor_of_a_trial_applies_to_its_neighbours() -> None:
    costs = epoch("lognormal")
    few = of_trial(costs, 2, 100)
    model, plain = (
        Model((few, of_trial(costs, 8, 300, factor=factor))) for factor in (1.5, 1.0)
    )
    for workers, factor in ((1, 1.0), (2, 1.0), (4, 1.5**0.5), (8, 1.5), (32, 1.5)):
        settings = QueueSettings(workers, 2.0)
        assert model.cost_s(settings) / plain.cost_s(settings) == pytest.approx(factor)


def test_the_factor_of_a_window_with_one_batch_of_each_worker_is_nearer_to_one() -> (
    None
):
    known = of_trial(epoch("equal"), 8, 100)
    short, long = (
        replace(
            known, spans=(Span(measured_s=1.5, replayed_s=1.0, batches=batches),)
        ).factor
        for batches in (8, 800)
    )
    assert 1.1 < short < 1.3 < long < 1.5


def test_the_factor_is_one_of_loading_not_of_another_training_step() -> None:
    model, settings = (
        Model((of_trial(epoch("equal"), 8, 300, factor=1.5),)),
        QueueSettings(8, 2.0),
    )
    assert replace(model, step_s=1.0).cost_s(settings) == pytest.approx(1.0, rel=0.01)
    predicted = replace(model, step_s=0.0).predict(settings).epoch_s
    assert predicted.value / model.batches == pytest.approx(
        model.cost_s(settings), rel=0.01
    )


def test_a_short_epoch_whose_start_is_long_has_its_own_factor_and_pace_when_it_is_endless() -> (
    None
):
    short = of_trial(epoch("equal", 20), 4, 20, factor=1.2)
    endless = short.endless
    assert endless.factor == pytest.approx(1.2)
    settings = QueueSettings(4, 2.0)
    pace_s = epoch_of(endless.records, settings)[1]
    assert Model((endless,)).cost_s(settings) == pytest.approx(1.2 * pace_s, rel=0.01)
    assert Model((short,)).cost_s(settings) > 1.2 * 1.2 * pace_s


def test_batches_that_a_trial_has_not_made_come_from_other_trials() -> None:
    costs = epoch("second half")
    short, long = of_trial(costs, 2, 30), of_trial(costs, 8, 400)
    slower = [
        replace(one, cost=replace(one.cost, wait_s=2 * one.cost.wait_s))
        for one in long.records.made
    ]
    model = Model(
        (short, replace(long, records=replace(long.records, made=tuple(slower))))
    )
    truth_s = replay(costs, LOOP, QueueSettings(2, 2.0)).epoch_s
    assert short.factor * model.batches * model.cost_s(
        QueueSettings(2, 2.0)
    ) == pytest.approx(truth_s, rel=0.03)


def test_a_single_wait_does_not_multiply_the_waits_of_other_batches() -> None:
    """Two trials that compute, without and with a wait in a batch that both have
    made."""
    computing = [BatchCost(cpu_s=0.1, wait_s=1e-6)] * 40 + [
        BatchCost(cpu_s=0.1, wait_s=0.3)
    ] * 2
    waiting = [BatchCost(cpu_s=0.1, wait_s=0.2), *computing[1:20]]
    known = []
    for costs, num_workers in ((waiting, 2), (computing, 4)):
        made = [batch_record(n, cost, position=n / 42) for n, cost in enumerate(costs)]
        records, settings = (
            Records(made=tuple(made), loop=LOOP, batches=42),
            QueueSettings(num_workers, 2.0),
        )
        known.append(Known(settings, records, epoch_of(records, settings)[0] / 42))
    assert Model(tuple(known)).cost_s(QueueSettings(2, 2.0)) < 4.0 / 42


def test_what_workers_do_once_is_no_scale_of_the_costs_of_their_batches() -> None:
    """Both trials begin with the same cheap batches, in which workers also import
    modules."""
    costs = [BatchCost(0.001, 0.004 + 0.06 * n / 600) for n in range(600)]
    few, many = of_trial(costs, 2, 200), of_trial(costs, 16, 24)
    known = []
    for trial in (few, many):
        made = [
            replace(record, cost=replace(record.cost, cpu_s=0.05))
            if record.number < trial.settings.num_workers
            else record
            for record in trial.records.made
        ]
        known.append(replace(trial, records=replace(trial.records, made=tuple(made))))
    made_by_few = Model(tuple(known)).records_for(16).made[24:]
    assert len(made_by_few) > 100
    assert all(
        record.cost == costs[round(position_of(record) * 600)] for record in made_by_few
    )


def test_costs_that_grow_with_the_workers_are_those_of_few_workers_for_few() -> None:
    """A lock: each of 16 workers waits 16 times as long. 20 batches were made without
    workers, all of them with 16."""
    alone, many = [BatchCost(0.001, 0.05)] * 200, [BatchCost(0.001, 0.8)] * 200
    model = Model((of_trial(alone, 0, 20), of_trial(many, 16, 200)))
    truth_s = replay(alone, LOOP, QueueSettings(0, 2.0)).epoch_s
    assert model.batches * model.cost_s(QueueSettings(0, 2.0)) == pytest.approx(
        truth_s, rel=0.1
    )


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_batch_whose_worker_was_stopped_waits_as_long_as_one_that_waited_longer(
    is_stream: bool,
) -> None:
    waits_s = [0.01, 0.015, 0.03, 0.04]
    made = [
        batch_record(n, BatchCost(0.001, s), position=None if is_stream else n / 4)
        for n, s in enumerate(waits_s)
    ]
    made[1] = replace(made[1], was_stopped=True)
    known = known_of(
        replace(recorded_trial(2, made[0].cost), records=tuple(made)), 4, 2.0
    )
    assert known is not None
    assert [one.cost.wait_s for one in known.records.made] == [0.01, 0.03, 0.03, 0.04]


def test_batches_of_a_stream_have_no_order_and_are_those_of_no_other_trial() -> None:
    """Each worker opens a shard for every second batch; the trial with many workers has
    recorded more openings."""
    opening, usual = BatchCost(0.001, 0.05), BatchCost(0.001, 0.01)
    known = []
    for num_workers, costs in (
        (2, [opening, usual] * 20),
        (8, [opening] * 8 + [usual] * 8),
    ):
        settings = QueueSettings(num_workers, 4.0)
        made = tuple(
            batch_record(n, cost, position=None) for n, cost in enumerate(costs)
        )
        records = Records(made=made, loop=LOOP, batches=ENDLESS)
        assert not records.has_places
        known.append(Known(settings, records, 0.03 / num_workers))
    model = Model(tuple(known))
    for num_workers in (2, 8):
        costs = [one.cost for one in model.records_for(num_workers).made]
        assert fmean(one.wait_s for one in costs) == pytest.approx(0.03)


def test_beside_busy_programs_more_workers_get_more_of_the_cpus() -> None:
    """Two CPUs, one program, batches of 20 ms of CPU time: a fair scheduler gives n
    workers n of n + 1 shares."""
    alone = replace(of_trial([BatchCost(0.02, 0.0)] * 400, 0, 60), other_cpus=1.0)
    model = Model((replace(alone, records=replace(alone.records, loop=LoopCosts())),))
    for workers in (2, 4, 8):
        found = model.predict(QueueSettings(workers, 2.0))
        assert found.batch_s.value == pytest.approx(
            0.01 * (workers + 1) / workers, rel=0.03
        )


def promised_slowdown(num_workers: int, trials: dict[int, float]) -> float:
    """Promised time / time without any slowdown, with the factors of trials."""
    waiting = [BatchCost(0.0, 0.08)] * 4000
    known = tuple(
        of_trial(waiting, trial_workers, 20, factor)
        for trial_workers, factor in trials.items()
    )
    return promised_s(Model(known), QueueSettings(num_workers, 2.0)) / (
        0.08 / num_workers
    )


@pytest.mark.parametrize("below", [0, 1])
def test_between_two_trials_a_slowdown_begins_anywhere_with_the_same_probability(
    below: int,
) -> None:
    begins = [begin / 1000 for begin in range(1000)]
    for workers in (2, 4):
        share = math.log2(workers) / 3
        mean = fmean(4.0 ** (max(0.0, share - begin) / (1 - begin)) for begin in begins)
        assert promised_slowdown(workers, {below: 1.0, 8: 4.0}) == pytest.approx(
            mean, rel=0.02
        )


def test_what_settings_save_at_best_counts_and_not_what_they_lose_at_worst() -> None:
    """With four workers, two in three chances that the slowdown of eight has begun."""
    waiting = [BatchCost(0.0, 0.08)] * 4000
    model = Model((of_trial(waiting, 1, 20, 1.0), of_trial(waiting, 8, 20, 4.0)))
    settings, at_best_s = QueueSettings(4, 2.0), 0.02
    expected_s = promised_s(model, settings)
    assert promised_s(model, settings, 1.0) == pytest.approx(expected_s)
    assert at_best_s < promised_s(model, settings, 0.03) < 0.03 < expected_s
    assert promised_s(model, settings, at_best_s / 2) == at_best_s / 2


@pytest.mark.parametrize(("fewer", "slowdown"), [((2, 4), 2.0**0.5), ((0,), 1.0)])
def test_beyond_all_trials_doublings_slow_down_as_the_mean_of_those_with_workers(
    fewer: tuple[int, ...], slowdown: float
) -> None:
    trials = {**dict.fromkeys(fewer, 1.0), 8: 2.0}
    assert promised_slowdown(16, trials) == pytest.approx(2.0 * slowdown, rel=0.02)
