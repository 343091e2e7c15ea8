"""Which DataLoader of a thread its seconds belong to; no second belongs to two of them.

A DataLoader has the time in its iterators. One that does not train, such as that of a
validation, also has the time between its batches, until its epoch ends or the training
loop requests a batch. A DataLoader within another one, as in a dataset, is a part of
that one.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.dataloading import loaders
from nws_sweep.records import OtherLoader


@dataclass(eq=False)
class LoaderTime:
    """The time of one DataLoader.

    Attributes:
        name: Of the class of its dataset.
        workers: In use.
        has_loop: Whether the time between its batches is its own, unless it is
            parallel.
        is_open: Whether its epoch has begun and not ended.
        is_parallel: Whether another DataLoader goes on within its epoch, as with
            ``zip``.
        spent_s: Seconds so far.
        called_s: Seconds of them in its iterators.
        starting_s: Seconds of them for starting and ending workers.
        starts: How often workers were started.
        dropped_s: Seconds of ``starting_s`` for ending workers of epochs that were
            left; no window has them.
    """

    name: str = ""
    workers: int = 0
    has_loop: bool = False
    is_open: bool = False
    is_parallel: bool = False
    spent_s: float = 0.0
    called_s: float = 0.0
    starting_s: float = 0.0
    starts: int = 0
    dropped_s: float = 0.0

    def begin_epoch(
        self, reason_not_training: str, workers: int, *, is_start: bool
    ) -> None:
        """An epoch has begun.

        Args:
            reason_not_training: As ``loaders.reason_not_training`` gives it.
            workers: In use.
            is_start: Whether they were started for it.
        """
        self.has_loop, self.workers = bool(reason_not_training), workers
        # a validation whose last epoch was left is none in parallel
        if reason_not_training == loaders.NOT_TRAINING[0]:
            self.is_parallel = False
        self.starts += is_start

    def since(self, then: "LoaderTime") -> OtherLoader:
        """What it took since then."""
        return OtherLoader(
            name=self.name,
            workers=self.workers,
            seconds=self.spent_s - then.spent_s,
            called_s=self.called_s - then.called_s,
            starting_s=self.starting_s - then.starting_s,
            starts=self.starts - then.starts,
        )


@dataclass(eq=False)
class LoaderClock:
    """The time of the DataLoaders of one thread.

    Args:
        read_s: Gives the seconds from any fixed point.

    Attributes:
        times: Of all DataLoaders so far.
        is_of_main_thread: Whether the thread is the main thread of the program.
    """

    read_s: Callable[[], float] = time.perf_counter
    times: list[LoaderTime] = field(default_factory=list)
    is_of_main_thread: bool = field(
        default_factory=lambda: threading.current_thread() is threading.main_thread()
    )
    _owner: LoaderTime | None = None  # of the time since ``_since_s``
    _since_s: float = 0.0
    _spent_s: float = 0.0  # by all DataLoaders
    _depth: int = 0  # DataLoaders within others
    _latest: LoaderTime | None = None  # that was called

    def enter(self, loader: LoaderTime) -> None:
        """An iterator of this DataLoader has been called."""
        self._depth += 1
        if self._depth == 1:
            before, self._latest = self._latest or loader, loader
            if before is not loader and before.is_open and loader.is_open:
                before.is_parallel = True
            self._pass_to(loader)

    def leave(self, loader: LoaderTime, *, has_ended: bool) -> None:
        """The call returns; with ``has_ended`` it was the last one of an epoch."""
        self._depth -= 1
        if not self._depth:
            loader.is_open = not has_ended
            keeps_loop = loader.has_loop and not loader.is_parallel and not has_ended
            loader.called_s += self._pass_to(loader if keeps_loop else None)

    @contextlib.contextmanager
    def entered(self, loader: LoaderTime) -> Iterator[None]:
        """Begins an epoch of this DataLoader; the one before may have been left."""
        loader.is_open = False
        self.enter(loader)
        try:
            yield
        finally:
            self.leave(loader, has_ended=False)

    def others_and_calls_s(self, loader: LoaderTime) -> tuple[float, float]:
        """Seconds of other DataLoaders and of ``dropped_s``; and in ended calls of
        iterators of ``loader``."""
        return (
            self._spent_s - loader.spent_s + loader.dropped_s,
            loader.called_s - loader.dropped_s,
        )

    @property
    def is_inside(self) -> bool:
        """Whether an iterator of a DataLoader is being called."""
        return self._depth > 0

    @property
    def latest_s(self) -> float:
        """When an iterator was called, or returned, for the last time."""
        return self._since_s

    def since(
        self, before: Mapping[LoaderTime, LoaderTime], loader: LoaderTime
    ) -> tuple[OtherLoader, ...]:
        """What the other DataLoaders took since ``now`` returned ``before``, the
        longest first; without idle ones."""
        others = []
        for other, now in self.now().items():
            took = now.since(before.get(other, LoaderTime()))
            if other is not loader and took.seconds > 0:
                others.append(took)
        return tuple(sorted(others, key=lambda took: -took.seconds))

    def now(self) -> Mapping[LoaderTime, LoaderTime]:
        """The time of each DataLoader until now."""
        if self._owner is not None:
            self._pass_to(self._owner)
        return {loader: replace(loader) for loader in self.times}

    def _pass_to(self, owner: LoaderTime | None) -> float:
        """The time from now on is that of ``owner``; returns the seconds since it was
        passed before."""
        now_s = self.read_s()
        passed_s = now_s - self._since_s
        if self._owner is not None:
            self._owner.spent_s += passed_s
            self._spent_s += passed_s
        if owner is not None and owner not in self.times:
            self.times.append(owner)
        self._owner, self._since_s = owner, now_s
        return passed_s


_of_thread: Any = threading.local()


def loader_clock_of_thread() -> LoaderClock:
    """The clock of the calling thread."""
    if not hasattr(_of_thread, "loader_clock"):
        _of_thread.loader_clock = LoaderClock()
    loader_clock: LoaderClock = _of_thread.loader_clock
    return loader_clock
