"""What the training sees of one setting of its loader, batch by batch, as the trial of a search. Pure.

The clocks are read when a batch is asked for and when it is there, so waits and steps of the training add up.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.measurement.trial_progress import TrialProgress
from nws_sweep.results import BatchRecord, Configuration, LoaderSettings, TimeSlice, Trial, Window, WindowKind

_FIRST_BATCHES = 3  # of the training, whose steps take longer: compilers, allocators
_FEWEST_BATCHES = 8  # that are timed
_LONG_S, _LONGEST_S = 0.5, 3.0  # so long are they timed; and with few batches
_WINDOW_S = 0.1  # windows that count are at least so long
_PAUSE = 20.0  # a step this many times as long as the median contains something else, such as a validation pass

Sizes = Callable[[Any], tuple[int | None, int | None]]


@dataclass(frozen=True, slots=True)
class Moment:
    """Readings of the clocks of the training's process, s."""

    clock_s: float
    cpu_s: float  # of all threads
    delay_s: float  # in which its main thread was ready to run and did not


@dataclass(eq=False)
class Observation:
    """All batches of one setting.

    Args:
        settings: Canonical.
        warm_up: Batches of each epoch, and after each change, that are not timed.
        batches_per_epoch: Length of an epoch; None if it is unknown.
    """

    settings: LoaderSettings
    warm_up: int
    batches_per_epoch: int | None
    windows: list[Window] = field(default_factory=list)
    _first: int = 0  # number of the first batch in its epoch
    _taken: int = 0  # batches since then
    _cut: int = 0  # of them in windows
    _start_s: float = 0.0
    _start_cpu_s: float = 0.0
    _wait_s: list[float] = field(default_factory=list)
    _step_s: list[float] = field(default_factory=list)
    _receive_cpu_s: float = 0.0
    _receive_delay_s: float = 0.0
    _step_cpu_s: float = 0.0
    _began_s: float | None = None  # when the first batch of the open window was asked for
    _given: Moment | None = None
    _asked_s: float = 0.0
    _batch_sizes: tuple[int | None, int | None] = (None, None)

    def begin(self, first: int, start_s: float, start_cpu_s: float) -> None:
        """Workers have been started, in so many seconds; ``first`` is the number of their first batch in the epoch."""
        self._first, self._taken, self._cut = first, 0, 0
        self._start_s, self._start_cpu_s = start_s, start_cpu_s
        self._given = self._began_s = None
        self._wait_s.clear()
        self._step_s.clear()

    def asked(self, now: Moment) -> None:
        """The training asks for a batch."""
        if self._given is not None:
            self._step_s.append(now.clock_s - self._given.clock_s)
            self._step_cpu_s += now.cpu_s - self._given.cpu_s
        self._given, self._asked_s = None, now.clock_s
        if self._began_s is None:
            self._began_s = now.clock_s - self._start_s

    def given(self, asked: Moment, now: Moment, batch: Any, sizes: Sizes) -> None:
        """The training has got the batch that it asked for; of the first one ``sizes`` gives bytes and tensors."""
        if not self._taken:
            self._batch_sizes = sizes(batch)
        self._wait_s.append(now.clock_s - asked.clock_s)
        self._receive_cpu_s += now.cpu_s - asked.cpu_s
        self._receive_delay_s += now.delay_s - asked.delay_s
        self._given = now
        self._taken += 1

    def cut(self, records: Sequence[BatchRecord], worker_start_s: float | None, ended_s: float | None = None) -> None:
        """Ends a window, with the batch before the one that was asked for last: of the warm-up if no other of the epoch
        has ended, else one that counts.

        Args:
            records: Of the batches that workers have made since the last call.
            worker_start_s: Mean CPU seconds of a worker before its first batch.
            ended_s: When the epoch ended, on the clock of ``Moment``, if it has.
        """
        batches = len(self._step_s)
        if not batches or self._began_s is None:
            return
        is_first, usual = not self._cut, statistics.median(self._step_s)
        waits = self._wait_s[:batches]
        if is_first:
            waits[0] += self._start_s
        is_whole = is_first and ended_s is not None and not self._first
        kind = WindowKind.EPOCH if is_whole else WindowKind.WARM_UP if is_first else WindowKind.STEADY
        length = self.batches_per_epoch
        made = (replace(one, position=(self._first + one.number) / length if length else 0.0) for one in records)
        self.windows.append(
            Window(
                kind=kind,
                startup_s=waits[0] if is_first else None,
                wait_s=tuple(waits),
                step_s=tuple(usual if one > _PAUSE * usual + 0.1 else one for one in self._step_s),
                samples=batches * (self.settings.batch_size or 1),
                end_s=None if ended_s is None else max(0.0, ended_s - self._asked_s),
                batch_bytes=self._batch_sizes[0] if is_first else None,
                batch_tensors=self._batch_sizes[1] if is_first else None,
                records=tuple(made),
                receive_cpu_s=self._receive_cpu_s,
                receive_delay_s=self._receive_delay_s,
                began_s=self._began_s,
                step_cpu_s=min(self._step_cpu_s, sum(self._step_s)),
                start_cpu_s=self._start_cpu_s if is_first else None,
                worker_start_s=worker_start_s,
            )
        )
        self._cut += batches
        del self._wait_s[:batches]
        self._step_s.clear()
        self._receive_cpu_s = self._receive_delay_s = self._step_cpu_s = 0.0
        self._began_s = self._asked_s

    @property
    def ends_warm_up(self) -> bool:
        """Whether the warm-up of this epoch has lasted long enough, and no window has been cut since.

        An epoch that has less than two batches of each worker after the warm-up is timed whole.
        """
        warm_up, length = max(self.warm_up, _FIRST_BATCHES), self.batches_per_epoch
        is_short = length is not None and length < warm_up + 2 * max(1, self.settings.num_workers)
        return not self._cut and not is_short and self._taken >= warm_up

    @property
    def ends_window(self) -> bool:
        """Whether the open window that counts is long enough, in whole multiples of the workers."""
        batches = len(self._step_s)
        is_whole = bool(batches) and batches % max(1, self.settings.num_workers) == 0
        return bool(self._cut) and is_whole and sum(self._wait_s) + sum(self._step_s) >= _WINDOW_S

    @property
    def is_long_enough(self) -> bool:
        """Whether the windows that count suffice for a decision."""
        counted = [window for window in self.windows if window.counts]
        batches, seconds = sum(window.batches for window in counted), sum(window.elapsed_s for window in counted)
        if seconds >= _LONGEST_S:
            return batches >= _FEWEST_BATCHES / 2
        return seconds >= _LONG_S and batches >= max(_FEWEST_BATCHES, self.settings.queued_batches)

    @property
    def suffices(self) -> bool:
        """Whether a decision between two epochs is possible: an epoch was timed whole, or enough batches were."""
        counted = [window for window in self.windows if window.counts]
        is_whole = any(window.kind is WindowKind.EPOCH for window in counted)
        return is_whole or sum(window.batches for window in counted) >= _FEWEST_BATCHES

    def trial(self, configuration: Configuration, cores: float) -> Trial:
        """The trial of this setting so far; it has no measurement before the first batch."""
        progress = TrialProgress(self.settings, configuration, cores, self.batches_per_epoch)
        progress.slices += [TimeSlice(windows=(window,), round=n) for n, window in enumerate(self.windows)]
        progress.done = True
        return progress.trial
