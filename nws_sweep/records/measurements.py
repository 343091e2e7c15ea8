"""Measured values: windows of batches, the resources they used, and the quantities of a
trial."""

import enum
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from nws_sweep.records.account import Account
from nws_sweep.records.ranges import (
    AtLeast1,
    Bytes,
    Cost,
    Count,
    Duration,
    Finite,
    NotNegative,
    Positive,
)
from nws_sweep.records.settings import LoaderSettings


class TrialState(str, enum.Enum):
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    SKIPPED = "skipped"  # not started, because the machine lacks the resources
    # faster than the CPUs or the training step allow, so the measurement is wrong
    MISMEASURED = "mismeasured"
    # workers deliver different samples than loading without workers
    WRONG_SAMPLES = "wrong_samples"
    # by the search's time limit or by others: no result, so it is measured again
    INTERRUPTED = "interrupted"


class WindowKind(str, enum.Enum):
    """What a window is for."""

    WARM_UP = "warm_up"  # not counted: the queue fills
    STEADY = "steady"  # whole multiples of the workers within an epoch
    EPOCH = "epoch"  # a whole epoch, start-up included


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """What the next window must contain: the least number of batches and seconds, in
    multiples of the workers."""

    kind: WindowKind  # ``EPOCH`` starts a new epoch and ends with the epoch
    min_batches: int = 1
    min_seconds: float = 0.0
    # the number of batches is a multiple of this: n workers deliver in multiples of n
    multiple_of: int = 1
    max_batches: int | None = None  # None for no limit
    fresh: bool = False  # abandon the current epoch and start a new one
    # take at least as many batches as are ready when the window begins
    cover_buffer: bool = False


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What one batch costs the worker that makes it."""

    # CPU seconds for making it, of the thread that makes batches and of threads of
    # the dataset
    cpu_s: Cost
    # in which no thread ran, and the thread that makes batches was not ready to run
    wait_s: Cost
    # CPU seconds of the worker for the transfer: pickling, and copying into shared
    # memory
    copy_s: Cost = 0.0
    threads: AtLeast1 = 1.0  # that compute ``cpu_s`` together, on average

    @property
    def parts(self) -> tuple[float, float, float]:
        """The seconds of each kind."""
        return self.cpu_s, self.wait_s, self.copy_s

    @property
    def making_s(self) -> float:
        """Seconds in which the worker makes the batch, with as many CPUs as threads."""
        return self.cpu_s / self.threads + self.wait_s

    def scaled(self, factors: Sequence[float]) -> "BatchCost":
        """Another cost, with a factor for each part."""
        cpu, wait, copy = factors
        return replace(
            self,
            cpu_s=self.cpu_s * cpu,
            wait_s=self.wait_s * wait,
            copy_s=self.copy_s * copy,
        )

    @classmethod
    def mean_of(cls, costs: Sequence["BatchCost"]) -> "BatchCost":
        """The mean of at least one cost, of each kind."""
        fields = zip(*((*cost.parts, cost.threads) for cost in costs), strict=True)
        return cls(*(math.fsum(values) / len(costs) for values in fields))


class StageKind(str, enum.Enum):
    """What is called: a function, the call of another object, such as a transform, or
    the making of samples."""

    FUNCTION = "function"
    OBJECT = "object"
    DATASET = "dataset"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """The calls of one function or object by another while a batch was made, including
    what they call.

    The CPU times contain what timing has cost.
    """

    # as a program writes it: ``torchvision.transforms.v2.Resize``; empty for what a
    # search adds
    name: str
    # the stage that calls it, by its place in the batch; -1 for the first stage, the
    # whole batch
    parent: int = -1
    kind: StageKind = StageKind.FUNCTION
    file: str = ""
    line: int = 0
    calls: int = 1
    cpu_s: Duration = 0.0  # of the thread that makes batches
    wait_s: Duration = 0.0  # in which this thread neither ran nor was ready to run
    all_cpu_s: Duration = 0.0  # of all threads of the worker
    overhead_s: Duration = 0.0  # what timing has cost
    # of the first stage: libraries with several threads, if other threads compute
    # much of it
    pools: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch that was made, in the order of the epoch."""

    number: int  # in its epoch, from 0
    # In the epoch as the sampler orders it, from 0 to 1: the same batch in all
    # trials. None if the length of the epoch is unknown, and of an iterable dataset,
    # whose workers have separate streams.
    position: float | None = None
    began_s: float  # on the clock time.perf_counter
    ended_s: float
    cost: BatchCost
    epoch: int = 0  # of the trial process
    # the worker was stopped meanwhile, and ``wait_s`` may be a part of the waiting
    was_stopped: bool = False
    stages: tuple[StageTime, ...] = ()  # if its calls were timed, which makes it slower


@dataclass(frozen=True, slots=True)
class LoopCosts:
    """What the main process and the life of workers cost, in seconds."""

    receive_s: Duration = 0.0  # CPU time for receiving one batch from a worker
    # besides it, until a batch that is finished has been received
    receive_wait_s: Duration = 0.0
    sampler_s: Duration = 0.0  # for drawing the indices of one batch
    step_s: Duration = 0.0  # of the training step per batch, with all CPUs free
    step_cpu_s: Duration = 0.0  # CPU time of all threads in ``step_s``
    # CPU time of the main process for starting one worker, the least of all epochs
    fork_s: Duration = 0.0
    start_s: Duration = 0.0  # CPU time of a worker before its first batch
    start_wait_s: Duration = 0.0  # besides it, in the program's ``worker_init_fn``
    stop_s: Duration = 0.0  # CPU time for ending one worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Seconds in which the training step took the batches of one window: measured, and
    as replayed with their costs."""

    measured_s: Positive
    replayed_s: Positive
    batches: Count
    round: int | None = None  # of the time slice; None before the rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Consecutive batches that are timed together, observed at both ends of the
    queue."""

    kind: WindowKind
    # from ``iter(loader)`` to the first batch, if an epoch began; equal to wait_s[0]
    startup_s: NotNegative | None
    # in ``next()`` after the training step before, one per batch
    wait_s: tuple[float, ...]
    # in the training step, one per batch; on an accelerator until it has finished
    step_s: tuple[float, ...]
    samples: int  # of all batches
    # from the last batch to the end of the epoch, if the epoch ended
    end_s: NotNegative | None = None
    # samples that the workers finished during the window; None if not counted
    produced: int | None = None
    # of the first batch, if an epoch began and the size is known
    batch_bytes: int | None = None
    batch_tensors: int | None = None  # of the first batch, likewise
    records: tuple[BatchRecord, ...] = ()  # batches that the workers have finished
    # CPU time of the main process in ``next()``, without the start of an epoch and
    # without the sampler.
    receive_cpu_s: float | None = None
    # in ``next()``, in which the main thread was ready to run and did not
    receive_delay_s: float = 0.0
    began_s: float = 0.0  # on the clock of the records
    step_cpu_s: float | None = None  # CPU time of the main process in the training step
    # CPU time of the main process for starting an epoch's workers
    start_cpu_s: float | None = None
    # mean cost of a worker before its first batch
    worker_start: BatchCost | None = None
    # for ending the idle workers of an epoch that was left for the one that began
    stop_s: float | None = None
    # In ``next()`` while an accelerator was still busy with the step before, one per
    # batch; empty if it never was.
    overlap_s: tuple[float, ...] = ()
    sampler_s: float = 0.0  # of ``wait_s`` in the sampler
    # that had no batch for the epoch: there are fewer shards than workers
    unfed_workers: int = 0

    @property
    def batches(self) -> int:
        """Number of batches."""
        return len(self.wait_s)

    @property
    def elapsed_s(self) -> float:
        """Duration of the window, s: waits, training step and the end of the epoch."""
        return sum(self.wait_s) + sum(self.step_s) + (self.end_s or 0.0)

    @property
    def counts(self) -> bool:
        """True if the window counts for the result: no warm-up."""
        return self.kind is not WindowKind.WARM_UP

    @property
    def ended_epoch(self) -> bool:
        """True if the epoch ended in this window."""
        return self.end_s is not None


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One row of batches.csv: the times of one batch, s."""

    num_workers: int
    window: int
    index: int  # in the trial, from 0
    warm_up: bool
    wait_s: Duration
    step_s: Duration
    settings: str = ""  # that differ from the configuration, except num_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources used by a process and its descendants since their start; None where the
    platform reports none."""

    cpu_s: float = 0.0  # user and system
    memory_bytes: int | None = None  # memory shared by the processes counts once
    # the same, without pages of files and memory shared with a parent process
    added_bytes: int | None = None
    shm_bytes: int | None = None  # shared memory, including batches in the queue
    disk_bytes: int | None = None  # read from storage, not from the page cache
    read_bytes: int | None = None  # read by system calls, from the page cache too
    major_faults: int | None = None  # page faults that waited for storage
    # of the candidate's background loaders, user and system
    background_cpu_s: float = 0.0

    def since(self, before: "Usage") -> "Usage":
        """The difference to an earlier reading; None where one of both is unknown."""
        pairs = {
            name: (value, getattr(before, name)) for name, value in asdict(self).items()
        }
        used: dict[str, Any] = {
            name: None if None in pair else pair[0] - pair[1]
            for name, pair in pairs.items()
        }
        return Usage(**used)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTime:
    """Cumulative times of the CPUs on which this process may run, s."""

    busy_s: float = 0.0  # of all processes
    # busy, idle, or taken by the hypervisor: the number of CPUs times the time
    total_s: float = 0.0
    # taken by the hypervisor while a process here was ready to run
    steal_s: float = 0.0
    # in which the CPU quota of this process's control group was exhausted
    throttled_s: float = 0.0

    def since(self, before: "MachineTime") -> "MachineTime":
        """The difference to an earlier reading."""
        return MachineTime(
            **{
                name: value - getattr(before, name)
                for name, value in asdict(self).items()
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    """One time slice of a candidate: from the resuming of its processes to their
    pausing."""

    windows: tuple[Window, ...]  # warm-up first
    before: Usage = Usage()  # of the process tree at the beginning
    after: Usage = Usage()  # at the end
    elapsed_s: float = 0.0
    machine: MachineTime = MachineTime()  # during the time slice
    round: int | None = None  # None for a warm-up before the rounds
    records: tuple[BatchRecord, ...] = ()  # of batches of an epoch without windows

    @property
    def used(self) -> Usage:
        """Resources used during the time slice; None where unknown."""
        return self.after.since(self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its 95 % interval and the number of independent values."""

    value: Positive
    low: Positive | None  # None if the noise is unknown
    high: Positive | None
    n: int

    def scaled(self, factor: float) -> "Estimate":
        """The mean and its interval, times a factor."""
        low, high = (
            None if end is None else end * factor for end in (self.low, self.high)
        )
        return Estimate(value=self.value * factor, low=low, high=high, n=self.n)

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval; the value twice if there is no interval."""
        return self.low or self.value, self.high or self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The quantities of one trial; with several ranks those of one rank, except memory,
    which is that of all."""

    startup_s: NotNegative  # from ``iter(loader)`` to the first batch, mean over epochs
    # steady seconds per batch as the training step sees them
    batch_s: Estimate | None = None
    # Bound on the relative error of batch_s from a change of the queue: |batches made
    # - batches taken| / batches taken.
    bias_bound: NotNegative | None = None
    samples_per_s: Positive | None = None  # steady
    wait_s: NotNegative | None = None  # in ``next()``, per steady batch
    step_s: NotNegative | None = None  # in the training step, likewise
    stall_fraction: NotNegative | None = None  # waits / (waits + training step)
    # measured or projected; None if the length of an epoch is unknown
    epoch_s: NotNegative | None = None
    # of the trial process, likewise; None unless it began several
    first_epoch_s: NotNegative | None = None
    cpu_s: NotNegative | None = None  # of all processes per batch, user and system
    # of all processes, the maximum after a time slice; shared memory counts once
    memory_bytes: Bytes | None = None
    shm_bytes: Bytes | None = None  # shared memory, likewise
    # per 1000 batches, without pages of files
    memory_growth_bytes: Finite | None = None
    disk_bytes: NotNegative | None = None  # per batch, from storage
    # Half the width of the 95 % interval of the logarithm of the objective / that of
    # the search's answer, by the rounds that both were measured in; None without
    # rounds.
    ratio_half_width: NotNegative | None = None
    # where an epoch goes; a batch, if the length of an epoch is unknown
    account: Account | None = None

    @property
    def rate(self) -> Estimate | None:
        """Samples per second, with the interval of ``batch_s`` converted; None if
        unknown."""
        rate, batch = self.samples_per_s, self.batch_s
        if not rate:
            return None
        if batch is None or not batch.low or not batch.high:
            return Estimate(value=rate, low=None, high=None, n=batch.n if batch else 0)
        low, high = rate * batch.value / batch.high, rate * batch.value / batch.low
        return Estimate(value=rate, low=low, high=high, n=batch.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Disturbances of a trial."""

    other_cpus: Finite = 0.0  # CPUs used by other processes, on average
    steal: Finite = 0.0  # share of the time of the usable CPUs that the hypervisor took
    throttled: Finite = 0.0  # share of the time in which the CPU quota was exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The measurement of one candidate under one configuration, with its state and
    reason."""

    settings: LoaderSettings  # canonical
    state: TrialState
    reason: str = ""  # one line; empty if the state is ``ok``
    notes: tuple[str, ...] = ()  # such as settings without meaning for this candidate
    warnings: tuple[str, ...] = ()  # issued during the trial
    measurement: Measurement | None = None  # a mismeasured trial has one too
    noise: Noise | None = None
    # of an epoch: the loader's length, or as seen; None if unknown
    batches: Count | None = None
    # False if the search was interrupted before the end of the trial
    finished: bool = True
    # includes warm-up; failed trials have them too
    windows: tuple[Window, ...] = field(default=(), repr=False)
    cost_s: Finite = 0.0  # from the start of the trial process to its end, s
    # what batches cost, in the order of the epoch
    records: tuple[BatchRecord, ...] = field(default=(), repr=False)
    loop: LoopCosts | None = None
    spans: tuple[Span, ...] = field(default=(), repr=False)  # of the windows that count
    # that had batches, if other workers had none: there are fewer shards than workers
    fed_workers: Count | None = None

    @property
    def num_workers(self) -> int:
        """Number of workers of the candidate."""
        return self.settings.num_workers

    @property
    def is_steady(self) -> bool:
        """Whether the time of a batch is that at the steady pace; in a short epoch it
        is a share of the epoch, with the start."""
        if self.batches is None:
            return True
        return self.settings.steady_part(self.batches) is not None

    @property
    def objective_s(self) -> float | None:
        """Time that ranks trials, s: of an epoch, start-up included, if its length is
        known, else of a batch.

        None if the trial failed or has no steady batches.
        """
        if self.measurement is None or self.state is not TrialState.OK:
            return None
        if self.measurement.epoch_s is not None:
            return self.measurement.epoch_s
        return self.measurement.batch_s.value if self.measurement.batch_s else None
