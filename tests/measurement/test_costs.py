"""Costs of batches from the windows of a trial."""

from nws_sweep.measurement import costs
from nws_sweep.results import BatchCost, BatchRecord, TimeSlice, WindowKind
from tests.factories import loader_settings, window


def test_batches_without_the_consumer_are_not_returned() -> None:
    """Their pace is not that of training, with which predictions are compared."""
    made = tuple(BatchRecord(number=n, position=0.0, began_s=0.0, ended_s=0.0, cost=BatchCost(0, 0)) for n in range(5))
    taken = window(batches=2, startup_s=0.25, records=made), window(WindowKind.LOADING, 2)
    found = costs.batch_records([TimeSlice(windows=taken, round=3)], loader_settings(1), 5)
    assert [record.returned_s for record in found] == [0.25, 1.625, None, None, None]
