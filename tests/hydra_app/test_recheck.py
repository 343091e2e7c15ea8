"""The command ``check``."""

from pathlib import Path

import pytest

from nws_sweep import cli
from nws_sweep.analysis.time_ratios import Change
from nws_sweep.hydra_app import recheck
from nws_sweep.results import Estimate, Trial
from tests.factories import (
    configuration,
    endless_trial,
    failed_trial,
    measurement,
    search_result,
    store_grid,
    summary_of_grid,
    trial,
)


def timed(value: float, half_width: float | None) -> Trial:
    """A trial with this time per batch and this relative half-width of its interval."""
    low, high = (None, None) if half_width is None else (value * (1 - half_width), value * (1 + half_width))
    return trial(2, 2.0, measurement=measurement(2.0, batch_s=Estimate(value=value, low=low, high=high, n=5)))


@pytest.mark.parametrize(
    ("now", "half_width", "change"),
    [
        (1.09, 0.01, Change.SAME),
        (1.2, 0.01, Change.SLOWER),
        (1.2, 0.15, Change.UNCLEAR),
        (1.05, 0.5, Change.SAME),
        (1.2, None, Change.SLOWER),
    ],
)
def test_changes_count_if_the_interval_exceeds_the_limit(now: float, half_width: float | None, change: Change) -> None:
    found = recheck.compare("it", timed(1.0, half_width and 0.01), timed(now, half_width), 0.1)
    assert found.change is change
    assert found.holds == (change in (Change.SAME, Change.UNCLEAR))
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(now)


def test_epochs_are_compared_without_steady_batches_and_trials_without_a_common_time_fail() -> None:
    fast, slow = (trial(2, epoch_s, measurement=measurement(epoch_s, batch_s=None)) for epoch_s in (1.0, 1.5))
    assert recheck.compare("it", fast, slow, 0.1).change is Change.SLOWER
    for then, now, reason in (
        (fast, failed_trial(2), "it broke"),
        (endless_trial(2, 2.0), fast, "the two trials have no comparable time"),
    ):
        found = recheck.compare("it", then, now, 0.1)
        assert (found.change, found.holds) == (None, False)
        assert recheck.table([found])[1][0][-1] == f"failed: {reason}"


def test_configurations_that_cannot_be_measured_again_are_reported_and_the_others_are_measured() -> None:
    handed = {"_target_": "nws_sweep.dataloading.pickling.load", "type": "Mine", "fingerprint": "1"}
    summary = summary_of_grid(
        search_result(trial(2, 2.0), configuration=configuration(dataset=handed)),
        search_result(failed_trial(0)),
        search_result(trial(2, 2.0)),
    )
    first, second, third = recheck.checks(summary, 0.1, lambda chosen: trial(2, 2.0))
    assert "object of a program" in first.reason
    assert "no candidate could be measured" in second.reason
    assert [one.holds for one in (first, second, third)] == [False, False, True]


@pytest.mark.parametrize(("now_s", "status"), [(2.0, 0), (4.0, 1)])
def test_the_exit_status_reports_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now_s: float, status: int
) -> None:
    grid = store_grid(tmp_path, search_result(trial(2, 2.0)))
    monkeypatch.setattr(recheck, "measure_again", lambda _: trial(2, now_s))
    assert cli.run(["check", str(grid)]) == status
