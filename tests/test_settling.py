"""When a trial has enough, and how often its interval is right: simulated with a known truth."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from nws_sweep.conditions import Conditions
from nws_sweep.quantities import summarise
from nws_sweep.records import Burst, BurstKind, Estimate, LoaderSettings, MeasureRules, Turn
from nws_sweep.settling import half_width, out_of_limits, settled
from tests.test_quantities import START, burst, conditions


def turns(*means_s: float, produced: int | None = 64) -> list[Turn]:
    windows = (burst(wait_s=(mean,) * 8, consume_s=(0.0,) * 8, produced=produced) for mean in means_s)
    return [START, *(Turn(bursts=(window,)) for window in windows)]


def test_windows_that_agree_are_enough_when_there_are_as_many_as_asked_for() -> None:
    assert settled(turns(1.0, 1.01, 1.0, 0.99, 1.0, 1.01), conditions())
    assert not settled(turns(1.0, 1.01, 1.0, 0.99, 1.0), conditions())


def test_a_precision_that_has_not_held_for_two_windows_is_luck() -> None:
    """Stopping at the first narrow interval picks those that are too narrow."""
    assert not settled(turns(1.0, 1.0, 1.06, 0.94, 1.0, 1.0), conditions())
    assert settled(turns(1.0, 1.0, 1.06, 0.94, 1.0, 1.0, 1.0), conditions())


def test_windows_that_disagree_are_not_enough() -> None:
    assert not settled(turns(1.0, 1.5, 1.0, 1.5, 1.0, 1.5, 1.0), conditions())


def test_a_queue_that_still_fills_or_empties_is_not_settled() -> None:
    assert not settled(turns(*[1.0] * 8, produced=80), conditions())  # a quarter more made than taken
    assert not settled(turns(*[1.0] * 8, produced=None), conditions())  # not counted: 8 of 64 may have lain ready
    assert settled(turns(*[1.0] * 21, produced=None), conditions())


def test_whole_epochs_are_enough_when_their_lengths_agree() -> None:
    short = Conditions(
        settings=LoaderSettings(batch_size=8, num_workers=4), rules=MeasureRules(bursts=3), batches_per_epoch=8
    )

    def epochs(*lengths_s: float) -> list[Turn]:
        whole = (burst(BurstKind.EPOCH, wait_s=(s / 8,) * 8, consume_s=(0.0,) * 8, startup_s=s / 8) for s in lengths_s)
        return [Turn(bursts=(each,)) for each in whole]

    assert settled(epochs(1.0, 1.01, 1.0, 1.0), short)
    assert not settled(epochs(1.0, 1.01, 1.0), short)
    assert not settled(epochs(1.0, 1.5, 1.0, 1.5), short)


def test_limits_are_named() -> None:
    bursts = [burst for turn in turns(*[2.0] * 2) for burst in turn.bursts]
    assert out_of_limits(bursts, conditions()) == "measure.max_seconds=20"
    few = Conditions(
        settings=LoaderSettings(batch_size=8),
        rules=MeasureRules(max_batches=9, max_seconds=99.0),
        batches_per_epoch=None,
    )
    assert out_of_limits(bursts[:2], few) == "measure.max_batches=9"
    assert out_of_limits(bursts[:1], few) == ""  # no window yet


def test_half_width_is_on_the_log_scale_and_infinite_without_an_interval() -> None:
    assert half_width(Estimate(value=1.0, low=0.5, high=2.0, n=5)) == pytest.approx(1.0)
    assert half_width(Estimate(value=1.0, low=None, high=None, n=2)) == math.inf


def noisy_trial(rng: random.Random, correlation: float, outlier_share: float, spread: float, per_window: int) -> Any:
    """A trial that stops by its own rule, on batches of mean 1 that depend on each other and are slow now and then."""
    rules = MeasureRules()
    serial = Conditions(settings=LoaderSettings(batch_size=1), rules=rules, batches_per_epoch=None)
    taken: list[Turn] = [Turn(bursts=(_window((1.0,), BurstKind.WARM_UP, startup_s=1.0),))]
    state = rng.gauss(0.0, 1.0)
    while len(taken) < 40 and not settled(taken, serial):
        waits = []
        for _ in range(per_window):
            state = correlation * state + math.sqrt(1 - correlation**2) * rng.gauss(0.0, 1.0)
            slow = 5.0 if rng.random() < outlier_share else 1.0
            waits.append(slow * math.exp(spread * state - spread**2 / 2) / (1 + 4 * outlier_share))
        taken.append(Turn(bursts=(_window(tuple(waits), BurstKind.STEADY),)))
    return summarise(taken, serial).batch_s


def _window(waits: tuple[float, ...], kind: BurstKind, startup_s: float | None = None) -> Burst:
    scaled = tuple(wait / 100 for wait in waits)  # far from max_seconds
    return Burst(kind=kind, startup_s=startup_s, wait_s=scaled, consume_s=(0.0,) * len(waits), samples=len(waits))


@pytest.mark.parametrize(
    ("correlation", "outlier_share", "spread"),
    [(0.0, 0.0, 0.1), (0.0, 0.1, 0.1), (0.5, 0.1, 0.2), (0.8, 0.1, 0.1), (0.5, 0.0, 0.3)],
)
def test_a_nominal_95_per_cent_interval_covers_the_truth(
    correlation: float, outlier_share: float, spread: float
) -> None:
    """Correlated batches, a tenth of them five times as slow, 12 to 200 in a window, stopped by their own rule."""
    rng = random.Random(f"{correlation}-{outlier_share}-{spread}")
    sizes = [size for size, count in ((12, 200), (50, 100), (200, 30)) for _ in range(count)]
    found = [noisy_trial(rng, correlation, outlier_share, spread, size) for size in sizes]
    assert sum(estimate.low <= 0.01 <= estimate.high for estimate in found) / len(found) >= 0.93
