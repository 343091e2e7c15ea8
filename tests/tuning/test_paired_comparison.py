from __future__ import annotations

import math
import random

import pytest

from nws_sweep.tuning.paired_comparison import Observation, PairedComparison, with_workers
from tests.factories import loader_settings

BASE = loader_settings(prefetch_factor=2)


def seen(workers: int, *costs: float, first_round: int = 0) -> Observation:
    """A candidate with these costs in consecutive rounds."""
    by_round = {first_round + number: cost for number, cost in enumerate(costs)}
    cost_s = math.exp(sum(map(math.log, costs)) / len(costs))
    settings = with_workers(BASE, workers)
    return Observation(settings=settings, cost_s=cost_s, by_round=by_round, spent_s=len(costs), may_continue=True)


def comparison(*observations: Observation) -> PairedComparison:
    return PairedComparison(observations, tolerance=0.03, precision=0.05)


def test_common_drift_is_no_difference() -> None:
    drift = (1.0, 1.5, 0.7, 1.1)
    one, other = seen(2, *drift), seen(4, *(0.9 * factor for factor in drift))
    log_ratio = comparison(one, other).log_ratio(one, other)
    assert log_ratio.value == pytest.approx(math.log(1 / 0.9))
    assert log_ratio.n == 4
    steady = seen(2, 1.0, 1.0, 1.0, 1.0), seen(4, 0.9, 0.9, 0.9, 0.9)
    assert log_ratio.half_width == pytest.approx(comparison(*steady).log_ratio(*steady).half_width)


def test_only_common_rounds_are_compared_and_without_any_the_interval_of_the_means_is_wider() -> None:
    early, late = seen(2, 1.0, 1.0, 8.0, 8.0), seen(4, 4.0, 4.0, first_round=2)
    assert comparison(early, late).log_ratio(early, late).value == pytest.approx(math.log(2))
    assert comparison(early, late).fastest is late  # although its mean is larger
    one, other = seen(2, 2.0, 2.0), seen(4, 1.0, 1.0, first_round=2)
    apart = comparison(one, other).log_ratio(one, other)
    together = seen(4, 1.0, 1.0)
    assert apart.value == pytest.approx(math.log(2))
    assert apart.n == 0
    assert apart.half_width > comparison(one, together).log_ratio(one, together).half_width


def test_intervals_narrow_with_rounds_and_with_the_noise_of_other_candidates() -> None:
    def half_width(*extra: Observation, rounds: int = 3) -> float:
        one, other = seen(2, *[1.0] * rounds), seen(4, *[0.99] * rounds)
        return comparison(one, other, *extra).log_ratio(one, other).half_width

    assert half_width(rounds=12) < half_width(rounds=6) < half_width()
    assert half_width(seen(3, 1.0, 1.0, 1.0), seen(5, 1.0, 1.0, 1.0)) < half_width()
    noisy = seen(3, 0.5, 2.0, 1.0)
    assert half_width(noisy) > half_width()


def test_the_cheapest_within_the_tolerance_is_recommended() -> None:
    found = comparison(seen(1, 1.10), seen(2, 1.02), seen(8, 1.0), seen(16, 1.001))
    assert (found.fastest.num_workers, found.recommended.num_workers) == (8, 2)
    equal = comparison(seen(4, 1.0), seen(2, 1.0))
    assert equal.fastest.num_workers == equal.recommended.num_workers == 2


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # More workers are eliminated if they cannot be faster by more than the tolerance,
        (seen(4, *[1.0] * 40), seen(2, *[1.0] * 40), True),
        (seen(4, *[1.0] * 3), seen(2, *[1.0] * 3), False),
        # fewer workers only if they are slower than the fastest by more than the tolerance.
        (seen(1, *[1.10] * 10), seen(2, *[1.0] * 10), True),
        (seen(1, *[1.02] * 10), seen(2, *[1.0] * 10), False),
        # One round decides only a large difference.
        (seen(1, 1.2), seen(2, 1.0), False),
        (seen(1, 2.2), seen(2, 1.0), True),
    ],
)
def test_a_candidate_that_is_certainly_not_the_best_is_eliminated(
    one: Observation, other: Observation, expected: bool
) -> None:
    assert comparison(one, other).is_eliminated(one) is expected
    assert not comparison(one, other).is_eliminated(comparison(one, other).recommended)


def test_ties_have_an_estimate_of_the_time_to_decide() -> None:
    clear = comparison(seen(0, *[3.0] * 5), seen(2, *[1.0] * 5)).verdict()
    assert (clear.recommended.num_workers, clear.tied, clear.seconds_to_decide) == (2, (), None)
    equal = comparison(seen(2, *[1.0] * 6), seen(4, *[0.99] * 6))  # by less than the precision
    assert (equal.is_negligible(equal.observations[1]), equal.verdict().tied) == (True, ())
    close = comparison(seen(2, 1.0, 1.0, 1.0), seen(4, 0.9, 1.05, 0.97)).verdict()
    assert close.recommended.num_workers == 2
    assert [settings.num_workers for settings in close.tied] == [4]
    assert close.seconds_to_decide is not None
    assert close.seconds_to_decide >= 2.0  # a round of both


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("rounds", [3, 6])
def test_the_interval_of_a_log_ratio_covers_the_truth(noise: float, rounds: int) -> None:
    rng = random.Random(f"{noise}-{rounds}")

    def covered() -> bool:
        truth = [0.0, 0.02, 0.3]
        drift = [rng.gauss(0.0, 0.3) for _ in range(rounds)]
        candidates = [
            seen(n, *(math.exp(truth[n] + d + rng.gauss(0.0, noise / math.sqrt(2))) for d in drift)) for n in range(3)
        ]
        log_ratio = comparison(*candidates).log_ratio(candidates[1], candidates[0])
        return log_ratio.low <= truth[1] <= log_ratio.high

    assert sum(covered() for _ in range(400)) >= 0.92 * 400
