"""The adaptive search on simulated machines: what it finds, and what that costs, over many searches."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from tests.simulated_search import Truth, run

CANDIDATES = tuple(range(65))
SEEDS = range(40)


def waiting(knee: int, loading_s: float = 0.32) -> Truth:
    """A dataset that waits, and a consumer that the knee's number of workers keeps busy."""
    consume_s = loading_s / knee
    return Truth(
        batch_s=lambda n: max(loading_s / n, consume_s) if n else loading_s + consume_s,
        cpu_s=0.002,
        consume_s=consume_s,
    )


def computing(cores: int) -> Truth:
    """A dataset that computes, with 10 % on top where batches move between processes."""
    return Truth(batch_s=lambda n: 0.04 / min(n, cores) * 1.1 if n else 0.04, cpu_s=0.04, cores=cores)


def peaked(best: int) -> Truth:
    """Workers that get into each other's way beyond the best number."""
    return Truth(batch_s=lambda n: 0.2 / max(1, min(n, best)) * (1 + 0.05 * max(0, n - best)), cpu_s=0.01)


def two_humps() -> Truth:
    """Better and better up to 4, worse at 8, best at 16."""
    places = {0: 1.0, 1: 1.0, 2: 0.5, 4: 0.25, 8: 0.33, 16: 0.15}

    def batch_s(n: int) -> float:
        below = max(place for place in places if place <= n)
        above = min((place for place in places if place >= n), default=16)
        share = (n - below) / (above - below) if above > below else 0.0
        return 0.1 * (places[below] * (1 - share) + places[above] * share)

    return Truth(batch_s=batch_s, cpu_s=0.004)


TRUTHS: dict[str, Truth] = {
    "knee at 1": waiting(1),
    "knee at 2": waiting(2),
    "knee at 4": waiting(4),
    "knee at 16": waiting(16),
    "knee at 48": waiting(48),
    "CPUs 2": computing(2),
    "CPUs 16": computing(16),
    "in memory": Truth(batch_s=lambda n: 0.002 if n == 0 else 0.004, cpu_s=0.002),
    "flat": Truth(batch_s=lambda n: 0.05, cpu_s=0.005),
    "peak at 6": peaked(6),
    "peak at 20": peaked(20),
    "two humps": two_humps(),
    "consumer": Truth(batch_s=lambda n: 0.1 if n else 0.15, cpu_s=0.05, consume_s=0.1),
    "crash": replace(waiting(8), crashes=(8,)),
    "crashes above": replace(waiting(16), crashes=range(10, 65)),
    "no length": replace(waiting(4), batches=None),
    "short": replace(waiting(16), batches=20, startup_s=lambda n: 0.05 + 0.03 * n),
}
# Candidates nearer than a tenth are not told apart, and of a steep peak the next one may be the better by so much.
STEEP = "peak at 20"


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize(("noise", "median", "most"), [(0.0, 0.055, 0.055), (0.03, 0.031, 0.07), (0.1, 0.055, 0.25)])
def test_what_it_recommends_is_close_to_the_best(name: str, noise: float, median: float, most: float) -> None:
    found = sorted(run(TRUTHS[name], noise, seed).regret(TRUTHS[name], CANDIDATES) for seed in SEEDS)
    assert statistics.median(found) <= (0.055 if name == STEEP else median)
    assert found[int(0.95 * len(found))] <= most


def test_what_it_costs_has_not_grown() -> None:
    """The geometric mean over all workloads, s; a change that is worth more of them says so here."""
    spent_s = [run(truth, 0.03, seed).spent_s for truth in TRUTHS.values() for seed in range(10)]
    assert statistics.geometric_mean(spent_s) <= 10.0
