"""Sessions in lockstep on simulated clocks; times are sums of powers of two and compared exactly."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nws_sweep.errors import RankLost, TrialError
from nws_sweep.executor import lockstep
from nws_sweep.executor.ranks import merged_window
from nws_sweep.measurement.timing import LoaderSession
from nws_sweep.results import Rank, Window, WindowKind, WindowRequest
from tests.fakes import FakeRank, FakeRanks, SimulatedLoader

STEADY = WindowKind.STEADY


def windows(
    make_s: Sequence[float],
    asked: WindowRequest,
    step_s: float = 0.0,
    batches: Sequence[int] = (100, 100, 100),
    has_barrier: bool = False,
) -> tuple[list[Window], FakeRanks]:
    """A window of each rank; with ``has_barrier`` the training step waits for the other ranks, as in DDP."""
    ranks = FakeRanks(len(make_s))

    def work(rank: FakeRank) -> Window:
        loader = SimulatedLoader(rank.clock, batches[rank.number], make_s[rank.number])

        def training_step(batch: Any) -> None:
            rank.clock.advance(step_s)
            if has_barrier:
                rank.barrier(0)

        session = LoaderSession(
            loader,
            training_step,
            clock=rank.clock,
            produced=loader.produced,
            others=rank,
            step_synchronizes=has_barrier,
        )
        return session.window(asked)

    return ranks.run(work), ranks


def test_every_step_takes_as_long_as_the_slowest_rank() -> None:
    (quick, slow), ranks = windows([0.25, 1.0], WindowRequest(kind=STEADY, min_batches=3), step_s=0.5)
    assert quick.wait_s == (0.25,) * 3
    assert quick.step_s == slow.step_s == (0.5,) * 3
    assert quick.barrier_s == (0.75,) * 3
    assert slow.wait_s == (1.0,) * 3
    assert slow.barrier_s == (0.0,) * 3
    assert quick.elapsed_s == slow.elapsed_s == ranks.clocks[0].now == 4.5
    assert ranks.barriers_passed == 1 + 3  # at the start, and after each batch


@pytest.mark.parametrize(
    ("asked", "has_barrier", "batches"),
    [
        (WindowRequest(kind=STEADY, min_batches=1, min_seconds=3.0, multiple_of=2), False, 4),
        (WindowRequest(kind=STEADY, min_batches=1, min_seconds=4.5, multiple_of=2), True, 6),
        (WindowRequest(kind=STEADY, min_batches=1), True, 1),
    ],
)
def test_a_window_ends_with_the_same_step_in_all_ranks(asked: WindowRequest, has_barrier: bool, batches: int) -> None:
    found, _ = windows([0.25, 0.5, 1.0], asked, has_barrier=has_barrier)
    assert [window.batches for window in found] == [batches] * 3


def test_the_shortest_epoch_ends_the_epoch_of_all_ranks() -> None:
    found, _ = windows([0.5, 1.0], WindowRequest(kind=WindowKind.EPOCH), batches=[7, 4])
    assert [(window.batches, len(window.barrier_s), window.samples) for window in found] == [(4, 4, 4)] * 2
    assert [window.end_s for window in found] == [0.5, 0.5]  # the fifth batch of the other rank


def test_all_ranks_discard_the_batches_of_the_fullest_queue() -> None:
    def work(rank: FakeRank) -> Window:
        made = [8, 0][rank.number]
        counts = iter([0, 0, made, made, made, made, made])
        loader = SimulatedLoader(rank.clock, 100, 1.0)
        session = LoaderSession(
            loader, lambda batch: None, clock=rank.clock, produced=lambda: next(counts), others=rank
        )
        session.window(WindowRequest(kind=STEADY, min_batches=1))
        return session.window(WindowRequest(kind=WindowKind.WARM_UP, cover_buffer=True))

    assert [window.batches for window in FakeRanks(2).run(work)] == [7, 7]


def test_a_training_step_with_a_barrier_gets_no_second_one() -> None:
    found, ranks = windows([0.25, 1.0], WindowRequest(kind=STEADY, min_batches=4), step_s=0.5, has_barrier=True)
    assert [window.batches for window in found] == [4, 4]
    assert ranks.barriers_passed == 1 + 4  # the training step's own
    assert found[0].step_s == (1.25,) * 4
    merged = merged_window(found)
    assert merged.step_s == (0.5,) * 4
    assert merged.wait_s == (1.0,) * 4
    assert [rank.barrier_s for rank in merged.ranks] == [(0.75,) * 4, (0.0,) * 4]


def run_ranks(folder: Path, *works: Callable[[lockstep.Lockstep], object]) -> None:
    """Runs each function as a real rank; a rank exits when its function returns."""
    (folder / "step_counters").write_bytes(bytes(2 * 3 * 8))
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


def test_real_ranks_share_numbers_and_report_lost_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep, "_LATE_S", 0.3)

    def both(one: lockstep.Lockstep, number: int) -> None:
        assert one.barrier(number) == 7
        one.publish(number + 1)
        assert one.agreed() == 8
        one.publish(10 - number)
        assert one.agreed() == 5

    def first(one: lockstep.Lockstep) -> None:
        both(one, 5)
        one.publish(0)
        with pytest.raises(TrialError, match="another rank made no step for"):
            one.agreed()
        with pytest.raises(RankLost):
            one.barrier(0)

    run_ranks(tmp_path, first, lambda one: both(one, 7))
    assert array("q", (tmp_path / "step_counters").read_bytes())[::3].tolist() == [5, 3]
