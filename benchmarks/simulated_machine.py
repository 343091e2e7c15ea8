"""A simulated machine for whole searches: the DataLoaders of tests/oracle.py on a fake
clock, with noise."""

import bisect
import math
import random
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from benchmarks.curves import BATCH_SIZE, Curve
from nws_sweep.dataloading.orders import BatchesInRuns, RotatedBatches
from nws_sweep.dataloading.windows import LoaderSession, Moment
from nws_sweep.records import (
    BatchCost,
    BatchRecord,
    LoaderSettings,
    Usage,
    Window,
    WindowRequest,
)
from tests.fakes import FACTS, FakeClock, FakeMachine, FakeProcess, SimulatedLoader
from tests.oracle import CPU, SLEEP, Load, Loader, Machine, Process

_START_PROCESS_S = 0.05  # seconds until a trial process has been forked
# length of the drift and of the neighbour's visits, far beyond a search
_HORIZON_S = 1200.0


@dataclass(frozen=True, kw_only=True)
class Condition:
    """How much the machine's speed varies."""

    name: str
    # standard deviation of the logarithm of the time of a time slice
    noise: float = 0.0
    drift: float = 0.0  # the same of the drift within a second
    # mean length of a neighbour's visits, and of the time between them; 0 without a
    # neighbour
    visit_s: float = 0.0
    neighbour: float = 1.0  # times by which all takes longer meanwhile


CONDITIONS = (
    Condition(name="noise 5 %", noise=0.05),
    Condition(name="noise 15 %", noise=0.15),
    Condition(name="noise 30 %", noise=0.3),
    Condition(name="drift", noise=0.05, drift=0.05),
    Condition(name="neighbour", noise=0.05, visit_s=3.0, neighbour=2.0),
)


class Weather:
    """By how much longer everything takes at a moment: drift and neighbour."""

    def __init__(self, condition: Condition, seed: str) -> None:
        draw = random.Random(seed)
        self.condition = condition
        self.drifts = [0.0]
        while condition.drift and len(self.drifts) < _HORIZON_S:
            self.drifts.append(self.drifts[-1] + draw.gauss(0.0, condition.drift))
        # moments at which the neighbour comes, goes, comes, ...
        self.changes_s = [math.inf]
        if condition.visit_s:
            self.changes_s = [draw.expovariate(1 / condition.visit_s)]
        while self.changes_s[-1] < _HORIZON_S:
            self.changes_s.append(
                self.changes_s[-1] + draw.expovariate(1 / condition.visit_s)
            )

    def has_visit(self, moment_s: float) -> bool:
        return bisect.bisect(self.changes_s, moment_s) % 2 == 1

    def factor(self, moment_s: float) -> float:
        drift = math.exp(self.drifts[min(int(moment_s), len(self.drifts) - 1)])
        return drift * (self.condition.neighbour if self.has_visit(moment_s) else 1.0)


@dataclass(eq=False)
class _CountingMachine(Machine):
    """Counts the CPU time of all processes."""

    busy_s: float = 0.0

    def advance(self) -> None:
        began_s, threads = self.now_s, min(self.threads, self.cpus)
        super().advance()
        self.busy_s += threads * (self.now_s - began_s)


@dataclass(frozen=True, kw_only=True)
class _RecordedLoad(Load):
    """Workers record what batches cost."""

    process: "SimulatedProcess"

    def make(self, batch: int) -> Process:
        machine = self.process.machine
        began_s, waited_s, slept_s = self.process.moment_s, 0.0, machine.now_s
        for what, amount in super().make(batch):
            slept_s = machine.now_s
            yield what, amount
            if what is SLEEP:
                waited_s += machine.now_s - slept_s
            self.process.samples_made += 0.5 if self.num_workers else 0.0
        if self.num_workers:
            self.process.record(batch, began_s, waited_s)


class SimulatedProcess(FakeProcess):
    """A trial process whose DataLoader is the oracle's. Its machine stands still while
    it is paused."""

    _machine: "SimulatedMachine"

    def open(self, settings: LoaderSettings, place: float = 0.0) -> None:
        shared = self._machine
        self.settings, self.batches_per_epoch = settings, shared.curve.batches
        batches = range(shared.curve.batches)
        if shared.curve.is_shuffled:
            self._batches: Iterable[int] = RotatedBatches(
                batches, round(place * shared.curve.batches)
            )
        else:
            self._batches = BatchesInRuns(batches, settings.queued_batches, place)
        self.noise = shared.draw_noise()
        self.cpu_s = self.main_cpu_s = self.delay_s = self.samples_made = 0.0
        self.records: list[BatchRecord] = []
        self.stopped_s: list[float] = []  # moments of pauses
        self._has_started = False  # an epoch
        self.machine = _CountingMachine(shared.curve.cpus)
        shared.clock.advance(_START_PROCESS_S)
        self._session = LoaderSession(
            self, lambda batch: self._perform(self.loader.load.step()),
            lambda: Moment(shared.clock.now, self.main_cpu_s, self.delay_s), BATCH_SIZE,
            produced=(lambda: int(self.samples_made)) if settings.num_workers else lambda: None,
            queued_batches=settings.queued_batches, batches_per_epoch=self.batches_per_epoch,
        )  # fmt: skip

    def __iter__(self) -> Iterator[int]:
        self.records.clear()
        self.machine = _CountingMachine(self._machine.curve.cpus)
        self._order = list(self._batches)
        starts = not (self.settings.persistent_workers and self._has_started)
        self._has_started = True
        load = self._machine.curve.load(self.settings, self._order, starts=starts)
        recorded = _RecordedLoad(**vars(load), process=self)
        self.loader = Loader(recorded, self.machine)
        self._perform(self.loader.start_workers())
        return self._epoch()

    def _epoch(self) -> Iterator[int]:
        while (batch := self._perform(self.loader.next_batch())) is not None:
            yield batch
        self._perform(self.loader.shutdown_workers())

    @property
    def factor(self) -> float:
        """Times by which all takes longer at this moment."""
        return self.noise * self._machine.weather.factor(self._machine.clock.now)

    @property
    def moment_s(self) -> float:
        """On the clock of the search."""
        return (
            self._entered_s
            + (self.machine.now_s - self._began_s) * self._entered_factor
        )

    def _perform(self, process: Process) -> int | None:
        """Runs what the main process does next, while the clock of the search
        advances."""
        clock, busy_s, results = (
            self._machine.clock,
            self.machine.busy_s,
            list[int | None](),
        )
        self._entered_s, self._entered_factor, self._began_s = (
            clock.now,
            self.factor,
            self.machine.now_s,
        )
        self.machine.resume(self._counted(process, results))
        self.machine.run(until=lambda: results)
        clock.now = self.moment_s
        self.cpu_s += (self.machine.busy_s - busy_s) * self._entered_factor
        return results[0]

    def _counted(self, process: Process, results: list[int | None]) -> Process:
        """The process; its CPU time is counted, and that in which it is ready and does
        not run."""
        item = None
        while True:
            try:
                asked = process.send(item)
            except StopIteration as end:
                results.append(end.value)
                return
            began_s = self.machine.now_s
            item = yield asked
            if asked[0] is CPU:
                threads = asked[2] if len(asked) > 2 else 1
                self.main_cpu_s += asked[1] * threads * self._entered_factor
                self.delay_s += (
                    self.machine.now_s - began_s - asked[1]
                ) * self._entered_factor

    def record(self, batch: int, began_s: float, waited_s: float) -> None:
        load, factor = self.loader.load, self._entered_factor
        cost = BatchCost(
            load.cpu_s[batch] * factor, waited_s * factor, load.transfer_s * factor
        )
        was_stopped = bool(self.stopped_s) and began_s < self.stopped_s[-1]
        self.records.append(
            BatchRecord(
                number=batch, position=self._position(batch), began_s=began_s, ended_s=self.moment_s, cost=cost,
                was_stopped=was_stopped,
            )
        )  # fmt: skip

    def _position(self, batch: int) -> float | None:
        return self._order[batch] / self._machine.curve.batches

    def window(self, request: WindowRequest) -> Window:
        assert self._machine.running == {self}, "another candidate is running"
        before_s, first_s = self.cpu_s, self._machine.clock.now
        window = self._session.window(request)
        self._machine.note(self, window, first_s, self.cpu_s - before_s)
        if not self.settings.num_workers:
            return self._recorded_without_workers(window)
        records, self.records[:] = tuple(self.records), []
        return replace(window, records=records)

    def pause(self) -> None:
        self._machine.running.discard(self)
        self.stopped_s.append(self._machine.clock.now)

    def resume(self) -> None:
        """What slept has slept on."""
        self._machine.running.add(self)
        if self.stopped_s:
            self.noise, machine = self._machine.draw_noise(), self.machine
            passed_s = (self._machine.clock.now - self.stopped_s[-1]) / self.factor
            machine.sleeping = [
                (max(machine.now_s, moment_s - passed_s), tie, process, item)
                for moment_s, tie, process, item in machine.sleeping
            ]

    def usage(self) -> Usage:
        held_bytes = 2**26 * (1 + self.settings.num_workers)
        return Usage(
            cpu_s=self.cpu_s,
            memory_bytes=held_bytes,
            added_bytes=held_bytes,
            shm_bytes=0,
            disk_bytes=0,
        )


@dataclass(eq=False, kw_only=True)
class SimulatedMachine(FakeMachine):
    """A machine on which the candidates of a search load one curve's data.

    Attributes:
        factors: By settings, times by which all took longer in the windows of a trial.
        weathers: The same of drift and neighbour, of all windows.
    """

    curve: Curve
    weather: Weather
    noise: random.Random
    factors: dict[LoaderSettings, list[float]] = field(default_factory=dict)
    weathers: list[float] = field(default_factory=list)

    def draw_noise(self) -> float:
        return math.exp(self.noise.gauss(0.0, self.weather.condition.noise))

    def note(
        self, process: SimulatedProcess, window: Window, began_s: float, cpu_s: float
    ) -> None:
        """A window has ended."""
        elapsed_s = self.clock.now - began_s
        other_cpus = (
            min(1.0, self.cores / 2) if self.weather.has_visit(self.clock.now) else 0.0
        )
        self.busy_s += cpu_s + other_cpus * elapsed_s
        if window.counts and window.batches:
            self.factors.setdefault(process.settings, []).append(process.factor)
            self.weathers.append(process.factor / process.noise)

    @property
    def mean_factor(self) -> float:
        """Times by which all took longer in the mean state of the machine."""
        return (
            math.exp(statistics.fmean(map(math.log, self.weathers)))
            if self.weathers
            else 1.0
        )


def machine_of(curve: Curve, condition: Condition, seed: int) -> SimulatedMachine:
    """The machine of one search."""
    name = f"{curve.name}-{condition.name}-{seed}"
    return SimulatedMachine(
        # the process makes the oracle's
        make_loader=lambda settings: SimulatedLoader(FakeClock(), 0, 0.0),
        batches_per_epoch=curve.batches,
        clock=FakeClock(),
        make_process=SimulatedProcess,
        facts=replace(
            FACTS, samples=curve.batches * BATCH_SIZE, is_shuffled=curve.is_shuffled
        ),
        cores=curve.cpus,
        curve=curve,
        weather=Weather(condition, f"weather-{name}"),
        noise=random.Random(f"noise-{name}"),
    )
