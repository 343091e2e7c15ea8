"""Which settings a running training should have from now on, by replaying what it has done so far. Pure.

The training is not to wait for batches, and beyond that it needs no faster loader: of settings that are predicted to be
equally fast, the one with the fewest workers and then the smallest ``prefetch_factor`` is chosen. Workers are counted
for loading that takes a quarter longer than so far.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nws_sweep.replay.model import FORKED_S, Model, model_of, queue_settings
from nws_sweep.replay.prediction import Records
from nws_sweep.results import DEFAULT_PREFETCH, LoaderSettings, Trial
from nws_sweep.system import processes

_FEW_BATCHES, _QUEUES = 250, 8  # so many batches are replayed if they are so many times the queue
_SPARE = 1.25  # workers are chosen so that loading may take so many times as long
_WORTH_SAVING = 0.75  # fewer workers are chosen if they are at most this share
_MUCH = 1 / 3  # of the time of making a batch
_UNKNOWN_BATCHES = 1000  # ahead, if that is not known
_PREFETCH = (4, 8)
_RARELY_WAITS = 0.02  # of its time: such a training gains nothing from another loader


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """What lies ahead of a loader.

    Attributes:
        base: Settings of the loader as the program made it.
        cpus: CPUs that the training and its workers may use.
        allowed: Whether settings fit into memory, shared memory and the limits of the system.
        fewest_workers: The smallest number of workers.
        most_workers: The largest number of workers.
        prefetches: Whether ``prefetch_factor`` may change.
        batches: Batches of the epoch that are left, or of the next epoch; None if unknown.
        is_new_epoch: Whether a change takes place between two epochs, where workers are started anyway.
        tolerance: A smaller share of the time is not worth a change.
    """

    base: LoaderSettings
    cpus: float
    allowed: Callable[[LoaderSettings], bool]
    fewest_workers: int
    most_workers: int
    prefetches: bool
    batches: int | None
    is_new_epoch: bool
    tolerance: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings, and the predicted seconds of the batches ahead with them and with the current settings."""

    settings: LoaderSettings
    predicted_s: float
    current_s: float


def waiting_share(trial: Trial) -> float:
    """Share of the time of a batch in which the training waits for it; 1 if unknown."""
    found = trial.measurement
    return 1.0 if found is None or found.stall_fraction is None else found.stall_fraction


def workers_may_not_help(trial: Trial) -> bool:
    """Whether the training waits for batches that cost a third of their making, or more, to be handed over.

    Beside workers that fill the memory with copies, making a batch takes longer than without workers. The records of
    workers do not show by how much.
    """
    if trial.loop is None or not trial.records or waiting_share(trial) < _RARELY_WAITS:
        return False
    costs = [record.cost for record in trial.records]
    made_s = statistics.fmean(cost.cpu_s + cost.wait_s for cost in costs)
    handed_over_s = statistics.fmean(cost.copy_s for cost in costs) + trial.loop.receive_s + trial.loop.receive_wait_s
    return handed_over_s >= _MUCH * made_s


def choose(trials: Sequence[Trial], current: LoaderSettings, ahead: Prospect) -> Choice | None:
    """The settings for the batches ahead; None if the current ones are as good, or nothing is known.

    Args:
        trials: Of the settings so far, at least one.
        current: Settings in use, one of the trials'.
        ahead: See ``Prospect``.
    """
    latest = next((trial for trial in reversed(trials) if trial.settings == current), None)
    if latest is None or (waiting_share(latest) < _RARELY_WAITS and not ahead.is_new_epoch):
        return None
    replays = _replays(trials, current, ahead)
    if replays is None:
        return None
    chosen = _cheapest(replays.changed(lambda records: records.slower(_SPARE)))
    now_s, then_s = replays.seconds(current), replays.seconds(chosen)
    is_faster = then_s * (1 + ahead.tolerance) < now_s
    is_smaller = ahead.is_new_epoch and chosen.num_workers <= _WORTH_SAVING * current.num_workers
    return Choice(chosen, then_s, now_s) if chosen != current and (is_faster or is_smaller) else None


def _cheapest(replays: _Replays) -> LoaderSettings:
    """The smallest settings about as fast as the fastest; a larger prefetch_factor may need fewer workers."""
    ahead, current = replays.ahead, replays.current
    own = ahead.base.prefetch_factor or DEFAULT_PREFETCH
    costs_s = {one: replays.seconds(one) for one in {**dict.fromkeys(_options(ahead, own)), current: None}}
    chosen = _smallest(costs_s, ahead.tolerance)
    larger = [factor for factor in _PREFETCH if factor > own] if ahead.prefetches else []
    for factor in larger:
        near = (one for one in _options(ahead, factor) if 0.5 <= one.num_workers / max(1, chosen.num_workers) <= 1)
        costs_s |= {one: replays.seconds(one) for one in near}
    return _smallest(costs_s, ahead.tolerance)


def _smallest(costs_s: Mapping[LoaderSettings, float], tolerance: float) -> LoaderSettings:
    enough_s = min(costs_s.values()) * (1 + tolerance / 2)
    return min((one for one, cost_s in costs_s.items() if cost_s <= enough_s), key=_size)


def _size(settings: LoaderSettings) -> tuple[int, int]:
    return settings.num_workers, settings.queued_batches


def _options(ahead: Prospect, prefetch_factor: int) -> Iterator[LoaderSettings]:
    """Numbers of workers in steps of a quarter."""
    number = ahead.fewest_workers
    while number <= ahead.most_workers:
        settings = replace(ahead.base, num_workers=number, prefetch_factor=prefetch_factor).canonical()
        if ahead.allowed(settings):
            yield settings
        number += max(1, number // 4)


@dataclass(frozen=True)
class _Replays:
    """Replays the batches ahead: few of them with a short queue, more with a long one."""

    current: LoaderSettings
    ahead: Prospect
    short: Model
    long: Model

    def changed(self, change: Callable[[Records], Records]) -> _Replays:
        """The same with other records."""
        return replace(self, short=_changed(self.short, change), long=_changed(self.long, change))

    def seconds(self, settings: LoaderSettings) -> float:
        """Predicted time of the batches ahead; new workers in the middle of an epoch cost the time of their start."""
        queue = queue_settings(settings, self.ahead.cpus)
        model = self.short if _QUEUES * queue.queued_batches <= _FEW_BATCHES else self.long
        if self.ahead.is_new_epoch:
            return model.epoch_s(queue)
        loop = model.records_for(queue.num_workers).loop
        # The training and the new workers, which import torch unless they are forked, start them side by side.
        start_s = 0.0 if settings == self.current else max(loop.fork_s or FORKED_S, loop.start_s / self.ahead.cpus)
        return queue.num_workers * start_s + (self.ahead.batches or _UNKNOWN_BATCHES) * model.batch_s(queue)


def _replays(trials: Sequence[Trial], current: LoaderSettings, ahead: Prospect) -> _Replays | None:
    batches = ahead.batches or _UNKNOWN_BATCHES
    method = ahead.base.multiprocessing_context or processes.start_method()
    long = model_of(trials, batches, ahead.cpus, method)
    if long is None:
        return None
    return _Replays(current, ahead, _changed(long, lambda records: replace(records, most=_FEW_BATCHES)), long)


def _changed(model: Model, change: Callable[[Records], Records]) -> Model:
    known = (replace(one, records=change(one.records)) for one in model.known)
    return replace(model, known=tuple(known))
