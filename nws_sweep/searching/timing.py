"""The times of one trial, from its windows. Pure.

Throughput is measured at both ends of the queue: batches taken by the training step, and samples finished by the
workers. Over a long time both rates are equal; in a window they differ by the change of the queue. If the queue fills
or empties from window to window, the steady pace is that of the slower side: workers that fill a queue are ahead of the
batch that the training step waits for, or of the training step; a training step that empties a queue uses batches that
were ready. If the queue is in balance, the pace is that of the workers where the training step waits, because samples
do not finish in multiples of the workers, else that of the training step.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nws_sweep.replay import choice
from nws_sweep.results import Account, Measurement, TimeSlice, Window, WindowKind
from nws_sweep.searching.batch_costs import end_of_workers_s
from nws_sweep.searching.counters import all_windows, cpu_time_s, memory_growth_bytes
from nws_sweep.searching.schedule import Conditions, counted, epoch_windows, steady_windows
from nws_sweep.searching.stats import estimate_of, student_t_975


@dataclass(frozen=True)
class Comparison:
    """How a trial compares with the other trials of its search (``estimates``).

    Attributes:
        factor: Pace of the usual round / pace of the rounds of this trial.
        half_width: Half the width of the 95 % interval of the logarithm of the pace; None for no interval.
        ratio_half_width: Likewise of the cost / the cost of the answer.
    """

    factor: float = 1.0
    half_width: float | None = None
    ratio_half_width: float | None = None


ALONE = Comparison()  # of a trial that is compared with no other


@dataclass(frozen=True)
class Pace:
    """The seconds per batch of one trial, without start and end of epochs.

    Attributes:
        slices: Its time slices, in order.
        conditions: Its settings and rules.
    """

    slices: Sequence[TimeSlice]
    conditions: Conditions

    @cached_property
    def windows(self) -> Sequence[Window]:
        """All windows, warm-up included."""
        return all_windows(self.slices)

    @cached_property
    def epochs(self) -> Sequence[Window]:
        """The windows that are whole epochs; without the epoch that starts persistent workers, if there are more."""
        epochs = epoch_windows(self.windows)
        if not self.conditions.settings.persistent_workers:
            return epochs
        first = next((window for window in self.windows if window.startup_s is not None), None)
        return [epoch for epoch in epochs if epoch is not first] or epochs

    @cached_property
    def counting(self) -> Sequence[Window]:
        """The windows with a pace: windows within epochs, or the steady parts of whole epochs."""
        epochs = [_steady_part(epoch, self.conditions) for epoch in self.epochs]
        return [window for window in epochs or steady_windows(self.windows) if window.batches]

    @cached_property
    def batch_s(self) -> float | None:
        """Seconds per batch at the steady pace; None before the first window that counts."""
        return self.pace_s(self.counting) if self.counting else None

    def pace_s(self, windows: Sequence[Window]) -> float:
        """Seconds per batch of some windows, at the end of the queue that decides."""
        made = _made(windows, self.conditions) if self._workers_decide else None
        return sum(window.elapsed_s for window in windows) / (made or _taken(windows))

    @cached_property
    def _workers_decide(self) -> bool:
        """Whether the steady pace is that of the workers; see the module."""
        windows = self.counting
        if epoch_windows(windows) or not _made(windows, self.conditions):
            return False
        batch_length = self.conditions.batch_length
        gains = [(window.produced or 0) / batch_length - window.batches for window in windows]
        mean, chance = statistics.fmean(gains), 0.0
        if len(gains) > 2:
            chance = student_t_975(len(gains) - 1) * statistics.stdev(gains) / math.sqrt(len(gains))
        if abs(mean) > chance:
            return mean < 0
        waiting_s = sum(sum(window.wait_s) for window in windows)
        return waiting_s >= choice.PROMISING * sum(window.elapsed_s for window in windows)

    @cached_property
    def bias_bound(self) -> float:
        """Bound on the relative error of the pace from a change of the queue."""
        if epoch_windows(self.counting):
            return 0.0
        taken, made = _taken(self.counting), _made(self.counting, self.conditions)
        if made is None:  # the queue may have changed from full to empty
            return self.conditions.settings.queued_batches / taken
        return abs(made - taken) / taken

    @cached_property
    def step_s(self) -> float:
        """Seconds per batch in the training step."""
        return sum(sum(window.step_s) for window in self.counting) / max(1, _taken(self.counting))

    def _elapsed_s(self, window: Window) -> float:
        """The duration of a window, s.

        The first training step of a process makes what later ones use again, such as the context of a device or
        compiled functions. It counts as the longest of the others.
        """
        if window is not self.windows[0] or window.batches < 2:
            return window.elapsed_s
        first_s, *later_s = window.step_s
        return window.elapsed_s - max(0.0, first_s - max(later_s))

    @cached_property
    def paces_s(self) -> Mapping[int, float]:
        """Seconds per batch in each round, by its number: of its window, or of its whole epochs.

        A round whose only epoch starts persistent workers has no pace if there are other epochs.
        """
        paces_s: dict[int, float] = {}
        for time_slice in self.slices:
            windows = self._alike(time_slice.windows)
            if time_slice.round is not None and windows and self.batch_s is not None:
                paces_s[time_slice.round] = self._paced_s(windows)
        return paces_s

    @cached_property
    def paced_s(self) -> float | None:
        """Seconds per batch of all rounds together; None before the first window that counts."""
        windows = self.paced_windows
        return self._paced_s(windows) if windows and self.batch_s is not None else None

    @cached_property
    def paced_windows(self) -> Sequence[Window]:
        """The windows of all rounds together, as of ``paced_s``."""
        return self._alike(self.windows)

    def _alike(self, windows: Iterable[Window]) -> Sequence[Window]:
        """Of some windows, the whole epochs or else the windows within epochs, which rounds compare."""
        epochs = [epoch for epoch in epoch_windows(windows) if epoch in self.epochs]
        return [window for window in epochs or steady_windows(windows) if window.batches]

    def _paced_s(self, windows: Sequence[Window]) -> float:
        if epoch_windows(windows):
            return sum(map(self._elapsed_s, windows)) / _taken(windows)
        return self.pace_s(windows)


@dataclass(frozen=True)
class Timing(Pace):
    """The times of one trial: pace, start-up and epoch.

    Attributes:
        more_start_s: Seconds by which the user's program starts the workers of an epoch slower than the trial process.
    """

    more_start_s: float = 0.0

    @cached_property
    def _starts(self) -> Sequence[Window]:
        """The windows that start epochs; without the first of several, unless workers persist or mode is ``epoch``."""
        starts = [window for window in self.windows if window.startup_s is not None]
        if self.conditions.rules.mode == "epoch" or self.conditions.settings.persistent_workers:
            return starts
        return starts[1:] or starts

    @property
    def startup_s(self) -> float | None:
        """Seconds from ``iter(loader)`` to the first batch, mean over the epochs that count; None before the first."""
        if not self._starts:
            return None
        return statistics.fmean(window.startup_s or 0.0 for window in self._starts) + self.more_start_s

    @cached_property
    def epoch_s(self) -> float | None:
        """Seconds of an epoch: measured, else its start, the steady pace and the end; None if its length is unknown.

        With persistent workers the mean of ``shared_epochs``, of which the first starts them. Until a later one
        has begun, later ones have the steady pace; or they take what a whole first one took after its start.
        """
        starts, rules = self._starts, self.conditions.rules
        if self.conditions.length is None or self.batch_s is None or not starts:
            return None
        if not self.conditions.settings.persistent_workers:
            # A first epoch that was measured whole counts more than the start of a second one.
            starts = epoch_windows(starts) or epoch_windows(self.windows) or starts
            return statistics.fmean(self._projected_s(start) for start in starts) + self.more_start_s
        first_s, *later_s = (self._projected_s(start) for start in starts)
        if not later_s:
            is_whole = starts[0].kind is WindowKind.EPOCH
            after_start_s = first_s - starting_s(starts[0], self.windows)
            later_s = [after_start_s if is_whole else self.conditions.length * self.batch_s]
        return (first_s + (rules.shared_epochs - 1) * statistics.fmean(later_s)) / rules.shared_epochs

    @property
    def first_epoch_s(self) -> float | None:
        """Seconds of the first epoch of the trial process; None unless it began several."""
        starts = [window for window in self.windows if window.startup_s is not None]
        if self.conditions.length is None or self.batch_s is None or len(starts) < 2:
            return None
        return self._projected_s(starts[0])

    def _projected_s(self, start: Window) -> float:
        """Seconds of the epoch that began with this window: the window, then the steady pace and the end."""
        elapsed_s = self._elapsed_s(start)
        if start.kind is WindowKind.EPOCH:
            return elapsed_s
        batches_left = max(0, (self.conditions.length or 0) - start.batches)
        return elapsed_s + batches_left * (self.batch_s or 0.0) + end_of_workers_s(self.windows, self.conditions)

    @cached_property
    def cost_s(self) -> float | None:
        """Seconds that rank candidates: per batch of an epoch, start and end shared out; else at the steady pace."""
        if self.epoch_s is None or not self.conditions.length:
            return self.batch_s
        return self.epoch_s / self.conditions.length

    @cached_property
    def account(self) -> Account | None:
        """Where an epoch goes; a batch, if the length of an epoch is unknown; None before the first window that counts.

        The waits of the windows that count are split by what they contain; what nothing else explains is making.
        """
        windows = self.paced_windows
        taken = _taken(windows)
        if self.cost_s is None or not taken:
            return None
        batches = (self.conditions.length or 1) if self.epoch_s else 1
        sampler_s = sum(window.sampler_s for window in windows) / taken
        receive_s = sum(window.receive_cpu_s or 0.0 for window in windows) / taken
        account = Account(
            step_s=batches * self.step_s,
            making_s=0.0,
            sampler_s=batches * sampler_s + (self._first_draws_s(sampler_s) if self.epoch_s else 0.0),
            main_s=batches * receive_s if self.conditions.settings.num_workers else 0.0,
            starting_s=self._starting_s if self.epoch_s else 0.0,
        )
        return account.lasting(batches * self.cost_s)

    def _first_draws_s(self, sampler_s: float) -> float:
        """Seconds in the sampler when an epoch begins, besides those of a usual batch."""
        return statistics.fmean(max(0.0, start.sampler_s - start.batches * sampler_s) for start in self._starts)

    @cached_property
    def _starting_s(self) -> float:
        """Seconds of an epoch for starting and ending workers; persistent ones start in the first of several."""
        if not self.conditions.settings.num_workers:
            return 0.0
        starts_s = [starting_s(start, self.windows) for start in self._starts]
        if not self.conditions.settings.persistent_workers:
            end_s = end_of_workers_s(self.windows, self.conditions)
            return statistics.fmean(starts_s) + self.more_start_s + end_s
        first_s, *later_s = starts_s
        epochs = self.conditions.rules.shared_epochs
        return (first_s + (epochs - 1) * statistics.fmean(later_s or [0.0])) / epochs

    @property
    def paced_share(self) -> float:
        """Share of ``cost_s`` that grows with the pace of the rounds; start and end of an epoch belong to no round."""
        if self.paced_s is None or not self.cost_s:
            return 1.0
        return min(1.0, self.paced_s / self.cost_s)

    @cached_property
    def timed_s(self) -> float:
        """Seconds of the windows that count."""
        return sum(window.elapsed_s for window in self.windows if window.counts)

    def measurement(self, compared: Comparison = ALONE) -> Measurement | None:
        """The figures of the trial's row, as compared with other trials; None without any batch."""
        factor = compared.factor
        startup_s = self.startup_s
        if startup_s is None:
            return None
        used = used_resources(self.slices, self.conditions, startup_s)
        if self.batch_s is None:
            return used
        batch_s, step_s = self.batch_s * factor, self.step_s
        wait_s = max(0.0, batch_s - step_s)
        longer = 1 + self.paced_share * (factor - 1)
        return replace(
            used,
            batch_s=estimate_of(batch_s, compared.half_width, len(self.counting)),
            bias_bound=self.bias_bound,
            samples_per_s=_mean_batch_length(self.counting, self.conditions) / batch_s if batch_s > 0 else None,
            wait_s=wait_s,
            step_s=step_s,
            stall_fraction=wait_s / (wait_s + step_s) if wait_s + step_s > 0 else None,
            epoch_s=self.epoch_s and self.epoch_s * longer,
            first_epoch_s=self.first_epoch_s,
            ratio_half_width=compared.ratio_half_width,
            account=self.account and self.account.lasting(self.account.total_s * longer),
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


def starting_s(start: Window, windows: Sequence[Window]) -> float:
    """Seconds from ``iter(loader)`` until a worker began the first batch, without the sampler; 0 if it is unknown.

    Args:
        start: The window that begins an epoch.
        windows: All windows of the trial: the record of the first batch may be in a later one.
    """
    began = windows.index(start)
    for window in windows[began:]:
        for record in window.records:
            if record.number == 0:
                waited_s = min(record.began_s - start.began_s, start.startup_s or 0.0)
                return max(0.0, waited_s - start.sampler_s)
    return 0.0


def _taken(windows: Sequence[Window]) -> int:
    return sum(window.batches for window in windows)


def _made(windows: Sequence[Window], conditions: Conditions) -> float | None:
    """Batches that the workers made during the windows, fractions included; None if not counted."""
    if not conditions.settings.num_workers or not counted(windows):
        return None
    return sum(window.produced or 0 for window in windows) / conditions.batch_length


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


def used_resources(slices: Sequence[TimeSlice], conditions: Conditions, startup_s: float) -> Measurement:
    """What the processes of a trial used; CPU time and storage per batch made, without the start of the workers."""
    running = running_slices(slices)
    made = sum(batches_made(time_slice, conditions) for time_slice in running)
    cpu_s = cpu_time_s(running) - _starts_cpu_s(running, conditions)
    disk = [read for time_slice in running if (read := time_slice.used.disk_bytes) is not None]
    return Measurement(
        startup_s=startup_s,
        cpu_s=cpu_s / made if made and cpu_s > 0 else None,
        memory_bytes=_most(time_slice.after.memory_bytes for time_slice in slices),
        shm_bytes=_most(time_slice.after.shm_bytes for time_slice in slices),
        memory_growth_bytes=memory_growth_bytes(slices),
        disk_bytes=sum(disk) / made if made and disk else None,
    )


def _starts_cpu_s(slices: Sequence[TimeSlice], conditions: Conditions) -> float:
    """CPU seconds for starting workers, of the main process and of the workers."""
    starts = [window for window in all_windows(slices) if window.startup_s is not None]
    started = [window.worker_start for window in all_windows(slices) if window.worker_start]
    worker_s = max((start.cpu_s for start in started), default=0.0)
    main_s = sum(window.start_cpu_s or 0.0 for window in starts)
    return main_s + len(starts) * conditions.settings.num_workers * worker_s


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def running_slices(slices: Sequence[TimeSlice]) -> Sequence[TimeSlice]:
    """The time slices that count; without those that start workers if there are others."""
    counting = [time_slice for time_slice in slices if any(window.counts for window in time_slice.windows)]
    running = [time_slice for time_slice in counting if all(window.startup_s is None for window in time_slice.windows)]
    return running or counting or list(slices)


def batches_made(time_slice: TimeSlice, conditions: Conditions) -> float:
    """Batches that were made in a time slice, fractions included."""
    made = _made(time_slice.windows, conditions)
    if made is None or epoch_windows(time_slice.windows):  # all batches made are taken; the last is shorter
        return _taken(time_slice.windows)
    return made
