"""What the turns of one trial say together, whether that is enough, and whether it can be true. Pure.

Both sides of the queue are looked at: batches taken by the consumer, and samples finished by the workers. Over a long
time both rates are equal; over any window they differ by what the queue holds more or less at its end. Where the queue
fills or empties from window to window, the steady pace is that of the slower side: a queue that fills has workers ahead
of what they can keep up (batches that wait behind a slow one, a consumer that is slower), one that empties a consumer
that lives on what lay ready. In balance it is the side that is not held up by the other: the workers where the consumer
waits, since what they finish does not come in multiples of the workers, else the consumer.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nws_sweep import units
from nws_sweep.measurement.schedule import (
    Conditions,
    counted,
    epoch_starts,
    epoch_windows,
    steady_windows,
    whole_epochs,
)
from nws_sweep.measurement.stats import estimate_mean, half_width, outliers
from nws_sweep.results import Estimate, Measurement, Noise, RankMeasurement, TimeSlice, Window, WindowKind

# A consumer that waits for a smaller share of its time is not held up by the workers.
_HARDLY_WAITS = 0.05
# Standard errors from which on a queue that fills or empties does so by more than chance.
_BEYOND_CHANCE = 2.0
# What measures until the interval is narrow picks intervals that are too narrow. With this factor, and the rule of
# ``converged``, a nominal 95 % covers 94 to 97 % in simulations (test_quantities.py), without them 90 to 96 %.
_SEQUENTIAL = 1.1
# A consumer with a smaller share of the time is the call of one that does nothing.
MIN_CONSUMER_SHARE = 0.01
_FEWEST_POINTS_FOR_GROWTH = 3
# What a process may read from storage by the way, such as a part of itself that it needs for the first time.
_MOST_STRAY_BYTES = 65536
# A fault brings its environment too, as far as the device reads ahead (128 kB to 8 MB).
_BYTES_OF_A_FAULT = 2**23
_PROGRAM_BYTES = 2**20
# CPU time and pace come from stretches that do not coincide to the batch.
_MARGIN = 1.05


def all_windows(slices: Sequence[TimeSlice]) -> list[Window]:
    """The windows of all turns in order."""
    return [window for time_slice in slices for window in time_slice.windows]


def summarise(slices: Sequence[TimeSlice], conditions: Conditions) -> Measurement:
    """The quantities of a trial.

    In mode ``epoch`` the end of an epoch counts, as for a stopwatch; in mode ``steady`` it does not, since only some
    candidates are seen to the end.

    Raises:
        ValueError: If no batch was taken at all.
    """
    windows = all_windows(slices)
    begun, epochs, steady = epoch_starts(windows, conditions), epoch_windows(windows), _steady(windows, conditions)
    if not begun:
        raise ValueError("no batch was taken")
    running = _running(slices)
    made = sum(_batches_made(time_slice, conditions) for time_slice in running)
    cpu_s = sum(time_slice.after.cpu_s - time_slice.before.cpu_s for time_slice in running)
    disk = [
        time_slice.after.disk_bytes - time_slice.before.disk_bytes
        for time_slice in running
        if time_slice.after.disk_bytes is not None and time_slice.before.disk_bytes is not None
    ]
    usable, batch_s = (steady.usable, steady.batch_s) if steady else (epochs, None)
    found = Measurement(
        startup_s=sum(window.startup_s or 0.0 for window in begun) / len(begun),
        epoch_s=_epoch_s(windows, steady, conditions),
        loading_s=_loading_s(windows, conditions),
        cpu_s=cpu_s / made if made and cpu_s > 0 else None,
        memory_bytes=_largest(time_slice.after.memory_bytes for time_slice in slices),
        shm_bytes=_largest(time_slice.after.shm_bytes for time_slice in slices),
        memory_growth_bytes=_growth_bytes(slices),
        disk_bytes=sum(disk) / made if made and disk else None,
        ranks=_of_ranks(usable, begun, batch_s),
    )
    if steady:
        return _with_pace(found, steady, conditions)
    return _with_shares(found, epochs) if epochs else found


def _of_ranks(usable: Sequence[Window], begun: Sequence[Window], batch_s: float | None) -> tuple[RankMeasurement, ...]:
    """The quantities of each rank; none for one alone."""
    usable = [window for window in usable if window.batches]
    count = min((len(window.ranks) for window in (*usable, *begun)), default=0) if usable else 0
    return tuple(_of_rank(number, usable, begun, batch_s) for number in range(count))


def _of_rank(number: int, usable: Sequence[Window], begun: Sequence[Window], batch_s: float | None) -> RankMeasurement:
    own = [window.ranks[number] for window in usable]
    startups_s = [window.ranks[number].startup_s or 0.0 for window in begun]
    taken = sum(window.batches for window in own)
    wait_s, consume_s = sum(sum(window.wait_s) for window in own), sum(sum(window.consume_s) for window in own)
    means_s = [(sum(window.wait_s) + sum(window.consume_s)) / window.batches for window in own]
    return RankMeasurement(
        rank=number,
        startup_s=sum(startups_s) / len(startups_s) if startups_s else 0.0,
        own_s=estimate_mean(means_s, (wait_s + consume_s) / taken, _SEQUENTIAL),
        wait_s=wait_s / taken,
        consume_s=consume_s / taken,
        barrier_s=sum(sum(window.barrier_s) for window in own) / taken,
        samples_per_s=sum(window.samples for window in own) / taken / batch_s if batch_s else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """The pace of windows, without start-up and end, on the side of the queue that decides."""

    usable: Sequence[Window]
    by_workers: bool
    paced_s: Sequence[float]
    batch_s: float
    consume_s: float
    bias_bound: float

    @property
    def estimate(self) -> Estimate:
        return estimate_mean(self.paced_s, self.batch_s, _SEQUENTIAL)


def _with_pace(measurement: Measurement, steady: _Steady, conditions: Conditions) -> Measurement:
    batch_s, wait_s = steady.batch_s, max(0.0, steady.batch_s - steady.consume_s)
    loads_itself = conditions.settings.num_workers == 0 and steady.consume_s >= MIN_CONSUMER_SHARE * batch_s
    samples = sum(window.samples for window in steady.usable)
    batch_length = samples / _taken(steady.usable) if samples else conditions.batch_length
    return replace(
        measurement,
        loading_s=wait_s if loads_itself else measurement.loading_s,
        batch_s=steady.estimate,
        bias_bound=steady.bias_bound,
        samples_per_s=batch_length / batch_s if batch_s > 0 else None,
        wait_s=wait_s,
        consume_s=steady.consume_s,
        stall_fraction=wait_s / batch_s if batch_s > 0 else None,
    )


def _with_shares(measurement: Measurement, epochs: Sequence[Window]) -> Measurement:
    """Of epochs without a steady pace: what of them is waiting, starts included, and what the consumer's."""
    taken = max(1, _taken(epochs))
    wait_s, consume_s = sum(sum(window.wait_s) for window in epochs), sum(sum(window.consume_s) for window in epochs)
    stall_fraction = wait_s / (wait_s + consume_s) if wait_s + consume_s > 0 else None
    return replace(measurement, wait_s=wait_s / taken, consume_s=consume_s / taken, stall_fraction=stall_fraction)


def _steady(windows: Sequence[Window], conditions: Conditions) -> _Steady | None:
    epochs = epoch_windows(windows)
    chosen = (
        [_after_first_multiple(window, conditions.worker_multiple) for window in epochs]
        if epochs
        else steady_windows(windows)
    )
    usable = [window for window in chosen if window.batches]
    if not usable:  # an epoch of one batch of each worker has a start and an end, and no steady state
        return None
    taken, made = _taken(usable), _made(usable, conditions)
    by_workers = bool(made) and _workers_decide(usable, conditions)
    # Where nothing is counted the queue may have gone from full to empty.
    bias_bound = conditions.queue / taken if made is None else abs(made - taken) / taken
    return _Steady(
        usable=usable,
        paced_s=[_paced_s([window], conditions, by_workers) for window in usable],
        by_workers=by_workers,
        batch_s=_paced_s(usable, conditions, by_workers),
        consume_s=sum(sum(window.consume_s) for window in usable) / taken,
        bias_bound=0.0 if epochs else bias_bound,
    )


def _paced_s(windows: Sequence[Window], conditions: Conditions, by_workers: bool) -> float:
    """Seconds per batch on one side of the queue."""
    made = _made(windows, conditions) if by_workers else None
    return sum(window.elapsed_s for window in windows) / (made or _taken(windows))


def _workers_decide(usable: Sequence[Window], conditions: Conditions) -> bool:
    """Whether the workers' side shows the steady pace; see the module."""
    gains = [(window.produced or 0) / conditions.batch_length - window.batches for window in usable]
    mean = sum(gains) / len(gains)
    chance = _BEYOND_CHANCE * statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    if abs(mean) > chance:
        return mean < 0
    waiting = sum(sum(window.wait_s) for window in usable) / sum(window.elapsed_s for window in usable)
    return waiting >= _HARDLY_WAITS


def _loading_s(windows: Sequence[Window], conditions: Conditions) -> float | None:
    """Seconds per batch of the latest window without the consumer; None if there is none, or its epoch ended in it."""
    usable = [b for b in windows if b.kind is WindowKind.LOADING and b.batches and b.startup_s is None]
    return _paced_s(usable[-1:], conditions, True) if usable and not usable[-1].ended_epoch else None


def _taken(windows: Sequence[Window]) -> int:
    return sum(window.batches for window in windows)


def _made(windows: Sequence[Window], conditions: Conditions) -> float | None:
    """Batches that the workers made meanwhile, fractions included; None if they were not counted."""
    if not conditions.settings.num_workers or not counted(windows):
        return None
    return sum(window.produced or 0 for window in windows) / conditions.batch_length


def _after_first_multiple(window: Window, worker_multiple: int) -> Window:
    """The whole multiples of the workers of an epoch but its first, which carries the start-up: n batches arrive together with it."""
    kept = slice(worker_multiple, window.batches // worker_multiple * worker_multiple)
    waits = window.wait_s[kept]
    return replace(
        window,
        startup_s=None,
        wait_s=waits,
        consume_s=window.consume_s[kept],
        samples=window.samples * len(waits) // window.batches if window.batches else 0,
        end_s=None,
        produced=None,
        barrier_s=window.barrier_s[kept],
        ranks=tuple(_after_first_multiple(rank, worker_multiple) for rank in window.ranks),
    )


def _epoch_s(windows: Sequence[Window], steady: _Steady | None, conditions: Conditions) -> float | None:
    """Seconds for an epoch, as measured, else its beginning and the steady pace; None if its length is unknown."""
    batches, begun = conditions.batches_per_epoch, epoch_starts(windows, conditions)
    if batches is None:
        return None
    if epochs := epoch_windows(begun):
        return _amortised(epochs, conditions)
    if not steady or not begun:
        return None
    return _mean_epoch_s([b.elapsed_s + max(0, batches - b.batches) * steady.batch_s for b in begun], conditions)


def _amortised(epochs: Sequence[Window], conditions: Conditions) -> float:
    """The mean of whole epochs; the workers' end counts in mode ``epoch`` only."""
    counts_end = conditions.rules.mode == "epoch"
    return _mean_epoch_s(
        [epoch.elapsed_s - (0.0 if counts_end else epoch.end_s or 0.0) for epoch in epochs], conditions
    )


def _mean_epoch_s(lengths_s: Sequence[float], conditions: Conditions) -> float:
    """The mean of epochs; where workers persist, of the first and as many later ones as make ``rules.epochs``."""
    if not conditions.settings.persistent_workers or len(lengths_s) == 1:
        return sum(lengths_s) / len(lengths_s)
    later_s = sum(lengths_s[1:]) / (len(lengths_s) - 1)
    return (lengths_s[0] + (conditions.rules.epochs - 1) * later_s) / conditions.rules.epochs


def costs_by_round(slices: Sequence[TimeSlice], conditions: Conditions) -> dict[int, float]:
    """What candidates are ranked by, an epoch or a batch, as each round alone would have it, s."""
    windows = all_windows(slices)
    steady = _steady(windows, conditions)
    epoch_s = _epoch_s(windows, steady, conditions)
    costs = {time_slice.round: _cost_of_slice(time_slice, steady, epoch_s, conditions) for time_slice in slices}
    return {number: cost_s for number, cost_s in costs.items() if number is not None and cost_s is not None}


def _cost_of_slice(
    time_slice: TimeSlice, steady: _Steady | None, epoch_s: float | None, conditions: Conditions
) -> float | None:
    epochs = epoch_windows(time_slice.windows)
    if epochs and epoch_s is not None:
        return _amortised(epochs, conditions)
    usable = [window for window in epochs or steady_windows(time_slice.windows) if window.batches]
    if steady is None or not usable:
        return None
    pace_s = _paced_s(usable, conditions, steady.by_workers)
    if epoch_s is None:
        return pace_s
    # The start was measured once; only the pace is this round's.
    return max(epoch_s + (conditions.batches_per_epoch or 0) * (pace_s - steady.batch_s), pace_s)


def _running(slices: Sequence[TimeSlice]) -> list[TimeSlice]:
    """The turns that are not thrown away; those that start workers are left out where there are others."""
    counting = [time_slice for time_slice in slices if any(window.counts for window in time_slice.windows)]
    running = [time_slice for time_slice in counting if all(window.startup_s is None for window in time_slice.windows)]
    return running or counting or list(slices)


def _batches_made(time_slice: TimeSlice, conditions: Conditions) -> float:
    made = _made(time_slice.windows, conditions)
    whole = epoch_windows(time_slice.windows)  # all that is made is taken, and the last batch is shorter
    return _taken(time_slice.windows) if made is None or whole else made


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _growth_bytes(slices: Sequence[TimeSlice]) -> float | None:
    """Growth of the memory per 1000 batches: the slope over the turns after the first, in which the loader started."""
    held, taken = {}, 0
    for time_slice in slices:
        taken += _taken(time_slice.windows)
        loaded = any(
            window.kind is not WindowKind.LOADING for window in time_slice.windows
        )  # else workers were started for it
        if loaded and time_slice.after.memory_bytes is not None:
            held[taken] = time_slice.after.memory_bytes
    batches, memory = list(held)[1:], list(held.values())[1:]
    enough = len(batches) >= _FEWEST_POINTS_FOR_GROWTH
    return 1000 * statistics.linear_regression(batches, memory).slope if enough else None


def came_from_disk(time_slice: TimeSlice, *, at_first: bool = False) -> bool:
    """Whether a turn had to read data from storage, be it a few of its samples: one may take as long as hundreds.

    What page faults bring to a new process, and a little more, is the program itself, whose libraries come back page by
    page where the kernel had dropped them. Later it is a dataset that is mapped into memory.
    """
    before, after = time_slice.before.disk_bytes, time_slice.after.disk_bytes
    if before is None or after is None:
        return False
    faults = (time_slice.after.major_faults or 0) - (time_slice.before.major_faults or 0)
    program = _PROGRAM_BYTES + faults * _BYTES_OF_A_FAULT if at_first else 0
    return after - before - program > _MOST_STRAY_BYTES


def converged(slices: Sequence[TimeSlice], conditions: Conditions) -> bool:
    """Whether the trial has what was asked for: in mode ``epoch`` its epochs, else the precision.

    Precise means: at least ``windows`` windows, their 95 % interval no wider than ``precision`` to either side, and a
    queue whose change can explain no more than that either. It must have been so one window earlier too: what stops
    at the first narrow interval picks those that are narrow by luck.
    """
    if conditions.rules.mode == "epoch":
        return len(epoch_windows(all_windows(slices))) >= conditions.rules.epochs
    brought = [
        number
        for number, time_slice in enumerate(slices)
        if steady_windows(time_slice.windows) or epoch_windows(time_slice.windows)
    ]
    return bool(brought) and _is_precise(slices, conditions) and _is_precise(slices[: brought[-1]], conditions)


def _is_precise(slices: Sequence[TimeSlice], conditions: Conditions) -> bool:
    windows, rules = all_windows(slices), conditions.rules
    if whole_epochs(windows, conditions):
        lengths = [epoch.elapsed_s for epoch in epoch_windows(windows)]
        estimate, bias_bound = estimate_mean(lengths, sum(lengths) / max(1, len(lengths)), _SEQUENTIAL), 0.0
    elif steady := _steady(windows, conditions):
        estimate, bias_bound = steady.estimate, steady.bias_bound
    else:
        return False
    return estimate.n >= rules.windows and half_width(estimate) <= rules.precision and bias_bound <= rules.precision


def out_of_limits(windows: Sequence[Window], conditions: Conditions) -> str:
    """Which limit a trial has reached that is not precise enough yet; empty if none."""
    rules = conditions.rules
    if rules.mode == "epoch":  # as many as were asked for, however long they take
        return ""
    if not (steady_windows(windows) or epoch_windows(windows)):
        return ""  # one window, or one epoch, is always taken
    if sum(window.elapsed_s for window in windows) >= rules.max_seconds:
        return f"measure.max_seconds={rules.max_seconds:g}"
    if rules.max_batches is not None and _taken(windows) >= rules.max_batches:
        return f"measure.max_batches={rules.max_batches}"
    return ""


def violation(slices: Sequence[TimeSlice], conditions: Conditions) -> str:
    """Why a trial cannot be true, with the figures; empty if it can.

    A free check: nothing is faster than its CPU time on all usable cores, nor than its consumer. Whole epochs are
    compared by the stopwatch, since their CPU time includes start and end; the consumer's time of all their batches is
    part of it, so that no limit follows from that of the later ones. Of windows the upper end of the interval is
    believed, and where there is none the slowest: the CPU time may be that of this one alone.
    """
    epochs = [epoch for epoch in epoch_windows(all_windows(slices)) if epoch.batches]
    steady = _steady(all_windows(slices), conditions)
    if epochs:
        pace_s = sum(epoch.elapsed_s for epoch in epochs) / _taken(epochs)
    elif steady:
        pace_s = steady.estimate.high or max(steady.batch_s, *steady.paced_s)
    else:
        return ""
    claim, cpu_s = f"{units.seconds(pace_s)} a batch cannot be", _least_cpu_s(slices, conditions)
    if cpu_s is not None and pace_s * _MARGIN < cpu_s / conditions.cores:
        least = units.seconds(cpu_s / conditions.cores)
        cores = units.counted(conditions.cores, "usable CPU")
        return f"{claim}: it takes {units.seconds(cpu_s)} of CPU time, at least {least} on {cores}"
    if steady and not epochs and pace_s * _MARGIN < steady.consume_s:
        return f"{claim}: the consumer alone takes {units.seconds(steady.consume_s)}"
    return ""


def _least_cpu_s(slices: Sequence[TimeSlice], conditions: Conditions) -> float | None:
    """CPU seconds that a batch takes for certain, starts, ends and what happens between the windows left out."""
    running = _running(slices)
    for window in all_windows(running):
        if (window.startup_s is not None or window.ended_epoch) and window.kind is not WindowKind.EPOCH:
            return None
    made = sum(_batches_made(time_slice, conditions) for time_slice in running)
    cpu_s = sum(time_slice.after.cpu_s - time_slice.before.cpu_s for time_slice in running)
    beside_s = sum(
        time_slice.elapsed_s - sum(window.elapsed_s for window in time_slice.windows) for time_slice in running
    )
    return max(0.0, cpu_s - conditions.cores * max(0.0, beside_s)) / made if made else None


def noise_of(slices: Sequence[TimeSlice], cores: float, first_window: int = 0) -> Noise | None:
    """What disturbed a trial that may use so many CPUs, from the machine's counters round its turns; None without any.

    The first of their windows has the number ``first_window`` in the trial.
    """
    elapsed_s = sum(time_slice.elapsed_s for time_slice in slices)
    if elapsed_s <= 0:
        return None
    own_s = sum(time_slice.after.cpu_s - time_slice.before.cpu_s for time_slice in slices)
    measured = [(n, b.elapsed_s / b.batches) for n, b in enumerate(all_windows(slices)) if b.counts and b.batches]
    return Noise(
        other_cpus=max(0.0, sum(time_slice.machine.busy_s for time_slice in slices) - own_s) / elapsed_s,
        steal=sum(time_slice.machine.steal_s for time_slice in slices) / (elapsed_s * cores),
        throttled=min(1.0, sum(time_slice.machine.throttled_s for time_slice in slices) / elapsed_s),
        outliers=tuple(first_window + measured[index][0] for index in outliers([mean_s for _, mean_s in measured])),
    )
