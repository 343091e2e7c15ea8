"""The rule that chooses settings: their time, priced by workers. Pure; searches,
autotune and predictions share it.

The price of n workers is J(n) = t(n) x (1 + tolerance)^log2(1 + n), with t(n) the time
of an epoch or a batch: twice as many workers must save the tolerance of the time. Of
the settings whose price exceeds the least by at most ``CLOSE``, those with the fewest
workers are chosen, then those with the shortest queue. Times under noise count by their
expectation.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from nws_sweep.model.queue import QueueSettings
from nws_sweep.model.stats import student_t
from nws_sweep.records import LoaderSettings

PREFETCH_FACTORS = (1, 2, 4, 8)  # that are tried
CLOSE = 0.01  # prices that differ by at most this share count as equal
# share of the price that settings must promise to save before they are measured
PROMISING = 0.03
_USUAL_WORKERS = 64  # more workers than these and the CPUs are tried only after
_LARGE_GAIN = 0.2  # a doubling that saved this share of the time


S = TypeVar("S", LoaderSettings, QueueSettings)


def price(cost_s: float, num_workers: int, tolerance: float) -> float:
    """Multiplies a time, s, by the price of the workers; see the module."""
    return cost_s * math.pow(1 + tolerance, math.log2(1 + num_workers))


def choose(costs_s: Mapping[S, float], tolerance: float) -> S:
    """Chooses the settings to use, of at least one; ``costs_s`` are expected times of
    an epoch or a batch, s."""
    prices = {
        settings: price(cost_s, settings.num_workers, tolerance)
        for settings, cost_s in costs_s.items()
    }
    limit = min(prices.values()) * (1 + CLOSE)
    cheapest = [settings for settings in prices if prices[settings] <= limit]
    return min(cheapest, key=size)


def promising(
    measured_s: Mapping[S, float], predicted_s: Mapping[S, float], tolerance: float
) -> S | None:
    """Chooses the settings to measure next: those with the least predicted price, if
    they promise ``PROMISING``.

    Without any measured settings, those that ``choose`` takes; None if all were
    measured or none promises enough.
    """
    untried_s = {
        settings: cost_s
        for settings, cost_s in predicted_s.items()
        if settings not in measured_s
    }
    if not untried_s:
        return None
    best = choose(untried_s, tolerance)
    if not measured_s:
        return best
    answer = choose(measured_s, tolerance)
    least = price(measured_s[answer], answer.num_workers, tolerance)
    promised = price(untried_s[best], best.num_workers, tolerance)
    return best if promised <= (1 - PROMISING) * least else None


def expected_loss(excess: float, spread: float, freedom: float) -> float:
    """Computes the expectation of max(0, X), X of a Student's t distribution: the share
    of the price lost by not choosing other settings.

    It is a linear loss function (Raiffa and Schlaifer, Applied Statistical Decision
    Theory, 1961). With the density f and the degrees of freedom n, the integral of
    u f(u) from -t on is f(t) (n + t^2) / (n - 1).

    Args:
        excess: Expected logarithm of the price of the chosen settings / that of the
            others.
        spread: Its standard deviation, estimated with ``freedom`` degrees of freedom,
            at least 2.
    """
    if spread <= 0:
        return max(0.0, excess)
    t = excess / spread
    density, share = student_t(t, freedom)
    tail = spread * density * (freedom + t * t) / (freedom - 1)
    return excess * share + tail


def most_workers(cpus: float, measured_s: Mapping[S, float]) -> int:
    """Limits the workers to try where the user set no limit: to 64 or the CPUs, beyond
    that to twice those measured.

    Beyond it only if the last doubling saved a fifth of the time, as measured: of at
    least twice as many workers as the next settings have, each doubling between them
    counts the same.
    """
    usual = max(_USUAL_WORKERS, int(cpus))
    if not measured_s:
        return usual
    largest = max(measured_s, key=size)
    half = [
        settings
        for settings in measured_s
        if 2 * settings.num_workers <= largest.num_workers
    ]
    if not half or not largest.num_workers:
        return max(usual, largest.num_workers)
    before = max(half, key=size)
    doublings = math.log2(largest.num_workers / max(1, before.num_workers))
    saved_enough_s = measured_s[before] * (1 - _LARGE_GAIN) ** max(1.0, doublings)
    if measured_s[largest] <= saved_enough_s:
        return max(usual, 2 * largest.num_workers)
    return max(usual, largest.num_workers)


def costs_near_the_best(
    candidates: Sequence[S], cost_s: Callable[[S], float | None], tolerance: float
) -> dict[S, float]:
    """Predicts the costs of a ladder of settings, and of the settings near the best of
    them.

    Args:
        candidates: Settings that differ in num_workers, ascending.
        cost_s: Gives the cost of settings; None leaves them out.
        tolerance: Share of the time that twice as many workers must save.
    """
    costs_s: dict[S, float] = {}
    numbers = [settings.num_workers for settings in candidates]
    for _ in range(2):  # among all candidates, then around the best
        best = choose(costs_s, tolerance).num_workers if costs_s else 0
        near = ladder(numbers, best)
        for settings in candidates:
            if settings.num_workers in near and settings not in costs_s:
                predicted_s = cost_s(settings)
                if predicted_s is not None:
                    costs_s[settings] = predicted_s
    return costs_s


def ladder(
    numbers: Sequence[int], chosen: int = 0, beside: Sequence[int] = (-1, 0, 1)
) -> list[int]:
    """Selects from ascending values of num_workers: both ends, doublings with their
    neighbours, and what is between.

    With ``chosen`` instead of doublings: it with its neighbours, and eight steps up to
    its double and to its half. Batches go to workers in turn, so an expensive batch may
    recur at each multiple of a number of workers.
    """
    if chosen:
        main = [chosen]
        between = [round(chosen * 2 ** (eighth / 8)) for eighth in range(-8, 9)]
    else:
        main = [2**n for n in range(13)]
        between = [3 * 2**n for n in range(11)]
    wanted = {0, *numbers[:1], *numbers[-1:], *between}
    for number in main:
        wanted.update(number + step for step in beside)
    return [number for number in numbers if number in wanted]


def size(settings: LoaderSettings | QueueSettings) -> tuple[int, int]:
    """Sorts settings: the fewest workers first, then the shortest queue."""
    return settings.num_workers, settings.queued_batches
