"""The command ``check``."""

from pathlib import Path

import pytest

from nws_sweep import cli
from nws_sweep.analysis.time_ratios import Change
from nws_sweep.hydra_app import recheck
from tests.factories import (
    configuration,
    endless_trial,
    failed_trial,
    search_result,
    steady,
    store_grid,
    summary_of_grid,
    trial,
)


@pytest.mark.parametrize(
    ("now", "half_width", "change"),
    [
        (1.09, 0.01, Change.SAME),
        (1.2, 0.01, Change.SLOWER),
        (1.2, 0.15, Change.UNCLEAR),
        (1.05, 0.5, Change.SAME),
        (1.2, None, Change.SLOWER),  # of epochs, which have no interval
    ],
)
def test_changes_count_if_the_interval_exceeds_the_limit(now: float, half_width: float | None, change: Change) -> None:
    found = recheck.compare("it", steady(2, 1.0, half_width and 0.01), steady(2, now, half_width), 0.1)
    assert found.change is change
    assert found.holds == (change in (Change.SAME, Change.UNCLEAR))
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(now)


def test_trials_without_a_common_time_fail() -> None:
    of_epochs = steady(2, 1.0, None)
    for then, now, reason in (
        (of_epochs, failed_trial(2), "it broke"),
        (endless_trial(2, 2.0), of_epochs, "the two trials have no comparable time"),
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
