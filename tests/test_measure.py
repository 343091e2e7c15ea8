from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nws_sweep.measure import LoaderSession
from nws_sweep.records import BurstKind, BurstRequest
from tests.fakes import FakeClock, SimulatedLoader

STEADY = BurstRequest(kind=BurstKind.STEADY)
EPOCH = BurstRequest(kind=BurstKind.EPOCH)


def session(clock: FakeClock, loader: Any, consume_s: float = 0.0) -> LoaderSession:
    return LoaderSession(loader, lambda batch: clock.advance(consume_s), clock=clock)


def request(**changes: Any) -> BurstRequest:
    return BurstRequest(kind=BurstKind.STEADY, **changes)


def test_waits_and_consumer_times_are_told_apart_and_add_up_to_the_clock() -> None:
    clock = FakeClock()
    burst = session(clock, SimulatedLoader(clock, 10, make_s=0.3), consume_s=0.2).burst(request(min_batches=4))
    assert burst.wait_s == pytest.approx([0.3] * 4)
    assert burst.consume_s == pytest.approx([0.2] * 4)
    assert burst.elapsed_s == pytest.approx(clock.now)


def test_the_consumer_can_be_left_out() -> None:
    clock = FakeClock()
    measured = session(clock, SimulatedLoader(clock, 10, make_s=0.3), consume_s=0.2)
    burst = measured.burst(BurstRequest(kind=BurstKind.LOADING, min_batches=4))
    assert burst.wait_s == pytest.approx([0.3] * 4)
    assert burst.consume_s == pytest.approx([0.0] * 4)
    assert measured.burst(STEADY).consume_s == pytest.approx([0.2])


def test_the_first_batch_of_an_epoch_is_the_startup_and_later_bursts_have_none() -> None:
    clock = FakeClock()
    measured = session(clock, SimulatedLoader(clock, 10, make_s=1.0, num_workers=1, start_s=5.0))
    assert measured.burst(STEADY).startup_s == 6.0
    assert measured.burst(STEADY).startup_s is None


def test_making_the_iterator_counts_as_startup() -> None:
    clock = FakeClock()

    class SlowIterable:
        def __iter__(self) -> Any:
            clock.advance(7.0)
            return iter([0])

    assert session(clock, SlowIterable()).burst(STEADY).startup_s == 7.0


def test_a_burst_goes_on_where_the_last_one_stopped() -> None:
    clock = FakeClock()
    seen: list[int] = []
    measured = LoaderSession(SimulatedLoader(clock, 10, make_s=1.0), seen.append, clock=clock)
    measured.burst(request(min_batches=3))
    measured.burst(request(min_batches=2))
    assert seen == [0, 1, 2, 3, 4]


def test_a_burst_stops_only_after_whole_clumps_and_when_both_minima_are_met() -> None:
    clock = FakeClock()
    measured = session(clock, SimulatedLoader(clock, 100, make_s=1.0))
    assert measured.burst(request(min_batches=4, multiple_of=3)).batches == 6
    assert measured.burst(request(min_seconds=7.5, multiple_of=4)).batches == 8
    assert measured.burst(request(min_batches=2, min_seconds=5.0)).batches == 5


def test_the_end_of_an_epoch_ends_the_burst_and_is_timed_apart() -> None:
    clock = FakeClock()
    loader = SimulatedLoader(clock, 3, make_s=1.0, end_s=0.5)
    measured = session(clock, loader)
    burst = measured.burst(request(min_batches=5))
    assert (burst.batches, burst.end_s, burst.elapsed_s) == (3, 0.5, 3.5)
    assert measured.burst(STEADY).startup_s == 1.0
    assert loader.epochs_begun == 2


def test_an_epoch_that_is_over_when_the_burst_begins_gives_no_batch_and_no_startup() -> None:
    clock = FakeClock()
    measured = session(clock, SimulatedLoader(clock, 2, make_s=1.0))
    measured.burst(request(min_batches=2))
    burst = measured.burst(STEADY)
    assert (burst.batches, burst.startup_s, burst.ended_epoch) == (0, None, True)


def test_an_epoch_burst_begins_a_fresh_epoch_and_takes_all_of_it() -> None:
    clock = FakeClock()
    loader = SimulatedLoader(clock, 5, make_s=1.0)
    measured = session(clock, loader)
    measured.burst(request(min_batches=2))
    burst = measured.burst(EPOCH)
    assert (burst.batches, burst.ended_epoch, loader.epochs_begun) == (5, True, 2)


def test_an_empty_loader_gives_an_empty_burst() -> None:
    clock = FakeClock()
    burst = session(clock, []).burst(EPOCH)
    assert (burst.batches, burst.startup_s, burst.ended_epoch) == (0, None, True)


@pytest.mark.parametrize(
    ("num_workers", "expected"),
    [
        (0, [1.25] * 8),
        (1, [1.0] * 8),
        (2, [0.75, 0.25] * 4),
        (3, [0.5, 0.25, 0.25] * 2 + [0.5, 0.25]),
        (4, [0.25] * 8),
    ],
)
def test_the_simulated_loader_shows_the_pattern_of_the_batch_timeline(num_workers: int, expected: list[float]) -> None:
    """1 s a sample and 0.25 s of work a batch: the per-batch times that experiment=batch_timeline reproduces."""
    clock = FakeClock()
    measured = session(clock, SimulatedLoader(clock, 40, make_s=1.0, num_workers=num_workers), consume_s=0.25)
    measured.burst(request(min_batches=12))
    burst = measured.burst(request(min_batches=8))
    total = [wait + consume for wait, consume in zip(burst.wait_s, burst.consume_s, strict=True)]
    assert total == pytest.approx(expected)


def test_samples_are_counted_by_what_the_batches_hold() -> None:
    clock = FakeClock()
    batches = [np.zeros((4, 2)), np.zeros((4, 2)), np.zeros((3, 2))]
    assert session(clock, batches).burst(EPOCH).samples == 11
