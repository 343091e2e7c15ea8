"""Several sessions in lockstep, on clocks that go only when told; times are sums of powers of two, compared exactly."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nws_sweep.errors import RankLost, TrialError
from nws_sweep.executor import lockstep
from nws_sweep.executor.ranks import merged_burst
from nws_sweep.measurement.timing import LoaderSession
from nws_sweep.results import Burst, BurstKind, BurstRequest, Rank
from tests.fakes import FakeRank, FakeRanks, SimulatedLoader

STEADY = BurstKind.STEADY


def bursts(
    make_s: Sequence[float],
    asked: BurstRequest,
    consume_s: float = 0.0,
    batches: Sequence[int] = (100, 100, 100),
    meets: bool = False,
) -> tuple[list[Burst], FakeRanks]:
    """A burst of each rank; with ``meets`` the consumer waits for the others, as DistributedDataParallel's step."""
    ranks = FakeRanks(len(make_s))

    def work(rank: FakeRank) -> Burst:
        loader = SimulatedLoader(rank.clock, batches[rank.number], make_s[rank.number])

        def consume(batch: Any) -> None:
            rank.clock.advance(consume_s)
            if meets:
                rank.meet(0)

        session = LoaderSession(
            loader, consume, clock=rank.clock, produced=loader.produced, others=rank, consumer_meets=meets
        )
        return session.burst(asked)

    return ranks.run(work), ranks


def test_every_step_takes_as_long_as_the_slowest_rank() -> None:
    (quick, slow), ranks = bursts([0.25, 1.0], BurstRequest(kind=STEADY, min_batches=3), consume_s=0.5)
    assert quick.wait_s == (0.25,) * 3
    assert quick.consume_s == slow.consume_s == (0.5,) * 3
    assert quick.meet_s == (0.75,) * 3
    assert slow.wait_s == (1.0,) * 3
    assert slow.meet_s == (0.0,) * 3
    assert quick.elapsed_s == slow.elapsed_s == ranks.clocks[0].now == 4.5
    assert ranks.meetings == 1 + 3  # to begin with, and after each batch


@pytest.mark.parametrize(
    ("asked", "meets", "batches"),
    [
        (BurstRequest(kind=STEADY, min_batches=1, min_seconds=3.0, multiple_of=2), False, 4),
        (BurstRequest(kind=STEADY, min_batches=1, min_seconds=4.5, multiple_of=2), True, 6),
        (BurstRequest(kind=STEADY, min_batches=1), True, 1),
    ],
)
def test_a_burst_ends_in_all_ranks_with_the_same_step(asked: BurstRequest, meets: bool, batches: int) -> None:
    found, _ = bursts([0.25, 0.5, 1.0], asked, meets=meets)
    assert [burst.batches for burst in found] == [batches] * 3


def test_an_epoch_that_ends_in_one_rank_ends_in_all_and_nobody_counts_a_batch_that_others_had_not() -> None:
    found, _ = bursts([0.5, 1.0], BurstRequest(kind=BurstKind.EPOCH), batches=[7, 4])
    assert [(burst.batches, len(burst.meet_s), burst.samples) for burst in found] == [(4, 4, 4)] * 2
    assert [burst.end_s for burst in found] == [0.5, 0.5]  # the other one's fifth batch


def test_what_the_fullest_queue_holds_is_thrown_away_by_all() -> None:
    def work(rank: FakeRank) -> Burst:
        made = [8, 0][rank.number]
        counts = iter([0, 0, made, made, made, made, made])
        loader = SimulatedLoader(rank.clock, 100, 1.0)
        session = LoaderSession(
            loader, lambda batch: None, clock=rank.clock, produced=lambda: next(counts), others=rank
        )
        session.burst(BurstRequest(kind=STEADY, min_batches=1))
        return session.burst(BurstRequest(kind=BurstKind.WARM_UP, cover_buffer=True))

    assert [burst.batches for burst in FakeRanks(2).run(work)] == [7, 7]


def test_a_consumer_that_meets_the_others_is_not_made_to_meet_them_once_more() -> None:
    found, ranks = bursts([0.25, 1.0], BurstRequest(kind=STEADY, min_batches=4), consume_s=0.5, meets=True)
    assert [burst.batches for burst in found] == [4, 4]
    assert ranks.meetings == 1 + 4  # its own
    assert found[0].consume_s == (1.25,) * 4
    merged = merged_burst(found)
    assert merged.consume_s == (0.5,) * 4
    assert merged.wait_s == (1.0,) * 4
    assert [rank.meet_s for rank in merged.ranks] == [(0.75,) * 4, (0.0,) * 4]
    found, ranks = bursts([0.25, 1.0], BurstRequest(kind=BurstKind.LOADING, min_batches=4), consume_s=9.0, meets=True)
    assert found[0].meet_s == (0.75,) * 4  # without its consumer such a loader meets them all the same
    assert ranks.meetings == 1 + 4


def in_two_processes(folder: Path, *works: Callable[[lockstep.Lockstep], object]) -> None:
    """Real ranks, which fail here if their work does; the second one is gone when its work is done."""
    (folder / "meetings").write_bytes(bytes(2 * 3 * 8))
    pids = []
    for number, work in enumerate(works):
        if pid := os.fork():
            pids.append(pid)
            continue
        status = 1
        try:
            work(lockstep.join(Rank(number=number, ranks=2, folder=str(folder))))
            status = 0
        finally:
            os._exit(status)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]


def test_real_ranks_meet_and_hear_what_the_others_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep, "_LATE_S", 0.3)

    def both(one: lockstep.Lockstep, number: int) -> None:
        assert one.meet(number) == 7
        one.tell(number + 1)
        assert one.told() == 8
        one.tell(10 - number)
        assert one.told() == 5

    def first(one: lockstep.Lockstep) -> None:
        both(one, 5)
        one.tell(0)
        with pytest.raises(TrialError, match="no other step of another rank within"):
            one.told()
        with pytest.raises(RankLost):
            one.meet(0)

    in_two_processes(tmp_path, first, lambda one: both(one, 7))
    assert array("q", (tmp_path / "meetings").read_bytes())[::3].tolist() == [5, 3]
