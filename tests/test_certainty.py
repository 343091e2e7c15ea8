"""How sure an answer is, in a sentence."""

from __future__ import annotations

from dataclasses import replace

from nws_sweep.certainty import certainty
from nws_sweep.records import SearchRecord, Trial, Verdict
from tests.factories import estimate, failed_trial, measurement, search_result, summary_of_run, trial


def told(record: SearchRecord) -> str:
    (configuration,) = summary_of_run(record).configurations
    return certainty(configuration)


def precise(num_workers: int, epoch_s: float, share: float = 0.01) -> Trial:
    batch_s = epoch_s / 65
    batch = replace(estimate(batch_s), low=batch_s / (1 + share), high=batch_s * (1 + share))
    return trial(num_workers, epoch_s, measurement=measurement(epoch_s, batch_s=batch))


def test_a_clear_answer_is_sure() -> None:
    text = told(search_result(precise(0, 4.0), precise(2, 2.0), precise(4, 2.5)))
    assert text == "Sure: the nearest other, num_workers=4, takes 25 % longer."


def test_intervals_that_overlap_make_it_probable() -> None:
    text = told(search_result(precise(0, 4.0, 0.3), precise(2, 3.5, 0.3)))
    assert text == "Probably (the intervals overlap): the nearest other, num_workers=0, takes 14 % longer."


def test_without_intervals_it_is_probable() -> None:
    whole = [trial(n, s, measurement=measurement(s, batch_s=None)) for n, s in ((0, 4.0), (2, 2.0))]
    assert told(search_result(*whole)).startswith("Probably (without an interval: too few bursts): ")


def test_a_faster_candidate_within_the_tolerance_is_named() -> None:
    text = told(search_result(precise(2, 2.02), precise(4, 2.0)))
    assert text == "num_workers=4 takes 1.0 % less time; within 3 % fewer workers are preferred."


def test_what_makes_it_unsure_comes_first() -> None:
    trials = (precise(0, 4.0), precise(2, 2.0))
    best, other = trials[1].settings, trials[0].settings
    verdict = Verdict(recommended=best, fastest=best)
    assert told(search_result(*trials, verdict=replace(verdict, provisional=True))).startswith(
        "Not sure: the search was"
    )
    tied = told(search_result(*trials, verdict=replace(verdict, tied=(other,), settle_s=3.0)))
    assert tied.startswith("Not sure: num_workers=0 may be as good as 2 or better")
    assert told(search_result(*trials, stop_reason="")) == "Not sure: the search did not finish."


def test_a_single_candidate_and_none_have_little_to_say() -> None:
    assert told(search_result(precise(2, 2.0))).startswith("Nothing to compare it with")
    assert told(search_result(failed_trial(0))) == ""
