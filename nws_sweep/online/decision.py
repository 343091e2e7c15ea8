"""Which settings a running training program should use from now on, by replaying its batches so far. Pure.

The time with other settings is predicted, and those are chosen that promise to save enough of the price
(``replay.choice``), the start of new workers included.
"""

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nws_sweep.replay import choice
from nws_sweep.replay.bottlenecks import Bottleneck
from nws_sweep.replay.known import queue_settings
from nws_sweep.replay.model import model_of
from nws_sweep.results import LoaderSettings, Trial
from nws_sweep.system import processes

if TYPE_CHECKING:
    from nws_sweep.online.tuner import Tuner

_USUAL_LIMIT, _STEP = 32, 4  # most workers at first, and most workers / those in use
_MUCH = 1 / 3  # of the time of making a batch
_BATCHES = 300  # of an epoch that are replayed with each of the settings: training waits meanwhile
_RARELY_WAITS = 0.02  # of the time: such a program gains nothing from other settings


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings, and the predicted seconds per batch ahead with them and with the current settings."""

    settings: LoaderSettings
    predicted_s: float
    current_s: float


def pace_s(trial: Trial | None) -> float:
    """Seconds of a batch of a trial; of an epoch / its batches if epochs are short; 0 if unknown."""
    found = trial.measurement if trial else None
    return found.batch_s.value if found and found.batch_s else 0.0


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
    made_s = statistics.fmean(cost.making_s for cost in costs)
    handed_over_s = statistics.fmean(cost.copy_s for cost in costs) + trial.loop.receive_s + trial.loop.receive_wait_s
    return handed_over_s >= _MUCH * made_s


def fewest_workers(base: LoaderSettings) -> int:
    """Workers within an epoch of a loader with these settings: without workers, its samples draw random numbers of the
    main process.
    """
    return min(1, base.num_workers)


def choose(
    tuner: "Tuner",
    batches: int | None,
    *,
    is_new_epoch: bool,
    allowed: Callable[[LoaderSettings], bool] = lambda _: True,
) -> Choice | None:
    """The settings for the batches ahead; None if the current ones are as good, or nothing is known.

    Args:
        tuner: Of the loader, with the trials of its settings so far.
        batches: Batches of the epoch that are left, or of the next epoch; None if unknown.
        is_new_epoch: Whether a change takes place between two epochs, where workers are started anyway.
        allowed: Whether settings fit into memory, shared memory and the limits of the system.
    """
    base, current, latest = tuner.base, tuner.current, tuner.trials.get(tuner.current)
    if latest is None or (waiting_share(latest) < _RARELY_WAITS and not is_new_epoch):
        return None
    method = base.multiprocessing_context or processes.start_method()
    model = model_of(list(tuner.trials.values()), batches, tuner.cpus, method, _BATCHES)
    if model is None:
        return None

    def cost_s(settings: LoaderSettings) -> float:
        """Predicted time per batch of those ahead; the workers in use need not be started in the middle of an epoch."""
        goes_on = settings == current and not is_new_epoch
        return model.cost_s(queue_settings(settings, tuner.cpus), without=(Bottleneck.STARTUP,) if goes_on else ())

    def costs_s(numbers: Iterable[int], prefetch_factor: int = base.prefetched) -> dict[LoaderSettings, float]:
        settings = (replace(base, num_workers=n, prefetch_factor=prefetch_factor).canonical() for n in numbers)
        return {one: cost_s(one) for one in settings if allowed(one)}

    now_s = cost_s(current)
    enough_s = math.inf if is_new_epoch else (1 - choice.PROMISING) * now_s  # fewer workers alone can wait
    best, known_s = current, {current: now_s}
    numbers = range(0 if is_new_epoch else fewest_workers(base), _most_workers(tuner) + 1)
    for others_s in _predicted(tuner, numbers, costs_s):
        quick_s = {one: then_s for one, then_s in others_s.items() if then_s <= enough_s}
        known_s |= quick_s
        best = choice.promising({best: known_s[best]}, quick_s, tuner.configuration.search.tolerance) or best
    return Choice(best, known_s[best], now_s) if best != current else None


def _most_workers(tuner: "Tuner") -> int:
    paces_s = {settings: pace_s(trial) for settings, trial in tuner.trials.items() if pace_s(trial)}
    step = max(_USUAL_LIMIT, int(_STEP * tuner.cpus), _STEP * tuner.current.num_workers)
    limits = (step, choice.most_workers(tuner.cpus, paces_s), tuner.most_workers, tuner.distributes_among)
    return min(limit for limit in limits if limit is not None)


def _predicted(
    tuner: "Tuner", numbers: range, costs_s: Callable[..., dict[LoaderSettings, float]]
) -> tuple[dict[LoaderSettings, float], dict[LoaderSettings, float]]:
    """Predicted seconds per batch with other num_workers and longer queues; then with shorter ones.

    A shorter queue that is as fast as predicted has less reserve.
    """
    tolerance, shorter_s = tuner.configuration.search.tolerance, dict[LoaderSettings, float]()
    found = choice.costs_near_the_best(numbers, costs_s, tolerance)
    best = choice.choose(found, tolerance).num_workers if found and tuner.prefetches else 0
    fewer = {best, best // 2 or best}
    for factor in choice.PREFETCH_FACTORS if best else ():
        if factor > tuner.base.prefetched:
            found |= costs_s(fewer, factor)
        elif factor < tuner.base.prefetched:  # may have room for more workers
            shorter_s |= costs_s(fewer | {2 * best} & {*numbers}, factor)
    return found, shorter_s
