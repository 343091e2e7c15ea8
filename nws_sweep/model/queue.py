"""The queue between a DataLoader's workers and its training step, replayed with known
costs of batches.

The rules are those of ``torch.utils.data.dataloader._MultiProcessingDataLoaderIter``
(torch 2.6 and later):

- After all workers have been started, ``prefetch_factor`` batches are assigned to each,
  in turn; then one more for each batch that is returned. In order, the next worker in
  turn gets it; otherwise the next in turn that has fewer than ``prefetch_factor``.
- While the main process waits for a batch it receives those that are finished, and
  keeps the early ones.
- The main process draws the indices of a batch from the sampler just before it assigns
  the batch.

CPU time of workers and of the main process shares the CPUs: each process runs at the
rate min(1, cpus / runnable) (processor sharing). Waiting for storage, a network or a
timer takes no CPU. The moment of a batch at which its worker waits is not recorded: it
is drawn at random for each batch. If all workers computed before they waited, they
would do both at the same time, ``in_step``, and batches would take up to a quarter
longer than measured. Workers whose samples are much alike, and which share CPUs, do so
in part.
"""

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from nws_sweep.records import BatchCost, LoopCosts


@dataclass(frozen=True)
class QueueSettings:
    """The settings of a DataLoader that decide how its queue behaves, and the CPUs it
    may use."""

    num_workers: int
    cpus: float
    prefetch_factor: int = 2
    in_order: bool = True
    persistent_workers: bool = False
    # all workers wait at the same moment of a batch, after computing
    in_step: bool = False

    @property
    def queued_batches(self) -> int:
        """Batches that are assigned to workers or ready, at most."""
        return self.num_workers * self.prefetch_factor


class Replayed(NamedTuple):
    """One epoch as replayed.

    Attributes:
        returned_s: When each batch was returned to the training step, in seconds from
            ``iter(loader)``; ascending.
        epoch_s: When the epoch ended: the last batch taken and, unless they are
            persistent, the workers ended.
    """

    returned_s: tuple[float, ...]
    epoch_s: float


def replay(
    batches: Sequence[BatchCost], loop: LoopCosts, settings: QueueSettings
) -> Replayed:
    """Replays one epoch.

    Args:
        batches: Costs in the order of the epoch; at least one.
        loop: Costs of the main process and of the workers.
        settings: At least 0 workers, more than 0 CPUs, a prefetch_factor of at least 1.
    """
    if settings.num_workers == 0:
        return _without_workers(batches, loop, settings.cpus)
    return _Epoch(batches, loop, settings).run()


def _without_workers(
    batches: Sequence[BatchCost], loop: LoopCosts, cpus: float
) -> Replayed:
    """Replays an epoch in which the main process makes each batch before it takes its
    training step."""
    now_s = 0.0
    returned_s: list[float] = []
    step_s = max(loop.step_s, loop.step_cpu_s / cpus)
    for batch in batches:
        now_s += loop.sampler_s + batch.cpu_s / min(batch.threads, cpus) + batch.wait_s
        returned_s.append(now_s)
        now_s += step_s
    return Replayed(tuple(returned_s), now_s)


class _Machine:
    """Time, and CPUs that all runnable processes share equally."""

    __slots__ = (
        "_cpus",
        "_runnable_threads",
        "_running",
        "_threads",
        "_waiting",
        "_work_s",
        "idle",
        "now_s",
    )

    def __init__(self, cpus: float, processes: int) -> None:
        self.now_s = 0.0
        self._cpus = cpus
        # CPU time that a thread has had which was runnable from the start
        self._work_s = 0.0
        # (value of _work_s at which it is done, process)
        self._running: list[tuple[float, int]] = []
        # (time at which it is done, process)
        self._waiting: list[tuple[float, int]] = []
        self._threads = [1.0] * processes  # that each process computes with
        self._runnable_threads = 0.0
        self.idle: set[int] = set()  # processes that need what another process makes

    def compute(self, process: int, cpu_s: float, threads: float = 1.0) -> None:
        """Begins to compute: all threads of the process need ``cpu_s`` together."""
        self._threads[process] = threads
        self._runnable_threads += threads
        heappush(self._running, (self._work_s + cpu_s / threads, process))

    def wait(self, process: int, wait_s: float) -> None:
        """Begins to wait for something that takes no CPU."""
        heappush(self._waiting, (self.now_s + wait_s, process))

    def advance(self) -> int:
        """Goes to the next moment at which a process is done; returns that process."""
        running = self._running
        waiting = self._waiting
        rate = (
            1.0
            if self._runnable_threads <= self._cpus
            else self._cpus / self._runnable_threads
        )
        if not running or (
            waiting
            and (waiting[0][0] - self.now_s) * rate < running[0][0] - self._work_s
        ):
            now_s, process = heappop(waiting)
            self._work_s += (now_s - self.now_s) * rate
            self.now_s = now_s
            return process
        work_s, process = heappop(running)
        self.now_s += (work_s - self._work_s) / rate
        self._work_s = work_s
        self._runnable_threads -= self._threads[process]
        return process


class _Assignment:
    """Assigns the batches of an epoch to workers in turn, as ``_try_put_index`` of
    DataLoader's iterators does.

    Attributes:
        queues: The batches that each worker has still to make.
        outstanding: How many batches of each worker were assigned and not yet returned.
    """

    def __init__(self, batches: int, settings: QueueSettings) -> None:
        self._batches = batches
        self._settings = settings
        self._assigned = 0
        self._next_worker = 0
        self.outstanding = [0] * settings.num_workers
        self.queues: list[deque[int]] = [deque() for _ in range(settings.num_workers)]

    @property
    def is_complete(self) -> bool:
        """Whether all batches were assigned."""
        return self._assigned == self._batches

    def assign(self) -> int | None:
        """Assigns the next batch to the next worker in turn that may get it; returns
        the worker, None after the end."""
        if self._assigned == self._batches:
            return None
        worker = self._next_worker
        workers = self._settings.num_workers
        while (
            not self._settings.in_order
            and self.outstanding[worker] >= self._settings.prefetch_factor
        ):
            worker = (worker + 1) % workers
        self._next_worker = (worker + 1) % workers
        self.outstanding[worker] += 1
        self.queues[worker].append(self._assigned)
        self._assigned += 1
        return worker


class _Epoch:
    """One epoch: each process is a generator, which yields until the machine has done
    what the process asked for.

    A process that needs what another process makes is idle: it yields without asking
    the machine, and is woken.
    """

    def __init__(
        self, batches: Sequence[BatchCost], loop: LoopCosts, settings: QueueSettings
    ) -> None:
        workers = settings.num_workers
        self._loop = loop
        self._settings = settings
        self._batches = batches
        self._machine = _Machine(settings.cpus, workers + 1)
        self._processes = [self._worker(number) for number in range(workers)]
        self._processes.append(self._main_process(workers))
        # The share of its computing that a batch has had when it waits. With any
        # settings a batch waits at the same moment, so that times can be compared.
        draw = random.Random(0)
        self._shares_before_wait = [
            1.0 if settings.in_step else draw.random() for _ in batches
        ]
        self._assignment = _Assignment(len(batches), settings)
        # (batch, its worker), not yet received
        self._finished: deque[tuple[int, int]] = deque()
        self._is_done = False
        self._returned_s: list[float] = []

    def run(self) -> Replayed:
        """Replays the epoch, once."""
        processes = self._processes
        advance = self._machine.advance
        next(processes[-1])
        while not self._is_done:
            next(processes[advance()])
        epoch_s = self._machine.now_s
        if not self._settings.persistent_workers:
            epoch_s += self._loop.stop_s * max(
                1.0, self._settings.num_workers / self._settings.cpus
            )
        return Replayed(tuple(self._returned_s), epoch_s)

    def _worker(self, number: int) -> Iterator[None]:
        """Starts, then makes its assigned batches in turn."""
        machine = self._machine
        batches = self._batches
        assigned = self._assignment.queues[number]
        machine.compute(number, self._loop.start_s)
        yield
        if self._loop.start_wait_s:
            machine.wait(number, self._loop.start_wait_s)
            yield
        while True:
            while not assigned:
                machine.idle.add(number)
                yield
            batch = assigned.popleft()
            cost = batches[batch]
            left_s = cost.cpu_s
            if cost.wait_s:
                share = self._shares_before_wait[batch]
                machine.compute(number, share * cost.cpu_s, cost.threads)
                yield
                machine.wait(number, cost.wait_s)
                yield
                left_s = (1 - share) * cost.cpu_s
            if cost.threads > 1:  # the transfer has one thread
                machine.compute(number, left_s, cost.threads)
                yield
                left_s = 0.0
            machine.compute(number, left_s + cost.copy_s)
            yield
            self._finished.append((batch, number))
            self._wake(self._settings.num_workers)

    def _main_process(self, process: int) -> Iterator[None]:
        """Starts the workers, then takes the batches and assigns more of them until the
        epoch ends."""
        machine = self._machine
        loop = self._loop
        in_order = self._settings.in_order
        yield from self._start_workers(process)
        threads = max(1.0, loop.step_cpu_s / loop.step_s) if loop.step_s else 1.0
        step_wait_s = loop.step_s - loop.step_cpu_s / threads
        # the worker of each received batch, which is kept until its turn
        workers_of: dict[int, int] = {}
        for expected in range(len(self._batches)):
            while expected not in workers_of:
                while not self._finished:
                    machine.idle.add(process)
                    yield
                batch, worker = self._finished.popleft()
                workers_of[batch if in_order else expected] = worker
                machine.compute(process, loop.receive_s)
                yield
                if loop.receive_wait_s:
                    machine.wait(process, loop.receive_wait_s)
                    yield
            self._assignment.outstanding[workers_of.pop(expected)] -= 1
            if loop.sampler_s and not self._assignment.is_complete:
                machine.wait(process, loop.sampler_s)
                yield
            self._assign()
            self._returned_s.append(machine.now_s)
            if loop.step_cpu_s:
                machine.compute(process, loop.step_cpu_s, threads)
                yield
            if step_wait_s:
                machine.wait(process, step_wait_s)
                yield
        self._is_done = True
        yield

    def _start_workers(self, process: int) -> Iterator[None]:
        """Forks all workers, then fills the queue."""
        for worker in self._processes[:-1]:
            self._machine.compute(process, self._loop.fork_s)
            yield
            next(worker)
        for _ in range(min(self._settings.queued_batches, len(self._batches))):
            if self._loop.sampler_s:
                self._machine.wait(process, self._loop.sampler_s)
                yield
            self._assign()

    def _assign(self) -> None:
        worker = self._assignment.assign()
        if worker is not None:
            self._wake(worker)

    def _wake(self, process: int) -> None:
        idle = self._machine.idle
        if process in idle:
            idle.remove(process)
            next(self._processes[process])
