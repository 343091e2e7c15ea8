"""What a search found: facts of the host and the dataset, the trials, the verdict, and what the search cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from nws_sweep.results.measurements import Finite, Noise, NotNegative, Trial, Window
from nws_sweep.results.settings import Configuration, Count, LoaderSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonObjects:
    """A container of many Python objects in a dataset, which each forked worker comes to copy."""

    attribute: str  # as Python writes it from the dataset on: ``samples``, ``datasets[0].samples``
    type: str  # such as ``list of str``
    count: int
    bytes: int  # what its objects take in memory, estimated


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFacts:
    """Where in the config of a project stands what was measured."""

    key: str  # dotted key of the node that makes what is loaded
    keys: Mapping[str, str]  # dotted key of each setting of the DataLoader that the config has, by the setting's name
    fingerprint: str  # a short hash of the node without these settings; empty if the project's own program was run
    target: str = ""  # the node's ``_target_``; empty if that is not known
    # Settings with several keys in the config, and these: which of them the measured loader takes cannot be told.
    unclear: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """What a dataset says of itself once it is made."""

    type: str  # the class, with its module
    iterable: bool
    samples: int | None  # of an epoch, by its length or the sampler's; None if that cannot be told
    accelerator: str | None  # that pinned memory would serve
    objects: tuple[PythonObjects, ...] = ()  # its attributes that hold many Python objects, the largest first
    handles: tuple[str, ...] = ()  # open files and the like that forked workers share, each in words
    loader: LoaderSettings | None = None  # of the DataLoader that it came in, None if it came by itself
    project: ProjectFacts | None = None  # where it stands in a project's config, None if it comes from none


# What must be the same if two results are to be compared as if they were measured at one go.
MACHINE = ("hostname", "cpu_model", "cpu_count", "usable_cpus")

VERSIONS = ("python", "torch", "torchvision", "nws_sweep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Where a run was made: facts that decide whether two runs may be compared."""

    hostname: str
    platform: str
    cpu_model: str
    cpu_count: Count
    usable_cpus: Count
    memory_bytes: int
    python: str
    torch: str
    torchvision: str
    nws_sweep: str

    def difference(self, now: Host, names: Sequence[str] = (*MACHINE, *VERSIONS)) -> str:
        """The first of these facts that is another one now, in words; empty if all are the same."""
        for name in names:
            if (then := getattr(self, name)) != getattr(now, name):
                return f"measured with {name} {then}, this is {getattr(now, name)}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which candidate is the best, as far as the measurements can tell."""

    recommended: LoaderSettings  # the cheapest one that is not slower than the fastest by more than the tolerance
    fastest: LoaderSettings
    tied: tuple[LoaderSettings, ...] = ()  # others that may be as good or better for all that is known
    seconds_to_decide: Finite | None = (
        None  # of further measuring that would tell them apart, roughly; None if nothing is tied
    )
    provisional: bool = False  # whether the search was ended by its time budget, before it had enough


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCost:
    """Where the time of a search went, s; the parts but ``waiting_s``, which comes before, add up to the whole."""

    profile_s: Finite = 0.0  # the first look at the loader without workers, its process included
    startup_s: Finite = 0.0  # starting processes, making the dataset in them, and the first batch of each epoch
    warm_up_s: Finite = 0.0  # batches that were thrown away
    measuring_s: Finite = 0.0  # windows and epochs that count
    samples_s: Finite = 0.0  # comparing samples of workers with those of loading without workers
    waiting_s: Finite = 0.0  # waiting for another measurement on this machine to end
    other_s: Finite = 0.0  # the rest: ending processes, reading ahead for the page cache, deciding, saving

    @property
    def total_s(self) -> float:
        """The time of the search, s."""
        return float(sum(asdict(self).values()) - self.waiting_s)

    def plus(self, more: SearchCost) -> SearchCost:
        """Both together."""
        return SearchCost(**{name: value + getattr(more, name) for name, value in asdict(self).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePart:
    """One tensor, array, image or plain value of a sample, as digests."""

    form: bytes  # of its place in the sample, its type, shape and dtype
    content: bytes | None  # of its values; None if they cannot be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMade:
    """A sample that a worker has made."""

    worker: int
    key: int | str  # the index that was asked for; of an iterable dataset the position in the worker's stream
    parts: tuple[SamplePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesLogged:
    """Some of the samples that the workers of a loader have made, and what they shared in making them."""

    samples: tuple[SampleMade, ...] = ()  # each worker's in the order of making
    moved_files: tuple[str, ...] = ()  # paths of open files that the workers share and whose position they have moved


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesSeen:
    """The samples that a loader delivered in an epoch."""

    digests: tuple[bytes | None, ...]  # of each sample; None where its content cannot be compared
    workers: frozenset[int]  # those that delivered any
    complete: bool  # whether the epoch was seen to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCheck:
    """Whether the workers of an iterable dataset share its samples."""

    num_workers: int  # of the epoch that was looked at
    samples: int | None = None  # of that epoch; None if it was not seen to its end
    expected: int | None = None  # of an epoch without workers, likewise
    repeated: int = 0  # samples that came again, more than without workers
    idle: int = 0  # workers that delivered none
    error: str = ""  # why the samples could not be counted; empty if they were


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The outcome of the search of one configuration, complete or as far as it got."""

    configuration: Configuration
    host: Host
    facts: DatasetFacts | None = None  # None if the dataset could not be made
    trials: tuple[Trial, ...] = ()  # in the order of measuring
    stop_reason: str = ""  # why the search stopped, in words; empty while it has not
    error: str = ""  # why there is no result at all; empty if there is one
    started_at: str = ""  # ISO 8601 time with zone
    cost_s: NotNegative = 0.0  # of the whole search
    cost: SearchCost | None = None
    verdict: Verdict | None = None  # None while the search goes on, or if no candidate could be measured
    sample_check: SampleCheck | None = None  # None if that was not looked at
    forced: str = ""  # what a resumption by force has mixed: other hosts or versions; empty for nothing

    @property
    def complete(self) -> bool:
        """Whether the search came to its own end."""
        return bool(self.stop_reason) and not self.error

    @property
    def provisional(self) -> str:
        """Why the answer is not that of a whole search; empty if it is, or if there is an error instead."""
        if not self.complete and not self.error:
            finished = sum(trial.finished for trial in self.trials)
            begun = len(self.trials) - finished
            more = f", {begun} more were begun" if begun else ""
            return f"the search did not finish; {finished} candidates were measured{more}"
        if self.verdict is not None and self.verdict.provisional:
            return "the search was ended by its time budget; this is the best so far"
        candidates = {*self.configuration.search.candidates, *(trial.num_workers for trial in self.trials)}
        if len(candidates) == 1 and not self.error:
            return f"num_workers={candidates.pop()} was the only candidate; it was compared with no other"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """What one run of another program told about its training loader; ``gathering`` makes trials of them."""

    num_workers: int  # what the program was told to use
    candidates: tuple[int, ...]  # all values that it is going to be told; empty if no process knows
    columns: Mapping[str, Any]  # what identifies the configuration otherwise
    program: str  # what the program calls itself
    host: Host
    settings: LoaderSettings | None = None  # what its training loader was given; None if it iterated none
    facts: DatasetFacts | None = None  # of that loader's dataset, likewise
    batches_per_epoch: int | None = None
    windows: tuple[Window, ...] = field(default=(), repr=False)  # warm-up included; kept if the program failed later
    noise: Noise | None = None
    reason: str = ""  # one line why it failed; empty if it did not
    started_at: str  # ISO 8601 time with zone
    elapsed_s: float
