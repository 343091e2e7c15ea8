"""The queue between a DataLoader's workers and its training step, replayed with known costs of batches.

The rules are those of ``torch.utils.data.dataloader._MultiProcessingDataLoaderIter`` (torch 2.6 and later):

- After all workers have been started, ``prefetch_factor`` batches are assigned to each, in turn; then one more for each
  batch that is returned. In order, the next worker in turn gets it; otherwise the next in turn that has fewer than
  ``prefetch_factor``.
- While the main process waits for a batch it receives those that are finished, and keeps the early ones.
- The main process draws the indices of a batch from the sampler just before it assigns the batch.

CPU time of workers and of the main process shares the CPUs: each process runs at the rate min(1, cpus / runnable)
(processor sharing). Waiting for storage, a network or a timer takes no CPU. The moment of a batch at which its worker
waits is not recorded: it is drawn at random for each batch. If all workers computed before they waited, they would do
both at the same time, ``in_step``, and batches would take up to a quarter longer than measured. Workers whose samples
are much alike, and which share CPUs, do so in part.
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
    """The settings of a DataLoader that decide how its queue behaves, and the CPUs it may use."""

    num_workers: int
    cpus: float
    prefetch_factor: int = 2
    in_order: bool = True
    persistent_workers: bool = False
    in_step: bool = False  # all workers wait at the same moment of a batch, after computing

    @property
    def queued_batches(self) -> int:
        """Batches that are assigned to workers or ready, at most."""
        return self.num_workers * self.prefetch_factor


class Replayed(NamedTuple):
    """One epoch as replayed.

    Attributes:
        returned_s: When each batch was returned to the training step, in seconds from ``iter(loader)``; ascending.
        epoch_s: When the epoch ended: the last batch taken and, unless they are persistent, the workers ended.
    """

    returned_s: tuple[float, ...]
    epoch_s: float


def replay(batches: Sequence[BatchCost], loop: LoopCosts, settings: QueueSettings) -> Replayed:
    """Replays one epoch.

    Args:
        batches: Costs in the order of the epoch; at least one.
        loop: Costs of the main process and of the workers.
        settings: At least 0 workers, more than 0 CPUs, a prefetch_factor of at least 1.
    """
    if settings.num_workers == 0:
        return _without_workers(batches, loop, settings.cpus)
    return _Epoch(batches, loop, settings).run()


def _without_workers(batches: Sequence[BatchCost], loop: LoopCosts, cpus: float) -> Replayed:
    now, returned = 0.0, []
    step_s = max(loop.step_s, loop.step_cpu_s / cpus)
    for batch in batches:
        now += loop.sampler_s + batch.cpu_s / min(batch.threads, cpus) + batch.wait_s
        returned.append(now)
        now += step_s
    return Replayed(tuple(returned), now)


class _Machine:
    """Time, and CPUs that all runnable processes share equally."""

    __slots__ = ("_cpus", "_demand", "_demands", "_running", "_waiting", "_work_s", "now")

    def __init__(self, cpus: float, processes: int) -> None:
        self.now = 0.0
        self._cpus = cpus
        self._work_s = 0.0  # CPU time that a process has had which was runnable from the start
        self._running: list[tuple[float, int]] = []  # (value of _work_s at which it is done, process)
        self._waiting: list[tuple[float, int]] = []  # (time at which it is done, process)
        self._demands = [1.0] * processes  # threads that compute, by process
        self._demand = 0.0  # of all running processes together

    def compute(self, process: int, cpu_s: float, threads: float = 1.0) -> None:
        self._demands[process] = threads
        self._demand += threads
        heappush(self._running, (self._work_s + cpu_s / threads, process))

    def wait(self, process: int, wait_s: float) -> None:
        heappush(self._waiting, (self.now + wait_s, process))

    def advance(self) -> int:
        """Goes to the next moment at which a process is done; returns that process."""
        running, waiting = self._running, self._waiting
        rate = 1.0 if self._demand <= self._cpus else self._cpus / self._demand
        if not running or (waiting and (waiting[0][0] - self.now) * rate < running[0][0] - self._work_s):
            now, process = heappop(waiting)
            self._work_s += (now - self.now) * rate
            self.now = now
            return process
        work_s, process = heappop(running)
        self.now += (work_s - self._work_s) / rate
        self._work_s = work_s
        self._demand -= self._demands[process]
        return process


class _Epoch:
    """One epoch: each process is a generator, which yields until the machine has done what the process asked for."""

    def __init__(self, batches: Sequence[BatchCost], loop: LoopCosts, settings: QueueSettings) -> None:
        draw = random.Random(0)  # with any settings a batch waits at the same moment, so that times can be compared
        # With the share of its computing before it waits.
        placed = [(batch, 1.0 if settings.in_step else draw.random()) for batch in batches]
        self._batches, self._loop, self._settings = placed, loop, settings
        self._machine = _Machine(settings.cpus, settings.num_workers + 1)
        # The workers, then the main process.
        self._processes = [self._worker(number) for number in range(settings.num_workers)]
        self._processes.append(self._main_process(settings.num_workers))
        self._assigned: list[deque[int]] = [deque() for _ in range(settings.num_workers)]
        self._outstanding = [0] * settings.num_workers  # batches that were assigned and not yet returned
        self._idle: set[int] = set()  # processes that wait for another one
        self._next_worker, self._sent = 0, 0
        self._finished: deque[tuple[int, int]] = deque()  # (batch, its worker), not yet received
        self._is_done = False
        self._returned_s: list[float] = []

    def run(self) -> Replayed:
        processes, advance = self._processes, self._machine.advance
        next(processes[-1])
        while not self._is_done:
            next(processes[advance()])
        settings = self._settings
        stop_s = self._loop.stop_s * max(1.0, settings.num_workers / settings.cpus)
        return Replayed(tuple(self._returned_s), self._machine.now + (0.0 if settings.persistent_workers else stop_s))

    def _worker(self, number: int) -> Iterator[None]:
        machine, batches, assigned = self._machine, self._batches, self._assigned[number]
        machine.compute(number, self._loop.start_s)
        yield
        if self._loop.start_wait_s:
            machine.wait(number, self._loop.start_wait_s)
            yield
        while True:
            while not assigned:
                self._idle.add(number)
                yield
            batch = assigned.popleft()
            cost, share = batches[batch]
            if cost.wait_s:
                machine.compute(number, share * cost.cpu_s, cost.threads)
                yield
                machine.wait(number, cost.wait_s)
                yield
            later_s = (1 - share) * cost.cpu_s if cost.wait_s else cost.cpu_s
            if cost.threads > 1:
                machine.compute(number, later_s, cost.threads)
                yield
                later_s = 0.0
            machine.compute(number, later_s + cost.copy_s)
            yield
            self._finished.append((batch, number))
            self._wake(self._settings.num_workers)

    def _main_process(self, process: int) -> Iterator[None]:
        machine, loop, in_order = self._machine, self._loop, self._settings.in_order
        yield from self._start_workers(process)
        threads = max(1.0, loop.step_cpu_s / loop.step_s) if loop.step_s else 1.0
        step_wait_s = loop.step_s - loop.step_cpu_s / threads
        received: dict[int, int] = {}  # the worker of each batch that is kept until its turn
        for expected in range(len(self._batches)):
            while expected not in received:
                while not self._finished:
                    self._idle.add(process)
                    yield
                batch, worker_number = self._finished.popleft()
                received[batch if in_order else expected] = worker_number
                machine.compute(process, loop.receive_s)
                yield
                if loop.receive_wait_s:
                    machine.wait(process, loop.receive_wait_s)
                    yield
            self._outstanding[received.pop(expected)] -= 1
            if loop.sampler_s and self._sent < len(self._batches):
                machine.wait(process, loop.sampler_s)
                yield
            self._assign()
            self._returned_s.append(machine.now)
            if loop.step_cpu_s:
                machine.compute(process, loop.step_cpu_s, threads)
                yield
            if step_wait_s:
                machine.wait(process, step_wait_s)
                yield
        self._is_done = True
        yield

    def _start_workers(self, process: int) -> Iterator[None]:
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
        """Assigns the next batch of the epoch, if any is left, to the next worker in turn that may get one."""
        if self._sent == len(self._batches):
            return
        number, workers = self._next_worker, self._settings.num_workers
        while not self._settings.in_order and self._outstanding[number] >= self._settings.prefetch_factor:
            number = (number + 1) % workers
        self._next_worker = (number + 1) % workers
        self._outstanding[number] += 1
        self._assigned[number].append(self._sent)
        self._sent += 1
        self._wake(number)

    def _wake(self, process: int) -> None:
        if process in self._idle:
            self._idle.remove(process)
            next(self._processes[process])
