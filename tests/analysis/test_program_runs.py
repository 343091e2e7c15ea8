from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nws_sweep.analysis import caveats, program_runs
from nws_sweep.analysis.summary import summarise
from nws_sweep.results import PROGRAM_STRATEGY, Noise, ProgramRun, SearchRecord, TrialState, WindowKind, storage
from tests.factories import FACTS, HOST, loader_settings, window


def run(num_workers: int, **changes: Any) -> ProgramRun:
    """A run with a start-up of 1 s and batches of (8 - workers) s."""
    pace_s = 8.0 - num_workers
    defaults: dict[str, Any] = {
        "num_workers": num_workers,
        "candidates": (0, 2, 4),
        "columns": {"lr": 0.5},
        "program": "train",
        "host": HOST,
        "settings": loader_settings(num_workers, prefetch_factor=2 if num_workers else None),
        "facts": FACTS,
        "batches_per_epoch": 8,
        "windows": (
            window(WindowKind.WARM_UP, 1, startup_s=1.0, wait_s=(1.0,), step_s=(0.0,)),
            window(batches=4, wait_s=(pace_s - 0.5,) * 4, step_s=(0.5,) * 4),
        ),
        "started_at": f"2024-05-01T12:{num_workers:02}:00+00:00",
        "elapsed_s": 40.0,
    }
    return ProgramRun(**{**defaults, **changes})


def record(*runs: ProgramRun, finished: bool = False) -> SearchRecord:
    return program_runs.record(runs, finished=finished)


def test_runs_become_the_trials_of_one_search() -> None:
    found = record(run(0), run(2), run(4))
    assert [(trial.num_workers, trial.state) for trial in found.trials] == [(n, TrialState.OK) for n in (0, 2, 4)]
    assert [trial.objective_s for trial in found.trials] == [1.5 + 7 * 8.0, 1.5 + 7 * 6.0, 1.5 + 7 * 4.0]
    assert found.configuration.columns == {"dataset": "Photos", "lr": 0.5}
    assert found.configuration.search.strategy == PROGRAM_STRATEGY
    assert found.configuration.training_step == {"_target_": "train"}
    assert (found.configuration.search.candidates, found.configuration.search.reference) == ((0, 2, 4), None)
    assert (found.stop_reason, found.cost_s) == ("the program ran with 3 candidates", 120.0)
    assert all(not found.configuration.differing(trial.settings) for trial in found.trials)
    assert found.configuration.search.more_workers_hint == "larger hydra.callbacks.nws_sweep.candidates"
    assert record(run(0, candidates=(0, 8))).configuration.search.reference == 8, "the usual rule, if it is a candidate"


def test_a_sweep_is_complete_with_all_candidates_or_when_it_is_finished() -> None:
    assert record(run(0), run(2)).stop_reason == ""
    assert record(run(0), run(2), finished=True).stop_reason == (
        "the program ran with 2 candidates; no results for num_workers=4"
    )
    assert record(run(0, candidates=()), run(2, candidates=())).stop_reason == ""
    assert record(run(0, candidates=()), finished=True).stop_reason == "the program ran with 1 candidate"


NOTHING: dict[str, Any] = {"settings": None, "facts": None, "batches_per_epoch": None, "windows": (), "reason": "no"}


def test_a_run_that_failed_is_a_row_with_its_reason() -> None:
    found = record(run(2, **NOTHING), run(0), run(4))
    assert found.trials[0].settings == loader_settings(2, prefetch_factor=2)
    assert (found.trials[0].state, found.trials[0].reason) == (TrialState.FAILED, "no")
    assert found.trials[0].measurement is None
    assert found.trials[1].objective_s == 57.5  # a failed run does not affect the others
    assert found.facts == replace(FACTS, loader=loader_settings(4, prefetch_factor=2))
    found = record(run(0, **NOTHING), run(2, **NOTHING), run(4, **NOTHING))
    assert [trial.num_workers for trial in found.trials] == [0, 2, 4]
    assert found.configuration.columns == {"dataset": "unknown", "lr": 0.5}


def test_runs_are_rows_under_the_number_that_was_asked_for_and_ranked_by_what_all_know() -> None:
    other = run(2, reason="it has num_workers=4", settings=loader_settings(4))
    found = record(run(0), run(4), other, run(0, reason="it broke"))  # the later of two counts
    assert [(trial.num_workers, trial.reason) for trial in found.trials] == [
        (0, "it broke"), (4, ""), (2, "it has num_workers=4")
    ]  # fmt: skip
    assert found.trials[2].measurement is None
    found = record(run(0), run(2), run(4, batches_per_epoch=None))
    assert [trial.objective_s for trial in found.trials] == [8.0, 6.0, 4.0]


def test_what_was_measured_before_the_program_failed_is_kept_and_never_recommended() -> None:
    found = record(run(0), run(2), run(4, reason="RuntimeError: loss is nan"))
    failed = found.trials[2]
    assert (failed.state, failed.objective_s) == (TrialState.FAILED, None)
    assert failed.measurement is not None
    assert failed.measurement.epoch_s == 1.5 + 7 * 4.0
    assert found.verdict is not None
    assert found.verdict.recommended.num_workers == 2


def test_slow_first_steps_are_no_start_up_of_the_loader() -> None:
    start = window(WindowKind.WARM_UP, 1, startup_s=1.0, wait_s=(1.0,), step_s=(30.0,))
    slow = run(0, windows=(start, *run(0).windows[1:]))
    found = record(slow, run(2), run(4))
    assert found.trials[0].objective_s == 1.5 + 7 * 8.0
    assert found.trials[0].windows == slow.windows


def timed(num_workers: int, batch_s: float, spread: float = 0.02, other_cpus: float = 0.0) -> ProgramRun:
    """A run with three windows whose times differ by ``spread``."""
    start = window(WindowKind.WARM_UP, 1, startup_s=1.0, wait_s=(1.0,), step_s=(0.0,))
    paces = [batch_s * factor for factor in (1 - spread, 1.0, 1 + spread)]
    paced = [window(batches=4, wait_s=(pace_s,) * 4, step_s=(0.0,) * 4) for pace_s in paces]
    noise = Noise(other_cpus=other_cpus)
    return run(num_workers, windows=(start, *paced), batches_per_epoch=None, noise=noise)


@pytest.mark.parametrize(
    ("runs", "recommended", "tied"),
    [
        ([timed(0, 8.0, 0.001), timed(2, 6.0, 0.001), timed(4, 5.9, 0.001)], 2, ()),  # within 3 %, and fewer
        ([timed(0, 8.0), timed(2, 7.5), timed(4, 16.0)], 2, (0,)),
        ([timed(0, 7.5), timed(2, 7.4), timed(4, 16.0)], 0, (2,)),
        ([run(0), run(2, windows=timed(2, 7.5, 0.0).windows[:2])], 2, (0,)),  # one window each: no interval
        ([timed(0, 8.0, 0.0, 2.1), timed(2, 2.0, 0.0)], 2, (0,)),  # of 8 CPUs
        ([timed(0, 8.0, 0.0, 1.9), timed(2, 2.0, 0.0)], 2, ()),
    ],
)
def test_candidates_that_the_intervals_leave_open_are_tied(
    runs: list[ProgramRun], recommended: int, tied: tuple[int, ...]
) -> None:
    whole = record(*runs, finished=True)
    found = whole.verdict
    assert found is not None
    assert found.recommended.num_workers == recommended
    assert tuple(settings.num_workers for settings in found.tied) == tied
    text = " ".join(caveats.on(whole, None))
    assert ("statistically tied with" in text) == bool(tied)
    assert ("used 2.1 CPUs while num_workers=0 was measured" in text) == (runs[0].noise == Noise(other_cpus=2.1))


@pytest.mark.parametrize(
    ("runs", "failed"),
    [
        ([run(0, reason="killed: pid 17"), run(2, reason="killed: pid 18")], "num_workers=0 and num_workers=2 failed"),
        ([run(0, reason="killed: pid 17"), run(2, reason="it broke")], ""),
        ([run(0, reason="killed"), run(0, reason="killed")], ""),
        ([run(0), run(2), run(4, reason="killed"), run(8, reason="killed")], ""),
    ],
)
def test_two_candidates_that_fail_for_the_same_reason_are_reported(
    tmp_path: Path, runs: list[ProgramRun], failed: str
) -> None:
    for number, one in enumerate(runs):
        started_at = f"2024-05-01T12:{number:02}:00+00:00"
        storage.save_program_run(tmp_path / "default", number, replace(one, started_at=started_at))
    found = program_runs.repeated_failure(tmp_path)
    assert found.startswith(failed)
    assert bool(found) is bool(failed)


def test_too_few_batches_are_reported_with_their_number() -> None:
    short = (window(WindowKind.WARM_UP, 3, startup_s=1.0),)
    found = record(run(0), run(2), run(4, windows=short)).trials[2]
    assert (found.state, found.measurement, found.windows) == (TrialState.FAILED, None, short)
    assert found.reason.startswith("3 batches are too few: those of a full queue (up to 8) are excluded")


@pytest.mark.parametrize(("seconds", "warned"), [(120.0, False), (121.0, True)])
def test_runs_that_overlap_are_reported(seconds: float, warned: bool) -> None:
    found = record(run(0, elapsed_s=seconds), run(2), run(4))
    line = "runs overlapped in time and disturbed each other: launch them one after another"
    assert (found.trials[0].warnings == (line,)) is warned


def test_files_of_runs_become_a_grid_that_can_be_reported(tmp_path: Path) -> None:
    program_runs.gather(tmp_path)  # nothing yet
    assert not storage.holds_results(tmp_path)
    for rate in (0.5, 0.25):
        folder = tmp_path / f"lr={rate}"
        for number, workers in enumerate((0, 2, 4)):
            storage.save_program_run(folder, number, run(workers, columns={"lr": rate}))
        program_runs.gather(folder)
    summary = summarise(storage.find(tmp_path))
    assert [one.label for one in summary.configurations] == ["dataset=Photos lr=0.25", "dataset=Photos lr=0.5"]
    assert [one.best.num_workers for one in summary.configurations if one.best] == [4, 4]
    assert summary.succeeded
    rows = storage.read_batches(tmp_path / "lr=0.5")
    assert [(row.num_workers, row.warm_up) for row in rows] == [
        (workers, number == 0) for workers in (0, 2, 4) for number in range(5)
    ]


def test_runs_are_read_as_they_were_written_and_a_broken_file_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, written in enumerate((run(0), run(2, **NOTHING))):
        storage.save_program_run(tmp_path, number, written)
    (tmp_path / storage.PROGRAM_RUNS / "2.json").write_text("{")
    assert storage.read_program_runs(tmp_path) == [run(0), run(2, **NOTHING)]
    assert "cannot be read" in caplog.text
