"""The model of a loader: predictions, and the fit to measurements."""

from __future__ import annotations

import pytest

from nws_sweep.tuning.bottleneck import Forecast, Measured, Profile


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


def test_the_rule_of_the_sleeping_dataset() -> None:
    """1 s of sleep per batch, consumer 0.25 s: 1.25 s without workers, then 1, 0.5, 0.33; four workers reach 0.25 s."""
    sleeping = profile(loading_s=1.0, cpu_s=0.0, consume_s=0.25)
    assert [sleeping.batch_s(n) for n in (0, 1, 2, 3, 4, 5)] == pytest.approx([1.25, 1.0, 0.5, 1 / 3, 0.25, 0.25])
