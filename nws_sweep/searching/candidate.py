"""One candidate while it is measured: its trial process, the windows of its time slices, and the trial they make."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from nws_sweep import errors, units
from nws_sweep.errors import TrialError
from nws_sweep.executor.on_demand import OnDemandProcess
from nws_sweep.replay.known import Known
from nws_sweep.replay.model import FORKED_S
from nws_sweep.results import (
    LoaderSettings,
    SamplesLogged,
    TimeSlice,
    Trial,
    TrialState,
    Window,
)
from nws_sweep.searching import counters, schedule
from nws_sweep.searching.observations import Observation
from nws_sweep.searching.rows import Figures
from nws_sweep.searching.schedule import Conditions
from nws_sweep.searching.timing import ALONE, Comparison
from nws_sweep.system import processes

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
        process: Its trial process.
        slices: Time slices of the current trial process.
        discarded: Time slices of earlier trial processes, which do not count.
        notes: Lines for its row.
        warnings: Lines about it for the user.
        error: Why its trial failed.
        is_finished: Whether its row is final.
        is_reported: Whether the observer has received its final row.
        was_ended: Whether it was ended because others are better.
        batches_per_epoch: Length of an epoch; None if it is unknown or was found wrong.
        seen_batches: Of an epoch of a stream without a length, once an epoch of any candidate has ended.
        place: Where its batches begin, a share of the epoch; None if all candidates take the same batches.
        logged: Some of the samples that its workers made; None before their first window.
        is_exhausted: Whether the data can be read only once, and were.
        must_restart: Whether the next time slice needs a new trial process.
        cost_s: Seconds from its start on, without those of other candidates.
        least_window_s: Least length of a window in this time slice, if below ``measure.window_s``.
        was_impossible: Whether its pace was found impossible once.
        process_warnings: Warnings in its trial process.
        stalls: Times that it made no progress while others were paused.
        begins_epoch: Whether a time slice was discarded: its windows do not say where the loader is.
        cores: CPUs that its processes may use.
        quota_period_s: Period of their CPU quota, s; 0 without a quota.
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
    _figures: Figures | None = None  # of the latest time slices and conditions

    def __post_init__(self) -> None:
        """Asks for the CPUs of the trial; notes configured settings without meaning, and slow forks."""
        self.cores = self.process.environment.enforced_cores()
        self.quota_period_s = self.process.environment.quota_period_s()
        asked = replace(self.process.configuration.loader, num_workers=self.settings.num_workers)
        used = asked.canonical()
        if names := [item.name for item in fields(asked) if getattr(asked, item.name) != getattr(used, item.name)]:
            self.note(f"num_workers=0 has no {', '.join(names)}")
        if self.fork_s > FORKED_S and self.settings.num_workers:
            self.note(f"the program takes {units.seconds(self.fork_s)} to fork a worker, since it is large")

    @property
    def settings(self) -> LoaderSettings:
        """Its settings; canonical."""
        return self.process.settings

    @property
    def fork_s(self) -> float:
        """CPU seconds in which the user's program forks a worker; 0 if it does not fork or is small."""
        method = self.settings.multiprocessing_context or processes.start_method()
        return self.process.environment.fork_s if method == "fork" else 0.0

    @property
    def is_alive(self) -> bool:
        """Whether it has a trial process."""
        return self.process.running is not None

    @property
    def may_continue(self) -> bool:
        """Whether further time slices are possible within the limits of a trial."""
        return (self.is_alive or not self.slices) and not self.is_finished and not self.limit

    @property
    def windows(self) -> Sequence[Window]:
        """All windows of the current trial process."""
        return counters.all_windows(self.slices)

    @property
    def conditions(self) -> Conditions:
        """The conditions of the latest time slice."""
        rules = self.process.configuration.measure
        # A window that is shorter than the start of the workers would save little time. One that ends anywhere in a
        # period of a quota is up to half a period too long or too short for the work done in it.
        started_s = max((window.startup_s or 0.0 for window in self.windows), default=0.0)
        is_throttled = any(time_slice.machine.throttled_s for time_slice in self.slices)
        least_s = self.quota_period_s / (2 * rules.precision) if is_throttled else 0.0
        window_s = max(least_s, min(rules.window_s, max(self.least_window_s, started_s)))
        return Conditions(
            settings=self.settings,
            rules=replace(rules, window_s=window_s),
            batches_per_epoch=self.batches_per_epoch,
            seen_batches=self.seen_batches,
            cores=self.cores,
        )

    @property
    def figures(self) -> Figures:
        """What its time slices show; computed once for the same time slices, since it replays them."""
        ranks = self.process.configuration.ranks
        latest = Figures(tuple(self.slices), self.conditions, ranks, self.fork_s)
        if self._figures != latest:
            self._figures = latest
        return self._figures

    @property
    def has_pace(self) -> bool:
        """Whether windows that count have a pace."""
        return self.error is None and self.figures.timing.batch_s is not None

    @property
    def limit(self) -> str:
        """The limit that ends the trial before it is precise; empty if none is reached."""
        if self.is_exhausted:
            return "the end of the data, which can be read only once"
        rules, windows = self.process.configuration.measure, self.windows
        # In mode epoch, epochs are counted, not timed; otherwise at least one window or epoch is taken.
        if rules.mode == "epoch" or not (schedule.steady_windows(windows) or schedule.epoch_windows(windows)):
            return ""
        is_spent = sum(window.elapsed_s for window in windows) >= rules.trial_limit_s
        return f"measure.trial_limit_s={rules.trial_limit_s:g}" if is_spent else ""

    def note(self, line: str) -> None:
        """Adds a line to its row, once."""
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
        """Measures it once more, since its pace is impossible for this reason; TrialMismeasured the second time."""
        if self.was_impossible:
            self.fail(errors.TrialMismeasured(f"{reason}; measured twice"))
            return
        self.was_impossible = True
        self.note(f"measured again because {reason}")
        self.discard_slices()

    def fail(self, error: TrialError) -> None:
        """Ends its trial as failed, and its trial process."""
        self.error, self.is_finished = error, True
        self.process.close()

    def discard_slices(self) -> None:
        """Excludes what was measured so far; the next trial process starts from nothing."""
        self.discarded, self.slices, self.must_restart = [*self.discarded, *self.slices], [], False
        self.process.close()


def observation_of_candidate(candidate: Candidate, costs: Known | None) -> Observation:
    """What a strategy sees of it; ``costs`` are those of its batches."""
    timing = candidate.figures.timing
    return Observation(
        settings=candidate.settings,
        cost_s=timing.cost_s if candidate.has_pace else None,
        paces_s=timing.paces_s if candidate.has_pace else {},
        paced_share=timing.paced_share,
        bias_bound=timing.bias_bound if candidate.has_pace else 0.0,
        batches=candidate.conditions.length or None,
        spent_s=candidate.cost_s,
        timed_s=timing.timed_s,
        may_continue=candidate.may_continue,
        was_ended=candidate.was_ended,
        costs=costs,
        fed_workers=candidate.figures.fed_workers,
    )


def trial_of(candidate: Candidate, compared: Comparison = ALONE) -> Trial:
    """Its trial, finished or not, as compared with other candidates."""
    figures = candidate.figures.trial(compared)
    has_figures = candidate.error is None or isinstance(candidate.error, errors.TrialMismeasured)
    uncounted = counters.all_windows([*map(counters.as_warm_up, candidate.discarded)])
    return replace(
        figures,
        state=TrialState.OK if candidate.error is None else _STATES.get(type(candidate.error), TrialState.FAILED),
        reason="" if candidate.error is None else str(candidate.error),
        notes=candidate.notes,
        warnings=(*candidate.process_warnings, *candidate.warnings),
        measurement=figures.measurement if has_figures else None,
        noise=figures.noise if has_figures else None,
        finished=candidate.is_finished,
        windows=(*uncounted, *candidate.windows),
        cost_s=candidate.cost_s,
    )
