"""Takes batches from any iterable and times them with any clock. No torch: the seam that tests use.

The clock is read once after each ``next()`` and once after each call of the consumer, so that waits and consumer times
add up to the elapsed time without a gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nws_sweep.records import Burst, BurstKind, BurstRequest

Clock = Callable[[], float]
Consumer = Callable[[Any], object]

_END = object()


class LoaderSession:
    """One loader that is being iterated, epoch after epoch, in bursts.

    A burst goes on where the last one stopped. An epoch that ends inside a burst ends the burst; the next one starts a
    new epoch, whose start-up is reported as such and never as a batch.

    Args:
        loader: Any iterable of batches; ``iter(loader)`` begins an epoch.
        consume: Called with each batch, in the consumer's time.
        default_batch_length: Samples counted for a batch whose length cannot be told.
        clock: Seconds from any fixed point.
    """

    def __init__(
        self,
        loader: Iterable[Any],
        consume: Consumer,
        default_batch_length: int = 1,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._loader = loader
        self._consume = consume
        self._default_batch_length = default_batch_length
        self._clock = clock
        self._iterator: Iterator[Any] | None = None

    def burst(self, request: BurstRequest) -> Burst:
        """Takes batches until the request is satisfied or the epoch ends."""
        waits: list[float] = []
        consumes: list[float] = []
        samples, end_s = 0, None
        started = now = self._clock()
        if request.kind is BurstKind.EPOCH:
            self._iterator = None
        fresh = self._iterator is None
        while not _satisfied(request, len(waits), now - started):
            batch = self._next()
            arrived = self._clock()
            if batch is _END:
                end_s = arrived - now
                break
            self._consume(batch)
            finished = self._clock()
            waits.append(arrived - now)
            consumes.append(finished - arrived)
            samples += batch_length(batch, self._default_batch_length)
            now = finished
        startup_s = waits[0] if fresh and waits else None
        return Burst(
            kind=request.kind,
            startup_s=startup_s,
            wait_s=tuple(waits),
            consume_s=tuple(consumes),
            samples=samples,
            end_s=end_s,
        )

    def _next(self) -> Any:
        if self._iterator is None:
            self._iterator = iter(self._loader)
        batch = next(self._iterator, _END)
        if batch is _END:
            self._iterator = None
        return batch


def _satisfied(request: BurstRequest, batches: int, elapsed_s: float) -> bool:
    if request.kind is BurstKind.EPOCH:
        return False
    whole_clumps = batches % request.multiple_of == 0
    return whole_clumps and batches >= request.min_batches and elapsed_s >= request.min_seconds


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
