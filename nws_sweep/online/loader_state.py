"""What is known of one DataLoader of a running program: what was observed, and whether
its settings are decided."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nws_sweep.model import epoch_length
from nws_sweep.online.loader_clock import LoaderClock, LoaderTime
from nws_sweep.online.observation import TrainingTrial
from nws_sweep.online.plan import Agreement, Plan
from nws_sweep.online.times import Times, times_of
from nws_sweep.online.waiting import Waiting
from nws_sweep.records import LoaderSettings, SearchRecord, Switch, Trial, Tuning
from nws_sweep.system import host


@dataclass(eq=False)
class LoaderState(ABC):
    """The state of one loader. Which settings it has next, and when, its subclasses
    say.

    Args:
        tuning: The settings of the loader as the program made it, and those to begin
            with; canonical.
        start: The record of what is found, with what is held fixed.
        changes_within_epochs: Whether settings can change there, and not only before
            the next epoch.
        cpus: CPUs that the program and its workers may use.
        most_workers: Maximum number of workers; None for what fits.
        prefetches: Whether ``prefetch_factor`` may change.
        reorders: Whether ``in_order=False`` may be proposed.
        announce: Called with the answer; of several ranks, in rank 0.
        note: Called with lines on the way to it, in the same rank.
        on_decided: Called each time the settings are decided.
        others: The agreement with other ranks; None for a single process.
        once: Whether the settings never change once they are decided.
        may_change: Whether the settings of this loader, and not of another one, may
            change.
        own_generators: Places of the dataset's own random number generators, which new
            workers seed.
        has_own_state: Whether the loader has a ``state_dict``, which is for its number
            of workers.
        endless_batches: Of an epoch, if the loader's class takes all epochs from one
            iterator; 0 for other loaders.
        draws_shuffle: Whether samples that were made without workers have drawn from
            the generator that shuffles.
        sees_others: Whether the other DataLoaders of the program are followed too.
        is_remade: Whether the program makes the loader again for each epoch.
        place: File and line of the program that iterates over the loader; empty if it
            is unknown.
        time: Of the loader.
        loader_clock: Of the thread that iterates over the loader.
    """

    tuning: Tuning
    start: SearchRecord
    changes_within_epochs: bool
    most_workers: int | None
    prefetches: bool
    announce: Callable[[str], None]
    note: Callable[[str], None]
    on_decided: Callable[[Any], None]
    cpus: float = field(default_factory=host.usable_cores)
    others: Agreement | None = None
    reorders: bool = False
    once: bool = False
    may_change: Callable[[], bool] = lambda: True
    own_generators: Sequence[str] = ()
    has_own_state: bool = False
    endless_batches: int = 0
    draws_shuffle: bool = False
    sees_others: bool = False
    is_remade: bool = False
    place: str = ""
    time: LoaderTime = field(default_factory=LoaderTime)
    loader_clock: LoaderClock = field(default_factory=LoaderClock)
    trials: dict[LoaderSettings, Trial] = field(default_factory=dict)
    observation: TrainingTrial | None = None  # of the settings in use
    # at the beginning of it
    others_before: Mapping[LoaderTime, LoaderTime] = field(default_factory=dict)
    batches_per_epoch: int | None = None  # None if unknown
    epoch: int = -1  # of the newest iterator
    batches: int = 0  # taken so far, of all epochs
    # of an epoch of a stream with the program's workers; None before the end of one
    usual_batches: int | None = None
    worker_pids: Sequence[int] = ()  # of the pool in use
    # the most workers that do not repeat samples, as known; None for any
    distributes_among: int | None = None
    # index list of the latest batch that the program's process has made; None if none
    made_without_workers: Any = None
    planned: Plan | None = None  # for a later epoch
    held: str = ""  # why the settings cannot change yet; empty if they can
    # of containers of the dataset at the last look, by place
    lengths: Mapping[str, int] = field(default_factory=dict)
    looked_after: int = 0  # batches, of all epochs, at that look
    # places of handles of the dataset before the first sample
    handles_at_start: Sequence[str] = ()
    # Says why no other forked workers than now may use the dataset; empty if they
    # may, and without an iterator over it.
    shared: Callable[[], str] = lambda: ""
    earlier_switches: int = 0  # changes before the settings were reconsidered
    # since the settings were decided; None if they never change again
    waiting: Waiting | None = None

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self.configuration = self.start.configuration

    @property
    def base(self) -> LoaderSettings:
        """Settings of the loader as the program made it."""
        return self.tuning.before

    @property
    def current(self) -> LoaderSettings:
        """Settings in use."""
        return self.tuning.after

    @property
    def times(self) -> Times:
        """What was measured of all settings, as far as they were measured alike."""
        return times_of(self.trials.values())

    @property
    def switches(self) -> tuple[Switch, ...]:
        """The changes since the settings were last decided."""
        return self.tuning.switches[self.earlier_switches :]

    @property
    def is_stream(self) -> bool:
        """Whether the dataset is iterable."""
        return self.start.facts is not None and self.start.facts.iterable

    @property
    def too_many_batches(self) -> int | None:
        """Of an epoch of a stream with the workers in use, which must not be longer for
        more; None for any number."""
        workers = self.current.num_workers
        if self.usual_batches is None or workers <= self.base.num_workers:
            return None
        return epoch_length.longest(self.usual_batches, workers) + 1

    def epoch_of(self, settings: LoaderSettings, batch: int) -> int:
        """The first epoch that can have these settings; ``batch`` is 0 before an epoch
        begins."""
        is_within = batch and self.changes_within_epochs
        has_enough = settings.num_workers >= fewest_within_epochs(self.base)
        return self.epoch + (not (is_within and has_enough))

    def observe(self) -> TrainingTrial | None:
        """The observation of the settings in use, which continues over epochs; None if
        they are decided."""
        latest = self.observation
        if self.tuning.is_decided or (
            latest is not None and latest.is_long_enough and not self.may_change()
        ):
            return None  # that of validation would continue as long as training
        if latest is None or latest.settings != self.current:
            self.observation = TrainingTrial(self.current, self.batches_per_epoch)
            self.others_before = self.loader_clock.now()
        return self.observation

    @property
    def leads(self) -> bool:
        """Whether this process decides, and says so: of several ranks, rank 0."""
        return self.others is None or self.others.leads

    def tell(self, text: str) -> None:
        """Says something about the loader, such as a change that affects more than
        speed."""
        if self.leads:
            self.note(f"{self.configuration.columns['dataset']}: {text}")

    @abstractmethod
    def lines(self) -> Sequence[str]:
        """The answer as it is shown, once the settings are decided."""

    def hold(self, why: str) -> None:
        """The settings cannot change yet, and what was timed until now does not count;
        empty if they can."""
        self.held = why
        if why:
            self.observation = None

    def decide(self, reason: str, *, is_final: bool = True) -> None:
        """The settings do not change any more; the answer is provisional unless
        ``is_final``."""
        if self.tuning.is_decided:
            return
        if self.others is not None and self.others.leads:
            self.others.publish(Plan(self.current, reason))
        times_s = self.times.batch_s
        in_turn = [*(switch.before for switch in self.tuning.switches), self.current]
        batch_s = tuple(times_s[used] for used in in_turn if used in times_s)
        self.tuning = replace(
            self.tuning,
            is_decided=True,
            is_provisional=not is_final,
            reason=reason,
            batch_s=batch_s,
        )
        self.observation = None
        self.tuning = replace(self.tuning, lines=tuple(self.lines()))
        self.on_decided(self)


def fewest_within_epochs(base: LoaderSettings) -> int:
    """Workers that an epoch may change to, of a loader as the program made it: without
    workers, samples draw random numbers of the program's process."""
    return min(1, base.num_workers)
