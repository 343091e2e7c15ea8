"""Takes windows of batches from any iterable and times them with any clock. Imports no torch."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.measurement.windows import Moment, WindowBuilder
from nws_sweep.results import Window, WindowKind, WindowRequest

TrainingStep = Callable[[Any], object]

_END = object()


@dataclass(eq=False)
class LoaderSession:
    """The iteration over one loader, epoch after epoch, in windows.

    A window starts where the previous window stopped. The end of an epoch ends its window; the next window starts a new
    epoch, whose start-up is reported separately.
    """

    loader: Iterable[Any]  # ``iter(loader)`` starts an epoch
    training_step: TrainingStep  # called with each batch
    default_batch_length: int = 1  # samples of a batch without a length
    clock: Callable[[], float] = time.perf_counter  # seconds from any fixed point
    produced: Callable[[], int | None] = lambda: None  # samples that the workers have finished; None if not counted
    # Take the rest of an epoch, untimed, before a new epoch: persistent workers would finish it during the start-up.
    drain: bool = False
    cpu_clock: Callable[[], float] = lambda: 0.0  # CPU seconds of this process
    delay_clock: Callable[[], float] = lambda: 0.0  # seconds in which this thread was ready to run and did not
    on_epoch: Callable[[], None] = lambda: None  # called before an epoch starts
    taken: int = field(default=0, init=False)  # batches of this epoch
    _iterator: Any = field(default=None, init=False)
    _produced_before: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Nothing has been taken."""
        self._batches = WindowBuilder(self.default_batch_length)

    def window(self, request: WindowRequest) -> Window:
        """Takes batches until the request is satisfied or the epoch ends."""
        if request.fresh or request.kind is WindowKind.EPOCH:
            if self.drain and self._iterator is not None:
                for _ in self._iterator:
                    pass
            self._iterator = None
        covered = self._buffered_batches() if request.cover_buffer and self._iterator is not None else 0
        return self._take(replace(request, min_batches=max(request.min_batches, covered)))

    def is_idle(self, queued_batches: int, batches_per_epoch: int | None) -> bool:
        """Whether the queue is full, so that all workers are idle; ``batches_per_epoch`` is None if unknown."""
        produced = self.produced()
        if self._iterator is None or produced is None:
            return True
        if batches_per_epoch is not None and batches_per_epoch - self.taken <= queued_batches:
            return self.taken + self._buffered_batches() >= batches_per_epoch  # the last batch is shorter
        # Every sample counts: the worker of an unfinished batch is not idle.
        return produced - self._produced_before >= (self.taken + queued_batches) * self.default_batch_length

    def _take(self, request: WindowRequest) -> Window:
        produced_before, ended_s, taken = self.produced(), None, 0
        now = began = self._now()
        while ended_s is None and not _is_satisfied(request, taken, now.clock_s - began.clock_s):
            if self._iterator is None:
                now = self._begin_epoch(now)
            self._batches.asked(now)
            batch = next(self._iterator, _END)
            if batch is _END:
                self._iterator, ended_s = None, self.clock()
                continue
            self._batches.given(self._now(), batch)
            self.training_step(batch)
            now = self._now()
            taken += 1
        if ended_s is None:
            self._batches.asked(now)  # the last step has ended
        self.taken += taken
        produced = self.produced()
        made = None if produced is None or produced_before is None else produced - produced_before
        return replace(self._batches.cut(request.kind, ended_s), produced=made)

    def _begin_epoch(self, began: Moment) -> Moment:
        self.taken, self._produced_before = 0, self.produced() or 0
        self.on_epoch()
        self._iterator, now = iter(self.loader), self._now()
        self._batches.begin_epoch(now.clock_s - began.clock_s, now.cpu_s - began.cpu_s)
        return now

    def _now(self) -> Moment:
        return Moment(self.clock(), self.cpu_clock(), self.delay_clock())

    def _buffered_batches(self) -> int:
        """Batches of this epoch that were made, unfinished ones included, and not taken; 0 if unknown."""
        produced = self.produced()
        if produced is None:
            return 0
        made = math.ceil((produced - self._produced_before) / self.default_batch_length)
        return max(0, made - self.taken)


def _is_satisfied(request: WindowRequest, batches: int, elapsed_s: float) -> bool:
    """Whether a window within an epoch has what was requested; a whole epoch ends with the epoch."""
    if request.kind is WindowKind.EPOCH or not batches:
        return False
    if request.max_batches is not None and batches >= request.max_batches:
        return True
    enough = batches >= request.min_batches and elapsed_s >= request.min_seconds
    return enough and batches % request.multiple_of == 0
