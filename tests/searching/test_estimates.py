import math
import random
import statistics
from dataclasses import replace

import pytest

from nws_sweep.searching.estimates import Estimates, is_undecided
from nws_sweep.searching.observations import Observation
from tests.factories import loader_settings

BASE = loader_settings(prefetch_factor=2)


def seen(workers: int, *costs: float, first_round: int = 0) -> Observation:
    """A candidate with these costs in consecutive rounds."""
    paces_s = {first_round + number: cost for number, cost in enumerate(costs)}
    cost_s = math.exp(sum(map(math.log, costs)) / len(costs))
    settings = BASE.with_workers(workers)
    return Observation(
        settings=settings,
        cost_s=cost_s,
        paces_s=paces_s,
        spent_s=len(costs),
        may_continue=True,
    )


def estimates(*observations: Observation) -> Estimates:
    return Estimates(
        {observation.settings: observation for observation in observations},
        tolerance=0.03,
    )


def ratio(found: Estimates, one: int, other: int) -> float:
    return (
        found.costs_s[BASE.with_workers(one)] / found.costs_s[BASE.with_workers(other)]
    )


def ratio_width(found: Estimates, workers: int) -> float:
    return found.comparison(BASE.with_workers(workers)).ratio_half_width or math.nan


def test_a_drift_that_affects_all_candidates_of_a_round_is_no_difference_and_no_noise() -> (
    None
):
    drift = (1.0, 1.5, 0.7, 1.1)
    found = estimates(seen(2, *drift), seen(4, *(0.9 * factor for factor in drift)))
    assert ratio(found, 4, 2) == pytest.approx(0.9)
    steady = estimates(seen(2, 1.0, 1.0, 1.0, 1.0), seen(4, 0.9, 0.9, 0.9, 0.9))
    assert ratio_width(found, 2) < 3 * ratio_width(steady, 2)


def test_candidates_without_a_common_round_are_compared_by_way_of_others() -> None:
    """The machine was half as fast in the second round."""
    both = [seen(n, 0.5, 1.0) for n in (2, 3, 5)]
    found = estimates(seen(1, 1.0), *both, seen(4, 0.5, first_round=1))
    # 0.25 by the common candidates, 0.5 by the figures
    assert 0.25 <= ratio(found, 4, 1) < 0.35


def test_a_candidate_without_rounds_keeps_its_cost() -> None:
    resumed = Observation(settings=BASE.with_workers(8), cost_s=0.7)
    found = estimates(seen(2, 1.0, 1.2), resumed)
    assert found.costs_s[resumed.settings] == 0.7
    assert found.answer == resumed.settings


def test_the_loss_falls_with_rounds_and_grows_with_the_noise() -> None:
    def loss(*extra: Observation, rounds: int = 3) -> float:
        return estimates(
            seen(2, *[1.0] * rounds), seen(4, *[0.99] * rounds), *extra
        ).loss(BASE.with_workers(4))

    assert loss(rounds=12) < loss(rounds=6) < loss()
    assert loss(seen(3, 1.2, 1.2, 1.2), seen(5, 1.2, 1.2, 1.2)) < loss()
    assert loss(seen(3, 0.8, 2.0, 1.5)) > loss()
    assert estimates(seen(2, 1.0)).loss(BASE.with_workers(2)) == 0.0


def test_ties_have_an_estimate_of_the_time_to_decide() -> None:
    clear = estimates(seen(0, *[3.0] * 5), seen(2, *[1.0] * 5)).verdict()
    assert (clear.recommended.num_workers, clear.tied, clear.seconds_to_decide) == (
        2,
        (),
        None,
    )
    close = estimates(seen(2, 1.0, 1.0, 1.0), seen(4, 0.85, 1.15, 1.0)).verdict()
    assert close.recommended.num_workers == 2
    assert [settings.num_workers for settings in close.tied] == [4]
    assert close.seconds_to_decide is not None
    assert close.seconds_to_decide >= 2.0  # a round of both


@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_the_loss_that_is_expected_is_about_the_loss_that_is_met(noise: float) -> None:
    """Four candidates of nearly equal price in four rounds with drift."""
    rng, expected, met = random.Random(str(noise)), [], []
    for _ in range(300):
        truth = {
            n: math.exp(rng.gauss(0.0, 0.05)) / 1.03 ** math.log2(1 + n)
            for n in (1, 2, 4, 8)
        }
        drift = [rng.gauss(0.0, noise) for _ in range(4)]
        found = estimates(
            *(
                seen(n, *(s * math.exp(d + rng.gauss(0.0, noise)) for d in drift))
                for n, s in truth.items()
            )
        )
        expected.append(max(map(found.loss, found.costs_s)))
        price = {n: s * 1.03 ** math.log2(1 + n) for n, s in truth.items()}
        met.append(price[found.answer.num_workers] / min(price.values()) - 1)
    assert statistics.fmean(met) == pytest.approx(
        statistics.fmean(expected), rel=0.6, abs=0.01
    )


def test_a_candidate_that_was_eliminated_without_an_interval_is_not_the_answer() -> (
    None
):
    steady = seen(4, 1.0, 1.0, 1.0)
    early = seen(2, 0.9)
    assert estimates(early, steady).answer == early.settings
    found = estimates(replace(early, may_continue=False, was_ended=True), steady)
    assert (found.answer, found.fastest) == (steady.settings, steady.settings)
    late = replace(seen(2, 0.9, 0.9, 0.9), may_continue=False, was_ended=True)
    assert estimates(late, steady).answer == late.settings


def test_rounds_of_one_candidate_alone_do_not_make_the_noise_grow() -> None:
    both = [seen(2, 1.0, 1.05, 0.95), replace(seen(4, 0.9), may_continue=False)]
    alone = [0.95, 1.05, 1.1, 0.9] * 5
    longer, shorter = (
        estimates(*both, seen(3, *rounds, first_round=3))
        for rounds in (alone, alone[:4])
    )
    assert ratio_width(longer, 2) < 1.5 * ratio_width(shorter, 2)


def test_one_slow_round_is_repeated_unless_it_is_far_behind_and_not_next_to_the_answer() -> (
    None
):
    answer = seen(4, 1.0, 1.0, 1.0)
    for workers, cost, is_repeated in (
        (2, 1.3, True),
        (2, 1.5, False),
        (8, 1.5, True),
        (9, 1.5, False),
    ):
        once, twice = (
            seen(workers, cost, first_round=2),
            seen(workers, cost, cost, first_round=1),
        )
        assert is_undecided(once, estimates(answer, once)) == is_repeated
        # an epoch that is not short
        whole = replace(once, batches=10, timed_s=10 * cost)
        assert not is_undecided(whole, estimates(answer, whole))
        assert not is_undecided(twice, estimates(answer, twice))


def test_one_round_is_repeated_if_workers_that_filled_the_queue_may_be_fast() -> None:
    """They made 2.5 times the batches that were taken, as behind a late batch."""
    answer = seen(4, 1.0, 1.0, 1.0)
    for cost, bias_bound, is_repeated in (
        (3.0, 0.0, False),
        (3.0, 1.5, True),
        (4.0, 1.5, False),
    ):
        filling = replace(seen(9, cost, first_round=2), bias_bound=bias_bound)
        assert is_undecided(filling, estimates(answer, filling)) == is_repeated


def test_a_candidate_of_which_one_round_was_disturbed_has_a_third_however_far_behind() -> (
    None
):
    answer = seen(4, 1.0, 1.0, 1.0)
    for costs, is_repeated in (
        ((3.0, 8.0), True),
        ((3.0, 3.3), False),
        ((3.0, 8.0, 3.0), False),
    ):
        slow = seen(0, *costs)
        assert is_undecided(slow, estimates(answer, slow)) == is_repeated
        whole = replace(slow, batches=1, timed_s=20.0)  # epochs that are not short
        assert not is_undecided(whole, estimates(answer, whole))


def test_the_interval_of_a_candidate_has_the_noise_of_all_rounds_and_is_narrower_with_more() -> (
    None
):
    once, often = seen(0, 2.0), seen(4, 1.0, 1.05, 0.95)
    steady, disturbed = (
        estimates(once, often),
        estimates(once, often, seen(2, 1.5, 4.0)),
    )

    def width(found: Estimates, of: Observation) -> float:
        return found.half_width(of.settings) or math.nan

    assert width(steady, once) == pytest.approx(
        math.sqrt(3) * width(steady, often), rel=0.1
    )
    assert width(disturbed, once) > 5 * width(steady, once)


@pytest.mark.parametrize(
    ("ended", "continued"), [((1.0, 1.4, 0.7), (1.3, 0.8, 0.95)), ((1.1,), (1.0, 1.2))]
)
def test_no_round_decides_against_one_that_has_ended(
    ended: tuple[float, ...], continued: tuple[float, ...]
) -> None:
    for one, other in (
        (seen(4, *ended), seen(8, *continued)),
        (seen(8, *ended), seen(4, *continued)),
    ):
        pair = replace(one, may_continue=False), other
        assert any(is_undecided(each, estimates(one, other)) for each in (one, other))
        assert not any(is_undecided(each, estimates(*pair)) for each in pair)
