"""Which settings a training should have from now on: records with a known truth."""

from dataclasses import replace
from typing import Any

import pytest

from nws_sweep.online.decision import choose
from nws_sweep.results import BatchCost, LoaderSettings, LoopCosts, Trial, Tuning
from tests.factories import loader_settings, recorded_trial
from tests.online.test_tuner import tuner

pytestmark = pytest.mark.usefixtures("forked_workers")
BASE, WAITS = loader_settings(2, prefetch_factor=2), BatchCost(cpu_s=0.0, wait_s=0.08)


def trial_of(num_workers: int, cost: BatchCost, step_s: float, stall: float = 0.5) -> Trial:
    found = recorded_trial(num_workers, cost, LoopCosts(step_s=step_s, fork_s=0.01))
    assert found.measurement
    settings = loader_settings(num_workers, prefetch_factor=2).canonical()
    return replace(found, settings=settings, measurement=replace(found.measurement, stall_fraction=stall))


def chosen(
    trial: Trial, batches: int = 1000, base: LoaderSettings = BASE, is_new_epoch: bool = False, **limits: Any
) -> Any:
    seen = tuner(tuning=Tuning(before=base, after=trial.settings), **limits)
    seen.trials[trial.settings] = trial
    return choose(seen, batches, is_new_epoch=is_new_epoch)


@pytest.mark.parametrize(("step_s", "workers"), [(0.04, 2), (0.02, 4), (0.01, 8)])
def test_the_fewest_workers_that_keep_up_are_chosen(step_s: float, workers: int) -> None:
    found = chosen(trial_of(0, WAITS, step_s))
    assert found.settings.num_workers == workers
    assert found.predicted_s == pytest.approx(step_s, rel=0.05)
    assert found.current_s == pytest.approx(0.08 + step_s, rel=0.05)


def test_a_training_that_hardly_waits_is_left_alone_until_the_next_epoch() -> None:
    trial = trial_of(16, WAITS, 0.02, stall=0.01)
    assert chosen(trial) is None
    assert chosen(trial, is_new_epoch=True).settings.num_workers < 8


def test_spawned_workers_take_longer_to_start() -> None:
    """Each imports torch, 2 s of CPU time."""
    trial, base = trial_of(0, WAITS, 0.02), loader_settings(2, prefetch_factor=2, multiprocessing_context="spawn")
    assert chosen(trial, batches=1) is None
    assert chosen(trial, batches=10) is not None
    assert chosen(trial, batches=10, base=base) is None
    assert chosen(trial, batches=1000, base=base) is not None


def test_a_larger_prefetch_factor_is_chosen_where_batches_take_very_different_times() -> None:
    costs = [BatchCost(cpu_s=0.0, wait_s=0.9 if number % 20 == 7 else 0.03) for number in range(60)]
    trial = trial_of(4, costs[0], 0.03)
    records = (replace(trial.records[0], number=n, position=n / 60, cost=cost) for n, cost in enumerate(costs))
    varied = replace(trial, records=tuple(records))
    fixed, free = (chosen(varied, prefetches=prefetches, most_workers=6) for prefetches in (False, True))
    assert free.settings.prefetch_factor in (4, 8)
    assert fixed is None or free.predicted_s < fixed.predicted_s


def test_the_queue_is_not_shortened_where_that_saves_nothing() -> None:
    """A short queue has no reserve: the times of batches vary more than their records."""
    found = chosen(trial_of(16, WAITS, 0.04, stall=0.01), prefetches=True, is_new_epoch=True)
    assert (found.settings.num_workers, found.settings.prefetch_factor) == (2, 2)
