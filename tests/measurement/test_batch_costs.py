"""Costs of batches and of the loop from the windows of a trial."""

import pytest

from nws_sweep.measurement import batch_costs
from nws_sweep.results import BatchCost, TimeSlice
from tests.factories import batch_record, window
from tests.measurement.test_quantities import conditions


def test_the_time_to_receive_a_batch_is_that_of_batches_that_lay_ready() -> None:
    """The training step asks for the batches at 10, 11, 12 and 13 s; the last two were finished before."""
    ended_s = (10.9, 11.5, 11.5, 12.5)
    made = tuple(batch_record(n, BatchCost(0.5, 0.0, copy_s=0.1), ended_s=end_s) for n, end_s in enumerate(ended_s))
    taken = window(
        batches=4, startup_s=0.95, records=made, wait_s=(0.95, 0.6, 0.25, 0.25), step_s=(0.05, 0.4, 0.75, 0.5),
        began_s=10.0, receive_cpu_s=0.4, receive_delay_s=0.2,
    )  # fmt: skip
    found = batch_costs.loop_costs([TimeSlice(windows=(taken,))], conditions(1))
    assert found is not None
    assert (found.receive_s, found.receive_wait_s) == pytest.approx((0.1, 0.25 - 0.1 - 0.05))


def test_without_workers_the_main_process_makes_the_batches_and_waits_for_a_cpu_as_well() -> None:
    taken = window(batches=3, startup_s=2.0, wait_s=(2.0, 1.0, 1.0), receive_cpu_s=1.0, receive_delay_s=1.0)
    found = list(batch_costs.made_without_workers(taken, 0, [None] * 3))
    assert [record.number for record in found] == [1, 2]  # the first one contains the start
    assert found[0].cost == BatchCost(cpu_s=0.25, wait_s=0.5)
