"""The adaptive search on simulated machines: its regret and its cost over many
searches."""

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from nws_sweep.dataloading.orders import GOLDEN
from nws_sweep.errors import TrialError
from nws_sweep.model import choice
from nws_sweep.model.known import known_of
from nws_sweep.records import (
    BatchCost,
    LoaderSettings,
    MeasureRules,
    Noise,
    SearchRules,
)
from nws_sweep.searching.adaptive import Adaptive
from nws_sweep.searching.observations import Decision, Observation, Round, Stop
from tests import factories
from tests.fakes import FACTS, FakeClock, FakeMachine, SimulatedLoader
from tests.simulated import run_search

CANDIDATES = tuple(range(65))
BASE = LoaderSettings(batch_size=8, prefetch_factor=2)
_SLOT_S = 0.2  # of the simulated noise
_NOISE = 0.05  # standard deviation of the log time of a slot


@dataclass(frozen=True, kw_only=True)
class Truth:
    """True times of a workload, s, some by num_workers."""

    make_s: Callable[[int], float]  # in which a worker makes a batch
    cpu_s: float = 0.0
    step_s: float = 0.0
    cores: float = 8.0
    batches: int | None = 1000  # None if the length of an epoch is unknown
    start_s: float = 0.01  # of each worker
    crashes: Collection[int] = ()
    # of batches, by their share of the epoch in the order of the sampler; empty if
    # equal
    weights: Sequence[float] = ()

    def loader(
        self,
        clock: FakeClock,
        num_workers: int,
        factor: Callable[[], float] = lambda: 1.0,
    ) -> SimulatedLoader:
        """Batches are taken from the whole epoch."""

        def make_s(batch: int) -> float:
            weight = (
                self.weights[int(position(batch) * len(self.weights))]
                if self.weights
                else 1.0
            )
            return self.make_s(num_workers) * weight * factor()

        start_s = self.start_s * num_workers
        return SimulatedLoader(
            clock,
            self.batches or 1000,
            make_s,
            num_workers,
            start_s=start_s,
            batch_size=8,
        )

    def price(self, num_workers: int) -> float:
        """Of a whole epoch."""
        clock = FakeClock()
        for _ in self.loader(clock, num_workers):
            clock.advance(self.step_s)
        return choice.price(clock.now, num_workers, 0.03)


def position(batch: int) -> float:
    return batch * GOLDEN % 1


def searched(truth: Truth, seed: int = 1) -> tuple[int, float]:
    """The recommended number of workers, and the time that the search took, s."""
    clock, rng, factors = FakeClock(), random.Random(seed), [1.0]

    def factor() -> float:
        """Of the time now: the machine drifts, and each 0.2 s differ."""
        while len(factors) <= clock.now / _SLOT_S:
            factors.append(
                math.exp(0.8 * math.log(factors[-1]) + rng.gauss(0.0, _NOISE))
            )
        return factors[int(clock.now / _SLOT_S)]

    failures = dict.fromkeys(truth.crashes, TrialError("killed"))
    machine = FakeMachine(
        lambda settings: truth.loader(clock, settings.num_workers, factor), truth.batches, clock, truth.step_s,
        failures, cores=truth.cores, position=position if truth.weights else None,
    )  # fmt: skip
    machine.cpu_s, machine.cpu_share = truth.cpu_s, truth.cpu_s / truth.make_s(0)
    rules = SearchRules(
        strategy="adaptive",
        candidates=CANDIDATES,
        max_workers=CANDIDATES[-1],
        reference=int(truth.cores),
    )
    record, _ = run_search(
        factories.configuration(loader=BASE, search=rules, measure=MeasureRules()),
        machine,
    )
    assert record.verdict is not None
    return record.verdict.recommended.num_workers, record.cost_s


def waiting(knee: int, loading_s: float = 0.32) -> Truth:
    """A dataset that sleeps, and a training step that ``knee`` workers keep busy."""
    return Truth(make_s=lambda n: loading_s, cpu_s=0.002, step_s=loading_s / knee)


def computing(cores: int) -> Truth:
    """A dataset that computes, 10 % slower with workers."""
    return Truth(
        make_s=lambda n: 0.044 * max(1.0, n / cores) if n else 0.04,
        cpu_s=0.04,
        cores=cores,
    )


def peaked(best: int) -> Truth:
    """Workers that slow each other down beyond the best number."""
    return Truth(
        make_s=lambda n: (
            0.2 * max(1, n) / max(1, min(n, best)) * (1 + 0.05 * max(0, n - best))
        ),
        cpu_s=0.01,
    )


def test_batches_in_a_fixed_order_have_their_measured_time() -> None:
    """Every fourth batch, which the same worker of four always makes, takes ten times
    as long."""
    clock = FakeClock()

    def loader(settings: LoaderSettings) -> SimulatedLoader:
        workers = settings.num_workers
        return SimulatedLoader(
            clock, 1000, lambda batch: 0.02 if batch % 4 else 0.2, workers, batch_size=8
        )

    facts = replace(FACTS, is_shuffled=False)
    machine = FakeMachine(
        loader, 1000, clock, facts=facts, position=lambda batch: batch / 1000
    )
    rules = SearchRules(strategy="exhaustive", candidates=(0, 4))
    record, _ = run_search(
        factories.configuration(loader=BASE, search=rules, measure=MeasureRules()),
        machine,
    )
    found = [trial.measurement for trial in record.trials]
    assert [one.batch_s.value for one in found if one and one.batch_s] == pytest.approx(
        [0.065, 0.05], rel=0.1
    )


COMPUTES = BatchCost(cpu_s=0.04, wait_s=0.0)  # a batch, on two CPUs


def adaptive(
    base: LoaderSettings = BASE,
    candidates: tuple[int, ...] = CANDIDATES,
    **changes: Any,
) -> Adaptive:
    rules = SearchRules(
        strategy="adaptive",
        candidates=candidates,
        reference=changes.pop("reference", None),
    )
    return Adaptive(
        rules=rules, base=base, measure=MeasureRules(), cores=2.0, **changes
    )


def observed(
    num_workers: int,
    cost_s: float,
    cost: BatchCost,
    batches: int = 1000,
    **changes: Any,
) -> Observation:
    trial = replace(
        factories.recorded_trial(num_workers, cost), noise=changes.pop("noise", None)
    )
    known = known_of(trial, batches, 2.0)
    return Observation(
        settings=BASE.with_workers(num_workers), cost_s=cost_s, costs=known, **changes
    )


def numbers(decision: Decision) -> list[int]:
    assert isinstance(decision, Round)
    return sorted(one.num_workers for one in decision.candidates)


def test_beside_other_programs_the_best_number_without_them_is_tried_too() -> None:
    """Other programs use one of the two CPUs."""
    tried = []
    for used in (0.0, 1.0):
        noise = Noise(other_cpus=used)
        seen = observed(
            0, 0.04, COMPUTES, noise=noise, paces_s={0: 0.04}, may_continue=True
        )
        tried.append(
            [number for number in numbers(adaptive().decide([seen])) if number]
        )
    quiet, (first, second) = tried
    assert quiet == [first]
    assert first == 2 < second


@pytest.mark.parametrize(
    ("reference", "failed", "tried"), [(3, 8, [1, 3, 5]), (7, 8, [1, 5])]
)
def test_a_resumed_search_starts_numbers_that_it_lacks(
    reference: int, failed: int, tried: list[int]
) -> None:
    """The program's own number, the reference and the guess, if they are well below the
    fewest workers that failed."""
    search = adaptive(replace(BASE, num_workers=1), reference=reference, guess=5)
    finished = [observed(0, 0.04, COMPUTES), observed(2, 0.02, COMPUTES)]
    assert (
        numbers(
            search.decide([*finished, Observation(settings=BASE.with_workers(failed))])
        )
        == tried
    )


def test_workers_that_are_spawned_are_fewer_in_a_short_epoch_since_each_takes_longer_to_start() -> (
    None
):
    seen = observed(0, 0.067, BatchCost(cpu_s=0.001, wait_s=0.066), batches=25)
    forked, spawned = (
        max(numbers(adaptive(start_method=one).decide([seen])))
        for one in ("fork", "spawn")
    )
    assert (spawned <= 2, 4 <= forked <= 16) == (True, True)


def test_after_three_wrong_predictions_a_number_beside_the_answer_is_tried() -> None:
    """As with a worker for each of three disks."""
    waits_s = {0: 0.032, 2: 0.032, 4: 0.0852, 16: 0.34, 32: 0.68}
    costs = (
        (n, wait_s / max(1, n), BatchCost(cpu_s=0.0, wait_s=wait_s))
        for n, wait_s in waits_s.items()
    )
    seen = [
        observed(*one, paces_s={place: one[1]}, may_continue=True)
        for place, one in enumerate(costs)
    ]
    assert 3 in numbers(adaptive().decide(seen))


@pytest.mark.parametrize(("tried", "wanted"), [((0, 8), [3]), ((0, 3, 8), [])])
def test_no_candidate_has_more_workers_than_had_batches(
    tried: tuple[int, ...], wanted: list[int]
) -> None:
    """Three shards: the prediction from eight workers promises much of sixteen."""
    waits = BatchCost(cpu_s=0.0, wait_s=0.24)
    costs_s = {0: 0.24, 3: 0.08, 8: 0.08}
    seen = [
        observed(n, costs_s[n], waits, fed_workers=3 if n == 8 else None) for n in tried
    ]
    decision = adaptive(reference=2).decide(seen)
    assert [
        number for number in numbers(decision) if number not in (2, *tried)
    ] == wanted
    finished = [*seen, observed(2, 0.12, waits), observed(1, 0.24, waits)]
    stopped = adaptive().decide(
        [*finished, *([] if wanted == [] else [observed(3, 0.08, waits)])]
    )
    assert isinstance(stopped, Stop)
    assert "only 3 workers can have batches" in stopped.reason


HUMPS = (1, 2, 4, 8, 16), (1.0, 0.5, 0.25, 0.33, 0.15)
LOGNORMAL = [random.Random(n).lognormvariate(-0.125, 0.5) for n in range(400)]
# With the most that a search may take, s: a tenth more than the longest of ten.
TRUTHS: dict[str, tuple[Truth, float]] = {
    "knee at 1": (waiting(1), 26),
    "knee at 16": (waiting(16), 11.5),
    "CPUs 2": (computing(2), 2),
    "CPUs 16": (computing(16), 4),
    "in memory": (
        Truth(make_s=lambda n: 0.002 if n == 0 else 0.004 * n, cpu_s=0.002),
        3.5,
    ),
    "flat": (Truth(make_s=lambda n: 0.05 * max(1, n), cpu_s=0.005), 22),
    "peak at 3": (peaked(3), 32),
    "peak at 20": (peaked(20), 33),
    "two humps": (
        Truth(make_s=lambda n: 0.1 * max(1, n) * np.interp(n, *HUMPS), cpu_s=0.004),
        37,
    ),
    "three disks": (
        Truth(make_s=lambda n: 0.032 if n <= 3 else 0.0213 * n, cpu_s=0.001),
        14.5,
    ),
    "training_step": (
        Truth(make_s=lambda n: 0.05 * max(1, n / 2), cpu_s=0.05, step_s=0.1),
        8.5,
    ),
    "crashes above": (replace(waiting(16), crashes=range(10, 65)), 10),
    "no length": (replace(waiting(4), batches=None), 12),
    "short": (replace(waiting(16), batches=20, start_s=0.03), 12),
    "lognormal": (replace(waiting(16), batches=400, weights=LOGNORMAL), 25),
    "second half": (replace(waiting(16), batches=400, weights=[0.1, 1.9]), 26),
}
# A peak may lie between the few numbers of workers that are measured; a few dear
# batches may lie in no window.
UNCERTAIN = ("peak at 3", "peak at 20", "lognormal")


@pytest.mark.parametrize("name", TRUTHS)
def test_the_recommended_candidate_is_close_to_the_best_and_costs_no_more_than_it_did(
    name: str,
) -> None:
    truth, most_s = TRUTHS[name]
    prices = {n: truth.price(n) for n in CANDIDATES if n not in truth.crashes}
    found, cost_s = searched(truth)
    assert prices[found] / min(prices.values()) - 1 <= (
        0.18 if name in UNCERTAIN else 0.12
    )
    assert cost_s <= most_s
