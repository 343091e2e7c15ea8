"""The rule that chooses settings, on random times."""

import math
import random

import numpy as np
import pytest

from nws_sweep.model import choice
from nws_sweep.model.queue import QueueSettings

TOLERANCE = 0.03
NUMBERS = (*range(65), 76, 91, 108, 128, 152, 181, 215)


def queue(num_workers: int, prefetch_factor: int = 2) -> QueueSettings:
    return QueueSettings(
        num_workers=num_workers, cpus=2.0, prefetch_factor=prefetch_factor
    )


def prices(costs_s: dict[QueueSettings, float]) -> dict[QueueSettings, float]:
    return {
        one: choice.price(cost_s, one.num_workers, TOLERANCE)
        for one, cost_s in costs_s.items()
    }


def random_costs(draw: random.Random) -> dict[QueueSettings, float]:
    """Times of random settings without any shape."""
    some = {
        queue(draw.choice(NUMBERS), draw.choice((1, 2, 4, 8)))
        for _ in range(draw.randint(1, 12))
    }
    return {
        one: math.exp(draw.gauss(0.0, draw.choice((0.01, 0.1, 1.0)))) for one in some
    }


def test_each_doubling_of_the_workers_must_save_the_tolerance() -> None:
    priced = [
        choice.price(2.0, num_workers, TOLERANCE) for num_workers in (0, 1, 7, 63)
    ]
    assert priced == pytest.approx(
        [2.0 * 1.03**doublings for doublings in (0, 1, 3, 6)]
    )


@pytest.mark.parametrize("seed", range(50))
def test_the_answer_is_the_smallest_of_those_whose_price_is_close_to_the_least(
    seed: int,
) -> None:
    costs_s = random_costs(random.Random(seed))
    answer, priced = choice.choose(costs_s, TOLERANCE), prices(costs_s)
    assert priced[answer] <= 1.01 * min(priced.values())
    smaller = [one for one in costs_s if choice.size(one) < choice.size(answer)]
    assert all(priced[one] > 1.01 * min(priced.values()) for one in smaller)
    # The unit of time and the order of the settings do not matter, nor do settings
    # that are dearer and larger.
    shuffled = dict(random.Random(seed).sample([*costs_s.items()], len(costs_s)))
    assert (
        choice.choose(
            {one: 1000 * cost_s for one, cost_s in shuffled.items()}, TOLERANCE
        )
        == answer
    )
    worse = {
        queue(one.num_workers + 1): 1.02 * cost_s for one, cost_s in costs_s.items()
    }
    assert choice.choose(worse | costs_s, TOLERANCE) == answer


@pytest.mark.parametrize("seed", range(50))
def test_only_what_promises_to_save_is_measured_and_never_what_was_measured(
    seed: int,
) -> None:
    draw = random.Random(seed)
    measured_s, predicted_s = random_costs(draw), random_costs(draw)
    chosen = choice.promising(measured_s, predicted_s, TOLERANCE)
    least = min(prices(measured_s).values())
    promised = {
        one: found
        for one, found in prices(predicted_s).items()
        if one not in measured_s
    }
    if chosen is None:
        assert all(found > 0.96 * least for found in promised.values())
    else:
        assert chosen not in measured_s
        assert promised[chosen] <= 0.97 * least
    assert choice.promising({}, predicted_s, TOLERANCE) == choice.choose(
        predicted_s, TOLERANCE
    )
    assert choice.promising(measured_s, {}, TOLERANCE) is None


def test_more_workers_than_usual_are_tried_only_if_the_last_doubling_gained_a_fifth() -> (
    None
):
    assert choice.most_workers(2, {}) == 64
    assert choice.most_workers(128, {}) == 128
    assert choice.most_workers(2, {queue(32): 1.0, queue(64): 0.79}) == 128
    assert choice.most_workers(2, {queue(32): 1.0, queue(64): 0.81}) == 64
    # two doublings
    assert choice.most_workers(2, {queue(16): 1.0, queue(64): 0.63}) == 128
    assert choice.most_workers(2, {queue(8): 1.0, queue(16): 0.5}) == 64
    assert (
        choice.most_workers(2, {queue(32): 1.0, queue(64): 0.7, queue(128): 0.69})
        == 128
    )
    # six doublings, a fifth each
    assert choice.most_workers(2, {queue(0): 8.0, queue(80): 2.0}) == 80
    assert choice.most_workers(2, {queue(0): 8.0, queue(80): 1.8}) == 160


@pytest.mark.parametrize("freedom", [3.0, 5.0, 50.0])
@pytest.mark.parametrize("excess", [-0.2, -0.05, 0.0, 0.1])
def test_the_loss_is_the_mean_of_what_other_settings_save(
    excess: float, freedom: float
) -> None:
    drawn = np.random.default_rng(0).standard_t(freedom, 500_000)
    saved = np.maximum(0.0, excess + 0.1 * drawn).mean()
    loss = choice.expected_loss(excess, 0.1, freedom)
    assert loss == pytest.approx(saved, rel=0.03)
    assert choice.expected_loss(excess, 0.0, freedom) == max(0.0, excess)
