"""Which settings a running training program should use from now on, by replaying its batches so far. Pure.

The time with other settings is predicted, and those are chosen that promise to save enough of the price
(``replay.choice``), the start of new workers included.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from nws_sweep.replay import choice
from nws_sweep.replay.bottlenecks import Bottleneck
from nws_sweep.replay.known import queue_settings
from nws_sweep.replay.model import model_of
from nws_sweep.results import LoaderSettings, Trial
from nws_sweep.system import processes

_MUCH = 1 / 3  # of the time of making a batch
_BATCHES = 300  # of an epoch that are replayed with each of the settings: training waits meanwhile
_RARELY_WAITS = 0.02  # of the time: such a program gains nothing from other settings


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """What lies ahead of a loader.

    Attributes:
        base: Settings of the loader as the program made it.
        cpus: CPUs that the program and its workers may use.
        fewest_workers: The smallest number of workers.
        most_workers: The largest number of workers.
        prefetches: Whether ``prefetch_factor`` may change.
        batches: Batches of the epoch that are left, or of the next epoch; None if unknown.
        is_new_epoch: Whether a change takes place between two epochs, where workers are started anyway.
        tolerance: Share of the time that twice as many workers must save.
        allowed: Whether settings fit into memory, shared memory and the limits of the system.
    """

    base: LoaderSettings
    cpus: float
    fewest_workers: int
    most_workers: int
    prefetches: bool
    batches: int | None
    is_new_epoch: bool
    tolerance: float
    allowed: Callable[[LoaderSettings], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings, and the predicted seconds per batch ahead with them and with the current settings."""

    settings: LoaderSettings
    predicted_s: float
    current_s: float


def waiting_share(trial: Trial) -> float:
    """Share of the time of a batch that is spent waiting for it; 1 if unknown."""
    found = trial.measurement
    return 1.0 if found is None or found.stall_fraction is None else found.stall_fraction


def workers_may_not_help(trial: Trial) -> bool:
    """Whether training waits for batches whose transfer costs at least a third of making them.

    Beside workers that fill the memory with copies, making a batch takes longer than without workers. The records of
    workers do not show by how much.
    """
    if trial.loop is None or not trial.records or waiting_share(trial) < _RARELY_WAITS:
        return False
    costs = [record.cost for record in trial.records]
    made_s = statistics.fmean(cost.cpu_s + cost.wait_s for cost in costs)
    handed_over_s = statistics.fmean(cost.copy_s for cost in costs) + trial.loop.receive_s + trial.loop.receive_wait_s
    return handed_over_s >= _MUCH * made_s


def choose(trials: Mapping[LoaderSettings, Trial], current: LoaderSettings, ahead: Prospect) -> Choice | None:
    """The settings for the batches ahead; None if the current ones are as good, or nothing is known.

    Args:
        trials: Of the settings so far.
        current: Settings in use.
        ahead: See ``Prospect``.
    """
    latest = trials.get(current)
    if latest is None or (waiting_share(latest) < _RARELY_WAITS and not ahead.is_new_epoch):
        return None
    method = ahead.base.multiprocessing_context or processes.start_method()
    model = model_of(list(trials.values()), ahead.batches, ahead.cpus, method, _BATCHES)
    if model is None:
        return None

    def cost_s(settings: LoaderSettings) -> float:
        """Predicted time per batch of those ahead; the workers in use need not be started in the middle of an epoch."""
        goes_on = settings == current and not ahead.is_new_epoch
        return model.cost_s(queue_settings(settings, ahead.cpus), without=(Bottleneck.STARTUP,) if goes_on else ())

    now_s = cost_s(current)
    enough_s = math.inf if ahead.is_new_epoch else (1 - choice.PROMISING) * now_s  # fewer workers alone can wait
    best, costs_s = current, {current: now_s}
    for others_s in _predicted(cost_s, ahead):
        quick_s = {one: then_s for one, then_s in others_s.items() if then_s <= enough_s}
        costs_s |= quick_s
        best = choice.promising({best: costs_s[best]}, quick_s, ahead.tolerance) or best
    return Choice(best, costs_s[best], now_s) if best != current else None


def _predicted(cost_s: Callable[[LoaderSettings], float], ahead: Prospect) -> Iterator[dict[LoaderSettings, float]]:
    """Predicted seconds per batch with other num_workers and longer queues; then with shorter ones.

    A shorter queue that is as fast as predicted has less reserve.
    """
    own, numbers = ahead.base.prefetched, range(ahead.fewest_workers, ahead.most_workers + 1)

    def costs_s(numbers: Iterable[int], prefetch_factor: int = own) -> dict[LoaderSettings, float]:
        settings = (replace(ahead.base, num_workers=n, prefetch_factor=prefetch_factor).canonical() for n in numbers)
        return {one: cost_s(one) for one in settings if ahead.allowed(one)}

    found = choice.costs_near_the_best(numbers, costs_s, ahead.tolerance)
    best = choice.choose(found, ahead.tolerance).num_workers if found and ahead.prefetches else 0
    factors, fewer = (choice.PREFETCH_FACTORS if best else ()), {best, best // 2 or best}
    for longer in (factor for factor in factors if factor > own):
        found |= costs_s(fewer, longer)
    yield found
    of_shorter: dict[LoaderSettings, float] = {}
    for shorter in (factor for factor in factors if factor < own):  # may have room for more workers
        of_shorter |= costs_s(fewer | {2 * best} & {*numbers}, shorter)
    yield of_shorter
