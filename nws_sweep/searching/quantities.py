"""The quantities of a trial, whether they are precise enough, and whether they are possible. Pure.

Throughput is measured at both ends of the queue: batches taken by the training step, and samples finished by the
workers. Over a long time both rates are equal; in a window they differ by the change of the queue. If the queue fills
or empties from window to window, the steady pace is that of the slower side: workers that fill a queue are ahead of the
batch that the training step waits for, or of the training step; a training step that empties a queue uses batches that
were ready. If the queue is in balance, the pace is that of the workers where the training step waits, because samples
do not finish in multiples of the workers, else that of the training step.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nws_sweep import units
from nws_sweep.results import Estimate, Measurement, TimeSlice, Window, WindowKind
from nws_sweep.searching.batch_costs import end_of_workers_s
from nws_sweep.searching.counters import all_windows, cpu_time_s, memory_growth_bytes
from nws_sweep.searching.schedule import Conditions, counted, epoch_windows, steady_windows, whole_epochs
from nws_sweep.searching.stats import estimate_mean, half_width

# A training step that waits for a smaller share of its time is not limited by the workers.
_HARDLY_WAITS = 0.05
# Standard errors above which the change of the queue is more than chance.
_BEYOND_CHANCE = 2.0
# Stopping at a narrow interval selects intervals that are too narrow. With this factor and the rule of ``converged``, a
# nominal 95 % covers 94 to 97 % in simulations (test_quantities.py), without them 90 to 96 %.
SEQUENTIAL = 1.1
# CPU time and pace come from stretches that differ by a few batches.
_MARGIN = 1.05
_TICK_S = 0.01  # the CPU time of a process is exact to this at the end of a time slice (proc(5), stat)


def measurement_of(slices: Sequence[TimeSlice], conditions: Conditions) -> Measurement | None:
    """The quantities of a trial; the end of whole epochs counts, as for a stopwatch. None without any batch."""
    windows = all_windows(slices)
    starts, steady = _epoch_starts(windows, conditions), _steady(windows, conditions)
    if not starts:
        return None
    running = _running(slices)
    made, cpu_s = sum(_batches_made(one, conditions) for one in running), cpu_time_s(running)
    disk = [read for one in running if (read := one.used.disk_bytes) is not None]
    found = Measurement(
        startup_s=statistics.fmean(window.startup_s or 0.0 for window in starts),
        epoch_s=_epoch_s(windows, steady, conditions),
        first_epoch_s=_first_epoch_s(windows, steady, conditions),
        cpu_s=cpu_s / made if made and cpu_s > 0 else None,
        memory_bytes=_most(one.after.memory_bytes for one in slices),
        shm_bytes=_most(one.after.shm_bytes for one in slices),
        memory_growth_bytes=memory_growth_bytes(slices),
        disk_bytes=sum(disk) / made if made and disk else None,
    )
    if steady is None:
        return found
    batch_s, step_s = steady.estimate.value, _step_s(steady.usable)
    wait_s = max(0.0, batch_s - step_s)
    return replace(
        found,
        batch_s=steady.estimate,
        bias_bound=steady.bias_bound,
        samples_per_s=_mean_batch_length(steady.usable, conditions) / batch_s if batch_s > 0 else None,
        wait_s=wait_s,
        step_s=step_s,
        stall_fraction=wait_s / (wait_s + step_s) if wait_s + step_s > 0 else None,
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """The pace of windows, without start-up and end, at the end of the queue that decides."""

    usable: Sequence[Window]
    by_workers: bool
    paced_s: Sequence[float]  # of each window
    estimate: Estimate  # of all windows together
    bias_bound: float


def _steady(windows: Sequence[Window], conditions: Conditions) -> _Steady | None:
    """None without a window that counts."""
    epochs = [_steady_part(epoch, conditions) for epoch in epoch_windows(windows)]
    usable = [window for window in epochs or steady_windows(windows) if window.batches]
    if not usable:
        return None
    taken, made = _taken(usable), _made(usable, conditions)
    by_workers = bool(made) and not epochs and _workers_decide(usable, conditions)
    # Without counts the queue may have changed from full to empty.
    bias_bound = conditions.settings.queued_batches / taken if made is None else abs(made - taken) / taken
    paced_s = [_paced_s([window], conditions, by_workers) for window in usable]
    return _Steady(
        usable=usable,
        paced_s=paced_s,
        by_workers=by_workers,
        estimate=estimate_mean(paced_s, _paced_s(usable, conditions, by_workers), SEQUENTIAL),
        bias_bound=0.0 if epochs else bias_bound,
    )


def _steady_part(epoch: Window, conditions: Conditions) -> Window:
    """The waits and steps of an epoch in whole multiples of the workers: without its end, the first multiple, since it
    includes the start-up, and the last batch, which may be shorter, with those that arrive together with it. Of an
    epoch shorter than two queues, or with nothing left, a batch takes its share, start-up included.
    """
    multiple, size = conditions.worker_multiple, conditions.settings.batch_size
    full = epoch.batches - (0 if conditions.settings.drop_last else 1)
    kept = slice(multiple, full // multiple * multiple)
    waits = epoch.wait_s[kept]
    if epoch.batches < 2 * conditions.warm_up or not waits:
        return epoch
    samples = epoch.samples * len(waits) // epoch.batches if size is None else size * len(waits)
    return replace(epoch, wait_s=waits, step_s=epoch.step_s[kept], samples=samples, end_s=None)


def _paced_s(windows: Sequence[Window], conditions: Conditions, by_workers: bool) -> float:
    """Seconds per batch at one end of the queue."""
    made = _made(windows, conditions) if by_workers else None
    return sum(window.elapsed_s for window in windows) / (made or _taken(windows))


def _workers_decide(usable: Sequence[Window], conditions: Conditions) -> bool:
    """Whether the steady pace is that of the workers; see the module."""
    gains = [(window.produced or 0) / conditions.batch_length - window.batches for window in usable]
    mean = sum(gains) / len(gains)
    chance = _BEYOND_CHANCE * statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    if abs(mean) > chance:
        return mean < 0
    waiting = sum(sum(window.wait_s) for window in usable) / sum(window.elapsed_s for window in usable)
    return waiting >= _HARDLY_WAITS


def _taken(windows: Sequence[Window]) -> int:
    return sum(window.batches for window in windows)


def _mean_batch_length(windows: Sequence[Window], conditions: Conditions) -> float:
    """Samples of a batch: ``batch_size``, but the last batch of an epoch, in a stream of each worker, may be shorter.

    What was counted may be another dimension, such as that of the first image in a tuple of images.
    """
    taken, most = _taken(windows), conditions.settings.batch_size
    counted_length = sum(window.samples for window in windows) / taken
    if most is None:
        return counted_length or 1.0
    shorter = len(epoch_windows(windows)) * conditions.worker_multiple
    return min(most, max(counted_length, most * (1 - shorter / taken)))


def _step_s(windows: Sequence[Window]) -> float:
    return sum(sum(window.step_s) for window in windows) / max(1, _taken(windows))


def _made(windows: Sequence[Window], conditions: Conditions) -> float | None:
    """Batches that the workers made during the windows, fractions included; None if not counted."""
    if not conditions.settings.num_workers or not counted(windows):
        return None
    return sum(window.produced or 0 for window in windows) / conditions.batch_length


def _epoch_starts(windows: Sequence[Window], conditions: Conditions) -> list[Window]:
    """The windows that start epochs; without the first of several, unless workers persist or mode is ``epoch``."""
    starts = [window for window in windows if window.startup_s is not None]
    if conditions.rules.mode == "epoch" or conditions.settings.persistent_workers:
        return starts
    return starts[1:] or starts


def _epoch_s(windows: Sequence[Window], steady: _Steady | None, conditions: Conditions) -> float | None:
    """Seconds of an epoch: measured, else its start, the steady pace and the end; None if its length is unknown.

    With persistent workers the mean of ``rules.epochs`` epochs, of which the first starts them. Until a later one has
    begun, later ones have the steady pace.
    """
    starts, rules = _epoch_starts(windows, conditions), conditions.rules
    if conditions.length is None or steady is None or not starts:
        return None
    if not conditions.settings.persistent_workers:
        # A first epoch that was measured whole counts more than the start of a second one.
        starts = epoch_windows(starts) or epoch_windows(windows) or starts
        return statistics.fmean(_projected_s(start, windows, steady, conditions) for start in starts)
    first_s, *later_s = (_projected_s(start, windows, steady, conditions) for start in starts)
    later_s = later_s or [conditions.length * steady.estimate.value]
    return (first_s + (rules.epochs - 1) * statistics.fmean(later_s)) / rules.epochs


def _projected_s(start: Window, windows: Sequence[Window], steady: _Steady, conditions: Conditions) -> float:
    """Seconds of the epoch that began with this window: the window, then the steady pace and the end if it goes on."""
    if start.kind is WindowKind.EPOCH:
        return _elapsed_s(start, windows)
    batches_left = max(0, (conditions.length or 0) - start.batches)
    left_s = batches_left * steady.estimate.value + end_of_workers_s(windows, conditions)
    return _elapsed_s(start, windows) + left_s


def _elapsed_s(window: Window, windows: Sequence[Window]) -> float:
    """The duration of one of the windows of a trial, s.

    The first training step of a process makes what later ones use again, such as the context of a device or compiled
    functions. It counts as the longest of the others.
    """
    if window is not windows[0] or window.batches < 2:
        return window.elapsed_s
    first_s, *others_s = window.step_s
    return window.elapsed_s - max(0.0, first_s - max(others_s))


def _first_epoch_s(windows: Sequence[Window], steady: _Steady | None, conditions: Conditions) -> float | None:
    first = [window for window in windows if window.startup_s is not None][:-1]
    if conditions.length is None or not steady or not first:
        return None
    return _projected_s(first[0], windows, steady, conditions)


def costs_by_round(slices: Sequence[TimeSlice], conditions: Conditions) -> dict[int, float]:
    """Seconds that candidates are ranked by, of an epoch or a batch, estimated from each round alone.

    The start of persistent workers counts as in ``_epoch_s``; a round whose only epoch is the first has no estimate if
    there are other epochs.
    """
    windows, costs_s = all_windows(slices), {}
    steady = _steady(windows, conditions)
    epoch_s = _epoch_s(windows, steady, conditions)
    alike = _alike_epochs(windows, conditions)
    for time_slice in slices:
        epochs = [epoch for epoch in epoch_windows(time_slice.windows) if epoch in alike]
        usable = [window for window in epochs or steady_windows(time_slice.windows) if window.batches]
        if steady is None or not usable or time_slice.round is None:
            continue
        cost_s = pace_s = _paced_s(usable, conditions, steady.by_workers)
        if epoch_s is not None and epochs and not conditions.settings.persistent_workers:
            cost_s = _mean_s(epochs, windows)
        elif epoch_s is not None:  # the start-up was measured once; only what comes after it is that of this round
            pace_longer_s = (conditions.length or 0) * (pace_s - steady.estimate.value)
            longer_s = _mean_s(epochs, windows) - _mean_s(alike, windows) if epochs else pace_longer_s
            cost_s = max(epoch_s + longer_s, pace_s)
        costs_s[time_slice.round] = cost_s
    return costs_s


def _alike_epochs(windows: Sequence[Window], conditions: Conditions) -> list[Window]:
    """The whole epochs; without the one that starts persistent workers if there are others."""
    epochs = epoch_windows(windows)
    first = next((window for window in windows if window.startup_s is not None), None)
    later = [epoch for epoch in epochs if epoch is not first]
    return later if later and conditions.settings.persistent_workers else epochs


def _mean_s(epochs: Sequence[Window], windows: Sequence[Window]) -> float:
    return statistics.fmean(_elapsed_s(epoch, windows) for epoch in epochs)


def _running(slices: Sequence[TimeSlice]) -> list[TimeSlice]:
    """The time slices that count; without those that start workers if there are others."""
    counting = [time_slice for time_slice in slices if any(window.counts for window in time_slice.windows)]
    running = [time_slice for time_slice in counting if all(window.startup_s is None for window in time_slice.windows)]
    return running or counting or list(slices)


def _batches_made(time_slice: TimeSlice, conditions: Conditions) -> float:
    made = _made(time_slice.windows, conditions)
    whole = epoch_windows(time_slice.windows)  # all batches made are taken; the last is shorter
    return _taken(time_slice.windows) if made is None or whole else made


def converged(slices: Sequence[TimeSlice], conditions: Conditions) -> bool:
    """Whether a trial is as long as configured: in mode ``epoch`` its epochs, else its precision.

    Precise means: at least ``windows`` windows, a 95 % interval of at most ``precision`` to either side, and a bias
    bound of at most ``precision``; all that also one window earlier, because stopping at the first narrow interval
    selects intervals that are narrow by chance.
    """
    if conditions.rules.mode == "epoch":
        return len(epoch_windows(all_windows(slices))) >= conditions.rules.epochs
    counting = [n for n, one in enumerate(slices) if steady_windows(one.windows) or epoch_windows(one.windows)]
    return bool(counting) and _is_precise(slices, conditions) and _is_precise(slices[: counting[-1]], conditions)


def _is_precise(slices: Sequence[TimeSlice], conditions: Conditions) -> bool:
    windows, rules = all_windows(slices), conditions.rules
    if whole_epochs(windows, conditions):
        lengths = [_elapsed_s(epoch, windows) for epoch in epoch_windows(windows)]
        estimate, bias_bound = estimate_mean(lengths, sum(lengths) / max(1, len(lengths)), SEQUENTIAL), 0.0
    elif steady := _steady(windows, conditions):
        estimate, bias_bound = steady.estimate, steady.bias_bound
    else:
        return False
    return estimate.n >= rules.windows and half_width(estimate) <= rules.precision and bias_bound <= rules.precision


def violation(slices: Sequence[TimeSlice], conditions: Conditions) -> str:
    """Why a trial is impossible, with the figures; empty if it is possible.

    A batch takes at least its CPU time divided by the usable CPUs, and at least the time of its training step. Whole
    epochs are compared by the stopwatch, because their CPU time includes start and end; the training step gives no
    bound there, because its time is a part of the stopwatch's. Windows are compared by the upper end of the interval,
    or without an interval by the slowest window, which may be the one that the CPU time belongs to.
    """
    epochs = [epoch for epoch in epoch_windows(all_windows(slices)) if epoch.batches]
    steady = _steady(all_windows(slices), conditions)
    if epochs:
        pace_s = sum(epoch.elapsed_s for epoch in epochs) / _taken(epochs)
    elif steady:
        pace_s = steady.estimate.high or max(steady.estimate.value, *steady.paced_s)
    else:
        return ""
    claim, cpu_s = f"{units.seconds(pace_s)} a batch is impossible", _least_cpu_s(slices, conditions)
    if cpu_s is not None and pace_s * _MARGIN < cpu_s / conditions.cores:
        least = units.seconds(cpu_s / conditions.cores)
        cores = units.counted(conditions.cores, "usable CPU")
        return f"{claim}: it takes {units.seconds(cpu_s)} of CPU time, at least {least} on {cores}"
    step_s = _step_s(steady.usable) if steady and not epochs else 0.0
    if pace_s * _MARGIN < step_s:
        return f"{claim}: the training step alone takes {units.seconds(step_s)}"
    return ""


def _least_cpu_s(slices: Sequence[TimeSlice], conditions: Conditions) -> float | None:
    """Lower bound of the CPU seconds of a batch, without starts, ends and the time between windows; None if unknown."""
    running = _running(slices)
    within = [window for window in all_windows(running) if window.kind is not WindowKind.EPOCH]
    if any(window.startup_s is not None or window.ended_epoch for window in within):
        return None
    made, cpu_s = sum(_batches_made(one, conditions) for one in running), cpu_time_s(running)
    beside_s = sum(one.elapsed_s - sum(window.elapsed_s for window in one.windows) + _TICK_S for one in running)
    return max(0.0, cpu_s - conditions.cores * max(0.0, beside_s)) / made if made else None
