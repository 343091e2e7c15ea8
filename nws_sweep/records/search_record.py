"""The record of one search: host, dataset facts, trials, verdict and cost; and the
tuning of a loader in use."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from nws_sweep.records.dataset_facts import DatasetFacts
from nws_sweep.records.measurements import Trial, TrialState
from nws_sweep.records.ranges import (
    FEWEST_CPUS,
    ONLINE_STRATEGY,
    Bytes,
    Cores,
    Cpus,
    Finite,
    NotNegative,
)
from nws_sweep.records.settings import Configuration, LoaderSettings

# What ended these trials, or kept them from starting, may be different the next time.
_NO_RESULTS = (TrialState.INTERRUPTED, TrialState.SKIPPED)
# Attributes of Host that must be equal for two results to be comparable.
MACHINE = ("hostname", "cpu_model", "cpu_count", "usable_cpus")
VERSIONS = ("python", "torch", "torchvision", "nws_sweep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine and the versions of a run."""

    hostname: str
    platform: str
    cpu_model: str
    cpu_count: Cpus
    usable_cpus: Cpus
    memory_bytes: Bytes
    python: str
    torch: str
    torchvision: str
    nws_sweep: str
    # the usable CPUs with their fraction; None without one
    usable_cores: Cores | None = None

    def difference(
        self, now: "Host", names: Sequence[str] = (*MACHINE, *VERSIONS)
    ) -> str:
        """A sentence on the first of the named attributes that differs; empty if all
        are equal."""
        for name in names:
            if (then := getattr(self, name)) != getattr(now, name):
                return f"measured with {name} {then}, this is {getattr(now, name)}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The recommended and the fastest candidate, and ties."""

    recommended: LoaderSettings  # the answer of ``model.choice``
    fastest: LoaderSettings
    tied: tuple[LoaderSettings, ...] = ()  # candidates that may be as good or better
    # further measuring that should resolve the ties, estimated
    seconds_to_decide: Finite | None = None
    provisional: bool = False  # True if it ended before the answer was certain


class Status(str, enum.Enum):
    """How the answer of a search was found."""

    MEASURED = "measured"  # the search ended by its rule
    # something else ended the search: more time may change the answer
    PROVISIONAL = "provisional"
    # likewise, when only the candidates had been measured that every search measures
    # first
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePart:
    """Digests of one tensor, array, image or plain value of a sample."""

    form: bytes  # of the place in the sample, type, shape and dtype
    content: bytes | None  # of the values; None if they cannot be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMade:
    """A sample made by a worker."""

    worker: int
    # the index; of an iterable dataset the position in the worker's stream
    key: int | str
    parts: tuple[SamplePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesLogged:
    """Samples logged by the workers of a loader."""

    samples: tuple[SampleMade, ...] = ()  # of each worker, in the order of making
    # paths of shared open files whose position the workers changed
    moved_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesSeen:
    """The samples delivered in an epoch."""

    count: int
    complete: bool  # True if the whole epoch was loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The search of one configuration, complete or interrupted."""

    configuration: Configuration
    host: Host
    facts: DatasetFacts | None = None  # None if making the dataset failed
    trials: tuple[Trial, ...] = ()  # in the order of measuring
    stop_reason: str = ""  # one sentence; empty until the search stops
    error: str = ""  # why there is no result; empty if there is one
    started_at: str = ""  # ISO 8601 time with zone
    cost_s: NotNegative = 0.0  # of the whole search
    # None during the search, or if no candidate was measured
    verdict: Verdict | None = None

    @property
    def complete(self) -> bool:
        """True if the search ended regularly."""
        return bool(self.stop_reason) and not self.error

    @property
    def cpus(self) -> float:
        """CPUs of the measured loader: the usable ones, shared by the ranks."""
        cpus = (
            self.host.usable_cores or self.host.usable_cpus
        ) / self.configuration.ranks
        return max(FEWEST_CPUS, round(cpus, 2))

    @property
    def is_final(self) -> bool:
        """True if a repeated search would have nothing left to measure."""
        was_ended = self.verdict is not None and self.verdict.provisional
        return self.complete and not was_ended and self.interrupted is None

    @property
    def interrupted(self) -> Trial | None:
        """The first trial that something ended which says nothing about its candidate;
        None if there is none."""
        return next(
            (trial for trial in self.trials if trial.state is TrialState.INTERRUPTED),
            None,
        )

    @property
    def results(self) -> tuple[Trial, ...]:
        """The trials that a search which goes on from this record does not measure
        again."""
        return tuple(
            trial
            for trial in self.trials
            if trial.finished and trial.state not in _NO_RESULTS
        )

    @property
    def most_fed(self) -> int | None:
        """The most workers that can have batches, as of a dataset with few shards; None
        if all had some."""
        return min(
            (
                trial.fed_workers
                for trial in self.trials
                if trial.fed_workers is not None
            ),
            default=None,
        )

    @property
    def measured_numbers(self) -> tuple[int, ...]:
        """The values of num_workers that have a time, ascending."""
        return tuple(
            sorted(
                {
                    trial.num_workers
                    for trial in self.trials
                    if trial.objective_s is not None
                }
            )
        )

    @property
    def status(self) -> Status | None:
        """How the answer was found; None if no candidate was measured."""
        if not self.measured_numbers:
            return None
        if self.is_final:
            return Status.MEASURED
        candidates = self.configuration.search.candidates
        first = {candidates[0], self.configuration.loader.num_workers}
        has_others = not first.issuperset(candidates)
        is_search = self.configuration.search.strategy != ONLINE_STRATEGY
        if is_search and has_others and first.issuperset(self.measured_numbers):
            return Status.UNDECIDED
        return Status.PROVISIONAL

    @property
    def doubt(self) -> str:
        """Why more measuring, or another search, may change the answer; empty if there
        is no such reason or no answer.

        The answer of a search with a single candidate is final, but no comparison.
        """
        if self.status is None:
            return ""
        if self.is_final:
            numbers = {*self.configuration.search.candidates, *self.measured_numbers}
            if len(numbers) > 1:
                return ""
            return "no other num_workers was measured"
        if not self.complete:
            return f"the search {'failed' if self.error else 'did not finish'}"
        if self.interrupted:
            return f"num_workers={self.interrupted.num_workers} was interrupted: {self.interrupted.reason}"
        return self.stop_reason


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of settings.

    Attributes:
        epoch: From 0, of the loader.
        batch: The first one with the new settings, from 0.
        before: Settings until then.
        after: Settings from then on.
        reason: Why.
    """

    epoch: int
    batch: int
    before: LoaderSettings
    after: LoaderSettings
    reason: str


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What has been found about the settings of a loader so far.

    Attributes:
        before: Settings of the loader as the program made it.
        after: Settings in use.
        switches: The changes, in their order.
        is_decided: Whether the settings do not change any more.
        is_provisional: Whether the tuning ended before the settings in use had been
            timed enough.
        reason: Why they are what they are; empty before that is known.
        batch_s: Measured seconds per batch, training steps included: at first and with
            each change.
        lines: The answer as it is shown; empty before the settings are decided.
    """

    before: LoaderSettings
    after: LoaderSettings
    switches: tuple[Switch, ...] = ()
    is_decided: bool = False
    is_provisional: bool = False
    reason: str = ""
    batch_s: tuple[float, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """Time per batch at first / time per batch at the end; 1 if nothing was
        changed."""
        return (
            self.batch_s[0] / self.batch_s[-1]
            if len(self.batch_s) > 1 and self.after != self.before
            else 1.0
        )

    def __str__(self) -> str:
        undecided = f"num_workers={self.after.num_workers}   not decided yet"
        return "\n".join(self.lines) or undecided
