"""The workers that make batches for a part of an epoch, with what each batch costs them.

A pool that follows another is started without index lists, while the other goes on, and gets the first ones when all
its workers are ready. This module is the only one that uses private parts of torch's iterators: ``_reset``, by which
persistent workers begin an epoch, and the registration of the processes whose exit raises an error in the training.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from typing import Any

import torch
from torch.utils.data import DataLoader, _utils

from nws_sweep.dataloading import loaders
from nws_sweep.dataloading.recording import BatchLog, BatchTimer
from nws_sweep.online.index_stream import Feed, IndexStream
from nws_sweep.results import LoaderSettings

_READY, _FAILED = 1, 2


@dataclass(frozen=True)
class WorkerProbe:
    """A ``worker_init_fn`` that times the batches of the worker, and tells that the worker is ready."""

    timer: BatchTimer
    states: Any  # one of each worker, in shared memory
    user_function: Callable[[int], Any] | None

    def __call__(self, worker_id: int) -> None:
        """Runs in the worker before its first batch."""
        try:
            if self.user_function is not None:
                self.user_function(worker_id)
            self.timer.start(worker_id)
            _time_fetches(self.timer)
        except BaseException:
            self.states[worker_id] = _FAILED
            raise
        self.states[worker_id] = _READY


def _time_fetches(timer: BatchTimer) -> None:
    """In this worker process, notes start and end of each batch. The dataset, which user code sees, is not changed."""
    for fetcher in (_utils.fetch._MapDatasetFetcher, _utils.fetch._IterableDatasetFetcher):
        setattr(fetcher, "fetch", _timed(fetcher.fetch, timer))  # noqa: B010


def _timed(fetch: Callable[[Any, Any], Any], timer: BatchTimer) -> Callable[[Any, Any], Any]:
    def timed(fetcher: Any, index: Any) -> Any:
        timer.begin()
        try:
            return fetch(fetcher, index)
        finally:
            timer.end()

    return timed


class Pool:
    """Makes batches with one setting of a DataLoader: in workers, or in this process with ``num_workers=0``.

    Args:
        loader: A plain DataLoader, which is copied.
        settings: Of the pool.
        stream: Index lists of the epoch.
        seed: For the random numbers of the workers; None for the first pool of an epoch, which draws a seed from the
            DataLoader's generator as a plain DataLoader does, and begins the epoch at once.
        had_workers: Whether a plain DataLoader has workers. It then iterates its sampler twice at the start, and the
            random numbers of this process are not used for samples.

    Attributes:
        settings: Of the pool.
        feed: Index lists that the pool has not drawn yet.
        log: What batches cost the workers; None without workers.
        start_cpu_s: CPU seconds of this process for starting the workers.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        settings: LoaderSettings,
        stream: IndexStream,
        seed: int | None = None,
        *,
        had_workers: bool = True,
    ) -> None:
        self.settings = settings
        self.feed = Feed(stream, is_open=seed is None, starts=0 if seed is not None else 1 + had_workers)
        self.log = BatchLog(settings.num_workers) if settings.num_workers else None
        self._states = RawArray("b", max(1, settings.num_workers))
        self._loader = self._copy(loader, seed)
        began_s = time.process_time()
        is_own = settings.num_workers == loader.num_workers
        with contextlib.nullcontext() if is_own else warnings.catch_warnings():
            if not is_own:  # DataLoader advises against more workers than CPUs, whatever they wait for
                warnings.simplefilter("ignore")
            self._iterator: Any = self._loader._get_iterator()
        self.start_cpu_s = time.process_time() - began_s
        self._own_numbers = _RandomNumbers(self.base_seed) if had_workers and self.log is None else None
        if seed is not None:
            self._register(is_used=False)
        else:
            self._begin()

    def _copy(self, loader: DataLoader[Any], seed: int | None) -> DataLoader[Any]:
        other = loaders.copy_with(loader, self.settings)
        own = vars(other)  # DataLoader.__setattr__ refuses samplers after __init__
        own["sampler" if loader.batch_sampler is None else "batch_sampler"] = self.feed
        if seed is not None:
            other.generator = torch.Generator().manual_seed(seed)
        if self.log is not None:
            other.worker_init_fn = WorkerProbe(BatchTimer(self.log), self._states, loader.worker_init_fn)
        return other

    def _register(self, *, is_used: bool) -> None:
        """Whether the exit of a worker raises an error in this process."""
        if self.log is None or is_used == self._iterator._worker_pids_set:
            return
        handling: Any = _utils.signal_handling
        if is_used:
            handling._set_worker_pids(id(self._iterator), tuple(self.pids))
        else:
            handling._remove_worker_pids(id(self._iterator))
        self._iterator._worker_pids_set = is_used

    @property
    def base_seed(self) -> int:
        """The seed of the random numbers of its workers."""
        return int(self._iterator._base_seed)

    @property
    def pids(self) -> list[int]:
        """Of its workers."""
        return [worker.pid for worker in getattr(self._iterator, "_workers", ())]

    @property
    def is_ready(self) -> bool:
        """Whether all workers can make batches at once."""
        return self.log is None or all(state == _READY for state in self._states)

    @property
    def failure(self) -> str:
        """Why the pool cannot be used; empty if it can."""
        if self.log is None:
            return ""
        dead = [worker for worker in self._iterator._workers if not worker.is_alive()]
        if dead:
            return f"a new worker exited with code {dead[0].exitcode}"
        return "worker_init_fn failed in a new worker" if _FAILED in list(self._states) else ""

    def take_over(self, *, begins_epoch: bool = False) -> None:
        """Draws its first index lists: the following ones of the epoch, or the first ones of a new epoch."""
        self.feed.is_open, self.feed.starts = True, int(begins_epoch)
        if self.log is not None:
            self._register(is_used=True)
            self.log.begin_epoch()
        if self.log is not None or begins_epoch:
            self._iterator._reset(self._loader)
        self._begin()

    def _begin(self) -> None:
        """Does to the sampler what a plain DataLoader does at this point, and the pool has not done."""
        while self.feed.starts:
            self.feed.begin()
        if self._own_numbers is not None:
            self.feed.stream.draw()

    def next_batch(self) -> Any:
        """The next batch; StopIteration once all that was drawn has been returned and the feed has ended."""
        if self._own_numbers is None:
            return next(self._iterator)
        self.feed.stream.draw()  # a sampler may draw random numbers of this process
        with self._own_numbers:
            return next(self._iterator)

    def end(self) -> None:
        """Ends the workers."""
        if self.log is not None:
            self._iterator._shutdown_workers()


class _RandomNumbers:
    """Within this context manager, random numbers of this process come from states of its own."""

    def __init__(self, seed: int) -> None:
        self._inside: list[Any] = []
        self._outside = _states()
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed % 2**32)
        self.__exit__()

    def __enter__(self) -> None:
        self._outside = _states()
        _set_states(self._inside)

    def __exit__(self, *_: object) -> None:
        self._inside = _states()
        _set_states(self._outside)


def _states() -> list[Any]:
    numpy = sys.modules.get("numpy")
    return [torch.get_rng_state(), random.getstate(), *([numpy.random.get_state()] if numpy else [])]


def _set_states(states: list[Any]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if len(states) > 2:
        sys.modules["numpy"].random.set_state(states[2])


def derived_seed(base_seed: int, number: int) -> int:
    """A seed for pool ``number`` of an epoch whose first pool has ``base_seed``; no two pools share one by design."""
    digest = hashlib.sha256(f"{base_seed} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
