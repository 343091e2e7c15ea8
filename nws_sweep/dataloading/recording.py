"""Records, in each worker, what every batch costs: CPU time, waiting, and the CPU time
of its transfer.

The time of a batch is split into CPU time of the thread that makes it, time in which
this thread was ready to run and did not (the kernel's run delay), and waiting, which is
the rest: a record taken on a crowded machine has the same waiting as one taken on an
idle machine. While the thread waits, or beside it, threads of the dataset may compute,
which is making, too. What the threads do that pickle batches and copy them into shared
memory is CPU time of the transfer, as is all between two batches.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from typing import Any

from torch.utils.data import get_worker_info

from nws_sweep.dataloading.clocks import (
    Clocks,
    find_transfer_clocks,
    read_clocks,
    run_delay_clock,
)
from nws_sweep.dataloading.counting import UNCOUNTED, Slots, count_samples
from nws_sweep.dataloading.digests import SampleLog
from nws_sweep.dataloading.stages.timing import StageSlots, StageTimer
from nws_sweep.records import BatchCost, BatchRecord, StageTime
from nws_sweep.system import processes, temporary, torch_internals

_ROWS = 1024  # kept of each worker until they are read
_FIELDS = 5  # of a row: moments of the start and the end, CPU time, waiting, threads

Stages = tuple[StageTime, ...]


class _SharedMean:
    """The mean of seconds that workers add, in shared memory; None before the first."""

    def __init__(self, num_workers: int) -> None:
        self._seconds = RawArray("d", num_workers)
        self.counts = RawArray("q", num_workers)  # how often, of each worker

    def add(self, worker: int, spent_s: float) -> None:
        self._seconds[worker] += spent_s
        self.counts[worker] += 1

    @property
    def mean_s(self) -> float | None:
        count = sum(self.counts)
        return sum(self._seconds) / count if count else None


class WorkerTimes:
    """The seconds of workers that belong to no batch, in shared memory: of their starts
    and transfers.

    Attributes:
        starts: CPU time until the first batch of a worker begins.
        init_waits: Waiting in the program's ``worker_init_fn``.
    """

    def __init__(self, num_workers: int) -> None:
        self.starts = _SharedMean(num_workers)
        self.init_waits = _SharedMean(num_workers)
        self._first_transfers = _SharedMean(num_workers)
        self._later_transfers = _SharedMean(num_workers)

    def add_transfer(self, worker: int, cpu_s: float) -> None:
        """Called in a worker: another batch begins, after a transfer that took so much
        CPU time."""
        if self._first_transfers.counts[worker] < self.starts.counts[worker]:
            self._first_transfers.add(worker, cpu_s)
        else:
            self._later_transfers.add(worker, cpu_s)

    @property
    def start(self) -> BatchCost | None:
        """Mean cost of the start of a worker; None before the first batch of any.

        What its first transfer takes longer than a later one belongs to the start:
        threads start, modules are imported.
        """
        start_s = self.starts.mean_s
        if start_s is None:
            return None
        first_s, later_s = self._first_transfers.mean_s, self._later_transfers.mean_s
        if first_s is not None and later_s is not None:
            start_s += max(0.0, first_s - later_s)
        return BatchCost(start_s, self.init_waits.mean_s or 0.0)

    @property
    def copy_s(self) -> float:
        """Mean CPU seconds of a transfer: of later ones, if any; 0 before any."""
        later_s = self._later_transfers.mean_s
        if later_s is None:
            return self._first_transfers.mean_s or 0.0
        return later_s


class BatchLog:
    """What at least one worker has made, in shared memory. The main process reads what
    the workers write.

    ``samples`` counts the finished samples of each worker. ``times`` are times that
    belong to no batch.
    """

    def __init__(self, num_workers: int) -> None:
        self.samples: Slots = RawArray("q", num_workers)
        self.stages = StageSlots(num_workers)
        self._rows = RawArray("d", num_workers * _ROWS * _FIELDS)
        self._counts = RawArray("q", num_workers)
        # whether a worker's part of a stream has ended in this epoch
        self._ends = RawArray("b", num_workers)
        self.times = WorkerTimes(num_workers)
        self._read = [0] * num_workers
        self._first = [0] * num_workers
        # rows by number of the batch in the epoch
        self._pending: dict[int, Sequence[float]] = {}
        self._next = 0

    def produced(self) -> int | None:
        """Returns the samples finished by all workers since the loader was made; None
        if any worker cannot count."""
        counts = list(self.samples)
        return None if UNCOUNTED in counts else sum(counts)

    def unfed(self) -> int:
        """Returns the number of workers that had no batch for the epoch."""
        unfed = 0
        for has_ended, count, first in zip(
            self._ends, self._counts, self._first, strict=True
        ):
            if has_ended and count == first:
                unfed += 1
        return unfed

    def add_end(self, worker: int) -> None:
        """Called in a worker: its part of a stream has ended."""
        self._ends[worker] = True

    def add(
        self,
        worker: int,
        began_s: float,
        ended_s: float,
        cost: BatchCost,
        stages: Stages | None = None,
    ) -> None:
        """Called in a worker: a batch is finished, at a cost without its transfer; with
        its stages, if timed."""
        count = self._counts[worker]
        if stages is not None:
            # such as the name of a file that cannot be encoded
            with contextlib.suppress(Exception):
                self.stages.write(worker, count, stages)
        place = (worker * _ROWS + count % _ROWS) * _FIELDS
        self._rows[place : place + _FIELDS] = [
            began_s,
            ended_s,
            cost.cpu_s,
            cost.wait_s,
            cost.threads,
        ]
        self._counts[worker] = count + 1

    def is_timed(self, worker: int) -> bool:
        """Called in a worker: whether the stages of its next batch are timed."""
        return self.stages.is_due(worker, self._counts[worker])

    def begin_epoch(self) -> None:
        """Called before an epoch starts; no worker makes a batch."""
        self._read = list(self._counts)
        self._first = list(self._counts)
        self._ends[:] = [0] * len(self._ends)
        self._pending.clear()
        self._next = 0

    @property
    def first_began_s(self) -> float | None:
        """When the first batch of the epoch began, on the clock time.perf_counter; None
        before."""
        first = self._first[0]
        return (
            self._row(0, first)[0] if first < self._counts[0] <= first + _ROWS else None
        )

    def new(
        self,
        position_of: Callable[[int], float | None] = lambda number: None,
        *,
        has_ended: bool = False,
    ) -> tuple[BatchRecord, ...]:
        """Returns records of the epoch since the last call, up to the first batch that
        is not finished.

        Later batches that are finished wait, unless the epoch has ended: cheap batches
        would otherwise be more frequent among the records than in the epoch. Batches
        are numbered as if they were assigned to the workers in turn. With
        ``in_order=False``, or once a worker of an iterable dataset has no more samples,
        they are not: numbers stay unique, but may have gaps. ``position_of`` returns
        the place of a batch in the order of the sampler, if it is known.
        """
        counts = list(self._counts)
        has_all_rows = True
        for worker, count in enumerate(counts):
            has_all_rows &= self._read_rows(worker, count)
        self._read = counts
        copy_s = self.times.copy_s
        records = []
        for number, row in self._take_pending(in_order=has_all_rows and not has_ended):
            began_s, ended_s, cpu_s, wait_s, threads = row
            index, worker = divmod(number, len(self._counts))
            record = BatchRecord(
                number=number,
                position=position_of(number),
                began_s=began_s,
                ended_s=ended_s,
                cost=BatchCost(cpu_s, wait_s, copy_s, threads),
                stages=self.stages.read(worker, self._first[worker] + index),
            )
            records.append(record)
        return tuple(records)

    def _read_rows(self, worker: int, count: int) -> bool:
        """Reads a worker's rows up to this number of batches; returns whether no row
        had been overwritten."""
        unread = range(max(self._read[worker], count - _ROWS), count)
        rows = [self._row(worker, index) for index in unread]
        # the worker may have written over older rows meanwhile
        oldest = self._counts[worker] - _ROWS + 1
        first = self._first[worker]
        intact = 0
        for index, row in zip(unread, rows, strict=True):
            if index >= oldest:
                self._pending[worker + (index - first) * len(self._counts)] = row
                intact += 1
        return intact == count - self._read[worker]

    def _row(self, worker: int, index: int) -> tuple[float, ...]:
        place = (worker * _ROWS + index % _ROWS) * _FIELDS
        return tuple(self._rows[place : place + _FIELDS])

    def _take_pending(self, *, in_order: bool) -> list[tuple[int, Sequence[float]]]:
        """Takes the pending rows, with their numbers: up to the first missing row if
        they are taken in order."""
        numbers = sorted(self._pending)
        if in_order:
            end = self._next
            while end in self._pending:
                end += 1
            numbers = list(range(self._next, end))
        if numbers:
            self._next = max(self._next, numbers[-1] + 1)
        return [(number, self._pending.pop(number)) for number in numbers]


class BatchTimer:
    """Notes the start and the end of each batch of a worker.

    Where tens of workers share a few CPUs, what this computes for each batch slows all
    of them down.
    """

    def __init__(self, log: BatchLog) -> None:
        self.log = log
        self._worker = 0
        self._dataset: Any = None
        self._collate_fn: Any = None
        self._is_open = False  # a batch has begun
        self._begun = 0  # batches
        # the latest batch; None before the first batch, and if its clocks failed
        self._began: Clocks | None = None
        # CPU time of the process when the latest batch ended, without that of transfers
        # while it was made
        self._ended_s = 0.0
        self._stages: StageTimer | None = None  # of the open batch, if they are timed

    def start(self, worker: int, dataset: Any, collate_fn: Any) -> None:
        """Called in a worker before its first batch, with what makes its batches, which
        are timed from now on.

        With a torch whose private names are others, no batch is.
        """
        self._worker, self._dataset, self._collate_fn = worker, dataset, collate_fn
        with contextlib.suppress(ImportError, AttributeError):
            for fetcher in torch_internals.fetchers():
                setattr(fetcher, "fetch", self._timed(fetcher.fetch))  # noqa: B010

    def initialise(self, user_function: Callable[[int], Any], worker: int) -> None:
        """Called in a worker: calls the program's ``worker_init_fn``, and notes for how
        long it waits, if possible."""
        began: Clocks | None = None
        with contextlib.suppress(Exception):
            began = read_clocks(run_delay_clock())
        user_function(worker)
        with contextlib.suppress(Exception):
            if began is not None:
                spent = read_clocks(run_delay_clock()).since(began)
                self.log.times.init_waits.add(worker, cost_of(spent).wait_s)

    def _timed(self, fetch: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def timed(fetcher: Any, index: Any) -> Any:
            if self._is_open:  # a DataLoader in the dataset
                return fetch(fetcher, index)
            is_made = False  # StopIteration is raised at the end of a stream
            try:
                self.begin()
            except Exception:  # such as of a file that the program closed
                self._began = None
            try:
                batch = fetch(fetcher, index)
                is_made = True
            except StopIteration:
                self.log.add_end(self._worker)
                raise
            finally:
                self._is_open = False
                try:
                    self.end(is_made=is_made)
                except Exception:
                    self._began = None
            return batch

        return timed

    def begin(self) -> None:
        """A batch is about to be made."""
        self._is_open = True
        number, self._begun = self._begun, self._begun + 1
        process_s = time.process_time()
        if not number:
            self.log.times.starts.add(self._worker, process_s)
        elif self._began is not None:
            self.log.times.add_transfer(self._worker, process_s - self._ended_s)
        if _is_power_of_two(number):
            self._read = functools.partial(
                read_clocks, run_delay_clock(), find_transfer_clocks()
            )
        if number and self.log.is_timed(self._worker):
            # code of the user may raise anything when it is looked at
            with contextlib.suppress(Exception):
                self._stages = StageTimer(self._dataset, self._collate_fn, self._read)
        self._began = self._read()

    def end(self, *, is_made: bool = True) -> None:
        """The batch is finished, or failed."""
        began = self._began
        if began is None:
            return
        ended = self._read()
        spent = ended.since(began)
        stages: Stages | None = None
        if self._stages is not None:
            timer, self._stages = self._stages, None
            with contextlib.suppress(Exception):
                stages = timer.stop()
        self._ended_s = time.process_time() - spent.transfer_s
        if is_made:
            self.log.add(
                self._worker, began.wall_s, ended.wall_s, cost_of(spent), stages
            )


def cost_of(spent: Clocks) -> BatchCost:
    """Returns the cost of a batch, without its transfer.

    Other threads compute while the thread that makes the batch waits, as far as
    possible, and only then beside it.
    """
    others_s = max(0.0, spent.all_cpu_s - spent.cpu_s)
    ready_s = max(0.0, spent.wall_s - spent.delay_s)
    wait_s = max(0.0, ready_s - spent.cpu_s - others_s)
    cpu_s, computing_s = spent.cpu_s + others_s, ready_s - wait_s
    threads = max(1.0, cpu_s / computing_s) if computing_s else 1.0
    return BatchCost(cpu_s, wait_s, threads=threads)


def _is_power_of_two(number: int) -> bool:
    """Whether a number of batches is 0 or a power of two: threads that transfer batches
    start with the first ones."""
    return number & (number - 1) == 0


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """A ``worker_init_fn`` that ends the worker with its parent; with a timer its
    dataset counts samples."""

    timer: BatchTimer | None = None  # of the loader's batches
    user_function: Callable[[int], Any] | None = None  # the user's own, called first
    log: SampleLog | None = None  # receives some samples of the worker's first epoch
    # the trial's temporary folder, in which the worker is registered
    folder: str | None = None
    # the user's own, whose calls are timed
    collate_fn: Callable[[Any], Any] | None = None

    def __call__(self, worker_id: int) -> None:
        """Runs in the worker before its first sample."""
        processes.die_with_parent()
        if self.folder is not None:
            temporary.register_process(self.folder)
        if self.user_function is not None:
            if self.timer is None:
                self.user_function(worker_id)
            else:
                self.timer.initialise(self.user_function, worker_id)
        worker = get_worker_info()
        if self.timer is not None and worker is not None:
            self.timer.start(worker_id, worker.dataset, self.collate_fn)
            count_samples(worker.dataset, self.timer.log.samples, worker_id, self.log)
