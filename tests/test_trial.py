from __future__ import annotations

import pytest

from nws_sweep.records import Burst, BurstKind, LoaderSettings, Measurement, MeasureRules
from nws_sweep.trial import next_request, summarise
from tests.fakes import FakeArm, FakeClock, SimulatedLoader

RULES = MeasureRules(bursts=3, seconds=30.0, max_seconds=1000.0)


def settings(num_workers: int = 0, prefetch_factor: int = 2) -> LoaderSettings:
    return LoaderSettings(batch_size=1, num_workers=num_workers, prefetch_factor=prefetch_factor).canonical()


def run(
    chosen: LoaderSettings, loader: SimulatedLoader, arm: FakeArm, rules: MeasureRules = RULES
) -> tuple[list[Burst], Measurement]:
    """A whole trial, as the runner makes it."""
    arm.open(chosen)
    bursts: list[Burst] = []
    while request := next_request(bursts, chosen, rules, arm.batches_per_epoch):
        bursts.append(arm.burst(request))
    return bursts, summarise(bursts, chosen, rules, arm.batches_per_epoch)


def simulate(
    num_workers: int,
    *,
    make_s: float = 1.0,
    consume_s: float = 0.0,
    batches: int = 10_000,
    length_known: bool = True,
    rules: MeasureRules = RULES,
    prefetch_factor: int = 2,
    start_s: float = 0.0,
    end_s: float = 0.0,
) -> tuple[list[Burst], Measurement]:
    clock = FakeClock()
    chosen = settings(num_workers, prefetch_factor)
    loader = SimulatedLoader(clock, batches, make_s, num_workers, prefetch_factor, start_s, end_s)
    arm = FakeArm(clock, lambda _: loader, batches if length_known else None, consume_s)
    return run(chosen, loader, arm, rules)


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


def test_a_queue_that_was_filled_before_is_never_timed() -> None:
    """Ten batches against a queue of 16 measure the buffer: the warm-up covers it, the windows follow."""
    bursts, _ = simulate(8)
    assert bursts[0].kind is BurstKind.WARM_UP
    assert bursts[0].batches >= 16


@pytest.mark.parametrize("num_workers", [2, 3, 4, 8])
def test_windows_are_whole_clumps(num_workers: int) -> None:
    bursts, _ = simulate(num_workers)
    assert {burst.batches % num_workers for burst in bursts if burst.kind is BurstKind.STEADY} == {0}


def test_startup_is_no_batch() -> None:
    _, found = simulate(2, start_s=50.0)
    assert found.startup_s == 51.0
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.5)


def test_epoch_is_startup_and_the_other_batches_where_windows_were_measured() -> None:
    _, found = simulate(2, start_s=50.0, batches=10_000)
    assert found.epoch_s == pytest.approx(51.0 + 9_999 * 0.5)


def test_an_unknown_length_has_no_epoch() -> None:
    _, found = simulate(2, length_known=False)
    assert found.epoch_s is None


def test_the_time_aimed_at_is_measured_in_at_least_the_bursts_asked_for() -> None:
    bursts, found = simulate(1)
    steady = [burst for burst in bursts if burst.kind is BurstKind.STEADY]
    assert len(steady) == 3
    assert sum(burst.elapsed_s for burst in steady) == pytest.approx(30.0)
    assert found.batch_s is not None
    assert found.batch_s.n == 3


def test_after_the_most_time_no_further_window_begins_but_one_is_always_taken() -> None:
    bursts, found = simulate(1, rules=MeasureRules(bursts=10, seconds=100.0, max_seconds=25.0))
    steady = [burst for burst in bursts if burst.kind is BurstKind.STEADY]
    assert len(steady) == 3  # 2 s of warm-up, then 12, 22 and 32 s
    assert simulate(1, rules=MeasureRules(max_seconds=0.001))[1].batch_s is not None
    assert found.batch_s is not None


def test_an_epoch_without_room_for_warm_up_and_windows_is_measured_whole_until_there_is_enough() -> None:
    bursts, found = simulate(4, batches=16, start_s=2.0, end_s=1.0, rules=MeasureRules(bursts=3, seconds=15.0))
    assert {burst.kind for burst in bursts} == {BurstKind.EPOCH}
    assert len(bursts) == 3  # 2 + 4 + 1 s each
    assert found.epoch_s == pytest.approx(6.0)


def test_candidates_measured_whole_and_in_windows_have_the_same_epoch() -> None:
    """What only some candidates are seen to do, ending an epoch, must not decide between them."""
    whole = simulate(4, batches=16, end_s=5.0, rules=MeasureRules(bursts=3, seconds=1.0))[1]
    windows = simulate(4, batches=16, end_s=5.0, rules=MeasureRules(bursts=1, seconds=1.0), prefetch_factor=1)[1]
    assert whole.epoch_s == pytest.approx(4.0)
    assert windows.epoch_s == pytest.approx(1.0 + 15 * 0.25)


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
    assert (found.batch_s, found.samples_per_s, found.stall_fraction) == (None, None, None)
    assert found.epoch_s == pytest.approx(1.0)


def test_an_epoch_that_ends_before_a_window_does_is_measured_whole() -> None:
    """200 batches in 0.2 s: long in batches, short in time; windows of 1 s would never come to an end."""
    bursts, found = simulate(0, make_s=0.001, batches=200, rules=MeasureRules(bursts=3, seconds=3.0))
    assert [burst.kind for burst in bursts[:2]] == [BurstKind.WARM_UP, BurstKind.STEADY]
    assert {burst.kind for burst in bursts[2:]} == {BurstKind.EPOCH}
    assert found.batch_s is not None
    assert found.batch_s.value == pytest.approx(0.001)
    assert found.batch_s.n >= 3


def test_an_unknown_short_length_is_found_out() -> None:
    bursts, found = simulate(8, batches=10, length_known=False)
    assert bursts[0].ended_epoch
    assert bursts[-1].kind is BurstKind.EPOCH
    assert found.epoch_s is None


def test_a_window_cut_short_by_the_end_of_an_epoch_does_not_count() -> None:
    bursts, found = simulate(2, batches=100, rules=MeasureRules(bursts=3, seconds=60.0, max_seconds=1000.0))
    cut = [burst for burst in bursts if burst.kind is BurstKind.STEADY and burst.ended_epoch]
    assert cut
    assert found.batch_s is not None
    assert found.batch_s.n == 3
    warm_ups = [burst for burst in bursts if burst.kind is BurstKind.WARM_UP]
    assert len(warm_ups) == 1 + len(cut)  # each new epoch fills the pipeline anew


def test_mode_epoch_measures_whole_epochs_and_nothing_else() -> None:
    bursts, found = simulate(2, batches=20, start_s=3.0, end_s=0.5, rules=MeasureRules(mode="epoch", epochs=2))
    assert [burst.kind for burst in bursts] == [BurstKind.EPOCH] * 2
    assert found.epoch_s == pytest.approx(13.5)
    assert found.startup_s == pytest.approx(4.0)


def test_samples_per_second_uses_the_true_length_of_batches() -> None:
    bursts = [
        Burst(kind=BurstKind.STEADY, startup_s=None, wait_s=(0.5, 0.5), consume_s=(0.0, 0.0), samples=12),
        Burst(kind=BurstKind.WARM_UP, startup_s=1.0, wait_s=(1.0,), consume_s=(0.0,), samples=8),
    ]
    found = summarise(bursts, LoaderSettings(batch_size=8), RULES, None)
    assert found.samples_per_s == pytest.approx(12.0)


def test_without_any_batch_there_is_nothing_to_summarise() -> None:
    with pytest.raises(ValueError, match="no batch"):
        summarise([], settings(), RULES, 10)
