"""What turns say together, against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.conditions import Conditions
from nws_sweep.quantities import came_from_disk, least_cpu_s, projected_epoch_s, stopwatch_batch_s, summarise
from nws_sweep.records import Burst, BurstKind, LoaderSettings, Measurement, MeasureRules, Turn, Usage
from tests.test_trial import simulate


def conditions(num_workers: int = 4, batch_size: int = 8, batches: int | None = None) -> Conditions:
    settings = LoaderSettings(batch_size=batch_size, num_workers=num_workers).canonical()
    return Conditions(settings=settings, rules=MeasureRules(), batches_per_epoch=batches, cores=2.0)


def burst(kind: BurstKind = BurstKind.STEADY, batches: int = 8, **changes: Any) -> Burst:
    """Each batch of 8 samples waits 0.25 s and is consumed in 0.25 s."""
    defaults: dict[str, Any] = {
        "kind": kind,
        "startup_s": None,
        "wait_s": (0.25,) * batches,
        "consume_s": (0.25,) * batches,
        "samples": 8 * batches,
        "produced": 8 * batches,
    }
    return Burst(**{**defaults, **changes})


START = Turn(bursts=(burst(BurstKind.WARM_UP, startup_s=1.0),))


def measured(*bursts: Burst, num_workers: int = 4) -> Measurement:
    return summarise([START, *(Turn(bursts=(each,)) for each in bursts)], conditions(num_workers))


def test_where_the_queue_stays_as_it_is_the_workers_pace_is_the_steady_one() -> None:
    """Clumps come and go: what the consumer took differs from window to window, what the workers made hardly."""
    found = measured(burst(batches=4, produced=60), burst(batches=12, produced=70), burst(batches=8, produced=70))
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(12.0 / 25)
    assert found.bias_bound == pytest.approx(1 / 24)


def test_where_the_queue_fills_from_window_to_window_the_consumers_pace_is() -> None:
    """Whether the consumer is slow or batches wait behind a slow one: the workers can't go on like that."""
    found = measured(burst(produced=80), burst(produced=72), burst(produced=80))
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.5)
    assert found.bias_bound == pytest.approx(5 / 24)
    (only,) = (measured(burst(produced=80)).batch_s,)
    assert only is not None
    assert only.value == pytest.approx(0.5)


def test_a_consumer_that_lives_on_what_lay_ready_does_not_set_the_pace() -> None:
    draining = burst(wait_s=(0.0,) * 8, produced=32)  # 4 batches made while 8 were taken
    found = measured(draining, draining)
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.5)


def test_waits_and_consumer_add_up_to_the_pace() -> None:
    found = measured(burst(produced=40), burst(produced=40))  # 10 batches made in 8 s, 16 taken
    assert (found.wait_s, found.consume_s, found.stall_fraction) == pytest.approx((0.55, 0.25, 0.6875))


def test_uncounted_samples_leave_the_consumers_side_and_the_whole_queue_as_bound() -> None:
    found = measured(burst(produced=None), burst(produced=None))
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.5)
    assert found.bias_bound == pytest.approx(8 / 16)


def test_without_workers_there_is_no_queue_and_no_bias() -> None:
    assert measured(burst(produced=None), num_workers=0).bias_bound == 0.0


def test_samples_per_second_uses_the_true_length_of_batches() -> None:
    assert measured(burst(samples=48)).samples_per_s == pytest.approx(12.0)


def test_without_any_batch_there_is_nothing_to_summarise() -> None:
    with pytest.raises(ValueError, match="no batch"):
        summarise([], conditions())


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("consume_s", [0.0, 0.05, 0.3, 2.0])
@pytest.mark.parametrize("batches", [96, 397])
def test_the_projected_epoch_is_that_of_a_stopwatch(num_workers: int, consume_s: float, batches: int) -> None:
    """Up to one batch's making: what the last workers do when the others have nothing left is not steady."""
    _, projected = simulate(num_workers, consume_s=consume_s, batches=batches, start_s=2.0)
    whole = MeasureRules(mode="epoch")
    _, stopped = simulate(num_workers, consume_s=consume_s, batches=batches, start_s=2.0, rules=whole)
    assert projected.epoch_s is not None
    assert stopped.epoch_s is not None
    assert abs(projected.epoch_s - stopped.epoch_s) <= 1.0 + 0.02 * stopped.epoch_s
    if not num_workers or batches % num_workers == 0:
        assert projected.epoch_s == pytest.approx(stopped.epoch_s, rel=0.03)


def test_the_beginning_of_an_epoch_counts_as_it_was_measured() -> None:
    slow = burst(BurstKind.WARM_UP, startup_s=4.0, wait_s=(4.0,) + (0.0,) * 7, consume_s=(0.0,) * 8)
    quick = burst(BurstKind.WARM_UP, startup_s=2.0, wait_s=(2.0,) + (0.0,) * 7, consume_s=(0.0,) * 8)
    assert projected_epoch_s([slow, quick], 0.5, conditions(batches=100)) == 3.0 + 92 * 0.5


@pytest.mark.parametrize(("epochs", "expected"), [(1, 50.0), (2, 49.0), (10, 48.2)])
def test_the_start_of_workers_that_persist_is_shared_by_the_epochs(epochs: int, expected: float) -> None:
    """4 s to begin the first epoch, 2 s to begin the others; however many were measured."""
    first, *others = (
        burst(BurstKind.WARM_UP, startup_s=s, wait_s=(s,) + (0.0,) * 7, consume_s=(0.0,) * 8) for s in (4.0, 2.0, 2.0)
    )
    persistent = replace(
        conditions(batches=100),
        settings=LoaderSettings(batch_size=8, num_workers=4, persistent_workers=True),
        rules=MeasureRules(epochs=epochs),
    )
    assert projected_epoch_s([first, *others], 0.5, persistent) == pytest.approx(expected)


def test_an_unknown_length_has_no_epoch() -> None:
    assert measured(burst()).epoch_s is None


def used(cpu_s: float, memory: int | None = None, disk: int | None = None, shm: int | None = None) -> Usage:
    return Usage(cpu_s=cpu_s, memory_bytes=memory, disk_bytes=disk, shm_bytes=shm)


def test_cpu_time_and_bytes_from_disk_are_per_batch_made_and_leave_the_start_out() -> None:
    turns = [
        Turn(bursts=START.bursts, before=used(0.0, disk=0), after=used(9.0, disk=9000)),
        Turn(bursts=(burst(produced=80),), before=used(9.0, disk=9000), after=used(14.0, disk=9000)),
        Turn(bursts=(burst(produced=80),), before=used(14.0, disk=9000), after=used(19.0, disk=9600)),
    ]
    found = summarise(turns, conditions())
    assert (found.cpu_s, found.disk_bytes) == (0.5, 30.0)


def test_what_the_cpus_may_have_done_beside_the_bursts_is_not_held_against_them() -> None:
    """10 s of CPU time in a turn of 6 s, of which the burst took 4 s: two CPUs may have done 4 s in the rest."""
    turns = [START, Turn(bursts=(burst(produced=64),), before=used(0.0), after=used(10.0), elapsed_s=6.0)]
    assert least_cpu_s(turns, conditions()) == pytest.approx((10.0 - 4.0) / 8)
    tiny = [START, Turn(bursts=(burst(produced=64),), before=used(0.0), after=used(10.0), elapsed_s=60.0)]
    assert least_cpu_s(tiny, conditions()) == 0.0


def test_windows_that_each_began_or_ended_an_epoch_tell_nothing_certain_of_a_batchs_cpu_time() -> None:
    """Their CPU time includes starting and ending the workers, their pace does not."""
    each = Turn(bursts=(*START.bursts, burst(produced=64)), before=used(0.0), after=used(10.0), elapsed_s=6.0)
    assert least_cpu_s([START, each, each], conditions()) is None
    ended = Turn(bursts=(burst(produced=64, end_s=0.5),), before=used(0.0), after=used(10.0), elapsed_s=6.0)
    assert least_cpu_s([START, ended, ended], conditions()) is None


def test_the_stopwatch_counts_start_and_end_of_whole_epochs() -> None:
    epochs = [burst(BurstKind.EPOCH, startup_s=0.25, end_s=end_s) for end_s in (1.0, 3.0)]  # 4 s and the end
    assert stopwatch_batch_s([Turn(bursts=(epoch,)) for epoch in epochs]) == pytest.approx((5.0 + 7.0) / 16)
    assert stopwatch_batch_s([START, Turn(bursts=(burst(),))]) is None


def test_the_start_counts_where_there_is_nothing_else() -> None:
    epoch = Turn(bursts=(burst(BurstKind.EPOCH, startup_s=0.25),), before=used(0.0), after=used(4.0))
    assert summarise([epoch], conditions()).cpu_s == 0.5


def test_a_shorter_last_batch_of_a_whole_epoch_is_a_batch() -> None:
    short = burst(BurstKind.EPOCH, batches=1, startup_s=0.25, samples=2, produced=2)
    epoch = Turn(bursts=(short,), before=used(0.0), after=used(4.0), elapsed_s=0.5)
    assert summarise([epoch], conditions()).cpu_s == 4.0
    assert least_cpu_s([epoch], conditions()) == 4.0


def test_what_the_platform_does_not_tell_is_empty_and_nothing_read_is_zero() -> None:
    found = summarise([START, Turn(bursts=(burst(),))], conditions())
    assert (found.cpu_s, found.memory_bytes, found.shm_bytes, found.memory_growth_bytes) == (None,) * 4
    assert found.disk_bytes is None
    quiet = Turn(bursts=(burst(),), before=used(0, disk=7), after=used(1, disk=7))
    assert summarise([START, quiet], conditions()).disk_bytes == 0.0


def test_memory_is_the_largest_seen_and_growth_is_per_1000_batches_after_the_start() -> None:
    memory = [500, 100, 108, 116]
    turns = [
        Turn(bursts=(burst(startup_s=0.1 if index == 0 else None),), after=used(1.0, held, shm=held // 100))
        for index, held in enumerate(memory)
    ]
    found = summarise(turns, conditions())
    assert (found.memory_bytes, found.shm_bytes) == (500, 5)
    assert found.memory_growth_bytes == pytest.approx(1000.0)  # a byte for each of 8 batches a turn


def test_growth_needs_three_points() -> None:
    turns = [Turn(bursts=(burst(startup_s=0.1),), after=used(1.0, 100 * index)) for index in range(3)]
    assert summarise(turns, conditions()).memory_growth_bytes is None


@pytest.mark.parametrize(("read_bytes", "expected"), [(0, False), (65536, False), (65537, True)])
def test_a_turn_came_from_disk_if_more_was_read_than_happens_by_the_way(read_bytes: int, expected: bool) -> None:
    turn = Turn(bursts=(burst(),), before=used(0, disk=10), after=used(0, disk=10 + read_bytes))
    assert came_from_disk(turn) is expected
    assert not came_from_disk(Turn(bursts=(burst(),)))


@pytest.mark.parametrize(("faults", "expected"), [(0, True), (1, True), (4, False)])
def test_what_the_faults_of_a_new_process_bring_is_the_program(faults: int, expected: bool) -> None:
    before, after = used(0, disk=0), used(0, disk=27_000_000)
    turn = Turn(
        bursts=(burst(),), before=replace(before, major_faults=2), after=replace(after, major_faults=2 + faults)
    )
    assert came_from_disk(turn, at_first=True) is expected
    assert came_from_disk(turn)  # later it is the data
