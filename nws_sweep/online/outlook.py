"""What is predicted of a running training, and what other settings need of the machine."""

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from nws_sweep.model import choice
from nws_sweep.model.bottlenecks import Bottleneck
from nws_sweep.model.known import queue_settings
from nws_sweep.model.model import model_of
from nws_sweep.model.promise import promised_s
from nws_sweep.online.times import Measured
from nws_sweep.records import LoaderSettings, Trial
from nws_sweep.system import resources, usage

_MUCH = 1 / 3  # of the time of making a batch

Predict = Callable[[LoaderSettings], float]


def predictor(
    trials: Mapping[LoaderSettings, Trial],
    current: LoaderSettings,
    batches: int | None,
    *,
    cpus: float,
    start_method: str,
    is_new_epoch: bool,
) -> Predict | None:
    """Predicts the seconds of a batch with any settings; None if no costs of batches are known.

    Args:
        trials: What was measured, by settings; the current settings are among them.
        current: Settings in use.
        batches: Of the epoch that are left, or of the next epoch; None if unknown.
        cpus: CPUs that the program and its workers may use.
        start_method: Of workers.
        is_new_epoch: Whether the batches are of another epoch, for which the workers in use are started too.
    """
    # The costs of batches do not depend on the queue: one trial for each number of workers.
    by_workers = {trial.num_workers: trial for trial in (*trials.values(), trials[current])}
    model = model_of([*by_workers.values()], batches, cpus, start_method)
    if model is None:
        return None

    fed = trials[current].fed_workers

    def predict_s(settings: LoaderSettings) -> float:
        queue = queue_settings(settings, cpus)
        if fed is not None:  # other workers have nothing to do
            queue = replace(queue, num_workers=min(queue.num_workers, fed))
        if settings not in trials:
            return promised_s(model, queue)
        goes_on = settings == current and not is_new_epoch
        return model.cost_s(queue, without=(Bottleneck.STARTUP,) if goes_on else ())

    return predict_s


def workers_may_not_help(trial: Trial, measured: Measured) -> bool:
    """Whether training waits for batches whose transfer costs at least a third of making them.

    Beside workers that fill the memory with copies, making a batch takes longer than without workers. The records of
    workers do not show by how much.
    """
    if trial.loop is None or not trial.records or measured.waiting_share < choice.PROMISING:
        return False
    costs = [record.cost for record in trial.records]
    making_s = statistics.fmean(cost.making_s for cost in costs)
    copying_s = statistics.fmean(cost.copy_s for cost in costs)
    return copying_s + trial.loop.receive_s + trial.loop.receive_wait_s >= _MUCH * making_s


def refusals(
    trials: Iterable[Trial], current: LoaderSettings, worker_pid: int | None, ranks: int, *, frees_current: bool
) -> Callable[[LoaderSettings], str]:
    """Says why settings do not fit into what is free now; empty if they do.

    Args:
        trials: Which show the size of a batch.
        current: Settings in use.
        worker_pid: Of a worker in use, whose memory another worker needs too; None if there is none.
        ranks: Of this host, which change at the same time.
        frees_current: Whether the batches in use are there now, and no longer when others are made.
    """
    windows = [window for trial in trials for window in trial.windows]
    worker_bytes = usage.private_bytes(worker_pid) if worker_pid else 0
    needs = replace(resources.resource_needs(windows, {}), worker_bytes=worker_bytes * ranks)
    free = resources.now(None)
    if frees_current and free.shm_bytes is not None and current.num_workers:
        in_use_bytes = ranks * (current.queued_batches + 1) * needs.batch_bytes
        free = replace(free, shm_bytes=free.shm_bytes + in_use_bytes)
    return lambda settings: resources.reason_not_fitting(settings, needs, free, ranks)
