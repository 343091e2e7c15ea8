"""Windows of an observation, by readings of clocks that a test makes."""

import pytest

from nws_sweep.measurement.windows import Moment
from nws_sweep.online.observation import TrainingTrial
from tests.factories import loader_settings

WAIT_S, STEP_S, START_S = 0.03, 0.02, 0.5


def observed(batches: int) -> TrainingTrial:
    """Of a training that waits and computes for the same time at each batch; windows end as in a training."""
    seen = TrainingTrial(loader_settings(1), warm_up=3, batches_per_epoch=None)
    seen.begin(0, START_S, 0.0)
    for number in range(batches):
        asked_s = 100 + number * (WAIT_S + STEP_S)
        seen.asked(Moment(asked_s, 0.0, 0.0))
        if seen.ends_warm_up or seen.ends_window:
            seen.cut((), None)
        seen.given(Moment(asked_s + WAIT_S, 0.0, 0.0), None)
    return seen


def test_each_window_begins_when_its_first_batch_was_asked_for() -> None:
    first, *others = observed(20).windows
    assert first.began_s == pytest.approx(100 - START_S)
    assert len(others) > 3
    for before, after in zip([first, *others], others, strict=False):
        assert after.began_s == pytest.approx(before.began_s + sum(before.wait_s) + sum(before.step_s))
