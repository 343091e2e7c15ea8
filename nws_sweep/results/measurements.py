"""What is measured: windows of batches, the resources that they used, and the quantities of a trial.

A quantity that is not defined is None, never 0. Units stand in names: ``_s`` seconds, ``_bytes``.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field
from typing import Annotated

import msgspec

from nws_sweep.results.settings import LoaderSettings

Positive = Annotated[float, msgspec.Meta(ge=1e-12, le=1e18)]

NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e18)]

Finite = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]

Bytes = Annotated[int, msgspec.Meta(ge=0, le=10**18)]


class TrialState(str, enum.Enum):
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    SKIPPED = "skipped"  # could not have fitted, so it was not started
    MISMEASURED = "mismeasured"  # beats what the CPUs or the consumer allow, so it cannot be true
    WRONG_SAMPLES = "wrong_samples"  # its workers deliver other samples than loading without workers


class WindowKind(str, enum.Enum):
    """What a window is for."""

    WARM_UP = "warm_up"  # thrown away: the pipeline fills
    STEADY = "steady"  # a window of whole multiples of the workers inside an epoch
    EPOCH = "epoch"  # a whole epoch, start-up included
    LOADING = "loading"  # without the consumer: what the loader does by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """What the next stretch of batches should be: at least so many batches and so long, in whole multiples of the workers."""

    kind: WindowKind  # an ``EPOCH`` starts a fresh epoch and ends with it, ``LOADING`` leaves the consumer out
    min_batches: int = 1
    min_seconds: float = 0.0
    multiple_of: int = 1  # stop only after a multiple of this many batches: n workers deliver in multiples of n
    max_batches: int | None = None  # stop after so many batches in any case; None for no limit
    fresh: bool = False  # leave the epoch that is under way and start a new one
    cover_buffer: bool = False  # take at least as many batches as lie ready when the window begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of consecutive batches, seen from both sides of the queue.

    Of several ranks together a batch is a step of all of them: one batch each, until the slowest is done.
    """

    kind: WindowKind
    startup_s: NotNegative | None  # from ``iter(loader)`` to the first batch, if it began an epoch; it is wait_s[0] too
    wait_s: tuple[float, ...]  # blocked in ``next()``, one per batch
    consume_s: tuple[float, ...]  # in the consumer, one per batch
    samples: int  # in all batches together
    end_s: NotNegative | None = None  # from the last batch to the end of the epoch, if the epoch ended in this window
    produced: int | None = None  # samples that the workers finished meanwhile; None if they were not counted
    batch_bytes: int | None = None  # of the first batch, if the window began an epoch and they can be told
    batch_tensors: int | None = None  # likewise
    barrier_s: tuple[float, ...] = ()  # of a rank: waiting for the others, one per batch, unless the consumer does that
    ranks: tuple[Window, ...] = ()  # of several ranks together: what each of them saw, in their order

    @property
    def batches(self) -> int:
        """Batches taken."""
        return len(self.wait_s)

    @property
    def elapsed_s(self) -> float:
        """Seconds from the first call to the last return: waits, consumer and the end of the epoch."""
        return sum(self.wait_s) + sum(self.consume_s) + sum(self.barrier_s) + (self.end_s or 0.0)

    @property
    def counts(self) -> bool:
        """Whether it is a part of what was measured: neither thrown away nor without the consumer."""
        return self.kind in (WindowKind.STEADY, WindowKind.EPOCH)

    @property
    def ended_epoch(self) -> bool:
        """Whether the loader had no more batches."""
        return self.end_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process and its descendants have used up to a moment; None where the platform does not tell."""

    cpu_s: float = 0.0  # user and system
    memory_bytes: int | None = None  # what the processes share among them counts once
    shm_bytes: int | None = None  # shared memory, batches on their way included
    disk_bytes: int | None = None  # read from storage, not from the page cache
    major_faults: int | None = None  # page faults that had to wait for storage


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTime:
    """What all CPUs of the machine have done up to a moment, s."""

    busy_s: float = 0.0  # of everything that runs
    steal_s: float = 0.0  # that the hypervisor gave to others while something here wanted to run
    throttled_s: float = 0.0  # that this process's control group could not run because its quota was spent

    def since(self, before: MachineTime) -> MachineTime:
        """What came in between."""
        return MachineTime(**{name: value - getattr(before, name) for name, value in asdict(self).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    """One turn of a candidate, from the moment that its processes went on to the moment that they stood still again."""

    windows: tuple[Window, ...]  # warm-up first
    before: Usage = Usage()  # what the tree had used when the turn began
    after: Usage = Usage()  # and at its end
    elapsed_s: float = 0.0
    machine: MachineTime = MachineTime()  # what the machine did meanwhile
    round: int | None = None  # None for a warm-up beforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its 95 % interval and the number of independent values behind it."""

    value: Positive
    low: Positive | None  # None below three values
    high: Positive | None
    n: int

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval; the value itself twice if there is none."""
        return self.low or self.value, self.high or self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMeasurement:
    """The quantities of one of several ranks; a step is a batch of each."""

    rank: int  # from 0
    startup_s: NotNegative  # from ``iter(loader)`` to its first batch, mean over the epochs begun
    own_s: Estimate  # per step until it is done itself, the consumer included: who has the most holds up the others
    wait_s: NotNegative  # per step, blocked in ``next()``
    consume_s: NotNegative  # per step
    barrier_s: NotNegative  # per step, waiting for the others
    samples_per_s: NotNegative | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The quantities of one trial.

    Of several ranks they are those of all together: a batch is a step of all, samples, CPU time and memory are sums.
    """

    startup_s: NotNegative  # from ``iter(loader)`` to the first batch, mean over the epochs begun
    batch_s: Estimate | None = None  # steady seconds per batch as the consumer sees them
    # By how much batch_s may be off, as a share, because the queue was fuller or emptier at the end than at the
    # beginning: |batches made - batches taken| / batches taken.
    bias_bound: NotNegative | None = None
    samples_per_s: Positive | None = None  # steady
    wait_s: NotNegative | None = None  # per steady batch (of epochs without a steady pace per batch) in ``next()``
    consume_s: NotNegative | None = None  # per batch in the consumer, likewise
    stall_fraction: NotNegative | None = None  # share of the time lost to data: waits / waits and consumer
    epoch_s: NotNegative | None = None  # measured or projected (``trial.projected_epoch_s``); None for no known length
    # Per batch without the consumer, from one window; without workers what the consumer leaves of a batch. None where
    # there is no consumer.
    loading_s: NotNegative | None = None
    cpu_s: NotNegative | None = None  # of all processes per batch, user and system
    memory_bytes: Bytes | None = None  # the most of all processes after a turn; what they share counts once
    shm_bytes: Bytes | None = None  # the most of shared memory, likewise
    memory_growth_bytes: Finite | None = None  # per 1000 batches
    disk_bytes: NotNegative | None = None  # per batch, from storage
    ranks: tuple[RankMeasurement, ...] = ()  # in their order; empty for one alone

    @property
    def rate(self) -> Estimate | None:
        """Samples per second with the interval that a batch's time leaves them; None without a pace."""
        rate, batch = self.samples_per_s, self.batch_s
        if not rate:
            return None
        if batch is None or not batch.low or not batch.high:
            return Estimate(value=rate, low=None, high=None, n=batch.n if batch else 0)
        low, high = rate * batch.value / batch.high, rate * batch.value / batch.low
        return Estimate(value=rate, low=low, high=high, n=batch.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What disturbed a trial."""

    other_cpus: Finite = 0.0  # CPUs that were busy with anything else, on average
    steal: Finite = 0.0  # share of the time of the usable CPUs that the hypervisor gave to others
    throttled: Finite = 0.0  # share of the time that the control group's quota was spent
    outliers: tuple[int, ...] = ()  # windows, from 0, whose mean lies far from the others'; they count all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate measured (or not) under one configuration."""

    settings: LoaderSettings  # what the DataLoader was given (canonical)
    state: TrialState
    reason: str = ""  # one line why it did not end well; empty if it did
    notes: tuple[str, ...] = ()  # what was asked for but has no meaning for this candidate
    warnings: tuple[str, ...] = ()  # issued while it was measured
    measurement: Measurement | None = None  # that of a mismeasured trial is there to be looked at
    noise: Noise | None = None
    finished: bool = True  # False if the search was interrupted before its end
    windows: tuple[Window, ...] = field(default=(), repr=False)  # warm-up included; of a failed trial too
    cost_s: Finite = 0.0  # from the start of its process to its end

    @property
    def num_workers(self) -> int:
        """The candidate."""
        return self.settings.num_workers

    @property
    def objective_s(self) -> float | None:
        """Seconds that trials are ranked by: an epoch where its length is known (start-up counts), else a batch.

        None if it was not measured, cannot be trusted, or has no steady batches to be ranked by.
        """
        if self.measurement is None or self.state is not TrialState.OK:
            return None
        if self.measurement.epoch_s is not None:
            return self.measurement.epoch_s
        return self.measurement.batch_s.value if self.measurement.batch_s else None
