import pytest

from nws_sweep.analysis import answers
from nws_sweep.analysis.summary import summarise_record
from nws_sweep.records import BatchCost, Noise, SearchRecord, TrialState, Verdict
from tests.factories import (
    configuration,
    failed_trial,
    loader_settings,
    recorded_trial,
    search_result,
    search_rules,
    trial,
)

WAITING = recorded_trial(0, BatchCost(cpu_s=0.0, wait_s=0.25))
TWO = loader_settings(2)
TIED = Verdict(
    recommended=TWO,
    fastest=TWO,
    tied=(loader_settings(4),),
    seconds_to_decide=40.0,
    provisional=True,
)
LATE = failed_trial(2, "no batch within 57.0 s", TrialState.INTERRUPTED)


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (search_result(trial(0, 8.0), trial(2, 4.0)), "best: num_workers=2 (measured)"),
        (search_result(trial(0, 8.0), trial(2, 4.0), stop_reason="the limit was spent", verdict=TIED),
         "best so far: num_workers=2 (provisional: the limit was spent; num_workers=4 is statistically tied with 2; "
         "about 40.0 s more measurement should decide)"),
        (search_result(WAITING, LATE, configuration=configuration(search=search_rules((0, 1, 2), max_workers=2))),
         "undecided; predicted: num_workers=2, 2.0x as fast as 0; only num_workers=0 was measured: num_workers=2 was "
         "interrupted: no batch within 57.0 s"),
        (search_result(trial(0, 8.0), stop_reason=""),  # without records
         "undecided; only num_workers=0 was measured: the search did not finish; 1 candidate was measured"),
        (search_result(recorded_trial(0, BatchCost(cpu_s=1e-6, wait_s=0.0, copy_s=0.1)), stop_reason=""),
         "undecided; predicted: no gain over num_workers=0; only num_workers=0 was measured: the search did not"),
        (search_result(failed_trial(0)), "no candidate could be measured"),
    ],
)  # fmt: skip
def test_the_first_line_says_how_the_answer_was_found(
    result: SearchRecord, line: str
) -> None:
    assert summarise_record(result).configurations[0].headline.startswith(line)


@pytest.mark.parametrize(
    ("used", "line"),
    [
        ((0.0, 0.1), ""),
        ((1.65, 1.75), "other programs used 1.7 of 8 CPUs: times are of what was left"),
        (
            (0.2, 1.7, 1.0),
            "other programs used 0.2 to 1.7 of 8 CPUs: times are of what was left",
        ),
        ((), ""),
    ],
)
def test_the_load_is_one_sentence_with_its_share(
    used: tuple[float, ...], line: str
) -> None:
    trials = (
        trial(number, 8.0, noise=Noise(other_cpus=cpus))
        for number, cpus in enumerate(used)
    )
    assert answers.load([search_result(failed_trial(9), *trials)]) == line
