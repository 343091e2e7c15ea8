"""The rule that chooses settings: their time, priced by workers. Pure; searches, autotune and predictions share it.

The price of n workers is J(n) = t(n) x (1 + tolerance)^log2(1 + n), with t(n) the time of an epoch or a batch: twice as
many workers must save the tolerance of the time. Of the settings whose price exceeds the least by at most ``CLOSE``,
those with the fewest workers are chosen, then those with the shortest queue. Times under noise count by their
expectation.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from nws_sweep.replay.queue import QueueSettings
from nws_sweep.results import LoaderSettings

PREFETCH_FACTORS = (1, 2, 4, 8)  # that are tried
CLOSE = 0.01  # prices that differ by at most this share count as equal
PROMISING = 0.03  # share of the price that settings must promise to save before they are measured
_USUAL_WORKERS = 64  # more workers than these and the CPUs are tried only after
_LARGE_GAIN = 0.2  # a doubling that saved this share of the time


S = TypeVar("S", LoaderSettings, QueueSettings)


def price(cost_s: float, num_workers: int, tolerance: float) -> float:
    """The time, s, times the price of the workers; see the module."""
    return cost_s * math.pow(1 + tolerance, math.log2(1 + num_workers))


def choose(costs_s: Mapping[S, float], tolerance: float) -> S:
    """The settings to use, of at least one; ``costs_s`` are expected times of an epoch or a batch, s."""
    prices = {one: price(cost_s, one.num_workers, tolerance) for one, cost_s in costs_s.items()}
    limit = min(prices.values()) * (1 + CLOSE)
    return min((one for one, found in prices.items() if found <= limit), key=size)


def promising(measured_s: Mapping[S, float], predicted_s: Mapping[S, float], tolerance: float) -> S | None:
    """Of the settings that were not measured, those with the least predicted price, if they promise ``PROMISING``.

    Without any measured settings, those that ``choose`` takes; None if there are none.
    """
    untried = {one: cost_s for one, cost_s in predicted_s.items() if one not in measured_s}
    if not untried:
        return None
    best = choose(untried, tolerance)
    if not measured_s:
        return best
    answer = choose(measured_s, tolerance)
    least = price(measured_s[answer], answer.num_workers, tolerance)
    return best if price(untried[best], best.num_workers, tolerance) <= (1 - PROMISING) * least else None


def expected_loss(excess: float, spread: float) -> float:
    """The expectation of max(0, X), with X normal: the price that is lost by not choosing other settings, as a share.

    It is the linear loss function (Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961, section 11.2).

    Args:
        excess: Expected logarithm of the price of the chosen settings / that of the others.
        spread: Its standard deviation.
    """
    if spread <= 0:
        return max(0.0, excess)
    normal = statistics.NormalDist()
    return excess * normal.cdf(excess / spread) + spread * normal.pdf(excess / spread)


def most_workers(cpus: float, measured_s: Mapping[S, float]) -> int:
    """The most workers to try where the user set no limit: 64 or the CPUs, beyond that twice those measured.

    Beyond it only if the last doubling saved a fifth of the time, as measured.
    """
    largest, _, saved = last_doubling(measured_s)
    return max(_USUAL_WORKERS, int(cpus), 2 * largest if saved >= _LARGE_GAIN else largest)


def last_doubling(measured_s: Mapping[S, float]) -> tuple[int, int, float]:
    """The most workers, at most half as many, and the share of the time that each doubling between them saved.

    The share is 0 if it is unknown.
    """
    known = sorted(measured_s, key=size)
    largest = known[-1].num_workers if known else 0
    half = next((one for one in reversed(known) if 2 * one.num_workers <= largest), None)
    if half is None or not largest:
        return largest, 0, 0.0
    doublings = math.log2(largest / max(1, half.num_workers))
    return largest, half.num_workers, 1 - (measured_s[known[-1]] / measured_s[half]) ** (1 / max(1.0, doublings))


def costs_near_the_best(
    numbers: Sequence[int], costs_s: Callable[[Sequence[int]], Mapping[S, float]], tolerance: float
) -> dict[S, float]:
    """Predicted costs of a ladder of values of num_workers, and of the values near the best of them.

    Args:
        numbers: Ascending.
        costs_s: Gives the costs of settings with these values of num_workers; it may leave out some.
        tolerance: Share of the time that twice as many workers must save.
    """
    found = dict(costs_s(ladder(numbers)))
    near = ladder(numbers, choose(found, tolerance).num_workers) if found else []
    known = {one.num_workers for one in found}
    return found | dict(costs_s([number for number in near if number not in known]))


def ladder(numbers: Sequence[int], chosen: int = 0, beside: Sequence[int] = (-1, 0, 1)) -> list[int]:
    """Of ascending values of num_workers: both ends, doublings, and their neighbours; likewise around ``chosen``.

    Batches go to workers in turn, so an expensive batch may recur at each multiple of a number of workers.
    """
    steps = {round(chosen * 2 ** (step / 8)) for step in range(-8, 9)} if chosen else {3 * 2**n for n in range(11)}
    middle = {chosen} if chosen else {2**n for n in range(13)}
    wanted = {*steps, *(number + step for number in middle for step in beside), 0, *numbers[:1], *numbers[-1:]}
    return [number for number in numbers if number in wanted]


def size(settings: LoaderSettings | QueueSettings) -> tuple[int, int]:
    """The sort key of settings of which the first needs the fewest workers, then the shortest queue."""
    return settings.num_workers, settings.queued_batches
