from __future__ import annotations

import math
import random
import statistics

import pytest
import scipy.stats

from nws_sweep.stats import estimate_mean, outliers, slope, student_t_975


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


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([0, 1], [5, 7], 2.0),
        ([0, 1, 2], [0, 0, 3], 1.5),
        ([4, 0, 2], [-8, 0, -4], -2.0),
        ([1, 2, 3, 4], [7, 7, 7, 7], 0.0),
        ([3, 3, 3], [1, 2, 3], 0.0),
        ([10**9, 10**9 + 1], [10**12, 10**12 + 3], 3.0),
    ],
)
def test_the_slope_is_that_of_the_line_of_least_squares(x: list[float], y: list[float], expected: float) -> None:
    assert slope(x, y) == pytest.approx(expected)


def test_the_slope_is_that_of_scipy() -> None:
    noise = random.Random(3)
    x = [noise.uniform(0, 10) for _ in range(50)]
    y = [3 * value + noise.gauss(0, 2) for value in x]
    assert slope(x, y) == pytest.approx(scipy.stats.linregress(x, y).slope)


def test_a_slope_of_unequally_many_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="argument"):
        slope([1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ()),
        ([1.0, 1.0, 1.0, 9.0], ()),
        ([1.0, 1.0, 1.0, 1.0, 9.0], (4,)),
        ([0.1, 1.0, 1.01, 0.99, 1.02, 1.0], (0,)),
        ([9.0, 1.0, 1.01, 0.99, 1.02, 0.1], (0, 5)),
        ([1.0, 1.0, 1.0, 1.0, 1.09], ()),
        ([1.0, 1.0, 1.0, 1.0, 1.11], (4,)),
        ([1.0, 1.0, 1.0, 1.0, 1 / 1.11], (4,)),
        ([1.0, 2.0, 4.0, 8.0, 16.0], ()),
        ([1.0, 1.0, 1.0, 0.0, 9.0], ()),
        ([1.0, 1.0, 1.0, -1.0, 9.0], ()),
        ([1.0] * 6, ()),
    ],
)
def test_outliers_are_far_from_the_others_and_by_more_than_a_tenth(
    values: list[float], expected: tuple[int, ...]
) -> None:
    assert outliers(values) == expected


def test_the_modified_z_score_decides_as_computed_by_hand() -> None:
    # The median of the logarithms is 0, their median absolute deviation 0.1: the limit is 3.5 x 0.1 / 0.6745 = 0.5189.
    near = [math.exp(value) for value in (-0.2, -0.1, 0.0, 0.1, 0.51)]
    far = [math.exp(value) for value in (-0.2, -0.1, 0.0, 0.1, 0.53)]
    assert (outliers(near), outliers(far)) == ((), (4,))


def test_other_units_and_another_order_label_the_same_values() -> None:
    values = [0.011, 0.0104, 0.05, 0.01, 0.0099, 0.0101]
    assert outliers(values) == outliers([1000 * value for value in values]) == (2,)
    assert outliers(values[::-1]) == (3,)


def test_even_times_are_seldom_called_outliers() -> None:
    noise = random.Random(11)
    labelled = sum(len(outliers([math.exp(noise.gauss(0, 0.2)) for _ in range(20)])) for _ in range(500))
    assert labelled / 10_000 < 0.01
