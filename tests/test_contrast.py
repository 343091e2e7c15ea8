"""Whether one time differs from another, and by how much."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from nws_sweep.contrast import Change, Quantity, Ratio, Times, change_of, combined, time_of, times_of
from nws_sweep.records import Estimate, Trial, TrialState
from nws_sweep.stats import estimate_mean
from tests.factories import failed_trial, loader_settings, measurement, trial


def timed(value: float, half_width: float | None = None) -> Estimate:
    """A time whose interval has that half-width on the log scale."""
    if half_width is None:
        return Estimate(value=value, low=None, high=None, n=2)
    return Estimate(value=value, low=value * math.exp(-half_width), high=value * math.exp(half_width), n=5)


def ratio_of(base: Estimate, other: Estimate) -> Ratio:
    return Times(quantity=Quantity.BATCH, base=base, other=other).ratio


def ratio(log: float, half_width: float | None = None) -> Ratio:
    return Ratio(log=log, half_width=half_width)


def test_half_widths_add_in_quadrature_on_the_log_scale() -> None:
    found = ratio_of(timed(2.0, 0.03), timed(3.0, 0.04))
    assert (found.value, found.half_width) == pytest.approx((1.5, 0.05))
    assert found.ends == pytest.approx((1.5 * math.exp(-0.05), 1.5 * math.exp(0.05)))
    assert str(found) == "1.50 (1.43 to 1.58)"


@pytest.mark.parametrize(("base", "other"), [(None, 0.1), (0.1, None), (None, None)])
def test_a_ratio_has_an_interval_only_if_both_times_have_one(base: float | None, other: float | None) -> None:
    found = ratio_of(timed(2.0, base), timed(1.0, other))
    assert (found.value, found.half_width, found.ends, str(found)) == (0.5, None, None, "0.50")


def test_the_interval_of_a_ratio_covers_the_truth_as_often_as_it_says() -> None:
    """Of means of ten windows with errors of 5 %."""
    noise, runs, covered, truth = random.Random(3), 2000, 0, math.log(1.25)

    def measured(log: float) -> Estimate:
        logs = [log + noise.gauss(0, 0.05) for _ in range(10)]
        return estimate_mean([math.exp(one) for one in logs], overall=math.exp(statistics.fmean(logs)))

    for _ in range(runs):
        found = ratio_of(measured(0.0), measured(truth))
        covered += found.half_width is not None and abs(found.log - truth) <= found.half_width
    assert 0.94 < covered / runs < 0.98


@pytest.mark.parametrize(
    ("value", "half_width", "change"),
    [
        (1.02, 0.005, Change.SAME), (0.98, 0.005, Change.SAME),
        (1.02, 0.02, Change.UNCLEAR), (0.98, 0.02, Change.UNCLEAR), (1.0, 0.05, Change.UNCLEAR),
        (1.05, 0.01, Change.SLOWER), (1.05, 0.03, Change.UNCLEAR),
        (0.95, 0.01, Change.FASTER), (0.95, 0.03, Change.UNCLEAR),
        (1.0, None, Change.UNCLEAR), (9.0, None, Change.UNCLEAR),
        (1 / 1.029, 0.0, Change.SAME), (1 / 1.031, 0.0, Change.FASTER),  # as far down as up
    ],
)  # fmt: skip
def test_the_whole_interval_decides(value: float, half_width: float | None, change: Change) -> None:
    assert change_of(ratio(math.log(value), half_width), 0.03) is change


LARGER = trial(
    2, 128.0, settings=loader_settings(2, batch_size=128), measurement=measurement(128.0, samples_per_s=128.0)
)
NO_BATCHES = trial(2, 256.0, measurement=measurement(256.0, batch_s=None))


@pytest.mark.parametrize(
    ("other", "quantity", "base", "ratio"),
    [
        (trial(4, 64.0), Quantity.BATCH, Estimate(value=1.0, low=0.75, high=1.5, n=5), 0.5),
        (LARGER, Quantity.SAMPLE, Estimate(value=1 / 64, low=0.75 / 64, high=1.5 / 64, n=5), 0.5),
        (NO_BATCHES, Quantity.EPOCH, Estimate(value=128.0, low=None, high=None, n=1), 2.0),
    ],
)
def test_times_are_those_of_batches_of_samples_if_their_sizes_differ_or_of_epochs(
    other: Trial, quantity: Quantity, base: Estimate, ratio: float
) -> None:
    times = times_of(trial(2, 128.0), other)
    assert times is not None
    assert (times.quantity, times.base) == (quantity, base)
    assert times.ratio.value == pytest.approx(ratio)


@pytest.mark.parametrize(
    "other",
    [
        failed_trial(2),
        trial(2, 2.0, state=TrialState.MISMEASURED),
        trial(2, 2.0, measurement=measurement(2.0, batch_s=None, epoch_s=None)),
    ],
)
def test_what_has_no_time_is_not_compared(other: Trial) -> None:
    assert times_of(trial(2, 2.0), other) is None
    assert times_of(other, trial(2, 2.0)) is None
    assert time_of(other, Quantity.SAMPLE) is None


@pytest.mark.parametrize(
    ("ratios", "log", "half_width"),
    [
        ([ratio(0.5, 0.25)], 0.5, 0.25),
        ([ratio(0.5)], 0.5, None),
        ([ratio(0.5, 0.2)] * 4, 0.5, 0.1),  # equal ones narrow each other's interval
        # those that differ by more than their intervals widen the mean, by Student's t or by the normal quantile
        ([ratio(0.1, 0.001), ratio(0.2, 0.001), ratio(0.3, 0.001)], 0.2, 4.3027 * 0.1 / math.sqrt(3)),
        ([ratio(0.0, 0.001), ratio(0.2, 0.001)], 0.1, 1.95996 * 0.1),
        # without intervals of their own three have their spread, and two have nothing
        ([ratio(0.1), ratio(0.2, 0.001), ratio(0.3, 0.001)], 0.2, 4.3027 * 0.1 / math.sqrt(3)),
        ([ratio(0.1), ratio(0.3, 0.001)], 0.2, None),
    ],
)
def test_ratios_are_combined(ratios: list[Ratio], log: float, half_width: float | None) -> None:
    found = combined(ratios)
    assert found.log == pytest.approx(log)
    assert found.half_width == (None if half_width is None else pytest.approx(half_width, rel=1e-4))


@pytest.mark.parametrize(("pairs", "varies", "most"), [(2, 0.0, 0.995), (4, 0.0, 0.995), (4, 0.1, 0.965)])
def test_the_interval_of_an_effect_covers_the_truth_at_least_as_often_as_it_says(
    pairs: int, varies: float, most: float
) -> None:
    noise, runs, truth, error = random.Random(5), 2000, 0.3, 0.02
    drawn = [
        combined([ratio(truth + noise.gauss(0, varies) + noise.gauss(0, error), 1.96 * error) for _ in range(pairs)])
        for _ in range(runs)
    ]
    covered = sum(one.half_width is not None and abs(one.log - truth) <= one.half_width for one in drawn)
    assert 0.94 < covered / runs < most
