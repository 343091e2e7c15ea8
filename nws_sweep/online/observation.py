"""What training sees of its loader: each setting, batch by batch, as the trial of a
search."""

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.dataloading.recording import BatchLog
from nws_sweep.dataloading.windows import Moment, WindowBuilder, made_without_workers
from nws_sweep.online.times import Epoch, duration_s, is_steady, whole_epochs
from nws_sweep.records import (
    BatchRecord,
    Configuration,
    LoaderSettings,
    MeasureRules,
    TimeSlice,
    Trial,
    Window,
    WindowKind,
)
from nws_sweep.searching.rows import Figures
from nws_sweep.searching.schedule import Conditions

# for which settings are timed: as long as a window of a search
_LONG_S = MeasureRules().window_s
# least length of the windows of this time, so that short epochs have some
_WINDOW_S = 0.1
# of a window, and of the warm-up: the first steps of a training take longer (compilers)
_FEWEST_BATCHES = 8
# a step this many times as long as the median contains something else, such as a
# validation pass
_PAUSE = 20.0
# unless most steps are shorter, and do nothing: a loop may take the batches of
# several at once
_LEAST_STEP_S = 1e-3
_LONGEST_S = 60.0  # of an observation, which records each batch
# what the windows of an epoch have together: one after the other, and as a sum
_JOINED = ("wait_s", "step_s", "records")
_ADDED = ("samples", "receive_cpu_s", "receive_delay_s", "step_cpu_s", "sampler_s")


@dataclass(eq=False)
class TrainingTrial:
    """All batches of one setting.

    Args:
        settings: Canonical.
        batches_per_epoch: Length of an epoch; None if it is unknown.

    Attributes:
        batches: Since the last window; it is told when a batch is requested.
    """

    settings: LoaderSettings
    batches_per_epoch: int | None
    windows: list[Window] = field(default_factory=list)
    _first: int = 0  # number of the first batch in its epoch
    _made: int = 0  # batches that its workers had given before
    _taken: int = 0  # batches since then
    _cut_before: int = 0  # windows of earlier epochs
    _ended_batches: int | None = None  # of the latest epoch that has ended
    _log: BatchLog | None = None  # None without workers, or if they have been left
    # the last batch of the epoch was received, and no other was requested
    _has_last: bool = False

    def __post_init__(self) -> None:
        """No batch has been taken."""
        self.batches = WindowBuilder(self.settings.batch_size or 1)
        self._fewest_batches = max(_FEWEST_BATCHES, self.settings.queued_batches)

    def begin(
        self,
        first: int,
        start_s: float,
        start_cpu_s: float,
        *,
        earlier_batches: int = 0,
        drawn_s: float = 0.0,
        log: BatchLog | None = None,
    ) -> None:
        """Workers have been started, in ``start_s``; ``first`` is the number of their
        first batch in the epoch.

        They may have given ``earlier_batches`` before; ``drawn_s`` of the time were in
        the sampler. ``log`` has what batches cost them.
        """
        self._first, self._made, self._taken = first, earlier_batches, 0
        self._cut_before, self._log = len(self.windows), log
        self.batches.begin_epoch(start_s, start_cpu_s, drawn_s)

    def given(
        self,
        now: Moment,
        batch: Any,
        waited_s: float = math.inf,
        *,
        is_last: bool = False,
    ) -> None:
        """The requested batch has been received.

        Args:
            now: The moment.
            batch: The batch.
            waited_s: For how long an accelerator has waited for it, until now.
            is_last: Whether it is the last one of the epoch.
        """
        is_first = not self.batches.step_s
        busy_s = self.batches.given(now, batch, waited_s)
        if is_first and busy_s and self.windows:
            *before_s, last_s = self.windows[-1].step_s
            step_s = (*before_s, last_s + busy_s)
            self.windows[-1] = replace(self.windows[-1], step_s=step_s)
        self._taken += 1
        self._has_last = is_last

    def leave_epoch(self, now: Moment) -> bool:
        """Ends an epoch whose end was not requested; returns whether its last batch was
        received.

        A program that counts batches, as Lightning does, never requests the end. The
        last step counts as the median of the epoch: other things follow it, such as
        saving. Of an epoch of one batch, all that follows is its step.
        """
        windows_s = [window.step_s for window in self.windows[self._cut_before :]]
        steps_s = [*itertools.chain(*windows_s), *self.batches.step_s]
        self.batches.end_last_step(now, statistics.median(steps_s or [math.inf]))
        has_last = self._has_last
        if not has_last:
            # batches that its workers have made meanwhile are no part of the epoch
            self._log = None
        if has_last or not self.is_full:  # a program may leave each epoch after a batch
            self.cut(now.clock_s if has_last else None)
        return has_last

    def cut(self, ended_s: float | None = None) -> None:
        """Ends a window, with the batch before the one that was requested last: of the
        warm-up if no other of the epoch has ended, else one that counts. The windows of
        an epoch that had no time for one that counts become one.

        ``ended_s`` is the moment when the epoch ended, on the clock of ``Moment``, if
        it has.
        """
        has_last, self._has_last = self._has_last or ended_s is not None, False
        kind = WindowKind.STEADY if self._has_cut else WindowKind.WARM_UP
        window = self._with_costs(self.batches.cut(kind, ended_s), has_ended=has_last)
        if window.step_s:
            before_s = self.windows[-1].step_s if self.windows else ()
            step_s = _without_pause(window.step_s, before_s)
            step_cpu_s = min(window.step_cpu_s or 0.0, sum(window.step_s))
            window = replace(window, step_s=step_s, step_cpu_s=step_cpu_s)
            self.windows.append(window)
        elif self._has_cut and ended_s is not None:
            # the last window has the last batch
            # of workers that had more than others
            last = self.windows[-1]
            records = (*last.records, *window.records)
            self.windows[-1] = replace(last, end_s=window.end_s, records=records)
        if ended_s is not None and not self._first:
            self._ended_batches = self._taken
            epoch = self.windows[self._cut_before :]
            if epoch and not any(map(is_steady, epoch)):
                self.windows[self._cut_before :] = [_as_whole_epoch(epoch)]

    @property
    def _has_cut(self) -> bool:
        return len(self.windows) > self._cut_before

    def _with_costs(self, window: Window, *, has_ended: bool) -> Window:
        """The window with what its batches cost, by their places in the epoch; without
        workers, its waits are the costs."""
        records: Iterable[BatchRecord] = ()
        earlier = self._made
        if self._log is not None:
            records, start = self._log.new(has_ended=has_ended), self._log.times.start
            unfed = self._log.unfed()
            window = replace(window, worker_start=start, unfed_workers=unfed)
        elif not self.settings.num_workers:
            earlier, before = 0, self._taken - window.batches
            records = made_without_workers(window, before)
        placed = _placed(records, earlier, self._first, self.batches_per_epoch)
        return replace(window, records=tuple(placed))

    @property
    def ends_window(self) -> bool:
        """Whether the open window is long enough: in whole multiples of the workers,
        after the warm-up of the epoch."""
        if not self._has_cut:
            return self._taken >= self._fewest_batches
        steps_s = self.batches.step_s
        is_multiple = len(steps_s) % max(1, self.settings.num_workers) == 0
        has_enough = len(steps_s) >= self._fewest_batches
        lasted_s = sum(self.batches.wait_s) + sum(steps_s)
        return is_multiple and has_enough and lasted_s >= _WINDOW_S

    @property
    def is_long_enough(self) -> bool:
        """Whether the windows that count suffice for a decision."""
        return duration_s(window for window in self.windows if window.counts) >= _LONG_S

    @property
    def is_long(self) -> bool:
        """Whether more would not change what is known."""
        return self.is_long_enough and duration_s(self.windows) >= _LONGEST_S

    @property
    def is_full(self) -> bool:
        """Whether it has as many windows as the longest observation of short
        batches."""
        return len(self.windows) * _WINDOW_S >= _LONGEST_S

    @property
    def suffices(self) -> bool:
        """Whether a decision between two epochs is possible: whole epochs were timed
        for as long, or windows."""
        return sum(map(duration_s, self.whole_epochs)) >= _LONG_S or self.is_long_enough

    @property
    def whole_epochs(self) -> list[Epoch]:
        """The epochs that were timed from their start to their end; of a stream, those
        as long as the latest."""
        return whole_epochs(self.windows, self.batches_per_epoch or self._ended_batches)

    def trial(self, configuration: Configuration, cores: float) -> Trial:
        """The trial of this setting so far; it has no measurement before the first
        batch."""
        slices = tuple(
            TimeSlice(windows=(window,), round=number)
            for number, window in enumerate(self.windows)
        )
        conditions = Conditions(
            settings=self.settings,
            rules=configuration.measure,
            batches_per_epoch=self.batches_per_epoch,
            seen_batches=self._ended_batches,
            cores=cores,
        )
        trial = Figures(slices, conditions, configuration.ranks).trial()
        return replace(trial, windows=tuple(self.windows))


def _placed(
    records: Iterable[BatchRecord], earlier: int, first: int, length: int | None
) -> Iterator[BatchRecord]:
    """The records with their places in an epoch of this length: ``earlier`` batches
    came before the batch with the number ``first`` of the epoch."""
    for record in records:
        number = record.number - earlier
        position = (first + number) / length if length else None
        yield replace(record, number=number, position=position)


def _as_whole_epoch(windows: Epoch) -> Window:
    """All windows of an epoch as one."""
    last = windows[-1]
    overlap_s: list[float] = []
    values: dict[str, Any] = dict.fromkeys(_JOINED, ())
    for window in windows:
        overlap_s += window.overlap_s or (0.0,) * window.batches
        for name in _JOINED:
            values[name] += getattr(window, name)
        for name in _ADDED:
            values[name] = values.get(name, 0) + (getattr(window, name) or 0)
    return replace(
        windows[0],
        **values,
        kind=WindowKind.EPOCH,
        overlap_s=tuple(overlap_s) if any(overlap_s) else (),
        end_s=last.end_s,
        unfed_workers=last.unfed_workers,
        worker_start=last.worker_start,
    )


def _without_pause(
    steps_s: Sequence[float], before_s: Sequence[float]
) -> tuple[float, ...]:
    """The steps of a window, with the median for a single step that contains something
    else.

    It is longer than a window too: what comes with every twentieth step, such as
    logging, belongs to the steps. ``before_s`` are the steps of the window before: the
    last window of an epoch may have few.
    """
    usual_s = statistics.median((*before_s, *steps_s))
    pauses_s = [step_s for step_s in steps_s if step_s > _PAUSE * usual_s + _WINDOW_S]
    if usual_s < _LEAST_STEP_S or len(pauses_s) > 1:
        return tuple(steps_s)
    return tuple(usual_s if step_s in pauses_s else step_s for step_s in steps_s)
