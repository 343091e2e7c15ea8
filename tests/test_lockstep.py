"""Several sessions in lockstep, on clocks that go only when told; times are sums of powers of two, compared exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nws_sweep.attendance import Attendance, create, missing
from nws_sweep.measure import LoaderSession
from nws_sweep.merging import merged_burst
from nws_sweep.records import Burst, BurstKind, BurstRequest
from tests.fakes import FakeRank, FakeRanks, SimulatedLoader


def request(kind: BurstKind = BurstKind.STEADY, **changes: Any) -> BurstRequest:
    return BurstRequest(kind=kind, **changes)


def bursts(
    make_s: Sequence[float],
    asked: BurstRequest,
    consume_s: Sequence[float] | None = None,
    batches: Sequence[int] | None = None,
    num_workers: int = 0,
    meets: bool = False,
) -> tuple[list[Burst], FakeRanks]:
    """A burst of each rank; with ``meets`` the consumer waits for the others, as DistributedDataParallel's step."""
    ranks = FakeRanks(len(make_s))

    def work(rank: FakeRank) -> Burst:
        length = batches[rank.number] if batches else 100
        loader = SimulatedLoader(rank.clock, length, make_s[rank.number], num_workers)

        def consume(batch: Any) -> None:
            rank.clock.advance(consume_s[rank.number] if consume_s else 0.0)
            if meets:
                rank.meet(0)

        session = LoaderSession(
            loader, consume, clock=rank.clock, produced=loader.produced, others=rank, consumer_meets=meets
        )
        return session.burst(asked)

    return ranks.run(work), ranks


def test_every_step_takes_as_long_as_the_slowest_rank() -> None:
    (quick, slow), ranks = bursts([0.25, 1.0], request(min_batches=3), consume_s=[0.5, 0.5])
    assert quick.wait_s == (0.25,) * 3
    assert quick.consume_s == slow.consume_s == (0.5,) * 3
    assert quick.meet_s == (0.75,) * 3
    assert slow.wait_s == (1.0,) * 3
    assert slow.meet_s == (0.0,) * 3
    assert quick.elapsed_s == slow.elapsed_s == ranks.clocks[0].now == 4.5
    assert ranks.meetings == 1 + 3  # to begin with, and after each batch


def test_workers_of_a_quick_rank_are_ahead_while_it_waits() -> None:
    (quick, slow), _ = bursts([0.5, 2.0], request(min_batches=8), num_workers=2)
    assert quick.wait_s[2:] == (0.0,) * 6
    assert slow.meet_s == (0.0,) * 8
    assert quick.elapsed_s == slow.elapsed_s == 8.0  # 2 workers of 2 s make a batch a second


def test_a_burst_ends_in_all_ranks_with_the_same_step() -> None:
    found, _ = bursts([0.25, 0.5, 1.0], request(min_batches=1, min_seconds=3.0, multiple_of=2))
    assert [burst.batches for burst in found] == [4, 4, 4]


def test_an_epoch_that_ends_in_one_rank_ends_in_all_and_nobody_counts_a_batch_that_others_had_not() -> None:
    found, _ = bursts([0.5, 1.0], request(BurstKind.EPOCH), batches=[7, 4])
    assert [burst.batches for burst in found] == [4, 4]
    assert [len(burst.meet_s) for burst in found] == [4, 4]
    assert [burst.samples for burst in found] == [4, 4]
    assert [burst.end_s for burst in found] == [0.5, 0.5]  # the other one's fifth batch


def test_what_the_fullest_queue_holds_is_thrown_away_by_all() -> None:
    ranks = FakeRanks(2)

    def work(rank: FakeRank) -> Burst:
        made = [8, 0][rank.number]
        counts = iter([0, 0, made, made, made, made, made])
        loader = SimulatedLoader(rank.clock, 100, 1.0)
        session = LoaderSession(
            loader, lambda batch: None, clock=rank.clock, produced=lambda: next(counts), others=rank
        )
        session.burst(request(min_batches=1))
        return session.burst(request(BurstKind.WARM_UP, cover_buffer=True))

    assert [burst.batches for burst in ranks.run(work)] == [7, 7]


def test_a_consumer_that_meets_the_others_is_not_made_to_meet_them_once_more() -> None:
    found, ranks = bursts([0.25, 1.0], request(min_batches=4), consume_s=[0.5, 0.5], meets=True)
    assert [burst.batches for burst in found] == [4, 4]
    assert ranks.meetings == 1 + 4  # its own
    assert found[0].consume_s == (1.25,) * 4
    merged = merged_burst(found)
    assert merged.consume_s == (0.5,) * 4
    assert merged.wait_s == (1.0,) * 4
    assert [rank.meet_s for rank in merged.ranks] == [(0.75,) * 4, (0.0,) * 4]


def test_such_a_burst_keeps_whole_clumps_and_ends_in_all_ranks_at_once() -> None:
    asked = request(min_batches=1, min_seconds=4.5, multiple_of=2)
    found, _ = bursts([0.25, 1.0, 0.5], asked, meets=True)
    assert [burst.batches for burst in found] == [6, 6, 6]
    single, _ = bursts([0.25, 1.0], request(min_batches=1), meets=True)
    assert [burst.batches for burst in single] == [1, 1]


def test_such_an_epoch_ends_in_all_ranks() -> None:
    found, _ = bursts([0.25, 1.0], request(BurstKind.EPOCH), batches=[5, 5], meets=True)
    assert [burst.batches for burst in found] == [5, 5]
    assert all(burst.ended_epoch for burst in found)


def test_without_its_consumer_such_a_loader_meets_the_others_all_the_same() -> None:
    found, ranks = bursts([0.25, 1.0], request(BurstKind.LOADING, min_batches=4), consume_s=[9.0, 9.0], meets=True)
    assert found[0].meet_s == (0.75,) * 4
    assert ranks.meetings == 1 + 4


@pytest.mark.parametrize("count", [1, 3])
def test_a_rank_that_does_not_come_is_missing(tmp_path: Any, count: int) -> None:
    create(str(tmp_path), count)
    present = [Attendance(str(tmp_path), number) for number in range(count)]
    assert missing(str(tmp_path)) == ()
    for one in present:
        one.come()
    assert missing(str(tmp_path)) == ()
    assert all(one.all_came() for one in present)
    present[0].come()
    assert missing(str(tmp_path)) == tuple(range(1, count))
    assert present[0].all_came() is (count == 1)


def test_numbers_are_read_of_the_same_time_though_others_are_one_ahead(tmp_path: Any) -> None:
    create(str(tmp_path), 2)
    one, other = (Attendance(str(tmp_path), number) for number in range(2))
    one.come(1)
    other.come(5)
    other.come(9)
    assert one.largest() == 5
    one.come(2)
    assert one.largest() == other.largest() == 9
