"""What batches, the main process and the life of workers cost, from the windows of a trial. Pure.

Times of a trial with workers come from the records of the workers; without workers from the main process, which makes
the batches itself. ``spans_of`` replays the batches of a trial in their order: since the batches are the same, the
comparison with the measured windows does not depend on what they cost, on how full the queue was, nor on batches that
held up others. The times in the records are those in which the processes were not paused.
"""

import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nws_sweep.replay.model import FORKED_S
from nws_sweep.replay.queue import QueueSettings, replay
from nws_sweep.results import BatchCost, BatchRecord, LoopCosts, Span, TimeSlice, Window
from nws_sweep.searching.schedule import Conditions, steady_windows


def batch_records(slices: Sequence[TimeSlice]) -> tuple[BatchRecord, ...]:
    """The records of all batches, epoch by epoch in their order."""
    placed = enumerate(epochs(slices))
    records = [replace(one, epoch=epoch) for epoch, found in placed for window, _ in found for one in window.records]
    further = (record for one in slices for record in one.records)
    return (*records, *(replace(record, epoch=len(epochs(slices))) for record in further))


Placed = tuple[Window, int | None]  # a window, and the round of its time slice


def epochs(slices: Sequence[TimeSlice]) -> list[list[Placed]]:
    """The windows by epoch."""
    found: list[list[Placed]] = []
    for time_slice in slices:
        for window in time_slice.windows:
            if window.startup_s is not None:
                found.append([])
            if found:
                found[-1].append((window, time_slice.round))
    return found


def loop_costs(slices: Sequence[TimeSlice], conditions: Conditions) -> LoopCosts | None:
    """Costs besides making batches; None before the first batch. What is not known counts as 0."""
    windows = [window for time_slice in slices for window in time_slice.windows]
    taken = sum(window.batches for window in windows)
    if not taken:
        return None
    workers = conditions.settings.num_workers
    starts_s = [window.start_cpu_s for window in windows if window.start_cpu_s is not None]
    if conditions.settings.persistent_workers:  # which later epochs do not start
        del starts_s[1:]
    start = next((window.worker_start for window in reversed(windows) if window.worker_start), BatchCost(0.0, 0.0))
    receive_s = sum(window.receive_cpu_s or 0.0 for window in windows) / taken
    delay_s = sum(window.receive_delay_s for window in windows) / taken
    sampler_s = _sampler_s(windows, conditions)
    # The first training steps take longer.
    counted = [window for window in windows if window.counts and window.batches] or windows
    taken = sum(window.batches for window in counted)
    ready_s = [wait_s for epoch in epochs(slices) if workers for wait_s in _waits_for_ready_batches(epoch)]
    return LoopCosts(
        receive_s=receive_s if workers else 0.0,
        receive_wait_s=max(0.0, statistics.median(ready_s) - receive_s - delay_s - sampler_s) if ready_s else 0.0,
        sampler_s=sampler_s,
        step_s=sum(sum(window.step_s) for window in counted) / taken,
        step_cpu_s=sum(window.step_cpu_s or 0.0 for window in counted) / taken,
        fork_s=min(starts_s, default=0.0) / workers if workers else 0.0,
        start_s=start.cpu_s,
        start_wait_s=start.wait_s,
        stop_s=end_of_workers_s(windows, conditions) * min(conditions.cores, workers) / workers if workers else 0.0,
    )


def _sampler_s(windows: Sequence[Window], conditions: Conditions) -> float:
    """Seconds in the sampler for the indices of one batch; a start draws those of a whole queue."""
    if within := [window for window in windows if window.startup_s is None and window.batches]:
        return sum(window.sampler_s for window in within) / sum(window.batches for window in within)
    drawn = sum(window.batches + conditions.settings.queued_batches for window in windows)
    if conditions.length is not None:
        drawn = min(drawn, conditions.length * len(windows))
    return sum(window.sampler_s for window in windows) / max(1, drawn)


def end_of_workers_s(windows: Iterable[Window], conditions: Conditions) -> float:
    """Seconds from the last batch of an epoch until its workers have ended, which compute together; 0 if they persist.

    Measured where an epoch ended, or where one was left whose workers were idle, else estimated.
    """
    settings = conditions.settings
    if not settings.num_workers or settings.persistent_workers:
        return 0.0
    measured_s = [end_s for one in windows if (end_s := one.stop_s if one.end_s is None else one.end_s) is not None]
    estimate_s = FORKED_S * settings.num_workers / min(conditions.cores, settings.num_workers)
    return statistics.fmean(measured_s) if measured_s else estimate_s


def _waits_for_ready_batches(epoch: Sequence[Placed]) -> Iterator[float]:
    """The waits for batches that lay ready, for at least as long as their making took.

    A worker transfers a batch in a thread of its own, beside the making of its next batch: it lies ready later than its
    copying takes, the more so if Python code keeps the GIL. The first wait of an epoch contains the start of workers.
    """
    made = {record.number: record for window, _ in epoch for record in window.records}
    number = 0
    for window, _ in epoch:
        asked_s = window.began_s
        for wait_s, step_s in zip(window.wait_s, window.step_s, strict=True):
            record = made.get(number)
            if number and record and asked_s - (record.ended_s + record.cost.copy_s) > record.ended_s - record.began_s:
                yield wait_s
            asked_s += wait_s + step_s
            number += 1


def spans_of(
    slices: Sequence[TimeSlice], records: Sequence[BatchRecord], loop: LoopCosts, settings: QueueSettings
) -> tuple[Span, ...]:
    """One span for each window within an epoch that counts, in their order; none without records.

    Args:
        slices: Of a trial.
        records: Of its batches; those that are missing count with the mean cost.
        loop: Costs of its main process and of its workers' life.
        settings: Of its queue.
    """
    if not records:
        return ()
    spans = []
    for number, placed in enumerate(epochs(slices)):
        ends = itertools.accumulate(window.batches for window, _ in placed)
        counted = [
            (window, end, each) for (window, each), end in zip(placed, ends, strict=True) if steady_windows([window])
        ]
        if counted:
            made = [record for record in records if record.epoch == number] or records
            sequence = _costs_of(made, sum(window.batches for window, _ in placed) + settings.queued_batches)
            returned_s = (0.0, *replay(sequence, loop, settings).returned_s)
            spans += [_span(window, returned_s[end - window.batches], returned_s[end], n) for window, end, n in counted]
    return tuple(spans)


def _costs_of(made: Sequence[BatchRecord], count: int) -> list[BatchCost]:
    known = {record.number: record.cost for record in made}
    mean = BatchCost.mean_of([*known.values()])
    return [known.get(number, mean) for number in range(count)]


def _span(window: Window, began_s: float, ended_s: float, number: int | None) -> Span:
    return Span(measured_s=window.elapsed_s, replayed_s=ended_s - began_s, batches=window.batches, round=number)
