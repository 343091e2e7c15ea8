"""What batches, the main process and the life of workers cost, from the windows of a
trial. Pure.

Times of a trial with workers come from the records of the workers; without workers from
the main process, which makes the batches itself. ``spans_of`` replays the batches of a
trial in their order: since the batches are the same, the comparison with the measured
windows does not depend on what the batches cost, on how full the queue was, or on
batches that held up later batches. The times in the records are those in which the
processes were not paused.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from nws_sweep.model.model import FORKED_S
from nws_sweep.model.queue import QueueSettings, replay
from nws_sweep.records import BatchCost, BatchRecord, LoopCosts, Span, TimeSlice, Window
from nws_sweep.searching.counters import all_windows
from nws_sweep.searching.schedule import Conditions, batches_in, steady_windows


class Placed(NamedTuple):
    """A window in its epoch."""

    window: Window
    round: int | None  # of its time slice
    numbers: range  # of its batches in the epoch


def epochs(slices: Sequence[TimeSlice]) -> list[list[Placed]]:
    """Lists the windows of each epoch."""
    windows_by_epoch: list[list[Placed]] = []
    taken = 0
    for time_slice in slices:
        for window in time_slice.windows:
            if window.startup_s is not None:
                windows_by_epoch.append([])
                taken = 0
            if windows_by_epoch:
                following = taken + window.batches
                windows_by_epoch[-1].append(
                    Placed(window, time_slice.round, range(taken, following))
                )
                taken = following
    return windows_by_epoch


def batch_records(slices: Sequence[TimeSlice]) -> tuple[BatchRecord, ...]:
    """Lists the records of all batches, epoch by epoch in their order; records of an
    epoch without windows are last."""
    windows_by_epoch = epochs(slices)
    records: list[BatchRecord] = []
    for epoch, windows in enumerate(windows_by_epoch):
        for placed in windows:
            records += [
                replace(record, epoch=epoch) for record in placed.window.records
            ]
    for time_slice in slices:
        records += [
            replace(record, epoch=len(windows_by_epoch))
            for record in time_slice.records
        ]
    return tuple(records)


def loop_costs(slices: Sequence[TimeSlice], conditions: Conditions) -> LoopCosts | None:
    """Computes the costs besides making batches; None before the first batch. What is
    not known counts as 0."""
    windows = all_windows(slices)
    # The first training steps take longer.
    counting = [
        window for window in windows if window.counts and window.batches
    ] or windows
    batches = batches_in(counting)
    if not batches:
        return None
    loop = LoopCosts(
        sampler_s=_sampler_s(windows, conditions),
        step_s=sum(sum(window.step_s) for window in counting) / batches,
        step_cpu_s=sum(window.step_cpu_s or 0.0 for window in counting) / batches,
    )
    return (
        _with_workers(loop, slices, conditions)
        if conditions.settings.num_workers
        else loop
    )


def _with_workers(
    loop: LoopCosts, slices: Sequence[TimeSlice], conditions: Conditions
) -> LoopCosts:
    """Adds the costs of receiving batches, and of the life of the workers."""
    workers, windows = conditions.settings.num_workers, all_windows(slices)
    batches = batches_in(windows)
    receive_s = receive_cpu_s(windows)
    delay_s = sum(window.receive_delay_s for window in windows) / batches
    ready_s = [
        wait_s for epoch in epochs(slices) for wait_s in _waits_for_ready_batches(epoch)
    ]
    receive_wait_s = 0.0
    if ready_s:
        receive_wait_s = max(
            0.0, statistics.median(ready_s) - receive_s - delay_s - loop.sampler_s
        )
    starts_s = [
        window.start_cpu_s for window in windows if window.start_cpu_s is not None
    ]
    if conditions.settings.persistent_workers:
        starts_s = starts_s[:1]  # later epochs start no workers
    worker_starts = [window.worker_start for window in windows if window.worker_start]
    worker_start = worker_starts[-1] if worker_starts else BatchCost(0.0, 0.0)
    return replace(
        loop,
        receive_s=receive_s,
        receive_wait_s=receive_wait_s,
        fork_s=min(starts_s, default=0.0) / workers,
        start_s=worker_start.cpu_s,
        start_wait_s=worker_start.wait_s,
        stop_s=end_of_workers_s(windows, conditions)
        * min(conditions.cores, workers)
        / workers,
    )


def receive_cpu_s(windows: Sequence[Window]) -> float:
    """Computes the mean CPU seconds of the main process for receiving a batch from a
    worker; 0 without batches."""
    return sum(window.receive_cpu_s or 0.0 for window in windows) / max(
        1, batches_in(windows)
    )


def _sampler_s(windows: Sequence[Window], conditions: Conditions) -> float:
    """Computes the seconds in the sampler for the indices of one batch; a start draws
    the indices of a whole queue."""
    within_epochs = [
        window for window in windows if window.startup_s is None and window.batches
    ]
    if within_epochs:
        return sum(window.sampler_s for window in within_epochs) / batches_in(
            within_epochs
        )
    drawn = sum(
        window.batches + conditions.settings.queued_batches for window in windows
    )
    if conditions.length is not None:
        drawn = min(drawn, conditions.length * len(windows))
    return sum(window.sampler_s for window in windows) / max(1, drawn)


def end_of_workers_s(windows: Iterable[Window], conditions: Conditions) -> float:
    """Computes the seconds from the last batch of an epoch until all workers have
    ended; 0 if they persist.

    They are measured where an epoch ended, or where one was left whose workers were
    idle, else estimated: the workers compute together as they end.
    """
    settings = conditions.settings
    if not settings.num_workers or settings.persistent_workers:
        return 0.0
    ends_s = [
        window.stop_s if window.end_s is None else window.end_s for window in windows
    ]
    measured_s = [end_s for end_s in ends_s if end_s is not None]
    if measured_s:
        return statistics.fmean(measured_s)
    return FORKED_S * settings.num_workers / min(conditions.cores, settings.num_workers)


def _waits_for_ready_batches(epoch: Sequence[Placed]) -> Iterator[float]:
    """Yields the waits for batches that lay ready, for at least as long as their making
    took.

    A worker transfers a batch in another thread, beside the making of its next batch:
    the batch lies ready later than its copying takes, the more so if Python code keeps
    the GIL. The first wait of an epoch contains the start of workers.
    """
    records = {
        record.number: record for placed in epoch for record in placed.window.records
    }
    for window, _, numbers in epoch:
        asked_s = window.began_s
        for number, wait_s, step_s in zip(
            numbers, window.wait_s, window.step_s, strict=True
        ):
            record = records.get(number)
            if record is not None and number:
                ready_s = record.ended_s + record.cost.copy_s
                if asked_s - ready_s > record.ended_s - record.began_s:
                    yield wait_s
            asked_s += wait_s + step_s


def spans_of(
    slices: Sequence[TimeSlice],
    records: Sequence[BatchRecord],
    loop: LoopCosts,
    settings: QueueSettings,
) -> tuple[Span, ...]:
    """Makes one span for each window within an epoch that counts, in their order; none
    without records.

    Args:
        slices: Time slices of a trial.
        records: Records of the batches; batches without a record count with the mean
            cost.
        loop: Costs of the main process and of the life of the workers.
        settings: The queue, and the CPUs that fill it.
    """
    if not records:
        return ()
    spans: list[Span] = []
    for epoch, windows in enumerate(epochs(slices)):
        steady = steady_windows(placed.window for placed in windows)
        if not steady:
            continue
        of_epoch = [record for record in records if record.epoch == epoch] or records
        costs = _costs_in_order(
            of_epoch, windows[-1].numbers.stop + settings.queued_batches
        )
        # before the first batch, and after each
        returned_s = (0.0, *replay(costs, loop, settings).returned_s)
        for window, round_number, numbers in windows:
            if window in steady:
                replayed_s = returned_s[numbers.stop] - returned_s[numbers.start]
                span = Span(
                    measured_s=window.elapsed_s,
                    replayed_s=replayed_s,
                    batches=window.batches,
                    round=round_number,
                )
                spans.append(span)
    return tuple(spans)


def _costs_in_order(records: Sequence[BatchRecord], count: int) -> list[BatchCost]:
    """Lists the costs of the first batches of an epoch; batches without a record have
    the mean cost."""
    costs = {record.number: record.cost for record in records}
    mean = BatchCost.mean_of([*costs.values()])
    return [costs.get(number, mean) for number in range(count)]
