"""Costs of batches and of the loop from the windows of a trial, and these windows
compared with a replay."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from nws_sweep.dataloading.windows import made_without_workers
from nws_sweep.model.queue import QueueSettings, replay
from nws_sweep.records import BatchCost, LoopCosts, TimeSlice, Window, WindowKind
from nws_sweep.searching import batch_costs
from nws_sweep.searching.batch_costs import spans_of
from nws_sweep.searching.rows import Figures
from tests.factories import batch_record, loader_settings, window
from tests.searching.test_timing import conditions


@pytest.mark.parametrize("first_ended_s", [10.9, 9.0])
def test_the_time_to_receive_a_batch_is_that_of_batches_that_lay_ready(
    first_ended_s: float,
) -> None:
    """The training step asks for the batches at 10, 11, 12 and 13 s; the last one lay
    ready for longer than 0.3 s.

    The first one did, too, if the program did something else after it had started the
    workers.
    """
    # the second and the third may have been transferred just now
    ended_s = (first_ended_s, 10.8, 11.8, 12.5)
    made = tuple(
        batch_record(
            n, BatchCost(0.3, 0.0, copy_s=0.1), began_s=end_s - 0.3, ended_s=end_s
        )
        for n, end_s in enumerate(ended_s)
    )
    taken = window(
        batches=4, startup_s=0.95, records=made, wait_s=(0.95, 0.6, 0.25, 0.25), step_s=(0.05, 0.4, 0.75, 0.5),
        began_s=10.0, receive_cpu_s=0.4, receive_delay_s=0.2,
    )  # fmt: skip
    found = batch_costs.loop_costs([TimeSlice(windows=(taken,))], conditions(1))
    assert found is not None
    assert (found.receive_s, found.receive_wait_s) == pytest.approx(
        (0.1, 0.25 - 0.1 - 0.05)
    )


def test_without_workers_the_main_process_makes_the_batches_and_waits_for_a_cpu_as_well() -> (
    None
):
    taken = window(
        batches=3,
        startup_s=2.0,
        wait_s=(2.0, 1.0, 1.0),
        receive_cpu_s=1.0,
        receive_delay_s=1.0,
    )
    found = list(made_without_workers(taken, 0))
    # the first one contains the start
    assert [record.number for record in found] == [1, 2]
    assert found[0].cost == BatchCost(cpu_s=0.25, wait_s=0.5)


def test_without_workers_several_threads_may_make_the_batches() -> None:
    taken = window(batches=2, startup_s=1.0, wait_s=(1.0, 1.0), receive_cpu_s=6.0)
    found = list(made_without_workers(taken, 0))
    assert found[0].cost == BatchCost(cpu_s=3.0, wait_s=0.0, threads=3.0)


@pytest.mark.parametrize(("is_persistent", "fork_s"), [(False, 0.05), (True, 0.2)])
def test_a_fork_takes_the_least_of_all_starts_unless_only_the_first_starts_workers(
    is_persistent: bool, fork_s: float
) -> None:
    starts_s = (0.4, 0.1, 0.9)
    slices = [
        TimeSlice(windows=(window(startup_s=1.0, start_cpu_s=start_s),))
        for start_s in starts_s
    ]
    settings = replace(loader_settings(2), persistent_workers=is_persistent)
    found = batch_costs.loop_costs(slices, replace(conditions(2), settings=settings))
    assert found is not None
    assert found.fork_s == fork_s


LOOP = LoopCosts(receive_s=0.001, step_s=0.002, fork_s=0.01, start_s=0.01)
SETTINGS = QueueSettings(4, 2.0)


def taken(
    kind: WindowKind,
    returned_s: tuple[float, ...],
    first: int,
    last: int,
    slower: float,
) -> Window:
    """Batches ``first`` to ``last`` of an epoch."""
    moments_s = [returned_s[first - 1] if first else 0.0, *returned_s[first:last]]
    waits_s = tuple(slower * (late - early) for early, late in pairwise(moments_s))
    startup_s = None if first else waits_s[0]
    return window(
        kind,
        last - first,
        startup_s=startup_s,
        wait_s=waits_s,
        step_s=(0.0,) * len(waits_s),
    )


@pytest.mark.parametrize("slower", [1.0, 1.3])
def test_each_window_that_counts_is_compared_with_its_own_batches(
    slower: float,
) -> None:
    """Costs of batches differ by far more than the windows from their replay."""
    draw = random.Random(1)
    costs = [BatchCost(0.001, draw.lognormvariate(-4.0, 1.2)) for _ in range(60)]
    returned_s = replay(costs, LOOP, SETTINGS).returned_s
    records = [batch_record(n, cost) for n, cost in enumerate(costs[:40])]
    warm, steady = WindowKind.WARM_UP, WindowKind.STEADY
    first = [
        taken(warm, returned_s, 0, 8, slower),
        taken(steady, returned_s, 8, 16, slower),
    ]
    second = [
        taken(warm, returned_s, 16, 20, slower),
        taken(steady, returned_s, 20, 32, slower),
    ]
    slices = [
        TimeSlice(windows=tuple(first), round=1),
        TimeSlice(windows=tuple(second), round=4),
    ]
    spans = spans_of(slices, records, LOOP, SETTINGS)
    assert [span.round for span in spans] == [1, 4]
    assert [span.measured_s / span.replayed_s for span in spans] == [
        pytest.approx(slower)
    ] * 2


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_batches_of_a_rank_are_replayed_with_its_share_of_the_cpus(
    ranks: int,
) -> None:
    costs = [BatchCost(0.125, 0.0)] * 40
    returned_s = replay(costs, LoopCosts(), QueueSettings(4, 4.0 / ranks)).returned_s
    first, second = (
        taken(WindowKind.WARM_UP, returned_s, 0, 8, 1.0),
        taken(WindowKind.STEADY, returned_s, 8, 24, 1.0),
    )
    records = tuple(batch_record(n, cost) for n, cost in enumerate(costs))
    slices = (TimeSlice(windows=(replace(first, records=records), second)),)
    spans = Figures(slices, replace(conditions(4), cores=4.0), ranks).spans
    assert [span.replayed_s for span in spans] == [pytest.approx(second.elapsed_s)]


def test_without_workers_the_first_batch_which_has_no_record_counts_with_the_mean_cost() -> (
    None
):
    made = [batch_record(n, BatchCost(0.1, 0.0)) for n in (1, 2)]
    slices = [
        TimeSlice(
            windows=(
                window(batches=1, startup_s=3.0),
                window(batches=2, wait_s=(0.1, 0.1)),
            ),
            round=1,
        )
    ]
    spans = spans_of(slices, made, LoopCosts(), QueueSettings(0, 2.0))
    assert [span.replayed_s for span in spans][-1] == pytest.approx(0.2)
