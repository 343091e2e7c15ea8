from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.analysis import answers, what_if
from nws_sweep.analysis.answers import Answer
from nws_sweep.analysis.summary import best_of
from nws_sweep.records import (
    NO_STEP,
    BatchCost,
    Noise,
    SearchRecord,
    Trial,
    TrialState,
    Verdict,
)
from tests.factories import (
    configuration,
    failed_trial,
    loader_settings,
    measurement,
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


def sure(num_workers: int, epoch_s: float, half_width: float, **changes: Any) -> Trial:
    """A trial with half the interval of the logarithm of its ratio to the best."""
    times = measurement(epoch_s, ratio_half_width=half_width)
    return trial(num_workers, epoch_s, measurement=times, **changes)


PERSISTENT = loader_settings(2, persistent_workers=True)
MANY = replace(
    TIED, tied=(PERSISTENT, *map(loader_settings, (4, 8))), provisional=False
)


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (search_result(sure(0, 7.6, 0.15), trial(2, 4.0), sure(4, 4.0, 0.1), sure(8, 6.0, 0.1)),
         "num_workers=2   1.9 times as fast as 0 (1.6 to 2.2), as fast as 4"),
        # 4 takes longer, though its interval includes the time of 2
        (search_result(sure(0, 32.0, 0.7), trial(2, 4.0), sure(4, 5.0, 0.3)),
         "num_workers=2   4 to 16 times as fast as 0"),
        (search_result(trial(0, 4.0), sure(2, 10.0, 0.01), sure(4, 12.0, 0.01)),
         "num_workers=0   2.50 times as fast as 2 (2.48 to 2.53)"),
        (search_result(trial(2, 4.0), sure(2, 6.0, 0.02, settings=PERSISTENT)),
         "num_workers=2   1.50 times as fast as persistent_workers=true (1.47 to 1.53)"),
        (search_result(trial(4, 2.0), configuration=configuration(search=search_rules((4,)))),
         "num_workers=4   no other num_workers was measured"),
        (search_result(trial(0, 2.0), failed_trial(1)), "num_workers=0   nothing else could be measured"),
        (search_result(sure(0, 8.0, 0.02), trial(2, 4.0), trial(4, 4.0), verdict=replace(TIED, provisional=False)),
         "num_workers=2   2.00 times as fast as 0 (1.96 to 2.04); 4 may be as fast, about 40 s more decide"),
        (search_result(sure(0, 8.0, 0.02), trial(2, 4.0), stop_reason="the limit was spent", verdict=TIED),
         "num_workers=2 so far   2.00 times as fast as 0 (1.96 to 2.04); not certain: 4 may be as fast, about 40 s "
         "more decide"),
        # longer than the time limit of a search
        (search_result(sure(0, 8.0, 0.02), trial(2, 4.0), verdict=replace(MANY, seconds_to_decide=660.0),
                       configuration=configuration(search=search_rules((0, 2, 4, 8), time_limit_s=60.0))),
         "num_workers=2   2.00 times as fast as 0 (1.96 to 2.04); 4, 8 or persistent_workers=true may be as fast"),
        (search_result(sure(0, 8.0, 0.02), trial(2, 4.0), *(sure(n, 4.0, 0.1) for n in (3, 4, 8, 16, 32))),
         "num_workers=2   2.00 times as fast as 0 (1.96 to 2.04), as fast as 3, 4, 8 and 2 more"),
        (search_result(sure(0, 8.0, 0.02), trial(2, 4.0), stop_reason=""),
         "num_workers=2 so far   2.00 times as fast as 0 (1.96 to 2.04); not certain: the search did not finish"),
        (search_result(WAITING, LATE, configuration=configuration(search=search_rules((0, 1, 2), max_workers=2))),
         "undecided   only num_workers=0 was measured: num_workers=2 was interrupted: no batch within 57.0 s; 2 is "
         "predicted 2.0 times as fast as 0"),
        (search_result(trial(0, 8.0), stop_reason=""),  # without records
         "undecided   only num_workers=0 was measured: the search did not finish"),
        (search_result(recorded_trial(0, BatchCost(cpu_s=1e-6, wait_s=0.0, copy_s=0.1)), stop_reason=""),
         "undecided   only num_workers=0 was measured: the search did not finish; no other is predicted to be faster"),
        (search_result(failed_trial(0)), "nothing could be measured"),
        # the interval of the gain contains 1
        (search_result(sure(0, 6.0, 0.5), trial(2, 4.0)),
         "num_workers=2   0.9 to 2.5 times as fast as 0; not certain: 0 may be as fast"),
        # its ends are more than tenfold apart
        (search_result(sure(0, 6.0, 2.6), trial(2, 4.0)), "num_workers=2   not certain: 0 may be as fast"),
        (search_result(sure(0, 4.8, 0.2), trial(2, 4.0), verdict=replace(TIED, provisional=False)),
         "num_workers=2   1.2 times as fast as 0 (1.0 to 1.5); not certain: 0 or 4 may be as fast"),
        (search_result(trial(0, 4.0), sure(2, 4.0, 0.02)), "num_workers=0   as fast as 2 (0.98 to 1.02)"),
    ],
)  # fmt: skip
def test_the_first_line_has_the_settings_their_gain_and_what_may_change_them(
    result: SearchRecord, line: str
) -> None:
    best = best_of(result)
    predictions = what_if.of(result, best)
    assert answers.line_of_search(result, best, predictions) == line


def test_without_a_training_step_the_gain_is_that_of_loading() -> None:
    trials = trial(2, 4.0), sure(0, 7.6, 0.15)
    without = configuration(training_step={"_target_": NO_STEP})
    result = search_result(*trials, configuration=without)
    line = answers.line_of_search(result, best_of(result))
    assert line == "num_workers=2   loads 1.9 times as fast as 0 (1.6 to 2.2)"


def test_an_answer_has_a_line_for_each_part_that_is_known() -> None:
    assert Answer(
        answer="num_workers=2", why="the CPUs are busy", remedies=("a", "b"), cost="6 s"
    ).lines == [
        "num_workers=2",
        "why    the CPUs are busy",
        "next   a; b",
        "cost   6 s",
    ]


def test_the_cost_is_told_in_seconds_and_epochs_of_the_best() -> None:
    result = search_result(trial(2, 3.5))
    assert answers.cost_of(result, result.trials[0]) == "8.0 s, 2.3 epochs"
    assert answers.cost_of(replace(result, cost_s=0.0), None) == ""


@pytest.mark.parametrize(
    ("used", "line"),
    [
        ((0.0, 0.1), ""),
        ((1.65, 1.75), "other programs used 1.7 of 8 CPUs: measure again without them"),
        (
            (0.2, 1.7, 1.0),
            "other programs used 0.2 to 1.7 of 8 CPUs: measure again without them",
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
