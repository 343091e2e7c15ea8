from __future__ import annotations

import math
import random
import statistics

import pytest
import scipy.stats

from nws_sweep.stats import estimate_mean, student_t_975


@pytest.mark.parametrize("degrees_of_freedom", range(2, 201))
def test_the_quantile_is_that_of_scipy(degrees_of_freedom: int) -> None:
    assert student_t_975(degrees_of_freedom) == pytest.approx(scipy.stats.t.ppf(0.975, degrees_of_freedom), rel=1e-4)


@pytest.mark.parametrize("degrees_of_freedom", [1, 0, -3])
def test_fewer_than_two_degrees_of_freedom_are_refused_with_their_number(degrees_of_freedom: int) -> None:
    with pytest.raises(ValueError, match=rf"at least 2, got {degrees_of_freedom}$"):
        student_t_975(degrees_of_freedom)


@pytest.mark.parametrize("burst_means", [[], [0.5], [0.5, 0.25]])
def test_below_three_bursts_there_is_a_value_but_no_interval(burst_means: list[float]) -> None:
    estimate = estimate_mean(burst_means, overall=0.375)
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (0.375, None, None, len(burst_means))


def test_three_bursts_have_an_interval_as_computed_by_hand() -> None:
    estimate = estimate_mean([1.0, 2.0, 4.0], overall=7 / 3)
    # The logarithms are 0, ln 2 and 2 ln 2: their standard deviation is ln 2, and t is 4.3027 for 2 degrees of freedom.
    factor = 2 ** (4.3027 / math.sqrt(3))
    assert estimate.value == 7 / 3
    assert estimate.low == pytest.approx(7 / 3 / factor)
    assert estimate.high == pytest.approx(7 / 3 * factor)
    assert estimate.n == 3


def test_a_burst_that_took_no_time_leaves_the_interval_undefined() -> None:
    estimate = estimate_mean([0.0, 0.5, 0.5, 0.5], overall=0.375)
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (0.375, None, None, 4)


def test_equal_bursts_have_an_interval_of_no_width() -> None:
    estimate = estimate_mean([0.5] * 5, overall=0.5)
    assert (estimate.low, estimate.value, estimate.high) == (0.5, 0.5, 0.5)


def test_the_interval_contains_the_value_and_reaches_as_far_down_as_up_on_the_log_scale() -> None:
    estimate = estimate_mean([0.9, 1.0, 1.3, 1.1], overall=1.05)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 < estimate.low < estimate.value < estimate.high
    assert math.log(estimate.value / estimate.low) == pytest.approx(math.log(estimate.high / estimate.value))


def test_other_units_of_time_scale_the_value_and_both_ends() -> None:
    means = [0.9, 1.0, 1.3, 1.1]
    in_seconds = estimate_mean(means, overall=1.05)
    in_milliseconds = estimate_mean([1000 * mean for mean in means], overall=1050)
    assert in_seconds.low is not None
    assert in_seconds.high is not None
    assert in_milliseconds.value == pytest.approx(1000 * in_seconds.value)
    assert in_milliseconds.low == pytest.approx(1000 * in_seconds.low)
    assert in_milliseconds.high == pytest.approx(1000 * in_seconds.high)


def test_more_bursts_of_the_same_spread_narrow_the_interval() -> None:
    few, many = estimate_mean([0.9, 1.1] * 2, overall=1.0), estimate_mean([0.9, 1.1] * 20, overall=1.0)
    assert few.high is not None
    assert many.high is not None
    assert 1 < many.high < 1.05 < few.high


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    noise = random.Random(7)
    spread, truth, runs, covered = 0.05, 0.02, 3000, 0
    for _ in range(runs):
        means = [truth * math.exp(noise.gauss(-(spread**2) / 2, spread)) for _ in range(5)]
        estimate = estimate_mean(means, overall=statistics.fmean(means))
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= truth <= estimate.high
    assert 0.92 < covered / runs < 0.98
