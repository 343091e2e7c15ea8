from __future__ import annotations

from typing import Any

import pytest

from nws_sweep.quantities import out_of_limits, settled, summarise
from nws_sweep.records import Burst, BurstKind, LoaderSettings, Measurement, MeasureRules, Turn
from nws_sweep.trial import Conditions, next_request
from tests.fakes import FakeArm, FakeClock, FakeMachine, SimulatedLoader

RULES = MeasureRules(bursts=3, window_s=10.0, max_seconds=1000.0)


def settings(num_workers: int = 0, prefetch_factor: int = 2, batch_size: int = 1) -> LoaderSettings:
    return LoaderSettings(batch_size=batch_size, num_workers=num_workers, prefetch_factor=prefetch_factor).canonical()


def run(arm: FakeArm, conditions: Conditions, pause_s: float, clock: FakeClock) -> list[Turn]:
    """A whole trial, with a pause of a given length between its turns."""
    turns: list[Turn] = []
    while not (settled(turns, conditions) or out_of_limits([b for t in turns for b in t.bursts], conditions)):
        if turns:
            arm.pause()
            clock.advance(pause_s)
            arm.resume()
        turns.append(turn(arm, [b for t in turns for b in t.bursts], conditions))
    return turns


def turn(arm: FakeArm, before: list[Burst], conditions: Conditions) -> Turn:
    taken: list[Burst] = []
    while not taken or taken[-1].kind is BurstKind.WARM_UP:
        request = next_request([*before, *taken], conditions, rested=bool(before) and not taken)
        taken.append(arm.burst(request))
    return Turn(bursts=tuple(taken), elapsed_s=sum(burst.elapsed_s for burst in taken))


def simulate(
    num_workers: int,
    *,
    make_s: Any = 1.0,
    consume_s: float = 0.0,
    batches: int = 10_000,
    length_known: bool = True,
    rules: MeasureRules = RULES,
    prefetch_factor: int = 2,
    start_s: float = 0.0,
    end_s: float = 0.0,
    batch_size: int = 1,
    pause_s: float = 7.0,
) -> tuple[list[Burst], Measurement]:
    clock = FakeClock()
    chosen = settings(num_workers, prefetch_factor, batch_size)
    loader = SimulatedLoader(clock, batches, make_s, num_workers, prefetch_factor, start_s, end_s, batch_size)
    arm = FakeArm(FakeMachine(lambda _: loader, batches if length_known else None, clock, consume_s))
    arm.open(chosen)
    conditions = Conditions(settings=chosen, rules=rules, batches_per_epoch=arm.batches_per_epoch)
    turns = run(arm, conditions, pause_s, clock)
    return [burst for turn in turns for burst in turn.bursts], summarise(turns, conditions)


def kinds(bursts: list[Burst]) -> list[str]:
    return [burst.kind.value for burst in bursts]


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4, 5, 7, 8])
@pytest.mark.parametrize("consume_s", [0.0, 0.05, 0.1, 0.3, 2.0])
@pytest.mark.parametrize("prefetch_factor", [1, 2, 8])
def test_steady_time_is_the_slower_of_workers_and_consumer(
    num_workers: int, consume_s: float, prefetch_factor: int
) -> None:
    """With n workers a batch takes max(m / n, y): m to make one, y to consume it, once the queue is in balance."""
    _, found = simulate(num_workers, consume_s=consume_s, prefetch_factor=prefetch_factor)
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(max(1.0 / num_workers, consume_s), rel=0.02)


def test_without_workers_making_and_consuming_add_up() -> None:
    _, found = simulate(0, make_s=1.0, consume_s=0.25)
    assert found.batch_s is not None
    assert (found.batch_s.value, found.wait_s, found.consume_s) == pytest.approx((1.25, 1.0, 0.25))
    assert found.stall_fraction == pytest.approx(0.8)


def test_the_warm_up_of_a_fresh_epoch_covers_the_whole_queue() -> None:
    """Ten batches against a queue of 16 measure the buffer."""
    for batches in (60, 10_000):  # in the short one the first start is taken once more
        bursts, _ = simulate(8, batches=batches)
        thrown_away = 0
        for burst in bursts[: kinds(bursts).index("steady")]:
            thrown_away = burst.batches + (0 if burst.startup_s is not None else thrown_away)
        assert thrown_away >= 16


def test_the_first_warm_up_is_as_long_as_a_window_for_processes_are_slower_at_first() -> None:
    bursts, _ = simulate(2)
    warm_up = bursts[: kinds(bursts).index("steady")]
    assert sum(burst.elapsed_s for burst in warm_up) == pytest.approx(10.0, abs=1.0)
    slow, _ = simulate(2, start_s=50.0)
    assert kinds(slow[:3]) == ["warm_up", "warm_up", "steady"]


@pytest.mark.parametrize(("batches", "starts_before_the_second_turn"), [(20, 2), (60, 1)])
def test_a_first_start_that_matters_is_taken_once_more_and_does_not_count(
    batches: int, starts_before_the_second_turn: int
) -> None:
    """A process does many things for the first time then: here it takes 0.3 s, and 0.1 s later.

    That is a tenth of an epoch of 20 batches, or a twentieth of one of 60.
    """
    bursts, found = _simulate_slow_first_start(batches)
    until_window = bursts[: kinds(bursts).index("steady")]
    assert sum(burst.startup_s is not None for burst in until_window) == starts_before_the_second_turn
    assert found.startup_s == pytest.approx(0.1)
    assert found.epoch_s == pytest.approx(batches * 0.1)


def test_a_first_start_that_is_a_small_share_of_the_epoch_is_taken_as_it_is() -> None:
    bursts, found = _simulate_slow_first_start(10_000)
    assert sum(burst.startup_s is not None for burst in bursts) == 1
    assert found.startup_s == pytest.approx(0.3)
    assert found.epoch_s == pytest.approx(10_000 * 0.1 + 0.2)


def _simulate_slow_first_start(batches: int) -> tuple[list[Burst], Measurement]:
    first = iter([0.3])
    return simulate(0, make_s=lambda batch: next(first, 0.1), batches=batches, rules=MeasureRules(window_s=0.5))


def test_a_first_start_that_takes_long_is_taken_as_it_is() -> None:
    bursts, found = simulate(2, start_s=50.0)
    assert kinds(bursts[:2]) == ["warm_up", "warm_up"]
    assert [burst.startup_s is None for burst in bursts[:2]] == [False, True]
    assert found.startup_s == 51.0


def test_a_loader_that_ran_on_while_others_were_timed_is_not_flattered() -> None:
    """A pause during which 16 batches came to lie ready: what is buffered at resume must be thrown away.

    Eight workers make a batch of 0.64 s each: 80 ms a batch. Timing the next eight batches would give 0.
    """
    clock = FakeClock()
    chosen = settings(8)
    loader = SimulatedLoader(clock, 10_000, 0.64, 8)
    arm = FakeArm(FakeMachine(lambda _: loader, 10_000, clock))
    arm.open(chosen)
    conditions = Conditions(settings=chosen, rules=MeasureRules(window_s=0.5), batches_per_epoch=10_000)
    turns = [turn(arm, [], conditions)]
    clock.advance(60.0)  # not paused
    turns.append(turn(arm, list(turns[0].bursts), conditions))
    *warm_up, window = turns[1].bursts
    assert sum(burst.batches for burst in warm_up) >= 16
    assert summarise([turns[0], Turn(bursts=(window,))], conditions).batch_s.value == pytest.approx(0.08)  # type: ignore[union-attr]


@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("num_workers", [1, 2, 8])
def test_what_a_sleeping_sample_gains_during_a_pause_is_not_counted(num_workers: int, batch_size: int) -> None:
    """While the processes stand still, what they wait for goes on: one sample of each worker comes for nothing."""
    _, found = simulate(num_workers, batch_size=batch_size, pause_s=60.0, rules=MeasureRules(window_s=2.0))
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(1.0 / num_workers, rel=0.01)


def test_after_a_pause_a_clump_and_what_lay_ready_are_thrown_away() -> None:
    bursts, _ = simulate(4)
    assert kinds(bursts[1:6]) == ["warm_up", "warm_up", "steady", "warm_up", "steady"]
    assert bursts[4].batches == 4


def test_where_samples_are_not_counted_the_whole_queue_is_thrown_away_after_a_pause() -> None:
    uncounted = Burst(kind=BurstKind.STEADY, startup_s=1.0, wait_s=(1.0,) * 24, consume_s=(0.0,) * 24, samples=24)
    conditions = Conditions(settings=settings(4, 5), rules=RULES, batches_per_epoch=None)
    request = next_request([uncounted], conditions, rested=True)
    assert (request.kind, request.min_batches) == (BurstKind.WARM_UP, 20)


def test_without_workers_nothing_lies_ready_and_nothing_is_thrown_away_after_a_pause() -> None:
    bursts, _ = simulate(0)
    assert kinds(bursts[1:]) == ["warm_up", "steady", "steady", "steady", "steady"]


@pytest.mark.parametrize("num_workers", [2, 3, 4, 8])
def test_windows_are_whole_clumps(num_workers: int) -> None:
    bursts, _ = simulate(num_workers)
    assert {burst.batches % num_workers for burst in bursts if burst.kind is BurstKind.STEADY} == {0}


def test_startup_is_no_batch() -> None:
    _, found = simulate(2, start_s=50.0)
    assert found.startup_s == 51.0
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.5)


def test_windows_keep_away_from_the_end_of_an_epoch_where_the_workers_run_out_of_work() -> None:
    bursts, found = simulate(4, batches=200, rules=MeasureRules(bursts=5, window_s=20.0, max_seconds=1000.0))
    position = 0
    for burst in bursts:
        position = burst.batches if burst.startup_s is not None else position + burst.batches
        assert position <= 200 - 8
    assert sum(burst.startup_s is not None for burst in bursts) == 4  # an epoch has room for two windows of 80
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.25)


def test_the_restart_of_a_short_dataset_is_startup_and_no_batch() -> None:
    bursts, found = simulate(
        2, batches=60, start_s=5.0, rules=MeasureRules(bursts=5, window_s=20.0, max_seconds=1000.0)
    )
    assert sum(burst.startup_s is not None for burst in bursts) == 6
    assert {burst.kind for burst in bursts if burst.startup_s is not None} == {BurstKind.WARM_UP}
    assert found.startup_s == pytest.approx(6.0)
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.5)


def test_the_windows_asked_for_are_taken_and_have_the_length_asked_for() -> None:
    bursts, found = simulate(1)
    steady = [burst for burst in bursts if burst.kind is BurstKind.STEADY]
    assert len(steady) == 4  # the precision must hold for two
    assert all(burst.elapsed_s == pytest.approx(10.0) for burst in steady)
    assert found.batch_s is not None
    assert found.batch_s.n == 4


def test_after_the_most_time_no_further_window_begins_but_one_is_always_taken() -> None:
    bursts, _ = simulate(0, rules=MeasureRules(bursts=10, window_s=10.0, max_seconds=25.0))
    assert kinds(bursts) == ["warm_up"] * 2 + ["steady"] * 2  # 10 s of warm-up, then 20 and 30 s
    assert simulate(1, rules=MeasureRules(max_seconds=0.001))[1].batch_s is not None


def test_after_the_most_batches_no_further_window_begins() -> None:
    bursts, _ = simulate(0, rules=MeasureRules(bursts=10, window_s=10.0, max_batches=15))
    assert [burst.batches for burst in bursts] == [1, 9, 10]


def test_an_epoch_without_room_for_warm_up_and_windows_is_measured_whole() -> None:
    bursts, found = simulate(4, batches=16, start_s=2.0, end_s=1.0, rules=MeasureRules(bursts=2, max_seconds=99.0))
    assert kinds(bursts) == ["epoch"] * 4
    assert found.epoch_s == pytest.approx(6.0)


def test_candidates_measured_whole_and_in_windows_have_the_same_epoch() -> None:
    """What only some candidates are seen to do, ending an epoch, must not decide between them."""
    whole, in_whole = simulate(4, batches=20, end_s=5.0)
    windows, in_windows = simulate(4, batches=20, end_s=5.0, prefetch_factor=1)
    assert (kinds(whole)[0], kinds(windows)[0]) == ("epoch", "warm_up")
    assert in_whole.epoch_s == pytest.approx(5.0)
    assert in_windows.epoch_s == pytest.approx(5.0)


def test_the_first_clump_of_a_whole_epoch_belongs_to_the_startup() -> None:
    """8 batches by 4 workers arrive as 4 at 1 s and 4 at 2 s: a batch takes 0.25 s, not (2 - 1) / 7."""
    _, found = simulate(4, batches=8)
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.25)
    assert found.startup_s == pytest.approx(1.0)


def test_a_remainder_of_a_clump_is_not_counted() -> None:
    """8 batches by 3 workers arrive at 1, 1, 1, 2, 2, 2, 3, 3 s: the steady clump is the second."""
    _, found = simulate(3, batches=8)
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(1 / 3)


def test_an_epoch_of_one_clump_has_no_steady_state() -> None:
    _, found = simulate(4, batches=4, end_s=0.5)
    assert (found.batch_s, found.samples_per_s, found.loading_s) == (None, None, None)
    assert (found.consume_s, found.stall_fraction) == (0.0, 1.0)  # of the epoch, its start included
    assert found.epoch_s == pytest.approx(1.0)


def test_a_window_may_be_shorter_than_asked_for_where_an_epoch_is() -> None:
    """200 batches in 0.2 s: windows of 1 s would never come to an end."""
    bursts, found = simulate(0, make_s=0.001, batches=200, rules=MeasureRules(bursts=3, window_s=1.0))
    assert {burst.batches for burst in bursts if burst.kind is BurstKind.STEADY} == {199}
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.001)


def test_an_epoch_shorter_than_its_length_says_is_measured_whole() -> None:
    clock = FakeClock()
    chosen = settings(2)
    loader = SimulatedLoader(clock, 12, 1.0, 2)
    arm = FakeArm(FakeMachine(lambda _: loader, 1000, clock))
    arm.open(chosen)
    conditions = Conditions(settings=chosen, rules=RULES, batches_per_epoch=1000)
    turns = run(arm, conditions, 1.0, clock)
    assert kinds([burst for turn in turns for burst in turn.bursts])[-3:] == ["epoch"] * 3


def test_an_unknown_short_length_is_found_out() -> None:
    bursts, found = simulate(8, batches=10, length_known=False)
    assert bursts[1].ended_epoch
    assert bursts[-1].kind is BurstKind.EPOCH
    assert found.epoch_s is None


def test_a_window_cut_short_by_the_end_of_an_epoch_of_unknown_length_does_not_count() -> None:
    bursts, found = simulate(
        2, batches=100, length_known=False, rules=MeasureRules(bursts=3, window_s=20.0, max_seconds=1000.0)
    )
    cut = [burst for burst in bursts if burst.kind is BurstKind.STEADY and burst.ended_epoch]
    assert cut
    assert found.batch_s is not None
    assert found.batch_s.n == 4
    assert sum(burst.startup_s is not None for burst in bursts) == 1 + len(cut)  # each new epoch fills the queue anew


def test_mode_epoch_measures_whole_epochs_and_nothing_else() -> None:
    bursts, found = simulate(2, batches=20, start_s=3.0, end_s=0.5, rules=MeasureRules(mode="epoch", epochs=2))
    assert kinds(bursts) == ["epoch"] * 2
    assert found.epoch_s == pytest.approx(13.5)
    assert found.startup_s == pytest.approx(4.0)


def test_mode_epoch_takes_all_its_epochs_however_long_they_are() -> None:
    bursts, _ = simulate(0, batches=20, rules=MeasureRules(mode="epoch", epochs=3, max_seconds=1.0))
    assert kinds(bursts) == ["epoch"] * 3
