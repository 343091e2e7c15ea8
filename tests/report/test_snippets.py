from dataclasses import replace

from nws_sweep.records import BatchCost, TrialState
from nws_sweep.report import snippets
from tests.factories import (
    failed_trial,
    measurement,
    recorded_trial,
    search_result,
    summary_of_grid,
    summary_of_run,
    trial,
)


def test_what_a_configuration_lacks_is_a_dash_and_failed_what_could_not_be_measured() -> (
    None
):
    found = summary_of_grid(
        search_result(trial(0, 8.0), columns={"pin_memory": True}),
        search_result(failed_trial(0), columns={"pin_memory": "x"}),
    )
    header, _, failed = snippets.best_table(found)
    assert header[-1] == "vs CPU count"  # none was measured
    assert failed == ["x", "failed", *"-----"]
    found = summary_of_grid(
        search_result(trial(0, 8.0)),
        search_result(trial(0, 8.0), columns={"training_step.ms": 5}),
    )
    assert [row[:2] for row in snippets.best_table(found)[1:]] == [
        ["-", "0"],
        ["5", "0"],
    ]


def test_cells_of_a_markdown_table_are_escaped_and_stay_on_one_line() -> None:
    table = snippets.markdown_table([["a|b"], ["<script>"], ["two\nlines"]])
    assert table == "| a\\|b      |\n|-----------|\n| <script>  |\n| two lines |\n"


def test_figures_of_a_table_are_those_of_the_pictures_and_of_settings_with_a_time() -> (
    None
):
    found = summary_of_run(
        search_result(trial(0, 32.0), trial(2, 8.0), failed_trial(4))
    )
    assert snippets.measured_table(found.configurations[0]) == [
        # without the memory, which is equal
        ["num_workers", "per batch", "samples/s", "epoch", "start-up"],
        ["0", "about 190 to 400 ms", "about 170 to 340", "about 24 to 50 s", "16 s"],
        ["2", "about 50 to 90 ms", "about 700 to 1400", "about 6 to 12 s", "4.0 s"],
    ]
    assert round(found.configurations[0].best_rate) == 1024


def test_an_epoch_without_a_steady_pace_has_no_time_per_batch() -> None:
    """Two workers have a queue of four batches."""
    for batches, batch in ((7, "-"), (8, "about 50 to 90 ms")):
        short = replace(trial(2, 8.0), batches=batches)
        assert snippets.of_trial(short, search_result(short)).batch == batch


def test_below_the_table_of_a_grid_are_what_is_not_certain_and_each_cause_once() -> (
    None
):
    slow = recorded_trial(0, BatchCost(cpu_s=0.25, wait_s=0.0))
    waiting = recorded_trial(0, BatchCost(cpu_s=0.0, wait_s=0.25))
    found = summary_of_grid(
        *(
            search_result(measured, columns={"batch_size": size, "pin_memory": pinned})
            for size, measured in ((64, slow), (128, waiting))
            for pinned in (True, False)
        )
    )
    first, second, cost = snippets.rows_of(found)
    assert first == (
        "why",
        "batch_size=64, pin_memory true or false: num_workers=0, as no single cost "
        "limits: removing any saves less than a tenth of the epoch",
    )
    assert second[1].startswith(
        "batch_size=128, pin_memory true or false: num_workers=0, as loading waits: "
    )
    assert cost == ("cost", "32 s")
    alike = summary_of_grid(
        search_result(slow, columns={"batch_size": 64}),
        search_result(slow, columns={"batch_size": 128}, stop_reason="", cost_s=0.0),
    )
    labels = [label for label, _ in snippets.rows_of(alike)]
    assert labels == ["note", "why", "cost"]
    many = [
        search_result(
            trial(0, 8.0),
            failed_trial(1, reason=f"{size} samples broke"),
            columns={"batch_size": size},
        )
        for size in range(8)
    ]
    *_, more, _ = snippets.rows_of(summary_of_grid(*many))
    assert more == ("note", "5 more, in the report")


def test_a_mismeasured_candidate_has_no_times_in_the_progress_and_its_reason_at_the_end() -> (
    None
):
    wrong = trial(
        4, 16.0, state=TrialState.MISMEASURED, reason="7 ms a batch is impossible"
    )
    line = snippets.trial_line(wrong, search_result(wrong))
    assert line == "num_workers=4 mismeasured"
    failures = summary_of_run(
        search_result(trial(0, 8.0), failed_trial(1), failed_trial(2), wrong)
    ).failures
    assert failures == (
        "dataset=photos num_workers=1, 2: failed: it broke",
        "dataset=photos num_workers=4: mismeasured: 7 ms a batch is impossible",
    )


def test_a_grid_tells_which_gains_may_be_none() -> None:
    unclear = trial(0, 6.0, measurement=measurement(6.0, ratio_half_width=0.5))
    found = summary_of_grid(
        search_result(unclear, trial(2, 4.0), columns={"batch_size": 64}),
        search_result(trial(4, 4.0), columns={"batch_size": 128}),
    )
    column = snippets.best_table(found)[0].index("num_workers")
    rows = snippets.best_table(found)[1:]
    assert [row[column] for row in rows] == ["2, not certain", "4"]
    assert snippets.rows_of(found)[0] == (
        "note",
        "batch_size=64: not certain: 0 may be as fast",
    )


def test_a_grid_tells_once_what_takes_several_answers_back() -> None:
    failed = [failed_trial(1), failed_trial(2)]
    unclear = trial(0, 6.0, measurement=measurement(6.0, ratio_half_width=0.5))
    unclear_at_64 = [
        search_result(
            unclear,
            trial(2, 4.0),
            columns={"batch_size": 64, "pin_memory": is_pinned},
        )
        for is_pinned in (True, False)
    ]
    without_workers = [
        search_result(
            trial(0, 6.0), *failed, columns={"batch_size": 128, "pin_memory": is_pinned}
        )
        for is_pinned in (True, False)
    ]
    open_at_64, failed_at_128, *_ = snippets.rows_of(
        summary_of_grid(*unclear_at_64, *without_workers)
    )
    assert open_at_64 == (
        "note",
        "batch_size=64, pin_memory true or false: not certain: 0 may be as fast",
    )
    assert failed_at_128 == (
        "note",
        "batch_size=128, pin_memory true or false: every num_workers above 0 failed: "
        "it broke",
    )
    first, *_ = snippets.rows_of(summary_of_grid(*without_workers))
    assert first == ("note", "every num_workers above 0 failed: it broke")
