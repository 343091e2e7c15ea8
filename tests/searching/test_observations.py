"""The times of rows: measured, and of the whole epoch where the batches of their trial differ."""

from collections.abc import Sequence

import pytest

from nws_sweep.replay.known import Known
from nws_sweep.replay.model import Model
from nws_sweep.replay.prediction import Records
from nws_sweep.replay.queue import QueueSettings
from nws_sweep.results import BatchCost, LoopCosts, Span
from nws_sweep.searching.observations import Observation, for_the_whole_epoch
from tests.factories import batch_record, loader_settings

MEASURED_S = 0.012  # with two workers


def trial(num_workers: int, waits_s: Sequence[float], *, replayed_s: float) -> Known:
    """Batches that wait, of which a window with a replayed time of ``replayed_s`` per batch took ``MEASURED_S``."""
    batches = [
        batch_record(number, BatchCost(0.0, wait_s), position=(number + num_workers / 100) / len(waits_s))
        for number, wait_s in enumerate(waits_s)
    ]
    spans = tuple(Span(measured_s=MEASURED_S, replayed_s=replayed_s, batches=1, round=number) for number in range(2))
    records = Records(made=tuple(batches), loop=LoopCosts(), batches=1000)
    return Known(QueueSettings(num_workers, 2.0), records, MEASURED_S, spans)


def corrected_s(known: Known, *others: Known) -> float:
    by_round = {0: MEASURED_S, 1: MEASURED_S}
    settings = loader_settings(known.settings.num_workers)
    observation = Observation(settings=settings, cost_s=MEASURED_S, by_round=by_round, known=known)
    found = for_the_whole_epoch(observation, Model((known, *others)))
    assert found.by_round == pytest.approx(dict.fromkeys(by_round, found.cost_s))
    assert found.cost_s is not None
    return found.cost_s


def test_a_window_with_cheap_batches_of_an_epoch_has_the_time_of_the_epoch() -> None:
    known = trial(2, [0.012, 0.036] * 50, replayed_s=0.006)
    assert corrected_s(known) == pytest.approx(0.024, rel=0.1)  # of which half is replayed in the window


def test_equal_batches_keep_their_measured_time_although_other_trials_have_other_costs() -> None:
    known, other = trial(2, [0.024] * 50, replayed_s=0.024), trial(8, [0.003] * 500, replayed_s=0.003)
    assert corrected_s(known, other) == MEASURED_S


def test_a_time_that_no_schedule_can_reach_is_not_put_in_place_of_the_measured_one() -> None:
    known = trial(2, [0.012, 0.036] * 50, replayed_s=0.024)
    assert known.least_s == pytest.approx(0.012)
    assert corrected_s(known) == MEASURED_S
