from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nws_sweep import drawing, memory_plots, scaling_plots
from nws_sweep.analysis import ConfigurationSummary
from nws_sweep.curve_plots import Point
from nws_sweep.memory_plots import Prices, Spot
from nws_sweep.records import Estimate, Trial
from nws_sweep.scaling_plots import Scaling
from nws_sweep.vector import MUTED
from tests.factories import failed_trial, measurement, search_result, summary_of_run, trial

MB = 2**20


def paced(num_workers: int, batch_s: float, memory_bytes: int | None = MB, **changes: Any) -> Trial:
    """A trial whose epoch is 128 batches of 64 samples, known within a tenth."""
    batch = Estimate(value=batch_s, low=0.9 * batch_s, high=1.1 * batch_s, n=5)
    found = measurement(128 * batch_s, batch_s=batch, memory_bytes=memory_bytes, **changes)
    return trial(num_workers, 128 * batch_s, measurement=found)


def summary(*trials: Trial) -> ConfigurationSummary:
    (only,) = summary_of_run(search_result(*trials)).configurations
    return only


def scaling(*trials: Trial) -> Scaling:
    found = scaling_plots.scaling(summary(*trials))
    assert found is not None
    return found


def test_measured_rates_have_the_ends_of_the_interval_the_other_way_round_and_a_law() -> None:
    """Workers that share 0.8 s of waiting without loss."""
    found = scaling(*(paced(n, 0.8 / max(1, n), consume_s=0.0, cpu_s=0.001) for n in (0, 1, 2, 4)))
    assert [rate.num_workers for rate in found.measured] == [0, 1, 2, 4]
    fastest = found.measured[-1]
    assert (fastest.value, fastest.low, fastest.high) == pytest.approx((320, 320 / 1.1, 320 / 0.9))
    assert found.best == 4
    first, *_, last = found.law
    assert (first.num_workers, last.num_workers) == (1, 4)
    assert (first.value, last.value) == pytest.approx((80, 320), rel=0.01)
    assert all(rate.low <= rate.value * 1.001 and rate.value <= rate.high * 1.001 for rate in found.law)


@pytest.mark.parametrize(
    ("changes", "ceiling", "whose"),
    [({"consume_s": 0.1, "cpu_s": 0.2}, 640.0, "consumer"), ({"consume_s": 0.01, "cpu_s": 1.6}, 320.0, "CPUs")],
)
def test_the_ceiling_is_the_consumers_or_the_cpus(changes: dict[str, Any], ceiling: float, whose: str) -> None:
    found = scaling(*(paced(n, 0.8 / max(1, n), **changes) for n in (0, 1, 2)))
    assert found.ceiling == pytest.approx(ceiling)  # 64 samples; 8 CPUs
    assert found.ceiling_of == whose


def test_a_single_candidate_is_no_comparison() -> None:
    alone = summary(paced(0, 0.1), failed_trial(2))
    assert scaling_plots.scaling(alone) is None
    assert memory_plots.prices(alone) is None


def test_prices_are_those_of_candidates_that_tell_their_memory() -> None:
    found = memory_plots.prices(
        summary(paced(0, 1.0, 100 * MB), paced(1, 0.5, None), paced(2, 0.3, 300 * MB), paced(4, 0.29, 900 * MB))
    )
    assert found is not None
    held = [(price.num_workers, price.memory_bytes) for price in found.candidates]
    assert held == [(0, 100 * MB), (2, 300 * MB), (4, 900 * MB)]
    assert (found.unit, found.best, found.leaner) == ("epoch", 4, 2)
    unknown = memory_plots.prices(summary(paced(0, 1.0, epoch_s=None), paced(2, 0.5, epoch_s=None)))
    assert unknown is not None
    assert (unknown.unit, unknown.candidates[-1].seconds) == ("batch", 0.5)


def rates(*numbers: float) -> tuple[Point, ...]:
    return tuple(Point(n, 100 * (1 + n), 90 * (1 + n), 110 * (1 + n)) for n in numbers)


SCALING = Scaling(measured=rates(0, 1, 2, 4), law=rates(1, 2, 3, 4), ceiling=550.0, ceiling_of="CPUs", best=4)
PRICES = Prices(
    candidates=tuple(Spot(num_workers=n, seconds=8 / (1 + n), memory_bytes=(1 + n) * 10**9) for n in (0, 1, 4)),
    unit="epoch",
    best=4,
    leaner=1,
)


def test_what_is_shown_says_what_it_is() -> None:
    figure = scaling_plots.draw(SCALING, PRICES, "photos")
    left, right = figure.axes
    assert figure.get_suptitle() == "photos"
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "measured, 95 %",
        "law of scaling, 95 %",
        "the CPUs allow no more",
    }
    assert (left.get_ylabel(), left.get_ylim()) == ("samples per second", (0, 1.06 * 550))
    assert right.get_title(loc="left") == "blue: at least 95 % of the best's speed,\nnamed by num_workers"
    assert [text.get_text() for text in right.texts] == ["0", "1: 3.00 GB less", "4"]
    assert [line.get_color() for line in right.lines[:3]] == [MUTED, MUTED, drawing.COLOURS[0]]
    assert right.get_xlabel() == "memory of all processes, GB"
    (alone,) = scaling_plots.draw(replace(SCALING, law=(), ceiling=5000.0), None, "photos").axes
    assert alone.get_ylim()[1] < 1000  # a ceiling far above all points is left out
