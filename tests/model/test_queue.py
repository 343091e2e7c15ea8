"""The replayed queue, against epochs worked out by hand, by properties of random ones,
and against an oracle."""

import random
import statistics
from collections.abc import Iterable
from dataclasses import asdict
from dataclasses import replace as changed
from itertools import pairwise

import pytest

from nws_sweep.model.queue import QueueSettings, Replayed, replay
from nws_sweep.records import BatchCost, LoopCosts
from nws_sweep.searching.rows import physical_limits
from tests.oracle import Load, simulate

FREE = LoopCosts()


def waits(*seconds: float) -> list[BatchCost]:
    return [BatchCost(cpu_s=0.0, wait_s=one) for one in seconds]


COMPUTED = [BatchCost(cpu_s=1.0, wait_s=0.0)] * 8


def settings(num_workers: int, cpus: float = 2.0, **others: object) -> QueueSettings:
    return changed(QueueSettings(num_workers, cpus), **others)  # type: ignore[arg-type]


def returned(
    batches: list[BatchCost], using: QueueSettings, loop: LoopCosts = FREE
) -> list[object]:
    return [pytest.approx(moment) for moment in replay(batches, loop, using).returned_s]


def test_without_workers_batches_and_training_step_take_turns() -> None:
    found = replay([BatchCost(1.0, 2.0)] * 3, LoopCosts(step_s=4.0), settings(0))
    assert found == Replayed(returned_s=(3.0, 10.0, 17.0), epoch_s=21.0)


def test_workers_make_batches_in_turn_and_one_after_the_other() -> None:
    assert returned(waits(3, 1, 1, 1, 1, 1), settings(2)) == [3, 3, 4, 4, 5, 5]


def test_in_order_an_expensive_batch_holds_back_the_later_ones() -> None:
    costs = waits(8, 1, 1, 1, 1, 1, 1, 1)
    assert returned(costs, settings(2)) == [8, 8, 9, 9, 10, 10, 11, 11]
    assert returned(costs, settings(2, in_order=False)) == [1, 2, 3, 4, 5, 6, 8, 9]


def test_out_of_order_batches_go_to_workers_with_fewer_than_prefetch_factor() -> None:
    found = returned(waits(9, 1, 1, 1, 1, 1), settings(3, in_order=False))
    # batch 3 was assigned to worker 0 before the epoch's second round
    assert found == [1, 1, 2, 2, 9, 10]


def test_a_prefetch_factor_of_one_leaves_a_worker_idle_until_its_batch_is_returned() -> (
    None
):
    assert returned(
        waits(1, 1, 1, 1), settings(1, prefetch_factor=1), LoopCosts(step_s=1.0)
    ) == [1, 2, 3, 4]
    assert returned(
        waits(1, 1, 1, 1), settings(1, prefetch_factor=1), LoopCosts(step_s=3.0)
    ) == [1, 4, 7, 10]


@pytest.mark.parametrize(("num_workers", "epoch_s"), [(1, 8.0), (2, 4.0), (8, 4.0)])
def test_cpu_time_is_shared_by_all_runnable_workers(
    num_workers: int, epoch_s: float
) -> None:
    assert replay(COMPUTED, FREE, settings(num_workers)).epoch_s == pytest.approx(
        epoch_s
    )


def test_some_workers_compute_while_others_wait() -> None:
    """If all of the eight computed together, each four seconds on two CPUs, 200 batches
    would take 175 s."""
    epoch_s = replay(
        [BatchCost(cpu_s=1.0, wait_s=3.0)] * 200, FREE, settings(8)
    ).epoch_s
    assert 100 <= epoch_s <= 140


def test_receiving_takes_cpu_time_of_the_main_process_which_workers_compete_for() -> (
    None
):
    loop = LoopCosts(receive_s=1.0)
    assert replay(waits(*[0.5] * 8), loop, settings(8)).epoch_s == pytest.approx(8.5)
    assert replay(COMPUTED, loop, settings(4, cpus=1.0)).epoch_s == pytest.approx(16.0)


def test_a_training_step_with_threads_uses_several_cpus() -> None:
    loop = LoopCosts(step_s=1.0, step_cpu_s=2.0)
    assert replay(waits(*[1.0] * 4), loop, settings(1)).epoch_s == pytest.approx(5.0)
    assert replay(
        waits(*[1.0] * 4), loop, settings(1, cpus=1.0)
    ).epoch_s == pytest.approx(9.0)
    assert replay(
        waits(*[1.0] * 4), loop, settings(0, cpus=1.0)
    ).epoch_s == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("num_workers", "cpus", "epoch_s"),
    [(0, 4.0, 4.0), (1, 4.0, 4.0), (2, 4.0, 4.0), (2, 8.0, 2.0)],
)
def test_threads_of_a_dataset_use_several_cpus(
    num_workers: int, cpus: float, epoch_s: float
) -> None:
    made = [BatchCost(cpu_s=4.0, wait_s=0.0, threads=4.0)] * 4
    assert replay(made, FREE, settings(num_workers, cpus)).epoch_s == pytest.approx(
        epoch_s
    )


def test_workers_are_started_one_after_the_other_and_ended_with_the_epoch() -> None:
    loop = LoopCosts(fork_s=1.0, start_s=0.5, stop_s=2.0)
    found = replay(waits(1, 1), loop, settings(2))
    assert found.returned_s == pytest.approx((3.0, 3.5))
    assert found.epoch_s == pytest.approx(5.5)
    assert replay(
        waits(1, 1), loop, settings(2, persistent_workers=True)
    ).epoch_s == pytest.approx(3.5)


def random_epoch(seed: int) -> tuple[list[BatchCost], LoopCosts, QueueSettings]:
    draw = random.Random(seed)
    scale = draw.choice([0.0, 0.1, 1.0])
    threads = draw.choice([1.0, 1.0, 3.0])
    batches = [
        BatchCost(
            scale * draw.expovariate(1), draw.lognormvariate(-1, 1), threads=threads
        )
        for _ in range(draw.randint(1, 60))
    ]
    loop = LoopCosts(*(draw.choice([0.0, 0.1 * draw.random()]) for _ in range(6)))
    loop = changed(loop, step_cpu_s=min(loop.step_cpu_s, loop.step_s))
    using = QueueSettings(
        draw.randint(1, 20),
        draw.choice([1.0, 1.5, 2.0, 16.0]),
        draw.randint(1, 8),
        draw.random() < 0.7,
    )
    return batches, loop, using


@pytest.mark.parametrize("seed", range(60))
def test_no_epoch_is_faster_than_a_bound_or_slower_than_one_thing_at_a_time(
    seed: int,
) -> None:
    batches, loop, using = random_epoch(seed)
    found, count = replay(batches, loop, using), len(batches)
    work_s = sum(batch.cpu_s for batch in batches)
    own_s = count * (loop.receive_s + loop.step_cpu_s) + using.num_workers * (
        loop.fork_s + loop.start_s + loop.stop_s
    )
    bounds = [
        (work_s + own_s) / using.cpus,
        sum(batch.making_s for batch in batches) / using.num_workers,
        max(batch.making_s for batch in batches),
        count * (loop.receive_s + loop.receive_wait_s + loop.step_s)
        + using.num_workers * loop.fork_s,
    ]
    assert len(found.returned_s) == count
    limits_s = physical_limits(batches, loop, using.num_workers)
    assert found.epoch_s >= count * max(limits_s.values()) * (1 - 1e-9)
    assert all(earlier <= later for earlier, later in pairwise(found.returned_s))
    assert found.epoch_s >= max(bounds) * (1 - 1e-9)
    alone = (
        sum(batch.wait_s for batch in batches)
        + work_s
        + count * (loop.step_s + loop.receive_wait_s)
        + own_s
    )
    assert found.epoch_s <= alone * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_more_cpus_and_cheaper_batches_are_never_slower_with_waits_alone_or_one_worker(
    seed: int,
) -> None:
    batches, loop, using = random_epoch(seed)
    using = changed(using, in_order=True)
    idle = [changed(batch, cpu_s=0.0) for batch in batches]
    free = LoopCosts(step_s=loop.step_s)
    slow = replay(idle, free, using).epoch_s
    assert replay(
        idle, free, changed(using, prefetch_factor=using.prefetch_factor + 1)
    ).epoch_s <= slow * (1 + 1e-9)
    assert replay(
        [changed(batch, wait_s=batch.wait_s / 2) for batch in idle], free, using
    ).epoch_s <= slow * (1 + 1e-9)
    assert replay(idle, changed(free, step_s=0.0), using).epoch_s <= slow * (1 + 1e-9)
    one = changed(using, num_workers=1)
    shared = replay(batches, loop, changed(one, cpus=1.0)).epoch_s
    assert replay(batches, loop, changed(one, cpus=4.0)).epoch_s <= shared * (1 + 1e-9)


@pytest.mark.parametrize(
    ("num_workers", "loop", "name", "least_s"),
    [
        (4, FREE, "making a batch, shared by the workers,", 1.5),
        (
            8,
            LoopCosts(step_s=3.0, receive_s=1.0),
            "drawing and receiving a batch and the training step",
            4.0,
        ),
        (
            0,
            LoopCosts(step_s=3.0),
            "drawing and making a batch and the training step",
            9.0,
        ),
    ],
)
def test_the_largest_physical_limit_holds(
    num_workers: int, loop: LoopCosts, name: str, least_s: float
) -> None:
    """Batches of 2 s of CPU time and 4 s of waiting; their transfer, beside it, takes
    CPU time of workers only."""
    limits_s = physical_limits(
        [BatchCost(1.0, 4.0, 0.5), BatchCost(3.0, 4.0, 0.5)], loop, num_workers
    )
    holding = max(limits_s, key=lambda limit: limits_s[limit])
    assert holding == name
    assert limits_s[holding] == pytest.approx(least_s)


def load_of(
    batches: list[BatchCost], using: QueueSettings, loop: LoopCosts, **changes: object
) -> Load:
    """The load of which the oracle simulates the epoch that is replayed."""
    main_s = asdict(loop)
    load = Load(
        sampler_wait_s=main_s.pop("sampler_s"),
        cpu_s=[batch.cpu_s for batch in batches],
        wait_s=[batch.wait_s for batch in batches],
        num_workers=using.num_workers,
        cpus=using.cpus,
        prefetch_factor=using.prefetch_factor,
        in_order=using.in_order,
        **main_s,
    )
    return changed(load, **changes)  # type: ignore[arg-type]


def random_costs(
    draw: random.Random, *, computes: bool, waits: bool
) -> list[BatchCost]:
    ratio = draw.choice([0.3, 1.0, 3.0])
    return [
        BatchCost(
            computes * draw.lognormvariate(0, 0.6),
            waits * ratio * draw.lognormvariate(0, 0.6),
        )
        for _ in range(draw.randint(60, 160))
    ]


def random_loop(draw: random.Random) -> LoopCosts:
    step_s = draw.choice([0.0, 0.2, 1.0])
    return LoopCosts(
        receive_s=draw.choice([0.0, 0.05]),
        receive_wait_s=draw.choice([0.0, 0.05]),
        sampler_s=draw.choice([0.0, 0.1]),
        step_s=step_s,
        step_cpu_s=step_s * draw.choice([0.0, 0.5, 1.0, 2.0]),
        fork_s=draw.choice([0.0, 0.5]),
        start_s=draw.choice([0.0, 2.0]),
        start_wait_s=draw.choice([0.0, 1.0]),
        stop_s=draw.choice([0.0, 0.5]),
    )


def random_settings(draw: random.Random) -> QueueSettings:
    return QueueSettings(
        num_workers=draw.randint(1, 12),
        cpus=draw.choice([1.0, 2.0, 4.0, 16.0]),
        prefetch_factor=draw.randint(1, 4),
        in_order=draw.random() < 0.7,
    )


def differences(
    seeds: Iterable[int], samples: int = 1, *, computes: bool, waits: bool
) -> list[float]:
    """By how much the replayed epochs differ from the oracle's, as shares,
    ascending."""
    shares = []
    for seed in seeds:
        draw = random.Random(seed)
        batches = random_costs(draw, computes=computes, waits=waits)
        loop, using = random_loop(draw), random_settings(draw)
        oracle_s = simulate(load_of(batches, using, loop, samples=samples))
        shares.append(abs(replay(batches, loop, using).epoch_s / oracle_s[-1] - 1))
    return sorted(shares)


@pytest.mark.parametrize(("computes", "waits"), [(True, False), (False, True)])
def test_epochs_take_what_an_independent_simulation_says(
    computes: bool, waits: bool
) -> None:
    """Batches that only compute or only wait leave no choice: where receiving waits is
    all that may differ."""
    shares = differences(range(100), computes=computes, waits=waits)
    assert statistics.median(shares) < 1e-9
    assert shares[-1] < 0.005


def test_epochs_of_batches_that_compute_and_wait_differ_little_from_an_independent_simulation() -> (
    None
):
    """The replay draws the moment of a batch at which its worker waits; the oracle
    waits for each of four samples."""
    shares = differences(range(150), samples=4, computes=True, waits=True)
    assert statistics.median(shares) < 0.003
    assert shares[142] < 0.05  # the 95th percentile
    assert shares[-1] < 0.2


@pytest.mark.parametrize("seed", range(20))
def test_without_workers_an_epoch_takes_what_an_independent_simulation_says(
    seed: int,
) -> None:
    draw = random.Random(seed)
    batches, loop = random_costs(draw, computes=True, waits=True), random_loop(draw)
    using = settings(0, cpus=4.0)
    oracle_s = simulate(load_of(batches, using, loop))
    assert replay(batches, loop, using).epoch_s == pytest.approx(oracle_s[-1])


def test_the_oracle_draws_indices_in_the_main_process() -> None:
    """Two for each worker before the first batch is awaited, then one for each batch
    that is given, before it is."""
    load = load_of(waits(*[0.5] * 6), settings(1), FREE, sampler_s=1.0)
    assert simulate(load) == pytest.approx([3, 4, 5, 6, 6, 6.5, 6.5])
    assert simulate(changed(load, num_workers=0)) == pytest.approx(
        [1.5, 3, 4.5, 6, 7.5, 9, 9]
    )


def test_the_oracle_sends_a_batch_while_its_worker_makes_the_next() -> None:
    load = load_of(waits(1, 1, 1, 1), settings(1), FREE, transfer_s=0.5)
    assert simulate(load) == pytest.approx([1.5, 2.5, 3.5, 4.5, 4.5])
