"""Intervals against Student's distribution and values computed by hand."""

import math

import numpy as np
import pytest

from nws_sweep.results import Estimate
from nws_sweep.searching.stats import estimate_mean, half_width, student_t_975


def test_95_per_cent_of_students_distribution_lie_within_the_quantile() -> None:
    for n in range(2, 201):
        t = student_t_975(n) * (np.arange(2000) + 0.5) / 2000
        density = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) * (1 + t**2 / n) ** (-(n + 1) / 2)
        covered = 2 * student_t_975(n) * density.mean() / math.sqrt(math.pi * n)
        assert covered == pytest.approx(0.95, abs=2e-5)


@pytest.mark.parametrize("window_means", [[], [0.5], [0.5, 0.25], [0.0, 0.5, 0.5, 0.5]])
def test_below_three_windows_or_with_a_time_of_zero_there_is_no_interval(window_means: list[float]) -> None:
    found = estimate_mean(window_means, 0.375)
    assert found == Estimate(value=0.375, low=None, high=None, n=len(window_means))
    assert half_width(found) == math.inf


# The logarithms are 0, ln 2 and 2 ln 2: their standard deviation is ln 2, and t is 4.3027 for 2 degrees of freedom.
@pytest.mark.parametrize(
    ("means", "overall", "factor"),
    [([1.0, 2.0, 4.0], 7 / 3, 2 ** (4.3027 / math.sqrt(3))), ([1e3, 2e3, 4e3], 7e3 / 3, 2 ** (4.3027 / math.sqrt(3))),
     ([0.5] * 5, 0.5, 1.0)],
)  # fmt: skip
def test_the_interval_is_that_computed_by_hand_in_any_unit(means: list[float], overall: float, factor: float) -> None:
    estimate = estimate_mean(means, overall)
    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((overall / factor, overall, overall * factor))
    assert estimate.n == len(means)
    assert half_width(estimate) == pytest.approx(factor - 1)
    assert half_width(estimate_mean(means, overall, widened_by=2.0)) == pytest.approx(factor**2 - 1)
