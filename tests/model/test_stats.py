"""Intervals against Student's distribution, values computed by hand and simulations
with a known truth."""

import math
import random

import numpy as np
import pytest

from nws_sweep.model import stats
from nws_sweep.model.stats import estimate_of, student_t_975
from nws_sweep.records import Estimate
from nws_sweep.searching.estimates import SEQUENTIAL
from tests.conftest import rounds
from tests.factories import loader_settings

CANDIDATES = [loader_settings().with_workers(n) for n in range(5)]


def test_95_per_cent_of_students_distribution_lie_within_the_quantile() -> None:
    for n in range(2, 201):
        t = student_t_975(n) * (np.arange(2000) + 0.5) / 2000
        density = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) * (
            1 + t**2 / n
        ) ** (-(n + 1) / 2)
        covered = 2 * student_t_975(n) * density.mean() / math.sqrt(math.pi * n)
        assert covered == pytest.approx(0.95, abs=1e-3 if n < 5 else 2e-5)


@pytest.mark.parametrize("freedom", [2.0, 3.5, 10.0, 100.0])
def test_students_probability_is_the_integral_of_its_density(freedom: float) -> None:
    for t in (-3.0, -0.5, 0.0, 1.0, 4.0):
        between = (np.arange(1000) + 0.5) / 1000 * t
        densities = [stats.student_t(u, freedom)[0] for u in between]
        probability = 0.5 + t * float(np.mean(densities))
        assert stats.student_t(t, freedom)[1] == pytest.approx(probability, abs=2e-3)


def test_an_interval_is_symmetrical_on_the_logarithm_and_unknown_without_a_half_width() -> (
    None
):
    assert estimate_of(2.0, math.log(2), 3) == Estimate(
        value=2.0, low=1.0, high=4.0, n=3
    )
    assert estimate_of(2.0, None, 1) == Estimate(value=2.0, low=None, high=None, n=1)
    assert estimate_of(0.0, 0.1, 3).low is None


def test_an_effect_of_a_round_is_no_difference_between_candidates() -> None:
    """The machine was half as fast in the second round, in which one candidate was
    measured and another was not."""
    times = ({0: 1.0, 1: 2.0}, {0: 3.0, 1: 6.0}, {1: 8.0})
    fit = stats.fit(dict(zip(CANDIDATES, times, strict=False)))
    first, second, third = (math.exp(log) for log in fit.logs.values())
    assert (second / first, third / first) == pytest.approx((3.0, 4.0), rel=0.03)
    assert math.exp(fit.effects[1] - fit.effects[0]) == pytest.approx(2.0, rel=0.03)


def test_the_spread_of_a_ratio_has_no_drift_and_the_spread_of_a_time_has() -> None:
    drift = (1.0, 1.5, 0.7, 1.1, 0.9, 1.3)
    usual, twice = CANDIDATES[:2]
    fit = stats.fit(
        {usual: dict(enumerate(drift)), twice: {n: 2 * s for n, s in enumerate(drift)}}
    )
    assert fit.spread(usual, twice) < 0.02
    assert fit.spread(usual) > 0.07


@pytest.mark.parametrize(("noise", "drift"), [(0.03, 0.0), (0.03, 0.06), (0.2, 0.1)])
def test_95_per_cent_intervals_of_times_and_ratios_cover_the_truth(
    noise: float, drift: float
) -> None:
    """Three to five candidates, of which some have one to three rounds only."""
    rng = random.Random(f"{noise}-{drift}")
    covered: dict[str, list[bool]] = {"times": [], "ratios": []}
    for _ in range(rounds(150)):
        effects = [rng.gauss(0.0, drift) for _ in range(7)]
        logs = [rng.gauss(0.0, 1.0) for _ in range(rng.choice((3, 4, 5)))]
        times = {}
        for place, log in enumerate(logs):
            begin = rng.choice((0, 1, 2)) if place > 1 else 0
            count = rng.choice((1, 2, 3, 4)) if place else 5
            numbers = range(begin, begin + count)
            times[CANDIDATES[place]] = {
                n: math.exp(log + effects[n] + rng.gauss(0.0, noise)) for n in numbers
            }
        fit = stats.fit(times)
        widened = SEQUENTIAL * fit.quantile
        first = CANDIDATES[0]
        for candidate, log in zip(CANDIDATES, logs, strict=False):
            covered["times"].append(
                abs(fit.logs[candidate] - log) <= widened * fit.spread(candidate)
            )
            if candidate != first:
                error = fit.logs[candidate] - fit.logs[first] - log + logs[0]
                covered["ratios"].append(
                    abs(error) <= widened * fit.spread(candidate, first)
                )
    for hits in covered.values():
        assert 0.91 <= sum(hits) / len(hits) <= 0.995
