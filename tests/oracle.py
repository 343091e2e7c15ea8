"""An independent simulation of torch's DataLoader, against which the replay of a search
is tested.

It is written from torch's ``utils/data/dataloader.py`` and ``_utils/worker.py``, step
by step and slowly: each process is a generator that yields what it waits for. It shares
no code with ``nws_sweep.model``.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

CPU, SLEEP, GET = "cpu", "sleep", "get"
FINAL_SIGNAL = -1
Process = Generator[tuple[Any, ...], Any, Any]  # yields what it waits for


@dataclass(frozen=True, kw_only=True)
class Load:
    """A DataLoader, what its batches cost, and the program that iterates over it. Times
    in seconds."""

    cpu_s: Sequence[float]  # CPU time for making batch b, in the order of the epoch
    wait_s: Sequence[float]  # besides it, as for a disk or a server
    num_workers: int = 0
    prefetch_factor: int = 2
    in_order: bool = True
    cpus: float = math.inf
    samples: int = 1  # of a batch, each with its share of waiting, then of CPU time
    transfer_s: float = 0.0  # CPU time of a worker's feeder thread for a batch
    sampler_s: float = 0.0  # CPU time of the main process for the indices of a batch
    sampler_wait_s: float = 0.0  # besides it
    receive_s: float = 0.0  # CPU time of the main process for receiving a batch
    receive_wait_s: float = 0.0  # before it
    step_s: float = 0.0  # of the training step, with all CPUs free
    step_cpu_s: float = 0.0  # CPU time of all its threads
    fork_s: float = 0.0  # CPU time of the main process for starting a worker
    start_s: float = 0.0  # CPU time of a worker before its first batch
    start_wait_s: float = 0.0  # besides it
    stop_s: float = 0.0  # CPU time of a worker for ending

    def make(self, batch: int) -> Process:
        """``fetcher.fetch``: samples one after the other."""
        for _ in range(self.samples):
            yield SLEEP, self.wait_s[batch] / self.samples
            yield CPU, self.cpu_s[batch] / self.samples

    def step(self) -> Process:
        """The training step."""
        threads = math.ceil(self.step_cpu_s / self.step_s) if self.step_cpu_s else 1
        yield CPU, self.step_cpu_s / threads, threads
        yield SLEEP, self.step_s - self.step_cpu_s / threads


@dataclass(eq=False)
class Queue:
    """A queue of which one process at a time waits for an item."""

    machine: "Machine"
    items: deque[int] = field(default_factory=deque)
    reader: Process | None = None

    def put(self, item: int) -> None:
        if self.reader is None:
            self.items.append(item)
        else:
            self.machine.wake(self.reader, self.machine.now_s, item)
            self.reader = None

    def get(self, process: Process) -> None:
        if self.items:
            self.machine.wake(process, self.machine.now_s, self.items.popleft())
        else:
            self.reader = process


@dataclass(eq=False)
class Machine:
    """Runs processes; all threads that compute get equal shares of the CPUs, each at
    most one CPU."""

    cpus: float
    now_s: float = 0.0
    served_s: float = 0.0  # CPU time of a thread that computed from the start
    threads: int = 0  # that compute
    # by ``served_s`` at the end
    computing: list[tuple[float, int, Process, int]] = field(default_factory=list)
    # by ``now_s`` at the end
    sleeping: list[tuple[float, int, Process, int | None]] = field(default_factory=list)
    ties: Iterator[int] = field(default_factory=itertools.count)

    def wake(self, process: Process, moment_s: float, item: int | None = None) -> None:
        """Continues a process at a moment, with what it gets."""
        heapq.heappush(self.sleeping, (moment_s, next(self.ties), process, item))

    def run(self, until: Callable[[], object] = lambda: False) -> None:
        """Runs until this is true, or all processes wait for one another."""
        while (self.computing or self.sleeping) and not until():
            self.advance()

    def advance(self) -> None:
        """Goes to the next moment at which a process has waited or computed enough."""
        speed = min(1.0, self.cpus / self.threads) if self.threads else 1.0
        ready_s = self.sleeping[0][0] if self.sleeping else math.inf
        done_s = (
            self.now_s + (self.computing[0][0] - self.served_s) / speed
            if self.computing
            else math.inf
        )
        self.served_s += (min(ready_s, done_s) - self.now_s) * speed
        self.now_s = min(ready_s, done_s)
        if ready_s <= done_s:
            _, _, process, item = heapq.heappop(self.sleeping)
            self.resume(process, item)
        else:
            self.served_s, _, process, threads = heapq.heappop(self.computing)
            self.threads -= threads
            self.resume(process)

    def resume(self, process: Process, item: int | None = None) -> None:
        """Continues a process until it waits for something."""
        try:
            what, amount, *threads = process.send(item)
        except StopIteration:
            return
        if what is GET:
            amount.get(process)
        elif what is SLEEP:
            self.wake(process, self.now_s + amount)
        else:
            self.compute(process, amount, *threads)

    def compute(self, process: Process, cpu_s: float, threads: int = 1) -> None:
        self.threads += threads
        heapq.heappush(
            self.computing, (self.served_s + cpu_s, next(self.ties), process, threads)
        )


def simulate(load: Load) -> list[float]:
    """The moments at which the program gets its batches and, as the last, the end of
    the loop."""
    machine = Machine(load.cpus)
    moments_s: list[float] = []
    machine.resume(_program(load, machine, moments_s))
    machine.run()
    return moments_s


def _program(load: Load, machine: Machine, moments_s: list[float]) -> Process:
    """``for batch in loader: step(batch)``."""
    loader = Loader(load, machine)
    yield from loader.start_workers()
    while (yield from loader.next_batch()) is not None:
        moments_s.append(machine.now_s)
        yield from load.step()
    yield from loader.shutdown_workers()
    moments_s.append(machine.now_s)


def _worker(load: Load, indices: Queue, unsent: Queue) -> Process:
    """``_worker_loop``: whatever is put into its queue is pickled by a feeder thread,
    while it goes on."""
    yield CPU, load.start_s
    yield SLEEP, load.start_wait_s
    while (batch := (yield GET, indices)) != FINAL_SIGNAL:
        yield from load.make(batch)
        unsent.put(batch)
    yield CPU, load.stop_s
    unsent.put(FINAL_SIGNAL)


def _feeder(load: Load, unsent: Queue, results: Queue) -> Process:
    """The thread of ``multiprocessing.Queue`` that sends."""
    while (batch := (yield GET, unsent)) != FINAL_SIGNAL:
        yield CPU, load.transfer_s
        results.put(batch)
    results.put(FINAL_SIGNAL)


class Loader:
    """``_MultiProcessingDataLoaderIter`` and ``_SingleProcessDataLoaderIter``, with
    torch's names."""

    def __init__(self, load: Load, machine: Machine) -> None:
        self.load, self.machine = load, machine
        self.sampler = iter(range(len(load.cpu_s)))
        self.results = Queue(machine)
        self.index_queues = [Queue(machine) for _ in range(load.num_workers)]
        self.cycle = itertools.cycle(range(load.num_workers))
        self.num_tasks = [0] * load.num_workers
        # of batches that were sent and not yet given
        self.task_workers: dict[int, int] = {}
        self.arrived: set[int] = set()  # out of order
        self.send_idx = self.rcvd_idx = 0

    def start_workers(self) -> Process:
        for indices in self.index_queues:
            yield CPU, self.load.fork_s
            unsent = Queue(self.machine)
            self.machine.resume(_worker(self.load, indices, unsent))
            self.machine.resume(_feeder(self.load, unsent, self.results))
        for _ in range(self.load.num_workers * self.load.prefetch_factor):
            yield from self.try_put_index()

    def try_put_index(self) -> Process:
        batch = next(self.sampler, None)
        if batch is None:
            return
        yield CPU, self.load.sampler_s
        yield SLEEP, self.load.sampler_wait_s
        worker = next(self.cycle)
        while (
            not self.load.in_order
            and self.num_tasks[worker] >= self.load.prefetch_factor
        ):
            worker = next(self.cycle)
        self.index_queues[worker].put(batch)
        self.task_workers[batch] = worker
        self.num_tasks[worker] += 1
        self.send_idx += 1

    def next_batch(self) -> Process:
        if not self.load.num_workers:
            return (yield from self.next_without_workers())
        while True:
            while (
                self.rcvd_idx < self.send_idx and self.rcvd_idx not in self.task_workers
            ):
                self.rcvd_idx += 1  # given out of order
            if self.rcvd_idx == self.send_idx:
                return None
            if self.rcvd_idx in self.arrived:
                return (yield from self.process_data(self.rcvd_idx))
            batch = yield GET, self.results
            yield SLEEP, self.load.receive_wait_s
            yield CPU, self.load.receive_s
            if batch == self.rcvd_idx or not self.load.in_order:
                return (yield from self.process_data(batch))
            self.arrived.add(batch)

    def process_data(self, batch: int) -> Process:
        self.num_tasks[self.task_workers.pop(batch)] -= 1
        yield from self.try_put_index()
        return batch

    def shutdown_workers(self) -> Process:
        for indices in self.index_queues:
            indices.put(FINAL_SIGNAL)
        for _ in self.index_queues:
            yield GET, self.results  # ``w.join()``

    def next_without_workers(self) -> Process:
        batch = next(self.sampler, None)
        if batch is not None:
            yield CPU, self.load.sampler_s
            yield SLEEP, self.load.sampler_wait_s
            yield from self.load.make(batch)
        return batch
