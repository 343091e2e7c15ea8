from dataclasses import replace

import pytest

from nws_sweep.results import Configuration, SearchRecord, Trial
from nws_sweep.tuning.runner import search
from tests import factories
from tests.conftest import rounds
from tests.fakes import FakeMachine
from tests.searching import Recorder, machine_of

# Seconds per batch: no gain from workers, and a gain up to four workers.
USELESS, USEFUL = 1.0, 0.1


def machine(per_worker_s: float) -> FakeMachine:
    made = machine_of(lambda workers: per_worker_s * max(1, workers / 4) if workers else 1.0, batches=100, start_s=0.1)
    made.facts = replace(made.facts, samples=100 * 64)
    return made


def interrupt(
    configuration: Configuration, per_worker_s: float, slices: int
) -> tuple[SearchRecord | None, SearchRecord]:
    """The records at the interruption (None if the search ended before) and at the end."""
    interrupted, recorder, left = machine(per_worker_s), Recorder(), iter(range(slices))

    def check() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    start = SearchRecord(configuration=configuration, host=factories.HOST)
    try:
        return None, search(start, replace(interrupted.environment(), check_interrupts=check), recorder)
    except KeyboardInterrupt:
        there = recorder.results[-1]
    assert not interrupted.alive
    whole = machine(per_worker_s)
    result = search(there, whole.environment(), Recorder())
    assert result.cost_s == pytest.approx(there.cost_s + whole.clock.now)
    return there, result


def finished(result: SearchRecord) -> dict[int, Trial]:
    return {trial.num_workers: trial for trial in result.trials if trial.finished}


def best(result: SearchRecord) -> tuple[int, float]:
    """The recommended candidate, and seconds of an epoch with it."""
    assert result.verdict is not None
    workers = result.verdict.recommended.num_workers
    objective_s = finished(result)[workers].objective_s
    assert objective_s is not None
    return workers, objective_s


@pytest.mark.parametrize(
    "strategy", [*(pytest.param(name, marks=pytest.mark.extended) for name in ("exhaustive", "patience")), "adaptive"]
)
@pytest.mark.parametrize("per_worker_s", [USELESS, USEFUL])
def test_a_search_finds_the_same_after_any_interruption(strategy: str, per_worker_s: float) -> None:
    rules = factories.search_rules(strategy=strategy, candidates=tuple(range(7)), patience=2, reference=None)
    configuration = factories.configuration(search=rules)
    _, whole = interrupt(configuration, per_worker_s, 10**6)
    expected, least_s = best(whole)
    assert (least_s < 50) == (per_worker_s == USEFUL)
    step = 11 if strategy != "adaptive" else 4 if rounds(1) == 1 else 1
    for slices in range(0, 1000, step):
        there, result = interrupt(configuration, per_worker_s, slices)
        if there is None:
            break
        kept, found = finished(there), finished(result)
        for workers, trial in kept.items():
            assert found[workers].windows == trial.windows, "measured again"
            assert found[workers].objective_s == pytest.approx(trial.objective_s)
        assert result.complete
        workers, epoch_s = best(result)
        assert epoch_s <= least_s * 1.03, slices
        if strategy != "adaptive":  # which depends on the precision of the first windows
            assert (workers, result.stop_reason) == (expected, whole.stop_reason)
            assert set(found) == set(finished(whole))
    assert slices > 3
