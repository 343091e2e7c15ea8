"""What untried workers promise where larger trials are slower than replayed."""

import math

import pytest

from nws_sweep.replay.known import Known
from nws_sweep.replay.model import Model
from nws_sweep.replay.prediction import Records, epoch_of
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.replay.slowdowns import promised_s
from nws_sweep.results import BatchCost, LoopCosts
from tests.factories import batch_record

WAIT_S = 0.08


def known(num_workers: int, factor: float = 1.0) -> Known:
    settings, made = QueueSettings(num_workers, 2.0), tuple(batch_record(n, BatchCost(0.0, WAIT_S)) for n in range(20))
    records = Records(made=made, loop=LoopCosts(), batches=10_000)
    return Known(settings, records, factor * epoch_of(records, settings)[0] / records.batches)


def promised_slowdown(trials: tuple[Known, ...], num_workers: int) -> float:
    """Promised time / time without any slowdown."""
    return promised_s(Model(trials), QueueSettings(num_workers, 2.0)) / (WAIT_S / num_workers)


@pytest.mark.parametrize("below", [0, 1])
def test_between_two_trials_a_slowdown_begins_anywhere_with_the_same_probability(below: int) -> None:
    trials = (known(below), known(8, factor=4.0))
    begins = [begin / 1000 for begin in range(1000)]
    for workers in (2, 4):
        share = math.log2(workers) / 3
        mean = sum(max(0.0, share - begin) / (1 - begin) for begin in begins) / len(begins)
        assert promised_slowdown(trials, workers) == pytest.approx(4.0**mean, rel=0.02)


@pytest.mark.parametrize(("fewer", "slowdown"), [((2, 4), 2.0**0.5), ((0,), 1.0)])
def test_beyond_all_trials_doublings_slow_down_as_the_mean_of_those_with_workers(
    fewer: tuple[int, ...], slowdown: float
) -> None:
    trials = (*map(known, fewer), known(8, factor=2.0))
    assert promised_slowdown(trials, 16) == pytest.approx(2.0 * slowdown, rel=0.02)
