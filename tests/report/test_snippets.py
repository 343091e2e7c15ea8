from nws_sweep.records import TrialState
from nws_sweep.report import snippets
from tests.factories import (
    configuration,
    failed_trial,
    search_result,
    summary_of_grid,
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
    assert failed == ["photos", "x", "failed", *"-----"]
    found = summary_of_grid(
        search_result(trial(0, 8.0)),
        search_result(trial(0, 8.0), columns={"training_step.ms": 5}),
    )
    assert [row[:2] for row in snippets.best_table(found)[1:]] == [
        ["photos", "-"],
        ["photos", "5"],
    ]


def test_cells_of_a_markdown_table_are_escaped_and_stay_on_one_line() -> None:
    table = snippets.markdown_table([["a|b"], ["<script>"], ["two\nlines"]])
    assert table == "| a\\|b      |\n|-----------|\n| <script>  |\n| two lines |\n"


def test_a_mismeasured_candidate_has_its_reason_and_no_times_in_the_progress() -> None:
    wrong = trial(
        4, 16.0, state=TrialState.MISMEASURED, reason="7 ms a batch is impossible"
    )
    line = snippets.trial_line(wrong, configuration())
    assert line == "num_workers=4   mismeasured: 7 ms a batch is impossible"
