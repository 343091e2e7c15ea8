"""Takes batches from any iterable and times them with any clock. No torch: the seam that tests use.

The clock is read once after each ``next()`` and once after each call of the consumer, so that waits and consumer times
add up to the elapsed time without a gap.

Several sessions can go in lockstep, as the ranks of a training do: in DistributedDataParallel no process begins the next
step before the slowest has its batch. Then each meets the others before a window and after every batch, and the clock is
read once more after that. A consumer that is such a training step has met them already: then no process waits once more,
and what all must know of each other (whether the window is over) is told a step ahead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Protocol

from nws_sweep.results import Window, WindowKind, WindowRequest

Clock = Callable[[], float]
Consumer = Callable[[Any], object]


class OtherRanks(Protocol):
    """The other ranks, as one of them sees them; each does the same as often."""

    def barrier(self, number: int) -> int:
        """Waits until all have called it, and answers the largest of their numbers."""

    def agreed(self) -> int:
        """The largest number of those that all told when this one told its latest."""

    def publish(self, number: int) -> None:
        """Tells the others a number, without waiting."""


_END = object()


class _State(IntEnum):
    """How a window goes on after a batch; of several ranks the largest counts."""

    GOES_ON = 0
    SATISFIED = 1
    ENDED = 2  # an epoch that ends in one rank ends in all


@dataclass(eq=False)
class LoaderSession:
    """One loader that is being iterated, epoch after epoch, in windows.

    A window goes on where the last one stopped. An epoch that ends inside a window ends the window; the next one starts a
    new epoch, whose start-up is reported as such and never as a batch.

    Attributes:
        loader: Any iterable of batches; ``iter(loader)`` begins an epoch.
        consume: Called with each batch, in the consumer's time.
        default_batch_length: Samples counted for a batch whose length cannot be told.
        clock: Seconds from any fixed point.
        produced: Samples that the workers have finished so far; None if that cannot be told.
        drain: Take an epoch to its end, untimed, before a new one begins in its middle: workers that persist would
            do that in the new one's start-up.
        others: The other ranks; None for one alone.
        consumer_meets: Whether the consumer makes the ranks wait for each other.
    """

    loader: Iterable[Any]
    consume: Consumer
    default_batch_length: int = 1
    clock: Clock = time.perf_counter
    produced: Callable[[], int | None] = lambda: None
    drain: bool = False
    others: OtherRanks | None = None
    consumer_synchronizes: bool = False
    _iterator: Iterator[Any] | None = field(default=None, init=False)
    _taken: int = field(default=0, init=False)
    _produced_before: int = field(default=0, init=False)

    def window(self, request: WindowRequest) -> Window:
        """Takes batches until the request is satisfied or the epoch ends."""
        if request.fresh or request.kind is WindowKind.EPOCH:
            self._leave_epoch()
        fresh = self._iterator is None
        least = max(request.min_batches, self._buffered_batches() if request.cover_buffer and not fresh else 0)
        if self.others is not None:  # all begin together, and take what the fullest queue holds
            least = self.others.barrier(least)
        return self._take(replace(request, min_batches=least), fresh)

    def is_idle(self, queued_batches: int, batches_per_epoch: int | None) -> bool:
        """Whether the workers have made all that a full queue holds, and stand idle; an epoch may have no length."""
        produced = self.produced()
        if self._iterator is None or produced is None:
            return True
        if batches_per_epoch is not None and batches_per_epoch - self._taken <= queued_batches:
            return self._taken + self._buffered_batches() >= batches_per_epoch  # the last one is shorter
        # To the last sample: a batch that is nearly made has a worker at it.
        return produced - self._produced_before >= (self._taken + queued_batches) * self.default_batch_length

    def _take(self, request: WindowRequest, fresh: bool) -> Window:
        steps: list[tuple[float, float, int]] = []
        barrier_s: list[float] = []
        end_s, size_bytes, tensors = None, None, None
        consumes = request.kind is not WindowKind.LOADING
        ahead = self.others is not None and self.consumer_synchronizes and consumes
        produced_before = self.produced()
        started = now = self.clock()
        if ahead and self.others is not None:
            self.others.publish(_state(request, 1, 0.0))
        state = _State.GOES_ON
        while state is _State.GOES_ON:
            batch = self._next()
            finished = arrived = self.clock()
            if batch is not _END:
                if consumes:
                    self.consume(batch)
                finished = self.clock()
                steps.append((arrived - now, finished - arrived, batch_length(batch, self.default_batch_length)))
                if fresh and len(steps) == 1:
                    size_bytes, tensors = weight_of(batch)
            state = _State.ENDED if batch is _END else _state(request, len(steps) + ahead, finished - started)
            if self.others is not None:
                state, finished = self._agreed(state, finished, self.others, steps, barrier_s, ahead=ahead)
            end_s = finished - now if state is _State.ENDED else None
            now = finished
        self._taken += len(steps)
        produced = self.produced()
        return Window(
            kind=request.kind,
            startup_s=steps[0][0] if fresh and steps else None,
            wait_s=tuple(wait_s for wait_s, _, _ in steps),
            consume_s=tuple(consume_s for _, consume_s, _ in steps),
            samples=sum(samples for _, _, samples in steps),
            end_s=end_s,
            produced=None if produced is None or produced_before is None else produced - produced_before,
            batch_bytes=size_bytes,
            batch_tensors=tensors,
            barrier_s=tuple(barrier_s),
        )

    def _agreed(
        self,
        state: _State,
        finished: float,
        others: OtherRanks,
        steps: list[tuple[float, float, int]],
        barrier_s: list[float],
        *,
        ahead: bool,
    ) -> tuple[_State, float]:
        """What all ranks agree on, and when they did; a batch that not all have is no step."""
        if not ahead:
            agreed, met = _State(others.barrier(state)), self.clock()
            if agreed is _State.ENDED:
                self._iterator = None
                del steps[len(barrier_s) :]
            else:
                barrier_s.append(met - finished)
            return agreed, met
        if state is _State.ENDED:  # there is no next step: all must know that now
            others.publish(state)
            return _State(others.agreed()), self.clock()
        agreed = _State(others.agreed())  # a step ago
        others.publish(state)
        return agreed, self.clock()

    def _next(self) -> Any:
        if self._iterator is None:
            self._taken, self._produced_before = 0, self.produced() or 0
            self._iterator = iter(self.loader)
        batch = next(self._iterator, _END)
        if batch is _END:
            self._iterator = None
        return batch

    def _leave_epoch(self) -> None:
        if self.drain and self._iterator is not None:
            for _ in self._iterator:
                pass
        self._iterator = None

    def _buffered_batches(self) -> int:
        """Batches that were made in this epoch and not taken, the unfinished ones included; 0 if it is unknown."""
        produced = self.produced()
        if produced is None:
            return 0
        made = math.ceil((produced - self._produced_before) / self.default_batch_length)
        return max(0, made - self._taken)


def _state(request: WindowRequest, batches: int, elapsed_s: float) -> _State:
    """How a window goes on within an epoch."""
    if request.kind is WindowKind.EPOCH:
        return _State.GOES_ON
    enough = batches >= request.min_batches and elapsed_s >= request.min_seconds
    if request.max_batches is not None and batches >= request.max_batches:
        return _State.SATISFIED
    return _State.SATISFIED if enough and batches % request.multiple_of == 0 else _State.GOES_ON


def weight_of(batch: Any) -> tuple[int | None, int | None]:
    """Bytes and number of all tensors and arrays in what a collate_fn builds; None each where it holds none."""
    sizes = list(_tensor_bytes(batch))
    return (sum(sizes), len(sizes)) if sizes else (None, None)


def _tensor_bytes(value: Any) -> Iterator[int]:
    size = None
    with suppress(RuntimeError):  # sparse tensors do not say
        size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        yield size
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _tensor_bytes(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from _tensor_bytes(inner)


def batch_length(batch: Any, default: int) -> int:
    """Samples in a batch: the first dimension of its first tensor or array, ``default`` where there is none.

    Looks into tuples, lists and mappings (collated dictionaries), as DataLoader's default collate_fn builds them.
    """
    if shape := getattr(batch, "shape", None):
        return int(shape[0])
    if isinstance(batch, Mapping):
        return batch_length(next(iter(batch.values()), None), default)
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return batch_length(batch[0], default)
    return default
