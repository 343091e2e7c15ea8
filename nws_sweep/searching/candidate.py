"""The state of one candidate: its trial process, the time slices so far, and the trial
that these make."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nws_sweep import errors, units
from nws_sweep.errors import TrialError
from nws_sweep.model.model import FORKED_S
from nws_sweep.records import (
    LoaderSettings,
    SamplesLogged,
    TimeSlice,
    Trial,
    TrialState,
    Window,
)
from nws_sweep.searching import counters, schedule
from nws_sweep.searching.estimates import Estimates
from nws_sweep.searching.observations import Observation
from nws_sweep.searching.rows import Figures
from nws_sweep.searching.schedule import Conditions
from nws_sweep.searching.timing import ALONE
from nws_sweep.system import processes
from nws_sweep.trials.on_demand import OnDemandProcess

_STATES: Mapping[type[TrialError], TrialState] = {
    errors.TrialTimeout: TrialState.TIMEOUT,
    errors.TrialOutOfMemory: TrialState.OUT_OF_MEMORY,
    errors.TrialInterrupted: TrialState.INTERRUPTED,
    errors.TrialSkipped: TrialState.SKIPPED,
    errors.TrialMismeasured: TrialState.MISMEASURED,
    errors.WrongSamples: TrialState.WRONG_SAMPLES,
}


@dataclass(eq=False)
class Candidate:
    """One setting of the DataLoader under a configuration, and what was measured of it.

    Attributes:
        process: The trial process.
        slices: Time slices of the current trial process.
        discarded: Time slices of earlier trial processes, which do not count.
        notes: Lines for the row.
        warnings: Lines about the candidate for the user.
        error: Why the trial failed; None if it did not.
        is_finished: Whether the row is final.
        is_reported: Whether the observer has received the final row.
        was_ended: Whether the candidate was ended because other candidates are better.
        batches_per_epoch: Length of an epoch; None if it is unknown or was found wrong.
        seen_batches: Batches of an epoch of a stream without a length, once an epoch of
            any candidate has ended.
        place: Where the batches begin, a share of the epoch; None if all candidates
            take the same batches.
        logged: Some of the samples that the workers made; None before the first window
            of workers.
        is_exhausted: Whether the data can be read only once, and were.
        must_restart: Whether the next time slice needs a new trial process.
        cost_s: Seconds since the start of the candidate, without those of other
            candidates.
        least_window_s: Least length of a window in this time slice, if below
            ``measure.window_s``.
        was_impossible: Whether the pace was found impossible once.
        process_warnings: Warnings in the trial process.
        stalls: How often the trial process made no progress while other processes were
            paused.
        begins_epoch: Whether a time slice was discarded: the windows do not say where
            the loader is.
        cores: CPUs that the trial process and its workers may use.
        quota_period_s: Period of the CPU quota, s; 0 without a quota.
        fork_s: CPU seconds in which the user's program forks a worker; 0 if it does not
            fork or is small.
    """

    process: OnDemandProcess
    slices: list[TimeSlice] = field(default_factory=list)
    discarded: list[TimeSlice] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    error: TrialError | None = None
    is_finished: bool = False
    is_reported: bool = False
    was_ended: bool = False
    batches_per_epoch: int | None = None
    seen_batches: int | None = None
    place: float | None = None
    logged: SamplesLogged | None = None
    is_exhausted: bool = False
    must_restart: bool = False
    cost_s: float = 0.0
    least_window_s: float = math.inf
    was_impossible: bool = False
    process_warnings: tuple[str, ...] = ()
    stalls: int = 0
    begins_epoch: bool = False
    cores: float = field(init=False)
    quota_period_s: float = field(init=False)
    fork_s: float = field(init=False)
    _figures: Figures | None = None  # of the latest time slices and conditions

    def __post_init__(self) -> None:
        """Asks for the CPUs of the trial; notes configured settings without meaning,
        and slow forks."""
        environment = self.process.environment
        self.cores = environment.enforced_cores()
        self.quota_period_s = environment.quota_period_s()
        method = self.settings.multiprocessing_context or processes.start_method()
        self.fork_s = environment.fork_s if method == "fork" else 0.0
        configured = replace(
            self.process.configuration.loader, num_workers=self.settings.num_workers
        )
        unused = _without_meaning(configured)
        if unused:
            self.note(f"num_workers=0 has no {', '.join(unused)}")
        if self.fork_s > FORKED_S and self.settings.num_workers:
            self.note(
                f"the program takes {units.seconds(self.fork_s)} to fork a worker, since it is large"
            )

    @property
    def settings(self) -> LoaderSettings:
        """The settings of the DataLoader; canonical."""
        return self.process.settings

    @property
    def is_alive(self) -> bool:
        """Whether the candidate has a trial process."""
        return self.process.running is not None

    @property
    def may_continue(self) -> bool:
        """Whether further time slices are possible within the limits of a trial."""
        return (
            (self.is_alive or not self.slices)
            and not self.is_finished
            and not self.limit
        )

    @property
    def windows(self) -> Sequence[Window]:
        """All windows of the current trial process."""
        return counters.all_windows(self.slices)

    @property
    def conditions(self) -> Conditions:
        """The conditions of the latest time slice."""
        rules = self.process.configuration.measure
        # A window that is shorter than the start of the workers would save little time.
        longest_start_s = max(
            (window.startup_s or 0.0 for window in self.windows), default=0.0
        )
        window_s = min(rules.window_s, max(self.least_window_s, longest_start_s))
        if any(time_slice.machine.throttled_s for time_slice in self.slices):
            # A window that ends anywhere in a period of a quota is up to half a
            # period too long or too short for the work done in it.
            window_s = max(window_s, self.quota_period_s / (2 * rules.precision))
        return Conditions(
            settings=self.settings,
            rules=replace(rules, window_s=window_s),
            batches_per_epoch=self.batches_per_epoch,
            seen_batches=self.seen_batches,
            cores=self.cores,
        )

    @property
    def figures(self) -> Figures:
        """What the time slices show; computed once for the same time slices, since they
        are replayed."""
        ranks = self.process.configuration.ranks
        figures = Figures(tuple(self.slices), self.conditions, ranks, self.fork_s)
        if self._figures != figures:
            self._figures = figures
        return self._figures

    @property
    def has_pace(self) -> bool:
        """Whether windows that count have a pace."""
        return self.error is None and self.figures.timing.batch_s is not None

    @property
    def limit(self) -> str:
        """A line about the limit that ends the trial before it is precise; empty if
        none is reached."""
        if self.is_exhausted:
            return "stopped at the end of the data, which can be read only once"
        rules, windows = self.process.configuration.measure, self.windows
        has_result = schedule.steady_windows(windows) or schedule.epoch_windows(windows)
        # in mode epoch, epochs are counted, not timed
        if rules.mode == "epoch" or not has_result:
            return ""
        if schedule.seconds_in(windows) < rules.trial_limit_s:
            return ""
        return f"stopped at measure.trial_limit_s={rules.trial_limit_s:g}"

    def note(self, line: str) -> None:
        """Adds a line to the row, once."""
        if line not in self.notes:
            self.notes += (line,)

    def warn(self, line: str) -> None:
        """Adds a warning for the user, once."""
        if line not in self.warnings:
            self.warnings += (line,)

    def forget_length(self, reason: str) -> None:
        """Treats the length of an epoch as unknown from now on."""
        if self.batches_per_epoch is not None:
            self.note(f"{reason}: candidates are ranked by seconds per batch")
        self.batches_per_epoch = None

    def restart(self, reason: str) -> None:
        """Measures once more, since the pace is impossible for this reason; fails as
        mismeasured the second time."""
        if self.was_impossible:
            self.fail(errors.TrialMismeasured(f"{reason}; measured twice"))
            return
        self.was_impossible = True
        self.note(f"measured again because {reason}")
        self.discard_slices()

    def fail(self, error: TrialError) -> None:
        """Ends the trial as failed, and the trial process."""
        self.error = error
        self.is_finished = True
        self.process.close()

    def discard_slices(self) -> None:
        """Excludes what was measured so far; the next trial process starts from
        nothing."""
        self.discarded += self.slices
        self.slices = []
        self.must_restart = False
        self.process.close()


def _without_meaning(settings: LoaderSettings) -> list[str]:
    """Lists the names of settings that DataLoader rejects for this number of
    workers."""
    values, canonical_values = settings.keywords, settings.canonical().keywords
    return [name for name in values if values[name] != canonical_values[name]]


def observation_of_candidate(candidate: Candidate) -> Observation:
    """Makes what a strategy sees of a candidate, without the costs of its batches."""
    timing = candidate.figures.timing
    observation = Observation(
        settings=candidate.settings,
        paced_share=timing.paced_share,
        batches=candidate.conditions.length or None,
        spent_s=candidate.cost_s,
        timed_s=timing.timed_s,
        may_continue=candidate.may_continue,
        was_ended=candidate.was_ended,
        fed_workers=candidate.figures.fed_workers,
    )
    if not candidate.has_pace:
        return observation
    return replace(
        observation,
        cost_s=timing.cost_s,
        paces_s=timing.paces_s,
        bias_bound=timing.bias_bound,
    )


def trial_of(candidate: Candidate, estimates: Estimates | None = None) -> Trial:
    """Makes the trial of a candidate, finished or not; with ``estimates``, as compared
    with other candidates."""
    compared = ALONE
    if estimates and candidate.has_pace:
        compared = estimates.comparison(candidate.settings)
    trial = candidate.figures.trial(compared)
    error = candidate.error
    if error is not None:
        state = _STATES.get(type(error), TrialState.FAILED)
        trial = replace(trial, state=state, reason=str(error))
        if not isinstance(error, errors.TrialMismeasured):
            trial = replace(trial, measurement=None, noise=None)
    discarded = counters.all_windows(
        [counters.as_warm_up(time_slice) for time_slice in candidate.discarded]
    )
    return replace(
        trial,
        notes=candidate.notes,
        warnings=(*candidate.process_warnings, *candidate.warnings),
        finished=candidate.is_finished,
        windows=(*discarded, *candidate.windows),
        cost_s=candidate.cost_s,
    )
