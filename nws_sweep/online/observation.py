"""What training sees of its loader: each setting, batch by batch, as the trial of a search; epochs. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.measurement.batch_costs import made_without_workers
from nws_sweep.measurement.trial_progress import TrialProgress
from nws_sweep.measurement.windows import Moment, WindowBuilder
from nws_sweep.replay import epoch_length
from nws_sweep.results import BatchRecord, Configuration, LoaderSettings, TimeSlice, Trial, Window, WindowKind

_FIRST_BATCHES = 3  # of training, whose steps take longer: compilers, allocators
_FEWEST_BATCHES = 8  # that are timed
_LONG_S, _LONGEST_S = 0.5, 3.0  # time that they must cover; with few batches the longer one
_WINDOW_S = 0.1  # least length of windows that count
_PAUSE = 20.0  # a step this many times as long as the median contains something else, such as a validation pass
# Unless such steps are common, or one of steps that do nothing: a loop may take the batches of several steps at once.
_RARE, _LEAST_STEP_S = 0.02, 1e-3
_RECENT = 9  # windows before, whose steps count for the median too: a window may have a single step


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
    _has_cut: bool = False  # a window of the epoch
    # Of an epoch whose last batch was received, while no other was requested: as for ``cut``.
    _left: tuple[Sequence[BatchRecord], float | None] | None = None

    def __post_init__(self) -> None:
        """No batch has been taken."""
        self.batches = WindowBuilder(self.settings.batch_size or 1)

    def begin(self, first: int, start_s: float, start_cpu_s: float, made: int = 0) -> None:
        """Workers have been started, in ``start_s``; ``first`` is the number of their first batch in the epoch.

        They may have given ``made`` batches before.
        """
        self._first, self._made, self._taken, self._has_cut = first, made, 0, False
        self.batches.begin_epoch(start_s, start_cpu_s)

    def given(self, now: Moment, batch: Any, waited_s: float = math.inf) -> None:
        """The requested batch has been received.

        Args:
            now: The moment.
            batch: The batch.
            waited_s: For how long an accelerator has waited for it, until now.
        """
        is_first = not self.batches.step_s
        busy_s = self.batches.given(now, batch, waited_s)
        if is_first and busy_s and self.windows:
            *before, last = self.windows[-1].step_s
            self.windows[-1] = replace(self.windows[-1], step_s=(*before, last + busy_s))
        self._taken += 1

    def given_last(self, records: Sequence[BatchRecord], worker_start_s: float | None) -> None:
        """The batch received last was the last one of the epoch; the arguments are those of ``cut``."""
        self._left = records, worker_start_s

    def end_epoch(self) -> bool:
        """Ends an epoch whose last batch was received, if no other was requested; returns whether there is one.

        A program that counts batches, as Lightning does, never requests the end. The last step counts as the median.
        """
        if self._left is None:
            return False
        usual_s = statistics.median(self.batches.step_s or [0.0])
        self.cut(*self._left, self.batches.end_step(usual_s))
        return True

    def cut(self, records: Sequence[BatchRecord], worker_start_s: float | None, ended_s: float | None = None) -> None:
        """Ends a window, with the batch before the one that was requested last: of the warm-up if no other of the epoch
        has ended, else one that counts.

        Args:
            records: Of the batches that workers have made since the last call.
            worker_start_s: Mean CPU seconds of a worker before its first batch.
            ended_s: When the epoch ended, on the clock of ``Moment``, if it has.
        """
        if self._left is not None:
            records, self._left = (*self._left[0], *records), None
        if not self.batches.step_s:
            return
        is_whole = not self._has_cut and ended_s is not None and not self._first
        first = WindowKind.EPOCH if is_whole else WindowKind.WARM_UP
        window = self.batches.cut(WindowKind.STEADY if self._has_cut else first, ended_s)
        recent = [step_s for one in (*self.windows[-_RECENT:], window) for step_s in one.step_s]
        length, instead_of_s = self.batches_per_epoch, _pauses(recent)
        if not self.settings.num_workers:
            made = made_without_workers(window, self._taken - window.batches, [None] * window.batches)
        else:
            made = (replace(one, number=one.number - self._made) for one in records)
        placed = (replace(one, position=(self._first + one.number) / length if length else None) for one in made)
        self.windows.append(
            replace(
                window,
                step_s=tuple(instead_of_s.get(one, one) for one in window.step_s),
                step_cpu_s=min(window.step_cpu_s or 0.0, sum(window.step_s)),
                records=tuple(placed),
                worker_start_s=worker_start_s,
            )
        )
        self._has_cut = True

    @property
    def ends_window(self) -> bool:
        """Whether the open window is long enough: in whole multiples of the workers, after the warm-up of the epoch.

        An epoch that has less than two batches of each worker after the warm-up is timed whole.
        """
        workers, length, steps_s = max(1, self.settings.num_workers), self.batches_per_epoch, self.batches.step_s
        if not self._has_cut:
            warm_up = max(self.settings.queued_batches, _FIRST_BATCHES)
            return self._taken >= warm_up and (length is None or length >= warm_up + 2 * workers)
        is_whole = bool(steps_s) and len(steps_s) % workers == 0
        return is_whole and sum(self.batches.wait_s) + sum(steps_s) >= _WINDOW_S

    @property
    def is_long_enough(self) -> bool:
        """Whether the windows that count suffice for a decision."""
        batches, seconds = self._counted_batches, sum(window.elapsed_s for window in self.windows if window.counts)
        if seconds >= _LONGEST_S:
            return batches >= _FEWEST_BATCHES / 2
        return seconds >= _LONG_S and batches >= max(_FEWEST_BATCHES, self.settings.queued_batches)

    @property
    def suffices(self) -> bool:
        """Whether a decision between two epochs is possible: an epoch was timed whole, or enough batches were."""
        is_whole = any(window.kind is WindowKind.EPOCH for window in self.windows)
        return is_whole or self._counted_batches >= _FEWEST_BATCHES

    @property
    def _counted_batches(self) -> int:
        return sum(window.batches for window in self.windows if window.counts)

    def trial(self, configuration: Configuration, cores: float) -> Trial:
        """The trial of this setting so far; it has no measurement before the first batch."""
        progress = TrialProgress(self.settings, configuration, cores, self.batches_per_epoch)
        progress.slices += [TimeSlice(windows=(window,), round=n) for n, window in enumerate(self.windows)]
        progress.done = True
        return progress.trial


def _pauses(steps_s: Sequence[float]) -> dict[float, float]:
    """The steps that contain something else, and what counts instead: the median."""
    usual_s = statistics.median(steps_s)
    long_s = [one for one in steps_s if one > _PAUSE * usual_s + 0.1]
    is_rare = len(long_s) <= max(usual_s >= _LEAST_STEP_S, _RARE * len(steps_s))
    return dict.fromkeys(long_s, usual_s) if is_rare else {}


@dataclass
class EpochLength:
    """The length of epochs of an iterable dataset, which must not depend on the number of workers.

    Attributes:
        workers: Of the program.
        usual: Batches of the latest epoch with the workers of the program; None before the end of one.
    """

    workers: int
    usual: int | None = None

    def most(self, workers: int) -> int | None:
        """Counts the batches with which an epoch with these workers is too long; None if any length is right."""
        if self.usual is None or workers <= self.workers:
            return None
        return epoch_length.most_batches(self.usual, workers) + 1

    def notice(self, batches: int, workers: int) -> str:
        """Notes the length of an epoch with these workers; returns what is wrong with the length, or nothing."""
        if workers == self.workers:
            self.usual = batches
        if self.usual is None:
            return ""
        return epoch_length.difference(batches, workers, self.usual, self.workers)
