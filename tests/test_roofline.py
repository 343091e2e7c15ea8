from __future__ import annotations

from dataclasses import replace

import pytest

from nws_sweep.conditions import Conditions
from nws_sweep.records import Estimate, LoaderSettings, Measurement, MeasureRules
from nws_sweep.roofline import violation

TWO_CORES = Conditions(
    settings=LoaderSettings(batch_size=8, num_workers=4), rules=MeasureRules(), batches_per_epoch=100, cores=2.0
)


def found(batch_s: float, **changes: float) -> Measurement:
    estimate = Estimate(value=batch_s, low=0.9 * batch_s, high=1.1 * batch_s, n=5)
    return replace(Measurement(startup_s=1.0, batch_s=estimate, epoch_s=100 * batch_s), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("cpu_s", "believed"), [(1.0, True), (2.0, True), (2.2, True), (2.4, False), (8.0, False)])
def test_a_batch_takes_at_least_its_cpu_time_on_all_usable_cpus(cpu_s: float, believed: bool) -> None:
    """1 s a batch, up to 1.1 s with its interval, is at most 2.2 s of CPU time on two CPUs, and 5 % for the edges."""
    assert (violation(found(1.0), cpu_s, TWO_CORES) == "") is believed


def test_the_figures_are_told() -> None:
    assert violation(found(1.0), 4.0, TWO_CORES) == (
        "1.10 s a batch cannot be: it takes 4.00 s of CPU time, at least 2.00 s on 2 usable CPUs"
    )
    alone = replace(TWO_CORES, cores=1.0)
    assert violation(found(1.0), 4.0, alone).endswith("at least 4.00 s on 1 usable CPU")


def test_a_batch_takes_at_least_the_consumers_time() -> None:
    assert (
        violation(found(1.0, consume_s=1.5), None, TWO_CORES)
        == "1.10 s a batch cannot be: the consumer alone takes 1.50 s"
    )
    assert violation(found(1.0, consume_s=1.0), None, TWO_CORES) == ""


def test_without_an_interval_the_value_itself_is_held_against_the_limit() -> None:
    bare = replace(found(1.0), batch_s=Estimate(value=1.0, low=None, high=None, n=1))
    assert violation(bare, 2.15, TWO_CORES)


def test_whole_epochs_are_compared_as_a_whole_since_their_cpu_time_includes_start_and_end() -> None:
    steady = found(0.1)
    assert violation(steady, 1.0, TWO_CORES)
    assert violation(steady, 1.0, TWO_CORES, stopwatch_s=1.0) == ""
    assert violation(steady, 1.0, TWO_CORES, stopwatch_s=0.4)


def test_a_consumer_that_became_slower_in_the_course_of_an_epoch_is_believed() -> None:
    """Of two batches in 0.34 and 0.50 s the second alone shows the steady pace; its consumer's is above the mean."""
    assert violation(found(0.51, consume_s=0.5), None, TWO_CORES, stopwatch_s=0.42) == ""


def test_what_was_not_measured_is_not_doubted() -> None:
    assert violation(Measurement(startup_s=1.0), 9.0, TWO_CORES) == ""
    assert violation(found(1.0), None, TWO_CORES) == ""


def test_without_an_interval_the_slowest_window_is_believed() -> None:
    """Of two windows of 5 and 17 ms the CPU time may be that of the second alone."""
    two = Measurement(startup_s=1.0, batch_s=Estimate(value=1.0, low=None, high=None, n=2))
    assert violation(two, 3.0, TWO_CORES)
    assert violation(two, 3.0, TWO_CORES, slowest_s=1.5) == ""
    assert violation(two, 3.4, TWO_CORES, slowest_s=1.5)
    three = Measurement(startup_s=1.0, batch_s=Estimate(value=1.0, low=0.9, high=1.1, n=3))
    assert violation(three, 3.0, TWO_CORES, slowest_s=1.5)
