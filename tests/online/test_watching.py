"""When settings that were decided are reconsidered: training runs of hours, simulated,
with planted changes."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from nws_sweep.dataloading.recording import BatchLog
from nws_sweep.model import choice
from nws_sweep.model.queue import QueueSettings
from nws_sweep.online.iterator import _busy_share
from nws_sweep.online.waiting import Waiting
from nws_sweep.records import BatchCost
from tests.conftest import rounds

HOUR_S = 3600.0
LOOK_S = 10.0  # of a training, until its settings are decided again


@dataclass(frozen=True)
class World:
    """What a batch costs at a moment, s."""

    making_s: float = 0.12  # in one worker
    step_s: float = 0.05
    cpu_s: float = 0.02  # of making it
    cpus: float = 2.0

    def batch_s(self, num_workers: int) -> float:
        if num_workers == 0:
            return self.making_s + self.step_s
        return max(self.step_s, self.making_s / num_workers, self.cpu_s / self.cpus)

    def chosen(self) -> int:
        costs_s = {QueueSettings(n, self.cpus): self.batch_s(n) for n in range(33)}
        return choice.choose(costs_s, 0.03).num_workers


def train(
    world: Callable[[float], World], hours: float, seed: int = 0
) -> Iterator[tuple[float, int, int]]:
    """A training with epochs of ten minutes, a validation pass of a minute after each,
    and noise.

    The moments of decisions, s, with the workers before and after.
    """
    draw, now_s, workers = random.Random(seed), 0.0, world(0.0).chosen()
    waiting = Waiting(share(world(0.0), workers), workers, now_s)
    while now_s < hours * HOUR_S:
        waiting.begin_epoch()
        until_s = now_s + 600.0
        while now_s < until_s:
            current = world(now_s)
            asked_s = now_s + current.step_s
            wait_s = max(0.0, current.batch_s(workers) - current.step_s) + max(
                0.0, draw.gauss(0.0, 0.002)
            )
            if draw.random() < 2e-4:
                wait_s += 2.0  # one long read
            now_s = asked_s + wait_s
            busy = (
                current.making_s / current.batch_s(workers) / workers
                if workers
                else 1.0
            )
            if waiting.note(asked_s, now_s, partial(min, 1.0, busy)):
                now_s += LOOK_S
                before, workers = workers, world(now_s).chosen()
                waiting = Waiting(share(world(now_s), workers), workers, now_s)
                yield now_s, before, workers
        now_s += 60.0


def share(world: World, workers: int) -> float:
    batch_s = world.batch_s(workers)
    return (batch_s - world.step_s) / batch_s


@pytest.mark.parametrize("seed", range(3))
def test_without_a_change_it_never_looks_again(seed: int) -> None:
    assert not list(train(lambda _: World(), 2.0 * rounds(1), seed))


def test_storage_that_is_slower_for_ten_minutes_gets_more_workers_for_as_long() -> None:
    slow = 1.0 * HOUR_S, 1.0 * HOUR_S + 600.0
    (first_s, *first), (second_s, *second) = train(
        lambda s: World(making_s=0.32 if slow[0] <= s < slow[1] else 0.12), 4.0
    )
    assert (first, second) == ([3, 7], [7, 3])
    # a validation pass may lie between
    assert 30.0 <= first_s - slow[0] < 120.0 + LOOK_S
    assert second_s - first_s >= 600.0
    assert second_s - slow[1] < 240.0


@pytest.mark.parametrize(
    ("changed", "after"),
    [
        (World(making_s=0.24, cpu_s=0.04), 5),  # longer samples
        (World(step_s=0.025), 5),  # a step twice as fast
        (World(making_s=0.2, cpus=1.0), 4),  # a neighbour on half of the CPUs
        # a step that is slower: it does not wait, and most workers are idle
        (World(step_s=0.2), 1),
    ],
)
def test_a_lasting_change_is_answered_once(changed: World, after: int) -> None:
    ((at_s, *workers),) = train(lambda s: changed if s >= HOUR_S else World(), 2.5)
    assert workers == [3, after]
    assert at_s - HOUR_S < 180.0


def test_changes_that_return_every_few_minutes_do_not_make_it_swing() -> None:
    """Never more often than every ten minutes, and in none of them for longer than a
    look."""
    at_s = [
        s
        for s, *_ in train(
            lambda s: World(making_s=0.32 if math.floor(s / 240.0) % 2 else 0.12), 3.0
        )
    ]
    assert len(at_s) <= 6 * 3
    assert all(later - earlier >= 600.0 for earlier, later in pairwise(at_s))


def test_what_an_accelerator_waits_counts_where_it_is_known() -> None:
    """The settings were decided long ago, within an epoch; the host waits all the
    time."""
    for waited_s, is_reconsidered in ((0.0, False), (math.inf, True)):
        waiting = Waiting(0.0, 2, 5e4)
        found = [
            waiting.note(5e4 + n - 1, 5e4 + n, lambda: 1.0, waited_s)
            for n in range(1, 900)
        ]
        assert any(found) == is_reconsidered


@pytest.mark.parametrize("batches", [20, 3000])  # the log keeps the newest 1024
def test_the_busy_share_is_that_of_the_batches_in_the_log(batches: int) -> None:
    log = BatchLog(2)
    for number in range(batches):
        for worker in range(2):
            log.add(worker, 100.0 + number, 100.9 + number, BatchCost(0.0, 0.0))
    pool: Any = SimpleNamespace(log=log, pids=[1, 2])
    assert _busy_share(pool, 100.0 + batches) == pytest.approx(0.9)
