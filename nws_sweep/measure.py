"""Takes batches from any iterable and times them with any clock. No torch: the seam that tests use.

The clock is read once after each ``next()`` and once after each call of the consumer, so that waits and consumer times
add up to the elapsed time without a gap.

Several sessions can go in lockstep, as the ranks of a training do: in DistributedDataParallel nobody begins the next
step before the slowest has its batch. Then each meets the others before a burst and after every batch, and the clock is
read once more after that. A consumer that is such a training step has met them already: then nobody waits once more,
and what all must know of each other (whether the burst is over) is told a step ahead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Protocol

from nws_sweep.batches import BatchSize, batch_length, batch_size_of
from nws_sweep.records import Burst, BurstKind, BurstRequest

Clock = Callable[[], float]
Consumer = Callable[[Any], object]


class Others(Protocol):
    """The other ranks, as one of them sees them; each does the same as often."""

    def meet(self, number: int) -> int:
        """Waits until all have called it, and answers the largest of their numbers."""
        ...

    def told(self) -> int:
        """The largest number of those that all told when this one told its latest."""
        ...

    def tell(self, number: int) -> None:
        """Tells the others a number, without waiting."""


_END = object()


class _State(IntEnum):
    """How a burst goes on after a batch; of several ranks the largest counts."""

    GOES_ON = 0
    SATISFIED = 1
    ENDED = 2  # an epoch that ends in one rank ends in all


@dataclass
class _Steps:
    """What the batches of a burst took, s, and what they held."""

    wait_s: list[float] = field(default_factory=list)
    consume_s: list[float] = field(default_factory=list)
    meet_s: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)

    def add(self, wait_s: float, consume_s: float, samples: int) -> None:
        self.wait_s.append(wait_s)
        self.consume_s.append(consume_s)
        self.samples.append(samples)

    def keep(self, batches: int) -> None:
        """Forgets what came after so many."""
        for values in (self.wait_s, self.consume_s, self.samples):
            del values[batches:]


class LoaderSession:
    """One loader that is being iterated, epoch after epoch, in bursts.

    A burst goes on where the last one stopped. An epoch that ends inside a burst ends the burst; the next one starts a
    new epoch, whose start-up is reported as such and never as a batch.

    Args:
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

    def __init__(
        self,
        loader: Iterable[Any],
        consume: Consumer,
        default_batch_length: int = 1,
        clock: Clock = time.perf_counter,
        produced: Callable[[], int | None] = lambda: None,
        drain: bool = False,
        others: Others | None = None,
        consumer_meets: bool = False,
    ) -> None:
        self._loader = loader
        self._consume = consume
        self._default_batch_length = default_batch_length
        self._clock = clock
        self._produced = produced
        self._drain = drain
        self._others = others
        self._consumer_meets = consumer_meets
        self._iterator: Iterator[Any] | None = None
        self._taken = 0
        self._produced_before = 0

    def burst(self, request: BurstRequest) -> Burst:
        """Takes batches until the request is satisfied or the epoch ends."""
        if request.fresh or request.kind is BurstKind.EPOCH:
            self._leave_epoch()
        fresh = self._iterator is None
        least = max(request.min_batches, self._buffered_batches() if request.cover_buffer and not fresh else 0)
        if self._others is not None:  # all begin together, and take what the fullest queue holds
            least = self._others.meet(least)
        return self._take(replace(request, min_batches=least), fresh)

    def is_settled(self, queued_batches: int, batches_per_epoch: int | None) -> bool:
        """Whether the workers have made all that they were asked for, and stand idle.

        Args:
            queued_batches: What the queue holds when it is full.
            batches_per_epoch: None if unknown.
        """
        produced = self._produced()
        if self._iterator is None or produced is None:
            return True
        if batches_per_epoch is not None and batches_per_epoch - self._taken <= queued_batches:
            return self._taken + self._buffered_batches() >= batches_per_epoch  # the last one is shorter
        # To the last sample: a batch that is nearly made has a worker at it.
        return produced - self._produced_before >= (self._taken + queued_batches) * self._default_batch_length

    def _take(self, request: BurstRequest, fresh: bool) -> Burst:
        steps, end_s, size = _Steps(), None, BatchSize()
        consume = _leave if request.kind is BurstKind.LOADING else self._consume
        produced_before = self._produced()
        started = now = self._clock()
        state = _state(request, 0, 0.0)
        ahead = self._goes_ahead(request)
        if ahead and self._others is not None:
            self._others.tell(_state(request, 1, 0.0))
        while state is _State.GOES_ON:
            batch = self._next()
            finished = arrived = self._clock()
            if batch is not _END:
                consume(batch)
                finished = self._clock()
                steps.add(arrived - now, finished - arrived, batch_length(batch, self._default_batch_length))
                if fresh and len(steps.wait_s) == 1:
                    size = batch_size_of(batch)
            state = _state(request, len(steps.wait_s) + ahead, finished - started, ended=batch is _END)
            if self._others is not None:
                state, finished = self._agreed(state, finished, steps, ahead=ahead)
            if state is _State.ENDED:
                end_s = finished - now
            now = finished
        self._taken += len(steps.wait_s)
        return Burst(
            kind=request.kind,
            startup_s=steps.wait_s[0] if fresh and steps.wait_s else None,
            wait_s=tuple(steps.wait_s),
            consume_s=tuple(steps.consume_s),
            samples=sum(steps.samples),
            end_s=end_s,
            produced=_difference(self._produced(), produced_before),
            batch_bytes=size.bytes,
            batch_tensors=size.tensors,
            meet_s=tuple(steps.meet_s),
        )

    def _goes_ahead(self, request: BurstRequest) -> bool:
        """Whether the ranks tell each other a step ahead how the burst goes on."""
        return self._others is not None and self._consumer_meets and request.kind is not BurstKind.LOADING

    def _agreed(self, state: _State, finished: float, steps: _Steps, *, ahead: bool) -> tuple[_State, float]:
        """What all ranks agree on, and when they did; a batch that not all have is no step."""
        assert self._others is not None
        if ahead:
            return self._agreed_ahead(state), self._clock()
        agreed, met = _State(self._others.meet(state)), self._clock()
        if agreed is _State.ENDED:
            self._iterator = None
            steps.keep(len(steps.meet_s))
        else:
            steps.meet_s.append(met - finished)
        return agreed, met

    def _agreed_ahead(self, state: _State) -> _State:
        """What was told a step ago; but if there is no next step, all must know that now."""
        assert self._others is not None
        if state is _State.ENDED:
            self._others.tell(state)
            return _State(self._others.told())
        agreed = _State(self._others.told())
        self._others.tell(state)
        return agreed

    def _next(self) -> Any:
        if self._iterator is None:
            self._taken, self._produced_before = 0, self._produced() or 0
            self._iterator = iter(self._loader)
        batch = next(self._iterator, _END)
        if batch is _END:
            self._iterator = None
        return batch

    def _leave_epoch(self) -> None:
        if self._drain and self._iterator is not None:
            for _ in self._iterator:
                pass
        self._iterator = None

    def _buffered_batches(self) -> int:
        """Batches that were made in this epoch and not taken, the unfinished ones included; 0 if it is unknown."""
        produced = self._produced()
        if produced is None:
            return 0
        made = math.ceil((produced - self._produced_before) / self._default_batch_length)
        return max(0, made - self._taken)


def _leave(batch: Any) -> None:
    """Takes the consumer's place."""


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def _state(request: BurstRequest, batches: int, elapsed_s: float, *, ended: bool = False) -> _State:
    if ended:
        return _State.ENDED
    return _State.SATISFIED if _satisfied(request, batches, elapsed_s) else _State.GOES_ON


def _satisfied(request: BurstRequest, batches: int, elapsed_s: float) -> bool:
    if request.kind is BurstKind.EPOCH:
        return False
    if request.max_batches is not None and batches >= request.max_batches:
        return True
    whole_clumps = batches % request.multiple_of == 0
    return whole_clumps and batches >= request.min_batches and elapsed_s >= request.min_seconds
