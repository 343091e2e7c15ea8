"""Takes windows of batches from any iterable and times them with any clock. Imports no torch.

The clock is read after each ``next()`` and after each call of the training step, so waits and step times add up to the
elapsed time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.results import Window, WindowKind, WindowRequest

TrainingStep = Callable[[Any], object]
_Step = tuple[float, float, int]  # wait, s; training step, s; samples

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
    _start_cpu_s: float | None = field(default=None, init=False)
    _iterator: Iterator[Any] | None = field(default=None, init=False)
    _taken: int = field(default=0, init=False)
    _produced_before: int = field(default=0, init=False)

    def window(self, request: WindowRequest) -> Window:
        """Takes batches until the request is satisfied or the epoch ends."""
        if request.fresh or request.kind is WindowKind.EPOCH:
            if self.drain and self._iterator is not None:
                for _ in self._iterator:
                    pass
            self._iterator = None
        fresh = self._iterator is None
        least = max(request.min_batches, self._buffered_batches() if request.cover_buffer and not fresh else 0)
        return self._take(replace(request, min_batches=least), fresh)

    def is_idle(self, queued_batches: int, batches_per_epoch: int | None) -> bool:
        """Whether the queue is full, so that all workers are idle; ``batches_per_epoch`` is None if unknown."""
        produced = self.produced()
        if self._iterator is None or produced is None:
            return True
        if batches_per_epoch is not None and batches_per_epoch - self._taken <= queued_batches:
            return self._taken + self._buffered_batches() >= batches_per_epoch  # the last batch is shorter
        # Every sample counts: the worker of an unfinished batch is not idle.
        return produced - self._produced_before >= (self._taken + queued_batches) * self.default_batch_length

    def _take(self, request: WindowRequest, fresh: bool) -> Window:
        steps: list[_Step] = []
        end_s, size_bytes, tensors = None, None, None
        produced_before = self.produced()
        started = now = self.clock()
        self._start_cpu_s, receive_cpu_s, receive_delay_s, step_cpu_s = None, 0.0, 0.0, 0.0
        while end_s is None and not _is_satisfied(request, len(steps), now - started):
            cpu_s, delay_s = self.cpu_clock(), self.delay_clock()
            batch = self._next()
            receive_cpu_s += self.cpu_clock() - cpu_s
            receive_delay_s += self.delay_clock() - delay_s
            arrived = self.clock()
            if batch is _END:
                end_s = arrived - now
                continue
            cpu_s = self.cpu_clock()
            self.training_step(batch)
            step_cpu_s += self.cpu_clock() - cpu_s
            finished = self.clock()
            steps.append((arrived - now, finished - arrived, batch_length(batch, self.default_batch_length)))
            if fresh and len(steps) == 1:
                size_bytes, tensors = tensor_sizes(batch)
            now = finished
        self._taken += len(steps)
        produced = self.produced()
        return Window(
            kind=request.kind,
            startup_s=steps[0][0] if fresh and steps else None,
            wait_s=tuple(wait_s for wait_s, _, _ in steps),
            step_s=tuple(step_s for _, step_s, _ in steps),
            samples=sum(samples for _, _, samples in steps),
            end_s=end_s,
            produced=None if produced is None or produced_before is None else produced - produced_before,
            batch_bytes=size_bytes,
            batch_tensors=tensors,
            receive_cpu_s=receive_cpu_s - (self._start_cpu_s or 0.0),
            step_cpu_s=step_cpu_s,
            receive_delay_s=receive_delay_s,
            began_s=started,
            start_cpu_s=self._start_cpu_s,
        )

    def _next(self) -> Any:
        if self._iterator is None:
            self._taken, self._produced_before = 0, self.produced() or 0
            self.on_epoch()
            cpu_s = self.cpu_clock()
            self._iterator = iter(self.loader)
            self._start_cpu_s = self.cpu_clock() - cpu_s
        batch = next(self._iterator, _END)
        if batch is _END:
            self._iterator = None
        return batch

    def _buffered_batches(self) -> int:
        """Batches of this epoch that were made, unfinished ones included, and not taken; 0 if unknown."""
        produced = self.produced()
        if produced is None:
            return 0
        made = math.ceil((produced - self._produced_before) / self.default_batch_length)
        return max(0, made - self._taken)


def _is_satisfied(request: WindowRequest, batches: int, elapsed_s: float) -> bool:
    """Whether a window within an epoch has what was requested; a whole epoch ends with the epoch."""
    if request.kind is WindowKind.EPOCH or not batches:
        return False
    if request.max_batches is not None and batches >= request.max_batches:
        return True
    enough = batches >= request.min_batches and elapsed_s >= request.min_seconds
    return enough and batches % request.multiple_of == 0


def tensor_sizes(batch: Any) -> tuple[int | None, int | None]:
    """Bytes and number of all tensors and arrays in a batch; None and None if it has none."""
    sizes = list(_tensor_bytes(batch))
    return (sum(sizes), len(sizes)) if sizes else (None, None)


def _tensor_bytes(value: Any) -> Iterator[int]:
    size = None
    with suppress(RuntimeError):  # sparse tensors
        size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        yield size
    elif isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _tensor_bytes(inner)


def batch_length(batch: Any, default: int) -> int:
    """Samples in a batch: the first dimension of its first tensor or array; ``default`` if it has none.

    Searches tuples, lists and mappings, which DataLoader's default collate_fn builds.
    """
    if shape := getattr(batch, "shape", None):
        return int(shape[0])
    if isinstance(batch, Mapping):
        return batch_length(next(iter(batch.values()), None), default)
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return batch_length(batch[0], default)
    return default
