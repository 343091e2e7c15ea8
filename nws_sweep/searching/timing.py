"""The times of one trial, from its windows. Pure.

Throughput is measured at both ends of the queue: batches taken by the training step,
and samples finished by the workers. Over a long time both rates are equal; in a window
they differ by the change of the queue. If the queue fills or empties from window to
window, the slower side has the steady pace: workers that fill a queue are ahead of the
batch that the training step waits for, or of the training step; a training step that
empties a queue uses batches that were ready. If the queue is in balance, the workers
have the pace where the training step waits, because samples do not finish in multiples
of the workers, else the training step has it.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nws_sweep.model import choice
from nws_sweep.model.stats import estimate_of, student_t_975
from nws_sweep.records import Account, Measurement, TimeSlice, Window, WindowKind
from nws_sweep.searching.batch_costs import end_of_workers_s, receive_cpu_s
from nws_sweep.searching.counters import all_windows, used_resources
from nws_sweep.searching.schedule import (
    Conditions,
    batches_in,
    epoch_windows,
    produced,
    seconds_in,
    steady_windows,
)


@dataclass(frozen=True)
class Comparison:
    """How a trial compares with the other trials of its search (``estimates``).

    Attributes:
        factor: Pace of the usual round / pace of the rounds of this trial.
        half_width: Half the width of the 95 % interval of the logarithm of the pace;
            None for no interval.
        ratio_half_width: Half the width of the 95 % interval of the logarithm of the
            cost / the cost of the answer.
    """

    factor: float = 1.0
    half_width: float | None = None
    ratio_half_width: float | None = None


ALONE = Comparison()  # of a trial that is compared with no other


@dataclass(frozen=True)
class Pace:
    """The seconds per batch of one trial, without start and end of epochs.

    ``batch_s`` is the steady pace, which the row shows: of windows within epochs, or of
    the steady parts of whole epochs. Candidates are compared by ``paces_s``, by round,
    and ``paced_s``: of windows within epochs, or of whole epochs from beginning to end.

    Attributes:
        slices: The time slices of the trial, in order.
        conditions: The settings and rules of the trial.
    """

    slices: Sequence[TimeSlice]
    conditions: Conditions

    @cached_property
    def windows(self) -> Sequence[Window]:
        """All windows, warm-up included."""
        return all_windows(self.slices)

    @cached_property
    def starts(self) -> Sequence[Window]:
        """The windows that start epochs."""
        return [window for window in self.windows if window.startup_s is not None]

    @cached_property
    def epochs(self) -> Sequence[Window]:
        """The windows that are whole epochs; without the epoch that starts persistent
        workers, if there are more."""
        epochs, starts = epoch_windows(self.windows), self.starts
        if not self.conditions.settings.persistent_workers or not starts:
            return epochs
        return [epoch for epoch in epochs if epoch is not starts[0]] or epochs

    @cached_property
    def counting(self) -> Sequence[Window]:
        """The windows with a pace: windows within epochs, or the steady parts of whole
        epochs."""
        epochs = [_steady_part(epoch, self.conditions) for epoch in self.epochs]
        return [
            window
            for window in epochs or steady_windows(self.windows)
            if window.batches
        ]

    @cached_property
    def batch_s(self) -> float | None:
        """Seconds per batch at the steady pace; None before the first window that
        counts."""
        return self.pace_s(self.counting) if self.counting else None

    def pace_s(self, windows: Sequence[Window]) -> float:
        """Computes the seconds per batch of windows, at the end of the queue that
        decides."""
        batches = float(batches_in(windows))
        if self._workers_decide:
            batches = produced(windows, self.conditions) or batches
        return seconds_in(windows) / batches

    @cached_property
    def _workers_decide(self) -> bool:
        """Whether the steady pace is the pace of the workers; see the module."""
        windows = self.counting
        if epoch_windows(windows) or not produced(windows, self.conditions):
            return False
        batch_length = self.conditions.batch_length
        gains = [
            (window.produced or 0) / batch_length - window.batches for window in windows
        ]
        gain, half_width = statistics.fmean(gains), 0.0
        if len(gains) > 2:
            half_width = (
                student_t_975(len(gains) - 1)
                * statistics.stdev(gains)
                / math.sqrt(len(gains))
            )
        if abs(gain) > half_width:
            return gain < 0
        waiting_s = sum(sum(window.wait_s) for window in windows)
        return waiting_s >= choice.PROMISING * seconds_in(windows)

    @cached_property
    def bias_bound(self) -> float:
        """Bound on the relative error of the pace from a change of the queue."""
        if epoch_windows(self.counting):
            return 0.0
        taken, made_by_workers = (
            batches_in(self.counting),
            produced(self.counting, self.conditions),
        )
        if made_by_workers is None:  # the queue may have changed from full to empty
            return self.conditions.settings.queued_batches / taken
        return abs(made_by_workers - taken) / taken

    @cached_property
    def step_s(self) -> float:
        """Seconds per batch in the training step."""
        return sum(sum(window.step_s) for window in self.counting) / max(
            1, batches_in(self.counting)
        )

    def _elapsed_s(self, window: Window) -> float:
        """Computes the duration of a window, s.

        The first training step of a process makes what later steps use again, such as
        the context of a device or compiled functions. It counts as the longest of the
        later steps.
        """
        if window is not self.windows[0] or window.batches < 2:
            return window.elapsed_s
        first_s, *later_s = window.step_s
        return window.elapsed_s - max(0.0, first_s - max(later_s))

    @cached_property
    def paces_s(self) -> Mapping[int, float]:
        """Seconds per batch in each round, by its number: of its window, or of its
        whole epochs.

        A round whose only epoch starts persistent workers has no pace if there are
        other epochs.
        """
        paces_s: dict[int, float] = {}
        for time_slice in self.slices:
            windows = self._comparable(time_slice.windows)
            if time_slice.round is not None and windows and self.batch_s is not None:
                paces_s[time_slice.round] = self._paced_s(windows)
        return paces_s

    @cached_property
    def paced_s(self) -> float | None:
        """Seconds per batch of all rounds together; None before the first window that
        counts."""
        windows = self.paced_windows
        return self._paced_s(windows) if windows and self.batch_s is not None else None

    @cached_property
    def paced_windows(self) -> Sequence[Window]:
        """The windows of all rounds together, as of ``paced_s``."""
        return self._comparable(self.windows)

    def _comparable(self, windows: Iterable[Window]) -> Sequence[Window]:
        """Selects what rounds compare: the whole epochs, or else the windows within
        epochs."""
        epochs = [epoch for epoch in epoch_windows(windows) if epoch in self.epochs]
        return [
            window for window in epochs or steady_windows(windows) if window.batches
        ]

    def _paced_s(self, windows: Sequence[Window]) -> float:
        """Computes the seconds per batch of windows that rounds compare."""
        if epoch_windows(windows):
            return sum(map(self._elapsed_s, windows)) / batches_in(windows)
        return self.pace_s(windows)


@dataclass(frozen=True)
class Timing(Pace):
    """The times of one trial: pace, start-up and epoch.

    Attributes:
        more_start_s: Seconds by which the user's program starts the workers of an epoch
            slower than the trial process.
    """

    more_start_s: float = 0.0

    @cached_property
    def _counting_starts(self) -> Sequence[Window]:
        """The starts that count: without the first of several, unless workers persist
        or mode is ``epoch``."""
        if (
            self.conditions.rules.mode == "epoch"
            or self.conditions.settings.persistent_workers
        ):
            return self.starts
        return self.starts[1:] or self.starts

    @property
    def startup_s(self) -> float | None:
        """Seconds from ``iter(loader)`` to the first batch, mean over the epochs that
        count; with persistent workers of the epoch that starts them. None before the
        first."""
        starts = self._counting_starts
        if self.conditions.settings.persistent_workers:
            starts = starts[:1]
        if not starts:
            return None
        startups_s = [window.startup_s or 0.0 for window in starts]
        return statistics.fmean(startups_s) + self.more_start_s

    @cached_property
    def epoch_s(self) -> float | None:
        """Seconds of an epoch: measured, else its start, the steady pace and the end;
        None if its length is unknown.

        With persistent workers the mean of ``shared_epochs``, of which the first starts
        the workers.
        """
        starts = self._counting_starts
        if self.conditions.length is None or self.batch_s is None or not starts:
            return None
        if not self.conditions.settings.persistent_workers:
            # A first epoch that was measured whole counts more than the start of a
            # second one.
            starts = epoch_windows(starts) or epoch_windows(self.windows) or starts
            return statistics.fmean(map(self._projected_s, starts)) + self.more_start_s
        first_s, *later_s = map(self._projected_s, starts)
        later_s = later_s or [self._after_the_start_s(starts[0], first_s)]
        return self._mean_of_epochs(first_s, later_s)

    def _after_the_start_s(self, start: Window, first_s: float) -> float:
        """Computes the seconds of a later epoch from the first one: what it took after
        the start of persistent workers.

        It waits for its first batch, too, for as long as making a usual batch takes:
        what a worker does once, such as opening files, is not repeated.
        """
        started_s = starting_s(start, self.windows)
        if start.kind is WindowKind.EPOCH:
            return first_s - started_s
        steady_s = (self.conditions.length or 0) * (self.batch_s or 0.0)
        usual_s = _usual_making_s(self.windows, self.conditions)
        if not started_s or usual_s is None:
            return steady_s
        return min(first_s - started_s, steady_s + usual_s)

    def _mean_of_epochs(self, first_s: float, later_s: Sequence[float]) -> float:
        """Computes the mean over ``shared_epochs``, of which all but the first take the
        mean of ``later_s``."""
        epochs = self.conditions.rules.shared_epochs
        return (first_s + (epochs - 1) * statistics.fmean(later_s)) / epochs

    @property
    def first_epoch_s(self) -> float | None:
        """Seconds of the first epoch of the trial process; None unless it began
        several."""
        if (
            self.conditions.length is None
            or self.batch_s is None
            or len(self.starts) < 2
        ):
            return None
        return self._projected_s(self.starts[0])

    def _projected_s(self, start: Window) -> float:
        """Computes the seconds of the epoch that began with a window: the window, then
        the steady pace and the end."""
        elapsed_s = self._elapsed_s(start)
        if start.kind is WindowKind.EPOCH:
            return elapsed_s
        batches_left = max(0, (self.conditions.length or 0) - start.batches)
        return (
            elapsed_s
            + batches_left * (self.batch_s or 0.0)
            + end_of_workers_s(self.windows, self.conditions)
        )

    @cached_property
    def cost_s(self) -> float | None:
        """Seconds that rank candidates: per batch of an epoch, start and end shared
        out; else at the steady pace."""
        if self.epoch_s is None or not self.conditions.length:
            return self.batch_s
        return self.epoch_s / self.conditions.length

    @cached_property
    def account(self) -> Account | None:
        """Where an epoch goes; a batch, if the length of an epoch is unknown; None
        before the first window that counts.

        The waits of the windows that count are split by what they contain; what nothing
        else explains is making.
        """
        windows = self.paced_windows
        taken = batches_in(windows)
        if self.cost_s is None or not taken:
            return None
        sampler_s = sum(window.sampler_s for window in windows) / taken
        receive_s = 0.0
        if self.conditions.settings.num_workers:
            receive_s = receive_cpu_s(windows)
        batches, first_draws_s, workers_s = 1, 0.0, 0.0
        if self.epoch_s:
            batches = self.conditions.length or 1
            first_draws_s, workers_s = self._first_draws_s(sampler_s), self._starting_s
        account = Account(
            step_s=batches * self.step_s,
            making_s=0.0,
            sampler_s=batches * sampler_s + first_draws_s,
            main_s=batches * receive_s,
            starting_s=workers_s,
        )
        return account.lasting(batches * self.cost_s)

    def _first_draws_s(self, sampler_s: float) -> float:
        """Computes the seconds in the sampler when an epoch begins, beyond those of
        usual batches."""
        return statistics.fmean(
            max(0.0, start.sampler_s - start.batches * sampler_s)
            for start in self._counting_starts
        )

    @cached_property
    def _starting_s(self) -> float:
        """Seconds of an epoch for starting and ending workers; persistent ones start in
        the first of several."""
        if not self.conditions.settings.num_workers:
            return 0.0
        starts_s = [starting_s(start, self.windows) for start in self._counting_starts]
        if not self.conditions.settings.persistent_workers:
            end_s = end_of_workers_s(self.windows, self.conditions)
            return statistics.fmean(starts_s) + self.more_start_s + end_s
        return self._mean_of_epochs(starts_s[0], starts_s[1:] or [0.0])

    @property
    def paced_share(self) -> float:
        """Share of ``cost_s`` that grows with the pace of the rounds; start and end of
        an epoch belong to no round."""
        if self.paced_s is None or not self.cost_s:
            return 1.0
        return min(1.0, self.paced_s / self.cost_s)

    @cached_property
    def timed_s(self) -> float:
        """Seconds of the windows that count."""
        return seconds_in(window for window in self.windows if window.counts)

    def measurement(self, compared: Comparison = ALONE) -> Measurement | None:
        """Makes the figures of the trial's row, as compared with other trials; None
        without any batch."""
        startup_s = self.startup_s
        if startup_s is None:
            return None
        used = used_resources(self.slices, self.conditions, startup_s)
        if self.batch_s is None:
            return used
        batch_s, step_s = self.batch_s * compared.factor, self.step_s
        wait_s = max(0.0, batch_s - step_s)
        longer = 1 + self.paced_share * (compared.factor - 1)
        return replace(
            used,
            batch_s=estimate_of(batch_s, compared.half_width, len(self.counting)),
            bias_bound=self.bias_bound,
            samples_per_s=_mean_batch_length(self.counting, self.conditions) / batch_s
            if batch_s > 0
            else None,
            wait_s=wait_s,
            step_s=step_s,
            stall_fraction=wait_s / (wait_s + step_s) if wait_s + step_s > 0 else None,
            epoch_s=self.epoch_s and self.epoch_s * longer,
            first_epoch_s=self.first_epoch_s,
            ratio_half_width=compared.ratio_half_width,
            account=self.account
            and self.account.lasting(self.account.total_s * longer),
        )


def _steady_part(epoch: Window, conditions: Conditions) -> Window:
    """Cuts an epoch to the waits and steps at the steady pace; not an epoch without
    such a part."""
    settings = conditions.settings
    kept, batch_size = settings.steady_part(epoch.batches), settings.batch_size
    if kept is None:
        return epoch
    wait_s, step_s = epoch.wait_s[kept], epoch.step_s[kept]
    samples = (
        epoch.samples * len(wait_s) // epoch.batches
        if batch_size is None
        else batch_size * len(wait_s)
    )
    return replace(epoch, wait_s=wait_s, step_s=step_s, samples=samples, end_s=None)


def _usual_making_s(windows: Sequence[Window], conditions: Conditions) -> float | None:
    """Computes the mean seconds of making a batch, without the first batch of each
    worker; None if no other was recorded."""
    makings_s = [
        record.cost.making_s
        for window in windows
        for record in window.records
        if record.number >= conditions.worker_multiple
    ]
    return statistics.fmean(makings_s) if makings_s else None


def starting_s(start: Window, windows: Sequence[Window]) -> float:
    """Computes the seconds from ``iter(loader)`` until a worker began the first batch,
    sampler excluded; 0 if unknown.

    Args:
        start: The window that begins an epoch.
        windows: All windows of the trial: the record of the first batch may be in a
            later one.
    """
    for window in windows[windows.index(start) :]:
        for record in window.records:
            if record.number == 0:
                waited_s = min(record.began_s - start.began_s, start.startup_s or 0.0)
                return max(0.0, waited_s - start.sampler_s)
    return 0.0


def _mean_batch_length(windows: Sequence[Window], conditions: Conditions) -> float:
    """Computes the samples of a batch: ``batch_size``, but the last one of an epoch, or
    of each worker, may be shorter.

    What was counted may be another dimension, such as the height of the first image in
    a tuple.
    """
    taken, batch_size = batches_in(windows), conditions.settings.batch_size
    counted_length = sum(window.samples for window in windows) / taken
    if batch_size is None:
        return counted_length or 1.0
    short_batches = len(epoch_windows(windows)) * conditions.worker_multiple
    return min(
        batch_size, max(counted_length, batch_size * (1 - short_batches / taken))
    )
