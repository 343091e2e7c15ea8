from __future__ import annotations

import pytest

from nws_sweep.noise import of_turns
from nws_sweep.records import BurstKind, MachineTime, Turn, Usage
from tests.test_quantities import burst


def turn(batch_s: float = 0.5, **machine: float) -> Turn:
    """10 s in which the trial itself used 5 s of CPU time."""
    window = burst(wait_s=(batch_s,) * 8, consume_s=(0.0,) * 8)
    warm_up = burst(BurstKind.WARM_UP, wait_s=(99.0,) * 8)
    return Turn(
        bursts=(warm_up, window),
        before=Usage(cpu_s=1.0),
        after=Usage(cpu_s=6.0),
        elapsed_s=10.0,
        machine=MachineTime(**machine),
    )


def test_without_turns_nothing_is_known() -> None:
    assert of_turns([], 2.0) is None


def test_what_others_used_is_what_was_busy_and_not_the_trials_own() -> None:
    noise = of_turns([turn(busy_s=20.0), turn(busy_s=5.0)], 2.0)
    assert noise is not None
    assert noise.other_cpus == pytest.approx(0.75)  # 25 s busy, 10 s of them the trial's, in 20 s


def test_counters_that_are_coarser_than_the_trials_own_do_not_become_negative() -> None:
    noise = of_turns([turn(busy_s=4.9)], 2.0)
    assert noise is not None
    assert noise.other_cpus == 0.0


def test_steal_is_a_share_of_the_usable_cpus_time_and_throttling_of_all_time() -> None:
    noise = of_turns([turn(busy_s=5.0, steal_s=2.0, throttled_s=1.0)], 2.0)
    assert noise is not None
    assert (noise.steal, noise.throttled) == pytest.approx((0.1, 0.1))


def test_windows_far_from_the_others_are_named_by_their_number_in_the_trial() -> None:
    turns = [turn(0.5), turn(0.51), turn(0.5), turn(0.9), turn(0.49), turn(0.5)]
    noise = of_turns(turns, 2.0)
    assert noise is not None
    assert noise.outliers == (7,)  # warm-ups are numbered too
    later = of_turns(turns, 2.0, first_burst=4)
    assert later is not None
    assert later.outliers == (11,)
