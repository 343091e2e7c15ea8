"""The workers that make batches for a part of an epoch, with what each batch costs them.

A pool that follows another is started without index lists, while the other goes on, and gets the first ones when all
its workers are ready. Until then, the exit of one of them raises no error in the training.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from nws_sweep.dataloading import loaders
from nws_sweep.dataloading.recording import BatchLog, BatchTimer
from nws_sweep.online.index_stream import Feed, IndexStream
from nws_sweep.online.worker_probe import WorkerProbe, WorkerStates
from nws_sweep.results import LoaderSettings
from nws_sweep.system import torch_internals

_POLL_S = 0.001


class Pool:
    """Makes batches with one setting of a DataLoader: in workers, or in this process with ``num_workers=0``.

    Args:
        loader: A plain DataLoader, which is copied.
        settings: Of the pool.
        stream: Index lists of the epoch.
        seed: For the random numbers of the workers; None for the first pool of an epoch, which draws a seed from the
            DataLoader's generator as a plain DataLoader does, and begins the epoch at once.
        had_workers: Whether a plain DataLoader has workers. It then iterates its sampler twice at the start.

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
        self._states = WorkerStates(settings.num_workers)
        self._is_iterable = isinstance(loader.dataset, IterableDataset)
        self._loader = self._copy(loader, seed)
        began_s = time.process_time()
        is_own = settings.num_workers == loader.num_workers
        with contextlib.nullcontext() if is_own else warnings.catch_warnings():
            if not is_own:  # DataLoader advises against more workers than CPUs, whatever they wait for
                warnings.simplefilter("ignore")
            self._iterator: Any = torch_internals.new_iterator(self._loader)
        self.start_cpu_s = time.process_time() - began_s
        if seed is None:
            self._begin()
        elif self.log is not None:
            torch_internals.raise_at_exit(self._iterator, is_wanted=False)

    def _copy(self, loader: DataLoader[Any], seed: int | None) -> DataLoader[Any]:
        other = loaders.copy_with(loader, self.settings)
        own = vars(other)  # DataLoader.__setattr__ refuses samplers after __init__
        own["sampler" if loader.batch_sampler is None else "batch_sampler"] = self.feed
        if seed is not None:
            other.generator = torch.Generator().manual_seed(seed)
        if self.log is not None:
            timer, user_function = BatchTimer(self.log), loader.worker_init_fn
            other.worker_init_fn = WorkerProbe(timer, self._states, user_function, self._is_iterable)
        return other

    @property
    def base_seed(self) -> int:
        """The seed of the random numbers of its workers."""
        return torch_internals.base_seed(self._iterator)

    @property
    def pids(self) -> list[int]:
        """Of its workers."""
        return [worker.pid for worker in torch_internals.workers(self._iterator)]

    @property
    def is_ready(self) -> bool:
        """Whether all workers have been started, without the first batches of an iterable dataset."""
        return not self._states.starting

    @property
    def failure(self) -> str:
        """Why the pool cannot be used; empty if it can."""
        if dead := self._dead:
            return f"a new worker exited with code {dead[0].exitcode}"
        return "worker_init_fn failed in a new worker" if self._states.failed else ""

    @property
    def _dead(self) -> list[Any]:
        return [worker for worker in torch_internals.workers(self._iterator) if not worker.is_alive()]

    def started_workers(self) -> int:
        """Waits until all workers can make batches; the number of them, without those that fail or have no samples."""
        try:
            while self._states.starting and not self._dead:
                time.sleep(_POLL_S)
        except RuntimeError:  # raised by torch's handler of SIGCHLD for the exit of a worker
            return 0
        return 0 if self._dead else self._states.ready

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
        if self.log is not None or begins_epoch:
            torch_internals.begin_epoch(self._iterator, self._loader)
        self._begin()

    def _begin(self) -> None:
        """Does to the sampler what a plain DataLoader does at this point, and the pool has not done."""
        while self.feed.starts:
            self.feed.begin()

    def next_batch(self) -> Any:
        """The next batch; StopIteration once all that was drawn has been returned and the feed has ended."""
        return next(self._iterator)

    def end(self) -> None:
        """Ends the workers."""
        if self.log is not None:
            torch_internals.end_workers(self._iterator)


def derived_seed(base_seed: int, number: int) -> int:
    """A seed for pool ``number`` of an epoch whose first pool has ``base_seed``; no two pools share one by design."""
    digest = hashlib.sha256(f"{base_seed} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
