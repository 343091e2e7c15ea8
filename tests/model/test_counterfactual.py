"""Epochs without a bottleneck or a stage, from planted costs."""

import pytest

from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.counterfactual import Counterfactual
from nws_sweep.model.epochs import Records
from nws_sweep.model.known import Known
from nws_sweep.model.model import Model
from nws_sweep.model.queue import QueueSettings
from nws_sweep.model.stages import Stage
from nws_sweep.records import BatchCost, LoopCosts
from tests.factories import batch_record

FOUR_ON_TWO = QueueSettings(4, 2.0)


def measured(batch_s: float) -> Counterfactual:
    """Four workers on two CPUs that wait 64 ms and compute 96 ms for a batch."""
    records = tuple(
        batch_record(n, BatchCost(0.096, 0.064), position=n / 20) for n in range(20)
    )
    known = Known(
        FOUR_ON_TWO, Records(made=records, loop=LoopCosts(), batches=1000), batch_s
    )
    return Counterfactual(Model((known,)), FOUR_ON_TWO, [4])


@pytest.mark.parametrize(("batch_s", "saved"), [(0.064, 0.25), (0.0524, 0.08)])
def test_without_the_waiting_workers_no_longer_wait_at_the_same_time_whatever_is_named_for_it(
    batch_s: float, saved: float
) -> None:
    """In step a batch takes (64 + 2 * 96) / 4 ms, else about 52 ms; 48 ms without
    waiting."""
    epoch = measured(batch_s)
    assert epoch.now_s == pytest.approx(batch_s, rel=0.01)
    assert epoch.saved(Bottleneck.LATENCY) == pytest.approx(saved, abs=0.03)
    assert epoch.cost_s(FOUR_ON_TWO, Stage(name="read", wait=1.0)) == epoch.cost_s(
        FOUR_ON_TWO, Bottleneck.LATENCY
    )


def test_time_beyond_waiting_in_step_stays_whatever_is_taken_away() -> None:
    """Twice the time in step: without the waiting, twice the 48 ms."""
    epoch = measured(2 * 0.064)
    assert epoch.cost_s(FOUR_ON_TWO, Bottleneck.LATENCY) == pytest.approx(
        2 * 0.048, rel=0.03
    )
