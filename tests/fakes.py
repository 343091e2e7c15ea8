"""A fake clock; simulated loaders, trial processes and machines with exactly known
times."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.dataloading.windows import LoaderSession, Moment, made_without_workers
from nws_sweep.errors import TrialError
from nws_sweep.records import (
    BatchCost,
    BatchRecord,
    DatasetFacts,
    LoaderSettings,
    MachineTime,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
    Usage,
    WholeBatches,
    Window,
    WindowRequest,
)
from nws_sweep.system.resources import FreeResources
from nws_sweep.trials.environment import Environment


class FakeClock:
    """Seconds that pass by ``advance`` only."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def moment(self) -> Moment:
        return Moment(self.now)

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass(eq=False)
class Device:
    """An accelerator that does what is queued, one after the other, while the time of
    the clock passes."""

    clock: FakeClock
    free_s: float = 0.0  # when it will have finished what is queued

    def launch(self, seconds: float) -> None:
        self.free_s = max(self.free_s, self.clock.now) + seconds

    def event(self, yields: bool = True) -> "FakeEvent":
        return FakeEvent(self)


@dataclass(eq=False)
class FakeEvent:
    device: Device
    passed_s: float = 0.0

    def record(self) -> None:
        self.passed_s = max(self.device.free_s, self.device.clock.now)

    def query(self) -> bool:
        return self.device.clock.now >= self.passed_s

    def synchronize(self) -> None:
        self.device.clock.now = max(self.device.clock.now, self.passed_s)

    def elapsed_time(self, end_event: "FakeEvent") -> float:
        return 1e3 * (end_event.passed_s - self.passed_s)


@dataclass
class _Job:
    """A batch that a worker makes, in the loader's own time."""

    start: float
    end: float


@dataclass(eq=False)
class SimulatedLoader:
    """The rules of DataLoader on a fake clock.

    Worker b mod n makes batch b. It receives the index when batch b - n x
    prefetch_factor is taken (the first indices at once). Batches are delivered in
    order. Workers are paused between ``pause`` and ``resume``, but a sleep continues:
    the sample that each worker waits for is complete at ``resume``.

    Args:
        clock: Advanced to the arrival of each batch.
        batches: Length of an epoch.
        make_s: Seconds for making batch b, or one number for all batches.
        num_workers: 0 makes batches in ``next()``.
        prefetch_factor: Indices that each worker holds.
        start_s: Seconds until the workers have started.
        end_s: Seconds that the end of an epoch takes.
        batch_size: Samples of a batch; they take equal times.
    """

    clock: FakeClock
    batches: int
    make_s: float | Callable[[int], float]
    num_workers: int = 0
    prefetch_factor: int = 2
    start_s: float = 0.0
    end_s: float = 0.0
    batch_size: int = 1
    epochs_begun: int = 0

    def __post_init__(self) -> None:
        self._ahead = self.num_workers * self.prefetch_factor
        self._jobs: list[_Job] = []
        self._earlier = 0
        self._stopped_s = 0.0
        self._stopped_at: float | None = None

    def _length_s(self, batch: int) -> float:
        return self.make_s(batch) if callable(self.make_s) else self.make_s

    def __iter__(self) -> Iterator[int]:
        self._earlier = self.produced() or 0
        self._jobs = []
        self._recorded = 0  # of these
        self.epochs_begun += 1
        return self._epoch()

    def _epoch(self) -> Iterator[int]:
        self._free_at = [self._local + self.start_s] * self.num_workers
        for batch in range(min(self._ahead, self.batches)):
            self._hand_out(batch)
        for batch in range(self.batches):
            wait_s = (
                self._jobs[batch].end - self._local
                if self.num_workers
                else self._length_s(batch)
            )
            self.clock.advance(max(0.0, wait_s))
            if self._ahead and batch + self._ahead < self.batches:
                self._hand_out(batch + self._ahead)
            yield batch
        self.clock.advance(self.end_s)

    def _hand_out(self, batch: int) -> None:
        worker = batch % self.num_workers
        start = max(self._free_at[worker], self._local)
        self._free_at[worker] = start + self._length_s(batch)
        self._jobs.append(_Job(start, self._free_at[worker]))

    @property
    def _local(self) -> float:
        """The loader's own time, which excludes pauses."""
        now = self.clock.now if self._stopped_at is None else self._stopped_at
        return now - self._stopped_s

    def produced(self) -> int | None:
        """Samples that the workers have finished; None without workers."""
        if not self.num_workers:
            return None
        return self._earlier + sum(self._finished(job) for job in self._jobs)

    def new_records(self, position: Callable[[int], float]) -> tuple[BatchRecord, ...]:
        """Of the batches of this epoch that the workers have finished since the last
        call, which wait only."""
        first, self._recorded = (
            self._recorded,
            sum(job.end <= self._local + 1e-9 for job in self._jobs),
        )
        return tuple(
            BatchRecord(
                number=number, position=position(number), began_s=job.start, ended_s=job.end,
                cost=BatchCost(cpu_s=0.0, wait_s=job.end - job.start),
            )
            for number, job in enumerate(self._jobs[first : self._recorded], first)
        )  # fmt: skip

    def _finished(self, job: _Job) -> int:
        length_s = job.end - job.start
        done = (
            (self._local - job.start) / length_s
            if length_s > 0
            else float(self._local >= job.end)
        )
        return int(self.batch_size * min(1.0, max(0.0, done)) + 1e-9)

    def pause(self) -> None:
        self._stopped_at = self.clock.now

    def resume(self) -> None:
        if self._stopped_at is None:
            return
        pause_s = self.clock.now - self._stopped_at
        self._stopped_s += pause_s
        self._stopped_at = None
        for worker in range(self.num_workers):
            self._wake(worker, pause_s)

    def _wake(self, worker: int, pause_s: float) -> None:
        """Completes the sample that a worker waited for, and advances all its batches
        by as much."""
        jobs = [
            job
            for job in self._jobs[worker :: self.num_workers]
            if job.end > self._local
        ]
        if not jobs or jobs[0].start > self._local:
            return
        sample_s = (jobs[0].end - jobs[0].start) / self.batch_size
        gain = min(
            pause_s,
            sample_s - (self._local - jobs[0].start) % sample_s,
            jobs[0].end - self._local,
        )
        for job in jobs:
            job.start, job.end = job.start - gain, job.end - gain
        self._free_at[worker] -= gain


FACTS = DatasetFacts(
    type="fake.Dataset", iterable=False, samples=1000, accelerator=None
)


class FakeProcess:
    """A simulated trial process: a simulated loader behind the commands of
    ``TrialProcess``."""

    def __init__(self, machine: "FakeMachine") -> None:
        self.facts = machine.facts
        self._machine = machine
        self.batches_per_epoch: int | None = None
        self.cpu_s = 0.0
        self.disk_bytes = 0
        self._stalled = False
        self.on_stall: Callable[[], object] = lambda: None
        self.deadline_s = math.inf

    def open(self, settings: LoaderSettings, place: float = 0.0) -> None:
        machine = self._machine
        machine.opened.append(settings)
        machine.places.append(place)
        self.settings = settings
        if settings.num_workers in machine.failures:
            raise machine.failures[settings.num_workers]
        self.batches_per_epoch = machine.batches_per_epoch
        self._loader = machine.make_loader(settings)
        self._session = LoaderSession(
            self._loader, self._step, lambda: Moment(machine.clock.now, machine.cpu_share * machine.clock.now),
            settings.batch_size or 1, produced=self._loader.produced,
        )  # fmt: skip

    def window(self, request: WindowRequest) -> Window:
        machine = self._machine
        assert self._stalled or machine.running == {self}, (
            "another candidate is running"
        )
        machine.requests.append((self.settings.num_workers, request))
        window = machine.distort(self._session.window(request))
        if machine.position and self.settings.num_workers:
            window = replace(window, records=self._loader.new_records(machine.position))
        if not self.settings.num_workers:
            window = self._recorded_without_workers(window)
        self.cpu_s += machine.cpu_s * window.batches
        self.disk_bytes += machine.read(window.batches)
        machine.busy_s += (machine.cpu_s + machine.other_cpu_s) * window.batches
        return window

    def _recorded_without_workers(self, window: Window) -> Window:
        first = self._session.taken - window.batches
        return replace(
            window, records=tuple(made_without_workers(window, first, self._position))
        )

    def _position(self, batch: int) -> float | None:
        """The place in the sampler's order of a batch of this epoch."""
        return batch / self.batches_per_epoch if self.batches_per_epoch else None

    def _step(self, batch: Any) -> None:
        self._machine.clock.advance(self._machine.step_s)

    def _answer(self) -> "FakeMachine":
        assert self in self._machine.running, "the process is paused"
        return self._machine

    def warned(self) -> tuple[str, ...]:
        self._answer()
        return ()

    def stall(self) -> None:
        """Simulates a stall; until the next pause other processes may run."""
        self._stalled = True
        self.on_stall()

    def wait_until_idle(self) -> None:
        self._answer().idle_waits += 1

    def whole_batches(self, settings: LoaderSettings) -> WholeBatches | None:
        self._answer().tries += 1
        return WholeBatches(0.002, 0.0004)

    def thread_times(
        self, counts: Sequence[int], limit_s: float
    ) -> Mapping[int, float]:
        return {}

    def logged(self) -> SamplesLogged:
        return self._answer().logged.get(self.settings.num_workers, SamplesLogged())

    def load(
        self, keys: Sequence[Any], limit_s: float | None
    ) -> tuple[SampleMade, ...]:
        self.cpu_s += 1.0  # which no batch costs
        return tuple(made for made in self._machine.without_workers if made.key in keys)

    def load_one_by_one(
        self, samples: Sequence[SampleMade], settings: LoaderSettings
    ) -> tuple[SampleMade, ...]:
        return self._machine.one_at_a_time(samples)

    def samples(
        self, settings: LoaderSettings, most: int, limit_s: float = math.inf
    ) -> SamplesSeen:
        raise NotImplementedError

    @property
    def memory_limit_bytes(self) -> int | None:
        return self._machine.allowed[-1][1]

    @memory_limit_bytes.setter
    def memory_limit_bytes(self, limit_bytes: int | None) -> None:
        self._machine.allowed.append((self.settings.num_workers, limit_bytes))

    def pause(self) -> None:
        self._stalled = False
        self._machine.running.discard(self)
        self._loader.pause()

    def resume(self) -> None:
        self._machine.running.add(self)
        self._loader.resume()

    def end(self) -> None:
        self._machine.alive_at_ends.append(len(self._machine.alive))

    def usage(self) -> Usage:
        held_bytes = self._machine.process_bytes + 10 * self.settings.num_workers
        return Usage(
            cpu_s=self.cpu_s,
            memory_bytes=held_bytes,
            added_bytes=held_bytes,
            shm_bytes=0,
            disk_bytes=self.disk_bytes,
        )


@dataclass(eq=False)
class FakeMachine:
    """Starts simulated trial processes on one clock and asserts that one of them runs
    at a time."""

    make_loader: Callable[[LoaderSettings], SimulatedLoader]
    batches_per_epoch: int | None
    clock: FakeClock
    step_s: float = 0.0
    failures: dict[int, TrialError] = field(default_factory=dict)
    opened: list[LoaderSettings] = field(default_factory=list)
    # where the epochs of the opened loaders begin
    places: list[float] = field(default_factory=list)
    requests: list[tuple[int, WindowRequest]] = field(default_factory=list)
    running: set[FakeProcess] = field(default_factory=set)
    alive: list[FakeProcess] = field(default_factory=list)
    most_alive: int = 0
    # how many processes were alive when each was told to end
    alive_at_ends: list[int] = field(default_factory=list)
    idle_waits: int = 0
    tries: int = 0  # of whole batches
    distort: Callable[[Window], Window] = lambda window: window
    read: Callable[[int], int] = lambda batches: 0
    facts: DatasetFacts = FACTS
    logged: dict[int, SamplesLogged] = field(default_factory=dict)
    without_workers: tuple[SampleMade, ...] = ()
    one_at_a_time: Callable[[Sequence[SampleMade]], tuple[SampleMade, ...]] = tuple
    allowed: list[tuple[int, int | None]] = field(default_factory=list)
    dropped: list[tuple[str, ...]] = field(default_factory=list)
    # Of batch b in the order of the sampler, a share of the epoch; None if workers
    # record no batches.
    position: Callable[[int], float] | None = None
    cores: float = 2.0
    cpu_s: float = 0.0  # of a batch
    cpu_share: float = 0.0  # of the time in which the main process computes
    other_cpu_s: float = 0.0
    busy_s: float = 0.0
    process_bytes: int = 100
    budget_bytes: int | None = None
    shm_bytes: int | None = None
    free_bytes: int | None = None
    throttled_s: float = 0.0  # so far
    fork_s: float = 0.0
    make_process: Callable[["FakeMachine"], FakeProcess] = FakeProcess

    @contextlib.contextmanager
    def start_process(
        self, memory_bytes: int | None, deadline_s: float = math.inf
    ) -> Iterator[FakeProcess]:
        process = self.make_process(self)
        self.alive.append(process)
        self.running.add(process)
        self.most_alive = max(self.most_alive, len(self.alive))
        try:
            yield process
        finally:
            self.alive.remove(process)
            self.running.discard(process)

    @property
    def slices(self) -> list[int]:
        """num_workers of the candidates in the order of their windows."""
        return [
            workers
            for workers, request in self.requests
            if request.kind.value != "warm_up"
        ]

    def environment(self) -> Environment:
        return Environment(
            start_process=self.start_process,
            clock=self.clock,
            machine_time=lambda: MachineTime(
                busy_s=self.busy_s, throttled_s=self.throttled_s
            ),
            memory_budget=lambda asked: self.budget_bytes if asked is None else asked,
            free_resources=lambda left: FreeResources(
                shm_bytes=self.shm_bytes,
                shm_size_bytes=self.shm_bytes,
                memory_bytes=self.free_bytes if left is None else left,
            ),
            cores=lambda ranks: self.cores,
            enforced_cores=lambda: self.cores,
            quota_period_s=lambda: 0.1,
            fork_s=self.fork_s,
            random_place=lambda: 0.5,
            drop_files=lambda files: self.dropped.append(tuple(files)),
        )
