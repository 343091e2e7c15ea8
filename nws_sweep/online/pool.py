"""The workers that make batches for a part of an epoch, with what each batch costs them.

A pool that follows another is started without index lists, while the other goes on, and gets the first ones when all
its workers are ready. Until then, the exit of one of them raises no error in the training.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from nws_sweep.dataloading import loaders
from nws_sweep.dataloading.recording import BatchLog, BatchTimer
from nws_sweep.online.index_stream import Feed, IndexStream
from nws_sweep.online.worker_probe import FAILED, READY, STARTING, WorkerProbe, WorkerStates
from nws_sweep.results import LoaderSettings
from nws_sweep.system import torch_internals

_POLL_S = 0.001
_numbers = itertools.count()  # of the pools of this process that have a seed of their own


class Pool:
    """Makes batches with one setting of a DataLoader: in workers, or in this process with ``num_workers=0``.

    Args:
        loader: A plain DataLoader, which is copied.
        settings: Of the pool.
        stream: Index lists of the epoch.
        is_first: Whether it begins an epoch at once and draws a seed for its workers from the DataLoader's generator,
            as a plain DataLoader does. Otherwise it has a seed of its own.

    Attributes:
        settings: Of the pool.
        feed: Index lists that the pool has not drawn yet.
        log: What batches cost the workers; None without workers.
        start_cpu_s: CPU seconds of this process for starting the workers.
    """

    def __init__(
        self, loader: DataLoader[Any], settings: LoaderSettings, stream: IndexStream, *, is_first: bool = False
    ) -> None:
        self.settings = settings
        # A plain DataLoader with workers iterates its sampler twice at the start.
        self.feed = Feed(stream, is_open=is_first, starts=is_first * (1 + (loader.num_workers > 0)))
        self.log = BatchLog(settings.num_workers) if settings.num_workers else None
        self._states = WorkerStates(settings.num_workers)
        self._is_iterable = isinstance(loader.dataset, IterableDataset)
        self._loader = self._copy(loader, is_first=is_first)
        began_s = time.process_time()
        is_own = settings.num_workers == loader.num_workers
        with contextlib.nullcontext() if is_own else warnings.catch_warnings():
            if not is_own:  # DataLoader advises against more workers than CPUs, whatever they wait for
                warnings.simplefilter("ignore")
            self._iterator: Any = torch_internals.new_iterator(self._loader)
        self.start_cpu_s = time.process_time() - began_s
        if is_first:
            self._begin()
        elif self.log is not None:
            torch_internals.raise_at_exit(self._iterator, is_wanted=False)

    def _copy(self, loader: DataLoader[Any], *, is_first: bool) -> DataLoader[Any]:
        other = loaders.copy_with(loader, self.settings)
        own = vars(other)  # DataLoader.__setattr__ refuses samplers after __init__
        own["sampler" if loader.batch_sampler is None else "batch_sampler"] = self.feed
        if not is_first:
            other.generator = _new_generator(loader.generator or torch.default_generator)
        if self.log is not None:
            timer, user_function = BatchTimer(self.log), loader.worker_init_fn
            other.worker_init_fn = WorkerProbe(timer, self._states, user_function, self._is_iterable)
        return other

    @property
    def pids(self) -> list[int]:
        """Of its workers."""
        return [worker.pid for worker in torch_internals.workers(self._iterator)]

    @property
    def is_ready(self) -> bool:
        """Whether all workers have been started, without the first batches of an iterable dataset."""
        return not self._states.count(STARTING)

    @property
    def failure(self) -> str:
        """Why the pool cannot be used; empty if it can."""
        if dead := self._dead:
            return f"a new worker exited with code {dead[0].exitcode}"
        return "worker_init_fn failed in a new worker" if self._states.count(FAILED) else ""

    @property
    def _dead(self) -> list[Any]:
        return [worker for worker in torch_internals.workers(self._iterator) if not worker.is_alive()]

    def started_workers(self) -> int:
        """Waits until all workers can make batches; the number of them, without those that fail or have no samples."""
        try:
            while not self.is_ready and not self._dead:
                time.sleep(_POLL_S)
        except RuntimeError:  # raised by torch's handler of SIGCHLD for the exit of a worker
            return 0
        return 0 if self._dead else self._states.count(READY)

    @property
    def distributes_among(self) -> int | None:
        """More workers would repeat samples, as far as is known; None for any number.

        An iterable dataset distributes its samples by ``get_worker_info().num_workers``, or each worker has all.
        """
        return None if not self._is_iterable or self._states.is_number_asked else 1

    def take_over(self, *, begins_epoch: bool = False) -> None:
        """Draws its first index lists: the following ones of the epoch, or the first ones of a new epoch."""
        self.feed.is_open, self.feed.starts = True, int(begins_epoch)
        if self.log is not None:
            torch_internals.raise_at_exit(self._iterator, is_wanted=True)
            self.log.begin_epoch()
        torch_internals.begin_epoch(self._iterator, self._loader)
        self._begin()

    def _begin(self) -> None:
        """Does to the sampler what a plain DataLoader does at this point, and the pool has not done."""
        while self.feed.starts:
            iter(self.feed)

    def next_batch(self) -> Any:
        """The next batch; StopIteration once all that was drawn has been returned and the feed has ended."""
        return next(self._iterator)

    def end(self) -> None:
        """Ends the workers."""
        if self.log is not None:
            torch_internals.end_workers(self._iterator)


def _new_generator(plain: torch.Generator) -> torch.Generator:
    """The generator of another pool: no two have the same seed by design, and nothing is drawn from the plain one."""
    digest = hashlib.sha256(f"{plain.initial_seed()} {next(_numbers)}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
