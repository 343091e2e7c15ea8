from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.analysis import ConfigurationSummary, best_settings, recommend
from nws_sweep.records import Noise, SearchRecord, Trial, TrialState, Verdict
from tests.factories import (
    FACTS,
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


def recommended(epochs: Mapping[int, float], tolerance: float = 0.0) -> tuple[int, int]:
    """The recommended and the fastest num_workers."""
    best, fastest = recommend([trial(*item) for item in epochs.items()], tolerance)
    assert best is not None
    assert fastest is not None
    return best.num_workers, fastest.num_workers


def warnings_of(result: SearchRecord) -> tuple[str, ...]:
    return summary_of_run(result).configurations[0].warnings


def pinned(accelerator: str | None) -> SearchRecord:
    setting = configuration(loader=loader_settings(pin_memory=True))
    return search_result(trial(0, 1.0), configuration=setting, facts=replace(FACTS, accelerator=accelerator))


def test_the_fewest_workers_within_the_tolerance_are_recommended() -> None:
    assert recommended({0: 9.0, 2: 4.2, 4: 4.1, 8: 4.0}, tolerance=0.05) == (2, 8)


def test_a_candidate_exactly_at_the_tolerance_is_as_good_and_one_beyond_is_not() -> None:
    assert recommended({1: 5.0, 4: 4.0}, tolerance=0.25) == (1, 4)
    assert recommended({1: 5.001, 4: 4.0}, tolerance=0.25) == (4, 4)


def test_without_tolerance_the_fastest_is_recommended_and_of_equals_the_one_with_fewer_workers() -> None:
    assert recommended({1: 4.01, 2: 4.0, 4: 4.0}) == (2, 2)


def test_the_order_of_measuring_does_not_matter() -> None:
    assert recommended({8: 4.0, 2: 4.1, 0: 9.0}, tolerance=0.05) == (2, 8)


def test_a_trial_that_failed_is_never_recommended() -> None:
    best, fastest = recommend([failed_trial(0), trial(4, 3.0), failed_trial(1, state=TrialState.TIMEOUT)], 10.0)
    assert (best, fastest) == (trial(4, 3.0), trial(4, 3.0))


@pytest.mark.parametrize("trials", [[], [failed_trial(0), failed_trial(1)]])
def test_without_a_successful_trial_nothing_is_recommended(trials: list[Trial]) -> None:
    assert recommend(trials, 0.03) == (None, None)


def test_whole_epochs_decide_where_their_length_is_known_and_batches_where_it_is_not() -> None:
    slow_start = trial(4, 8.0, measurement=measurement(8.0, startup_s=7.0, batch_s=measurement(0.5).batch_s))
    assert recommend([trial(0, 4.0), slow_start], 0.0)[0] == trial(0, 4.0)
    assert recommend([endless_trial(0, 0.5), endless_trial(4, 0.25)], 0.0)[0] == endless_trial(4, 0.25)


def gains(found: ConfigurationSummary) -> tuple[float | None, float | None]:
    both = (found.gain_over_zero, found.gain_over_reference)
    return (both[0].value if both[0] else None, both[1].value if both[1] else None)


def test_a_gain_is_shown_with_the_digits_that_both_intervals_support() -> None:
    (found,) = summary_of_run(search_result(trial(0, 8.0), trial(2, 2.469))).configurations
    assert found.gain_over_zero is not None
    assert found.gain_over_zero.uncertainty == pytest.approx(math.sqrt(2) * math.log(2) / 2)  # of 0.75 to 1.5, twice
    assert str(found.gain_over_zero) == "3.2x"
    assert str(replace(found.gain_over_zero, uncertainty=0.01)) == "3.24x"


def test_gains_are_the_time_of_the_other_candidate_over_that_of_the_best() -> None:
    setting = configuration(search=search_rules((0, 2, 8), reference=8))
    found = summary_of_run(search_result(trial(0, 8.0), trial(2, 2.0), trial(8, 3.0), configuration=setting))
    (only,) = found.configurations
    assert only.best == trial(2, 2.0)
    assert gains(only) == (4.0, 1.5)


def test_gains_over_candidates_that_were_not_measured_are_not_defined() -> None:
    setting = configuration(search=search_rules((0, 2, 8), reference=8))
    (only,) = summary_of_run(search_result(failed_trial(0), trial(2, 2.0), configuration=setting)).configurations
    assert gains(only) == (None, None)


def test_without_a_reference_or_without_a_best_there_is_no_gain() -> None:
    (no_reference,) = summary_of_run(search_result(trial(0, 8.0), trial(2, 2.0))).configurations
    assert gains(no_reference) == (4.0, None)
    (no_best,) = summary_of_run(search_result(failed_trial(0), failed_trial(2))).configurations
    assert (no_best.best, no_best.gain_over_zero) == (None, None)


def test_trials_are_listed_by_num_workers_whatever_the_order_of_measuring() -> None:
    (only,) = summary_of_run(search_result(trial(4, 1.0), failed_trial(0), trial(2, 1.0))).configurations
    assert [each.num_workers for each in only.trials] == [0, 2, 4]


def test_best_settings_are_the_keywords_of_the_recommended_trial() -> None:
    settings = loader_settings(2, prefetch_factor=4, persistent_workers=True, pin_memory=True)
    (only,) = summary_of_run(search_result(trial(0, 8.0), trial(2, 2.0, settings=settings))).configurations
    assert best_settings(only) == {
        "batch_size": 64,
        "num_workers": 2,
        "pin_memory": True,
        "prefetch_factor": 4,
        "persistent_workers": True,
    }
    (nothing,) = summary_of_run(search_result(failed_trial(0))).configurations
    assert best_settings(nothing) is None


def test_a_best_at_the_edge_of_the_candidates_is_warned_about() -> None:
    (warning,) = warnings_of(search_result(trial(2, 8.0), trial(4, 2.0)))
    assert warning.startswith("the best stands at the edge of what was tried (num_workers=4)")
    assert "search.max_workers" in warning


def test_that_nothing_could_be_measured_with_workers_is_the_first_warning() -> None:
    lines = warnings_of(search_result(trial(0, 8.0), failed_trial(1, "no pickle"), failed_trial(2, "no room")))
    assert lines[0] == "every candidate with workers failed; the first one: no pickle"
    assert not [
        line for line in warnings_of(search_result(trial(0, 8.0), failed_trial(1), trial(2, 9.0))) if "every" in line
    ]
    assert not [line for line in warnings_of(search_result(trial(0, 8.0))) if "every" in line]


def test_a_best_below_the_edge_is_not_warned_about() -> None:
    assert warnings_of(search_result(trial(2, 2.0), trial(4, 8.0))) == ()


def test_a_single_candidate_has_no_edge() -> None:
    assert warnings_of(search_result(trial(4, 2.0), configuration=configuration(search=search_rules((4,))))) == (
        "num_workers=4 was the only candidate; it was compared with no other",
    )


def test_an_interrupted_search_is_warned_about_with_how_far_it_got() -> None:
    found = warnings_of(search_result(trial(0, 2.0), trial(1, 3.0), stop_reason=""))
    assert found == ("the search did not finish; 2 candidates were measured",)


def test_a_search_that_failed_as_a_whole_is_a_failure_and_no_interruption() -> None:
    found = summary_of_run(search_result(error="no such folder: /data", stop_reason=""))
    assert found.configurations[0].warnings == ()
    assert found.failures == ("dataset=photos: no such folder: /data",)


def test_candidates_with_wrong_samples_and_handles_that_workers_share_are_reported() -> None:
    wrong = failed_trial(4, "all differ", TrialState.WRONG_SAMPLES)
    holding = replace(FACTS, handles=("dataset.file (FileIO of data.bin)",))
    shared = "forked workers share dataset.file (FileIO of data.bin): "
    remedy = "open files and connections in each worker, on first use or in worker_init_fn"
    assert warnings_of(search_result(trial(0, 8.0), trial(2, 4.0), wrong, facts=holding)) == (
        "num_workers=4 is no choice: all differ", shared + remedy,
    )  # fmt: skip
    assert warnings_of(search_result(trial(0, 4.0), trial(2, 8.0), facts=holding)) == ()


def test_where_loading_alone_would_rank_otherwise_it_is_said() -> None:
    def loading(num_workers: int, epoch_s: float, loading_s: float | None) -> Trial:
        return trial(num_workers, epoch_s, measurement=measurement(epoch_s, loading_s=loading_s))

    found = warnings_of(search_result(loading(0, 8.0, 0.05), loading(2, 4.0, 0.02), loading(4, 5.0, 0.01)))
    assert found == (
        "loading alone would be fastest with num_workers=4 (10.0 ms a batch instead of 20.0 ms), but training is 25 % "
        "slower with it",
    )
    for others in ([loading(4, 4.05, 0.01)], [loading(4, 5.0, 0.0199)], [loading(4, 5.0, None)]):
        assert warnings_of(search_result(loading(2, 4.0, 0.02), *others)) == ()


def test_warnings_of_trials_are_passed_on_once_but_not_what_num_workers_0_has_no_use_for() -> None:
    zero = trial(0, 2.0, notes=("num_workers=0 has no prefetch_factor",), warnings=("the clock was set back",))
    found = warnings_of(search_result(zero, trial(1, 3.0, warnings=("the clock was set back", "the disk was full"))))
    assert found == ("the clock was set back", "the disk was full")


def test_pinned_memory_without_an_accelerator_is_warned_about_once_for_all_configurations() -> None:
    found = summary_of_grid(pinned(None), pinned(None))
    assert found.warnings == (
        "pin_memory=true has no effect here: there is no accelerator; it was measured all the same",
    )
    assert [each.warnings for each in found.configurations] == [(), ()]


def test_pinned_memory_is_not_warned_about_with_an_accelerator_or_when_it_is_off() -> None:
    assert summary_of_grid(pinned("cuda"), search_result(trial(0, 1.0))).warnings == ()


def test_configurations_of_different_versions_are_warned_about() -> None:
    here, elsewhere = search_result(trial(0, 1.0)), search_result(trial(0, 1.0), host=replace(HOST, torch="2.5.0"))
    assert summary_of_grid(here, here).warnings == ()
    (warning,) = summary_of_grid(here, elsewhere).warnings
    assert warning.startswith(
        "the configurations were measured on hosts of one kind with different systems or versions"
    )


def test_results_that_cannot_be_read_are_among_the_warnings() -> None:
    found = summary_of_grid(search_result(trial(0, 1.0)), unreadable=("a/result.json: cannot be read (gone)",))
    assert found.warnings == ("a/result.json: cannot be read (gone)",)


def test_each_failure_has_a_line_that_says_which_and_how_and_why() -> None:
    first = search_result(
        trial(0, 1.0),
        failed_trial(2, "no answer for 600 s", TrialState.TIMEOUT),
        failed_trial(4, "ValueError: odd", TrialState.FAILED),
        columns={"batch_size": 64},
    )
    second = search_result(error="OSError: gone", columns={"batch_size": 256})
    assert summary_of_grid(first, second).failures == (
        "dataset=photos batch_size=64 num_workers=2: timeout: no answer for 600 s",
        "dataset=photos batch_size=64 num_workers=4: failed: ValueError: odd",
        "dataset=photos batch_size=256: OSError: gone",
    )


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


def test_the_title_says_whether_it_is_a_run_or_a_grid_and_the_host_is_where_it_was_measured() -> None:
    run, grid = summary_of_run(search_result(trial(0, 1.0))), summary_of_grid(search_result(trial(0, 1.0)))
    assert (run.title, grid.title) == ("Run one", "Grid all")
    assert run.host == HOST


@pytest.mark.parametrize(
    ("noise", "line"),
    [
        (Noise(other_cpus=1.25), "other programs used 1.2 CPUs while num_workers=1 was measured"),
        (Noise(steal=0.12), "the hypervisor took 12 % of the CPU time from num_workers=1"),
        (Noise(throttled=0.5), "num_workers=1 was throttled by its CPU quota 50 % of the time"),
        (Noise(outliers=(3, 5)), "windows far from the others, which count all the same: 2 of num_workers=1"),
    ],
)
def test_noise_is_warned_about_with_its_figure(noise: Noise, line: str) -> None:
    quiet = trial(0, 8.0, noise=Noise(other_cpus=0.1, steal=0.01, throttled=0.01))
    (configuration,) = summary_of_run(search_result(quiet, trial(1, 9.0, noise=noise))).configurations
    assert line in configuration.warnings
    (configuration,) = summary_of_run(search_result(quiet, trial(1, 9.0))).configurations
    assert not any("num_workers=1 was" in warning for warning in configuration.warnings)


def test_candidates_that_were_only_begun_are_counted_apart() -> None:
    result = search_result(trial(0, 8.0), trial(1, 9.0, finished=False), stop_reason="")
    (configuration,) = summary_of_run(result).configurations
    assert configuration.warnings[0] == "the search did not finish; 1 candidates were measured, 1 more were begun"


def test_a_mismeasured_candidate_is_a_failure_and_never_the_best() -> None:
    impossible = trial(1, 1.0, state=TrialState.MISMEASURED, reason="too fast to be true")
    summary = summary_of_run(search_result(trial(0, 8.0), impossible))
    (configuration,) = summary.configurations
    assert configuration.best is not None
    assert configuration.best.num_workers == 0
    assert summary.failures == ("dataset=photos num_workers=1: mismeasured: too fast to be true",)


def verdict(recommended: int, fastest: int, tied: tuple[int, ...] = (), **changes: Any) -> Verdict:
    return Verdict(
        recommended=loader_settings(recommended),
        fastest=loader_settings(fastest),
        tied=tuple(loader_settings(n) for n in tied),
        **changes,
    )


def test_the_verdict_of_the_search_decides_and_not_the_order_of_the_mean_times() -> None:
    trials = trial(2, 8.0), trial(4, 7.0), trial(8, 6.5)
    summary = summary_of_run(search_result(*trials, verdict=verdict(2, 4))).configurations[0]
    assert summary.best is not None
    assert summary.fastest is not None
    assert (summary.best.num_workers, summary.fastest.num_workers) == (2, 4)


def test_candidates_that_may_be_as_good_are_named_with_what_would_tell() -> None:
    result = search_result(trial(2, 8.0), trial(4, 8.0), verdict=verdict(2, 2, (8, 4), settle_s=40.0))
    assert "num_workers=4, 8 may be as good as 2 or better: about 40.0 s more of measuring would tell" in warnings_of(
        result
    )


def test_a_provisional_verdict_is_said_to_be_one() -> None:
    result = search_result(trial(2, 8.0), verdict=verdict(2, 2, provisional=True))
    assert "the search was ended by its time budget; this is the best so far" in warnings_of(result)


def test_other_settings_do_not_mix_with_the_numbers_of_workers() -> None:
    better = trial(2, 6.0, settings=loader_settings(2, prefetch_factor=4))
    found = Verdict(recommended=better.settings, fastest=loader_settings(2))
    result = search_result(trial(0, 16.0), trial(2, 8.0), better, verdict=found)
    summary = summary_of_run(result).configurations[0]
    assert summary.best is better
    assert summary.found_besides == "prefetch_factor=4"
    assert [t.measurement.epoch_s for t in summary.worker_trials if t.measurement] == [16.0, 8.0]
    assert gains(summary)[0] == 16.0 / 6.0


def test_what_follows_from_all_configurations_is_found_once() -> None:
    """It is asked for by each row of the tables: ten thousand times ten thousand hosts took minutes."""
    summary = summary_of_grid(*(search_result(trial(2, 8.0), columns={"batch_size": size}) for size in (64, 128)))
    assert summary.hosts is summary.hosts == (HOST,)
    assert summary.distinguishing is summary.distinguishing == ("batch_size",)
