"""The model of a loader: predictions, and the fit to measurements."""

from __future__ import annotations

import random

import pytest

from nws_sweep.results import Estimate
from nws_sweep.tuning.bottleneck import Forecast, Measured, Profile, ScalingFit, scaling_fit


def profile(loading_s: float = 8.0, cpu_s: float = 2.0, consume_s: float = 0.0, cores: float = 2.0) -> Profile:
    return Profile(loading_s=loading_s, cpu_s=cpu_s, consume_s=consume_s, cores=cores)


def forecast(seen: dict[int, Measured], batches: int | None = None, **changes: float) -> Forecast:
    return Forecast(profile=profile(**changes), batches=batches, measured=seen)


def at(batch_s: float, startup_s: float = 0.0) -> Measured:
    return Measured(batch_s=batch_s, startup_s=startup_s)


@pytest.mark.parametrize(
    ("changes", "times_s", "floor_s"),
    [
        ({}, {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0, 16: 1.0}, 1.0),  # workers divide the loading until the CPUs are busy
        ({"consume_s": 3.0}, {0: 11.0, 1: 8.0, 2: 4.0, 4: 3.0}, 3.0),  # without workers the times add up
        ({"cpu_s": 6.0, "consume_s": 1.0}, {4: 3.0}, 3.0),
    ],
)
def test_times_of_the_model(changes: dict[str, float], times_s: dict[int, float], floor_s: float) -> None:
    found = profile(**changes)
    assert {n: found.batch_s(n) for n in times_s} == times_s
    assert found.floor_s == floor_s


@pytest.mark.parametrize(
    ("seen", "costs_s"),
    [
        # 1.5 times the model at 2 workers, 2.25 times at 4: the departure grows by the same factor with each doubling
        ({0: 8.0, 2: 6.0, 4: 4.5}, {8: 1.0 * 1.5**3}),
        ({0: 8.0, 2: 6.0}, {4: 2.0 * 1.5**2}),
        ({0: 8.0, 2: 6.0, 4: 2.5}, {8: 1.0 * 1.25}),  # a shrinking departure is constant beyond
        ({0: 8.0, 1: 12.0}, {2: 4.0 * 1.5, 8: 1.0 * 1.5}),
        # between two, two thirds of the way to the smaller departure; one worker has no departure
        ({0: 8.0, 4: 3.0}, {2: 4.0 * 1.5 ** (1 / 6)}),
        ({0: 8.0, 2: 8.0, 8: 1.5}, {4: 2.0 * 2.0 ** (1 / 6) * 1.5 ** (5 / 6)}),
        ({0: 8.0}, {0: 8.0, 1: 8.0, 4: 2.0}),
    ],
)
def test_the_predicted_departure_is_optimistic(seen: dict[int, float], costs_s: dict[int, float]) -> None:
    found = forecast({n: at(batch_s) for n, batch_s in seen.items()})
    assert {n: found.cost_s(n) for n in costs_s} == pytest.approx(costs_s)


def test_an_epoch_is_its_start_and_the_batches_after_the_first() -> None:
    found = forecast({0: at(8.0, startup_s=8.0), 4: at(2.0, startup_s=9.0)}, batches=11)
    # of 9 s of start-up 8 s are the first batch and 1 s the start of 4 workers
    assert [found.cost_s(n) for n in (4, 8)] == [9.0 + 10 * 2.0, 8.0 + 2.0 + 10 * 1.0]
    assert [found.may_beat(10.0, n) for n in (7, 8)] == [True, False]
    assert found.floor_s == 11.0
    unknown = forecast({0: at(8.0, startup_s=8.0)}, batches=11)
    assert unknown.cost_s(4) == pytest.approx(8.0 + 0.04 + 10 * 2.0)  # 10 ms per worker


def scaling(n_s: float = 1.0, m_s: float = 0.0, floor_s: float = 0.0) -> ScalingFit:
    return ScalingFit(n_s=n_s, m_s=m_s, floor_s=floor_s)


def measured(truth: ScalingFit, *workers: int, error: float = 0.0, seed: int = 0) -> dict[int, Estimate]:
    """Measurements of a known law with relative errors."""
    source, found = random.Random(seed), {}
    for n in workers:
        value = truth.batch_s(n) * (1 + source.gauss(0.0, error))
        found[n] = Estimate(value=value, low=value / (1 + 2 * error), high=value * (1 + 2 * error), n=5)
    return found


def test_the_rule_of_the_sleeping_dataset() -> None:
    """1 s of sleep per batch, consumer 0.25 s: 1.25 s without workers, then 1, 0.5, 0.33; four workers reach 0.25 s."""
    sleeping = profile(loading_s=1.0, cpu_s=0.0, consume_s=0.25)
    assert [sleeping.batch_s(n) for n in (0, 1, 2, 3, 4, 5)] == pytest.approx([1.25, 1.0, 0.5, 1 / 3, 0.25, 0.25])
    found = scaling_fit(measured(scaling(floor_s=0.25), 1, 2, 3, 4), 0.25)
    assert found is not None
    assert found.enough == pytest.approx(4.0, rel=0.01)
    assert [found.batch_s(n) for n in (1, 2, 3, 4, 5)] == pytest.approx([1.0, 0.5, 1 / 3, 0.25, 0.25], rel=0.01)


@pytest.mark.parametrize(
    ("times_s", "n_s", "m_s"),
    [({2: 1.0}, 2.0, 0.0), ({1: 1.5, 4: 0.75}, 1.0, 0.5), ({1: 1.0, 2: 0.25}, 0.6, 0.0), ({1: 1.0, 2: 2.0}, 0.0, 1.2)],
)
def test_one_measurement_gives_one_term_and_no_term_is_negative(
    times_s: dict[int, float], n_s: float, m_s: float
) -> None:
    found = scaling_fit({n: Estimate(value=time_s, low=None, high=None, n=1) for n, time_s in times_s.items()})
    assert found is not None
    assert (found.n_s, found.m_s, found.points) == pytest.approx((n_s, m_s, len(times_s)))


def test_measurements_at_the_floor_give_no_fit_and_an_unreachable_floor_no_number_of_workers() -> None:
    assert scaling_fit(measured(scaling(floor_s=0.6), 2, 4, 8), 0.6) is None
    assert scaling_fit({}) is None
    assert (scaling(m_s=0.3, floor_s=0.25).enough, scaling().enough) == (None, None)


def test_intervals_cover_the_truth_with_their_probability() -> None:
    truth, covered = scaling(m_s=0.1), 0
    for seed in range(200):
        found = scaling_fit(measured(truth, 1, 2, 4, 8, 16, error=0.05, seed=seed))
        assert found is not None
        low, high = found.interval_s(6)
        covered += low <= truth.batch_s(6) <= high
    assert covered >= 190
    assert scaling().interval_s(2) == (0.5, 0.5)


def test_residuals_and_missing_intervals_widen_the_interval_of_the_fit() -> None:
    straight = measured(scaling(m_s=0.1), 1, 2, 3, 4, 6, 8)
    factors = dict(zip(straight, (1.3, 0.8, 1.2, 0.8, 1.2, 0.8), strict=True))
    bent = {n: Estimate(value=batch.value * factors[n], low=None, high=None, n=1) for n, batch in straight.items()}
    unknown = {n: Estimate(value=batch.value, low=None, high=None, n=1) for n, batch in straight.items()}
    laws = [found for points in (straight, unknown, bent) if (found := scaling_fit(points))]
    assert [found.half_width for found in laws] == pytest.approx([0.0115, 0.0577, 0.28], rel=0.1)
