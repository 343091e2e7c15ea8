"""The situation of a running training: what was measured of it, what is predicted, and
what the machine allows."""

import functools
from collections.abc import Callable
from dataclasses import replace

from nws_sweep.model import choice
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.known import queue_settings
from nws_sweep.model.model import model_of
from nws_sweep.model.promise import promised_s
from nws_sweep.online.decision import Keep, Situation, Try
from nws_sweep.online.loader_state import LoaderState, fewest_within_epochs
from nws_sweep.records import LoaderSettings
from nws_sweep.system import host, processes, resources, usage

_INFLATED = 1.5  # making a batch beside workers / making it without workers


def situation_of(state: LoaderState, batch: int) -> Situation | None:
    """What a decision depends on; None if the costs of too few batches are known.

    Args:
        state: Of the loader; the current settings were measured.
        batch: Batches of the epoch that others follow; 0 for another epoch, for which
            workers are started anyway.
    """
    predict_s = _predictor(state, batch)
    if predict_s is None:
        return None
    fewest = fewest_within_epochs(state.base) if batch else 0
    return Situation(
        base=state.base,
        current=state.current,
        measured_s=state.times.batch_s or {state.current: predict_s(state.current)},
        predict_s=predict_s,
        rules=state.configuration.search,
        workers=range(fewest, _most_workers(state) + 1),
        prefetches=state.prefetches,
        reorders=state.reorders,
        must_save_time=batch > 0,
        refusal=_refusal(state, batch),
    )


def _predictor(
    state: LoaderState, batch: int
) -> Callable[[LoaderSettings], float] | None:
    """Predicts the seconds of a batch with any settings; None if no costs of batches
    are known."""
    trials, current, cpus = state.trials, state.current, state.cpus
    # The costs of batches do not depend on the queue: one trial for each number of
    # workers.
    by_workers = {trial.num_workers: trial for trial in trials.values()}
    by_workers[current.num_workers] = trials[current]
    start_method = state.base.multiprocessing_context or processes.start_method()
    left = None if state.batches_per_epoch is None else state.batches_per_epoch - batch
    epochs = state.configuration.measure.shared_epochs
    model = model_of([*by_workers.values()], left, cpus, start_method, epochs)
    if model is None:
        return None

    fed = trials[current].fed_workers

    def predict_s(settings: LoaderSettings) -> float:
        queue = queue_settings(settings, cpus)
        if fed is not None:  # other workers have nothing to do
            queue = replace(queue, num_workers=min(queue.num_workers, fed))
        if settings not in trials:
            return promised_s(model, queue)
        goes_on = settings == current and batch > 0
        return model.cost_s(queue, without=(Bottleneck.STARTUP,) if goes_on else ())

    return predict_s


def _most_workers(state: LoaderState) -> int:
    """The most workers that may be tried: as the CPUs allow unless there is a limit,
    and all of them with batches."""
    most = state.most_workers
    if most is None:
        most = choice.most_workers(state.cpus, state.times.batch_s)
    limits = [trial.fed_workers for trial in state.trials.values()]
    for limit in (*limits, state.distributes_among):
        if limit is not None:
            most = min(most, limit)
    return most


def _refusal(state: LoaderState, batch: int) -> Callable[[LoaderSettings], str]:
    """Says why settings may not be used now; empty if they may. Looks at the machine
    when it is first called."""
    shared = functools.cache(state.shared)
    not_fitting = functools.cache(lambda: _not_fitting(state, batch))
    return lambda settings: shared() or not_fitting()(settings)


def _not_fitting(state: LoaderState, batch: int) -> Callable[[LoaderSettings], str]:
    """Says why settings do not fit into what is free now; empty if they do. Ranks of a
    host change at the same time."""
    current, ranks = state.current, host.local_ranks() if state.others else 1
    windows = [window for trial in state.trials.values() for window in trial.windows]
    # Another worker needs the memory of a worker in use too.
    worker_bytes = usage.private_bytes(state.worker_pids[0]) if state.worker_pids else 0
    needs = replace(
        resources.resource_needs(windows, {}), worker_bytes=worker_bytes * ranks
    )
    free = resources.now(None)
    has_ended = any(window.ended_epoch for window in state.trials[current].windows[-1:])
    # The batches in use are there now, and no longer when those of another epoch are
    # made.
    is_next_epoch = not batch and not has_ended and current.num_workers
    if is_next_epoch and free.shm_bytes is not None:
        in_use_bytes = ranks * (current.queued_batches + 1) * needs.batch_bytes
        free = replace(free, shm_bytes=free.shm_bytes + in_use_bytes)
    return lambda settings: resources.reason_not_fitting(settings, needs, free, ranks)


def workers_may_not_help(
    state: LoaderState, situation: Situation, decision: Try | Keep
) -> bool:
    """Whether no workers are tried, since workers do not show how long batches take
    without them.

    Beside workers, which fill caches and memory with copies, making a batch takes
    longer; the records of workers do not show by how much. So no workers are tried if
    they promise to be as fast as anything else, were batches made that much faster.

    Args:
        state: Of the loader; the current settings were measured.
        situation: For another epoch.
        decision: In this situation.
    """
    trial = state.trials[state.current]
    if trial.loop is None or not all(settings.num_workers for settings in state.trials):
        return False
    if state.times.measured[state.current].waiting_share < choice.PROMISING:
        return False
    predict_s, step_s = situation.predict_s, trial.loop.step_s
    others_s = [predict_s(settings) for settings in state.trials]
    if isinstance(decision, Try):
        others_s.append(decision.predicted_s)
    making_s = predict_s(state.base.with_workers(0)) - step_s
    return making_s / _INFLATED + step_s <= min(others_s)
