"""The workers that make batches for a part of an epoch, with what each batch costs
them.

A pool that follows another is started without index lists, while the other continues,
and gets the first ones when all its workers are ready. Until then, the exit of one of
them raises no error in the program.

Pools draw the index lists of an epoch from its sampler in turn (``index_stream``). A
DataLoader takes the end of its sampler for the end of the epoch, and still delivers
what it has drawn. A pool whose feed is closed does so too, while the next pool draws
the following index lists.
"""

import contextlib
import hashlib
import itertools
import multiprocessing
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from nws_sweep.dataloading import loaders, sharing
from nws_sweep.dataloading.recording import BatchLog
from nws_sweep.online.index_stream import Feed, IndexStream
from nws_sweep.online.worker_probe import READY, STARTING, WorkerStates, probe_of
from nws_sweep.records import LoaderSettings
from nws_sweep.system import processes, resources, torch_internals

_START_WITHIN_S = 60.0  # workers; training waits meanwhile
_LOCKED_S = 5.0  # for which a thread of the program may hold a lock of the dataset
_numbers = itertools.count()  # of the pools of this process with a separate seed


class Pool:
    """Makes batches with one setting of a DataLoader: in workers, or in this process
    with ``num_workers=0``.

    Args:
        loader: A plain DataLoader, which is copied.
        settings: Of the pool.
        stream: Index lists of the epoch.
        is_first: Whether it begins an epoch at once and draws a seed for its workers
            from the DataLoader's generator, as a plain DataLoader does. Otherwise it
            has a separate seed. Workers of a program that has none get index lists when
            the first batch is requested: only then a DataLoader without workers draws
            the order.
        times_stages: Whether its workers time the stages of some of their batches.
        rehearsal: Index list of a batch that this process has made, which a worker
            makes again before the pool is ready; None for no rehearsal.

    Attributes:
        settings: Of the pool.
        has_ended: Whether its workers have been ended.
        iterator: Of a copy of the DataLoader.
        feed: Index lists that the pool has not drawn yet.
        log: What batches cost the workers; None without workers.
        start_cpu_s: CPU seconds of this process for starting the workers.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        settings: LoaderSettings,
        stream: IndexStream,
        *,
        is_first: bool = False,
        times_stages: bool = True,
        rehearsal: Any = None,
    ) -> None:
        self.settings, self.has_ended = settings, False
        self._has_own_iterators = torch_internals.makes_own_iterators(loader)
        self._is_new = self._has_own_iterators
        has_order = not isinstance(loader.dataset, IterableDataset)
        adds_workers = settings.num_workers > 0 and not loader.num_workers
        draws_late = adds_workers and has_order and not self._has_own_iterators
        self._draws_at_next = is_first and draws_late
        # A plain DataLoader with workers iterates its sampler twice at the start.
        starts = is_first * (1 + (loader.num_workers > 0))
        self.feed = Feed(
            stream, is_open=is_first and not self._draws_at_next, starts=starts
        )
        self._loader = _copy(loader, settings)
        if not self._has_own_iterators:  # they save the state of the sampler
            loaders.replace_index_sampler(self._loader, self.feed)
        if not is_first:
            self._loader.generator = _new_generator(
                loader.generator or torch.default_generator
            )
        self.log = None
        self._states = WorkerStates(settings.num_workers)
        if settings.num_workers:
            self.log = BatchLog(settings.num_workers)
            if times_stages:
                self.log.stages.open(True)
            self._loader.worker_init_fn = probe_of(
                self._loader,
                self.log,
                self._states,
                rehearsal,
                is_first=adds_workers,
                reopens_files=settings.num_workers != loader.num_workers,
            )
            if stream.pauses:  # they continue after a pause
                vars(self._loader)["persistent_workers"] = True
        began_s = time.process_time()
        is_plain = settings.num_workers == loader.num_workers
        with contextlib.nullcontext() if is_plain else _starting(loader):
            self.iterator: Any = torch_internals.new_iterator(self._loader)
        self.start_cpu_s = time.process_time() - began_s
        if is_first:
            self._begin()
        elif self.log is not None and not self._has_own_iterators:
            torch_internals.raise_at_exit(self.iterator, is_wanted=False)

    @property
    def _is_iterable(self) -> bool:
        return isinstance(self._loader.dataset, IterableDataset)

    @property
    def pids(self) -> list[int]:
        """Of its workers."""
        return [worker.pid for worker in torch_internals.workers(self.iterator)]

    @property
    def first_began_s(self) -> float:
        """When a worker began the first batch of the epoch, on the clock
        time.perf_counter; 0 if it is unknown."""
        return (self.log.first_began_s if self.log else None) or 0.0

    @property
    def is_ready(self) -> bool:
        """Whether all workers have been started, without the first batches of an
        iterable dataset."""
        return not self._states.count(STARTING)

    @property
    def failure(self) -> str:
        """Why the pool cannot be used; empty if it can."""
        if dead := self._dead:
            return f"a new worker exited with code {dead[0].exitcode}"
        return self._states.error

    @property
    def _dead(self) -> list[Any]:
        workers = torch_internals.workers(self.iterator)
        return [worker for worker in workers if not worker.is_alive()]

    def started_workers(self) -> int:
        """Waits until all workers can make batches; the number of them, without those
        that fail or have no samples.

        It is 0 if a worker has exited, or one of a map-style dataset has failed.
        Does not wait for workers that cannot after ``_START_WITHIN_S``.
        """
        deadline_s = time.monotonic() + _START_WITHIN_S
        try:
            while not self.is_ready and not self._dead:
                if time.monotonic() >= deadline_s:
                    break
                time.sleep(processes.POLL_S)
        except RuntimeError:
            # raised by torch's handler of SIGCHLD for the exit of a worker
            return 0
        is_useless = self._dead or (self._states.error and not self._is_iterable)
        return 0 if is_useless else self._states.count(READY)

    @property
    def distributes_among(self) -> int | None:
        """The most workers that do not repeat samples, as far as is known; None for any
        number.

        An iterable dataset distributes its samples by
        ``get_worker_info().num_workers``, or each worker has all.
        """
        is_unknown = self.log is None  # there is no worker
        if not self._is_iterable or is_unknown or self._states.number_asked[0]:
            return None
        return 1

    def begin_epoch(self) -> None:
        """Begins a new epoch, unless the pool has begun one when it was made."""
        if not self._is_new:
            self.take_over(begins_epoch=True)

    def take_over(self, *, begins_epoch: bool = False) -> None:
        """Draws its first index lists: the following ones of the epoch, or the first
        ones of a new epoch."""
        self.feed.is_open, self.feed.starts = True, int(begins_epoch)
        if self.log is not None:
            if not self._has_own_iterators:
                torch_internals.raise_at_exit(self.iterator, is_wanted=True)
            self.log.begin_epoch()
        torch_internals.begin_epoch(self.iterator, self._loader)
        self._begin()

    def _begin(self) -> None:
        """Does to the sampler what a plain DataLoader does at this point, and the pool
        has not done."""
        while self.feed.starts and not self._has_own_iterators:
            iter(self.feed)

    def next_batch(self) -> Any:
        """The next batch; StopIteration once all that was drawn has been returned and
        the feed has ended."""
        self._is_new = False
        if self._draws_at_next:
            self._draws_at_next = False
            self.take_over()
        try:
            batch = next(self.iterator)
        except StopIteration:  # lists that are left are of the next pool
            raise
        except Exception:
            self.feed.take()
            raise
        self.feed.take()
        return batch

    def end(self) -> None:
        """Ends the workers."""
        self.has_ended = True
        torch_internals.end_workers(self.iterator)


def _copy(loader: DataLoader[Any], settings: LoaderSettings) -> DataLoader[Any]:
    """A copy with these settings; workers that the program has not are started as a
    search would start them."""
    copied = loaders.copy_with(loader, settings)
    if loader.num_workers or not settings.num_workers:
        return copied
    # the program may keep batches, whose tensors hold one each from now on
    resources.allow_open_files()
    if loader.multiprocessing_context is None:
        # Without a context, torch fixes the start method of a program that may
        # still set it.
        context = multiprocessing.get_context(processes.start_method())
        copied.multiprocessing_context = context
    return copied


@contextlib.contextmanager
def _starting(loader: DataLoader[Any]) -> Iterator[None]:
    """Workers are started without a warning, such as against more workers than CPUs,
    whose filters forked workers inherit; and with free locks."""
    with warnings.catch_warnings(), sharing.locks_held(loader, _LOCKED_S):
        warnings.filterwarnings(
            "ignore",
            module=r"torch\.utils\.data\.dataloader|multiprocessing\.popen_fork",
        )
        # torchdata's copy of it
        warnings.filterwarnings("ignore", r"This DataLoader will create \d+ worker")
        yield


def _new_generator(plain: torch.Generator) -> torch.Generator:
    """The generator of another pool: no two have the same seed by design, and nothing
    is drawn from the plain one."""
    text = f"{plain.initial_seed()} {next(_numbers)}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
    return torch.Generator(plain.device).manual_seed(seed)
