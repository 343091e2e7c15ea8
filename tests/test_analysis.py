from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from nws_sweep.analysis import ConfigurationSummary, best_settings, recommend
from nws_sweep.records import Trial, TrialState, Verdict
from tests.factories import (
    HOST,
    configuration,
    endless_trial,
    failed_trial,
    loader_settings,
    measurement,
    search_result,
    search_rules,
    summary_of_grid,
    summary_of_run,
    trial,
)


def only(*trials: Trial, **changes: Any) -> ConfigurationSummary:
    (found,) = summary_of_run(search_result(*trials, **changes)).configurations
    return found


@pytest.mark.parametrize(
    ("epochs_s", "tolerance", "best", "fastest"),
    [
        ({0: 9.0, 2: 4.2, 4: 4.1, 8: 4.0}, 0.05, 2, 8),
        ({8: 4.0, 2: 4.1, 0: 9.0}, 0.05, 2, 8),
        ({1: 5.0, 4: 4.0}, 0.25, 1, 4),  # exactly at the tolerance
        ({1: 5.001, 4: 4.0}, 0.25, 4, 4),
        ({1: 4.01, 2: 4.0, 4: 4.0}, 0.0, 2, 2),
    ],
)
def test_the_fewest_workers_within_the_tolerance_are_recommended(
    epochs_s: Mapping[int, float], tolerance: float, best: int, fastest: int
) -> None:
    found = recommend([trial(*item) for item in epochs_s.items()], tolerance)
    assert [one.num_workers for one in found if one] == [best, fastest]


def test_a_trial_that_failed_or_cannot_be_trusted_is_never_recommended() -> None:
    failed = failed_trial(0), failed_trial(1, state=TrialState.TIMEOUT), trial(2, 1.0, state=TrialState.MISMEASURED)
    assert recommend([*failed, trial(4, 3.0)], 10.0) == (trial(4, 3.0), trial(4, 3.0))
    assert recommend(failed, 10.0) == (None, None)


def test_whole_epochs_decide_where_their_length_is_known_and_batches_where_it_is_not() -> None:
    slow_start = trial(4, 8.0, measurement=measurement(8.0, startup_s=7.0, batch_s=measurement(0.5).batch_s))
    assert recommend([trial(0, 4.0), slow_start], 0.0)[0] == trial(0, 4.0)
    assert recommend([endless_trial(0, 0.5), endless_trial(4, 0.25)], 0.0)[0] == endless_trial(4, 0.25)


def test_the_verdict_of_the_search_decides_and_not_the_order_of_the_mean_times() -> None:
    chosen = Verdict(recommended=loader_settings(2), fastest=loader_settings(4))
    found = only(trial(2, 8.0), trial(4, 7.0), trial(8, 6.5), verdict=chosen)
    assert (found.best, found.fastest) == (trial(2, 8.0), trial(4, 7.0))


@pytest.mark.parametrize(
    ("reference", "trials", "gains"),
    [
        (8, [trial(0, 8.0), trial(2, 2.0), trial(8, 3.0)], [4.0, 1.5]),
        (8, [failed_trial(0), trial(2, 2.0)], [None, None]),
        (None, [trial(0, 8.0), trial(2, 2.0)], [4.0, None]),
        (None, [failed_trial(0), failed_trial(2)], [None, None]),
    ],
)
def test_gains_are_the_time_of_the_other_candidate_over_that_of_the_best(
    reference: int | None, trials: list[Trial], gains: list[float | None]
) -> None:
    found = only(*trials, configuration=configuration(search=search_rules((0, 2, 8), reference=reference)))
    both = (found.gain_over_zero, found.gain_over_reference)
    assert [gain and gain.value for gain in both] == gains
    for gain in filter(None, both):  # both intervals are of 0.75 to 1.5
        assert gain.uncertainty == pytest.approx(math.sqrt(2) * math.log(2) / 2)


def test_each_failure_has_a_line_that_says_which_and_how_and_why() -> None:
    first = search_result(
        trial(0, 1.0),
        failed_trial(2, "no answer for 600 s", TrialState.TIMEOUT),
        trial(4, 1.0, state=TrialState.MISMEASURED, reason="too fast to be true"),
        columns={"batch_size": 64},
    )
    second = search_result(error="OSError: gone", columns={"batch_size": 256})
    assert summary_of_grid(first, second).failures == (
        "dataset=photos batch_size=64 num_workers=2: timeout: no answer for 600 s",
        "dataset=photos batch_size=64 num_workers=4: mismeasured: too fast to be true",
        "dataset=photos batch_size=256: OSError: gone",
    )


def test_best_settings_are_the_keywords_of_the_recommended_trial() -> None:
    settings = loader_settings(2, prefetch_factor=4, persistent_workers=True, pin_memory=True)
    assert best_settings(only(trial(0, 8.0), trial(2, 2.0, settings=settings))) == {
        "batch_size": 64,
        "num_workers": 2,
        "pin_memory": True,
        "prefetch_factor": 4,
        "persistent_workers": True,
    }
    assert best_settings(only(failed_trial(0))) is None


def test_only_the_columns_that_differ_and_the_dataset_tell_configurations_apart() -> None:
    found = summary_of_grid(
        search_result(trial(0, 1.0), columns={"pin_memory": True}),
        search_result(trial(0, 1.0), columns={"pin_memory": False, "consumer.ms": 5}),
    )
    assert found.varying == ("dataset", "pin_memory", "consumer.ms")
    assert [each.label for each in found.configurations] == [
        "dataset=photos pin_memory=true",
        "dataset=photos pin_memory=false consumer.ms=5",
    ]


def test_other_settings_do_not_mix_with_the_numbers_of_workers() -> None:
    better = trial(2, 6.0, settings=loader_settings(2, prefetch_factor=4))
    found = Verdict(recommended=better.settings, fastest=loader_settings(2))
    summary = only(trial(0, 16.0), trial(2, 8.0), better, verdict=found)
    assert summary.best is better
    assert summary.found_besides == "prefetch_factor=4"
    assert [t.measurement.epoch_s for t in summary.worker_trials if t.measurement] == [16.0, 8.0]
    assert summary.gain_over_zero is not None
    assert summary.gain_over_zero.value == 16.0 / 6.0


def test_what_follows_from_all_configurations_is_found_once() -> None:
    """It is asked for by each row of the tables: ten thousand times ten thousand hosts took minutes."""
    summary = summary_of_grid(*(search_result(trial(2, 8.0), columns={"batch_size": size}) for size in (64, 128)))
    assert summary.hosts is summary.hosts == (HOST,)
    assert summary.distinguishing is summary.distinguishing == ("batch_size",)
