"""A clock that goes only when told, and a loader and an arm whose truth is known exactly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from nws_sweep.errors import TrialError
from nws_sweep.measure import LoaderSession
from nws_sweep.records import Burst, BurstRequest, Configuration, DatasetFacts, LoaderSettings


class FakeClock:
    """Seconds that pass only by ``advance``."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class SimulatedLoader:
    """DataLoader's own rules on a fake clock.

    Batch b is made by worker b mod n; its index is handed out when batch b - n x prefetch_factor is taken (the first
    ones at once); batches are handed over in order.

    Args:
        clock: Advanced to the moment when a batch is in hand.
        batches: Length of an epoch.
        make_s: Seconds that making batch b takes in a worker, s, or one number for all.
        num_workers: 0 makes batches in ``next()``.
        prefetch_factor: Indices in the hands of each worker.
        start_s: Seconds until the workers have started.
        end_s: Seconds that the end of an epoch takes.
    """

    def __init__(
        self,
        clock: FakeClock,
        batches: int,
        make_s: float | Callable[[int], float],
        num_workers: int = 0,
        prefetch_factor: int = 2,
        start_s: float = 0.0,
        end_s: float = 0.0,
    ) -> None:
        self._clock = clock
        self._batches = batches
        self._make_s = make_s if callable(make_s) else lambda batch: make_s
        self._num_workers = num_workers
        self._ahead = num_workers * prefetch_factor
        self._start_s = start_s
        self._end_s = end_s
        self.epochs_begun = 0

    def __iter__(self) -> Iterator[int]:
        self.epochs_begun += 1
        return self._in_process() if self._num_workers == 0 else self._in_workers()

    def _in_process(self) -> Iterator[int]:
        for batch in range(self._batches):
            self._clock.advance(self._make_s(batch))
            yield batch
        self._clock.advance(self._end_s)

    def _in_workers(self) -> Iterator[int]:
        begun = self._clock.now
        free_at = [begun + self._start_s] * self._num_workers
        taken_at: list[float] = []
        for batch in range(self._batches):
            issued = begun if batch < self._ahead else taken_at[batch - self._ahead]
            worker = batch % self._num_workers
            free_at[worker] = max(free_at[worker], issued) + self._make_s(batch)
            self._clock.now = max(self._clock.now, free_at[worker])
            taken_at.append(self._clock.now)
            yield batch
        self._clock.advance(self._end_s)


class FakeArm:
    """An arm without a process: a simulated loader behind the commands of a real one."""

    facts = DatasetFacts(type="fake.Dataset", iterable=False, samples=1000, accelerator=None)

    def __init__(
        self,
        clock: FakeClock,
        make_loader: Callable[[LoaderSettings], SimulatedLoader],
        batches_per_epoch: int | None,
        consume_s: float = 0.0,
    ) -> None:
        self._clock = clock
        self._make_loader = make_loader
        self._length = batches_per_epoch
        self._consume_s = consume_s
        self.batches_per_epoch: int | None = None
        self.requests: list[BurstRequest] = []
        self.opened: list[LoaderSettings] = []

    def open(self, settings: LoaderSettings) -> None:
        self.opened.append(settings)
        self.batches_per_epoch = self._length
        self._session = LoaderSession(self._make_loader(settings), self._consume, settings.batch_size, self._clock)

    def burst(self, request: BurstRequest) -> Burst:
        self.requests.append(request)
        return self._session.burst(request)

    def warned(self) -> tuple[str, ...]:
        return ()

    def _consume(self, batch: Any) -> None:
        self._clock.advance(self._consume_s)


class FailingArm(FakeArm):
    """An arm that raises once a candidate of a set is opened."""

    def __init__(self, arm: FakeArm, failures: dict[int, TrialError]) -> None:
        super().__init__(arm._clock, arm._make_loader, arm._length, arm._consume_s)
        self._failures = failures

    def open(self, settings: LoaderSettings) -> None:
        super().open(settings)
        if settings.num_workers in self._failures:
            raise self._failures[settings.num_workers]


def arm_factory(arm: FakeArm) -> Callable[[Configuration], contextlib.AbstractContextManager[FakeArm]]:
    """Gives the same arm to every trial."""

    @contextlib.contextmanager
    def open_arm(configuration: Configuration) -> Iterator[FakeArm]:
        yield arm

    return open_arm
