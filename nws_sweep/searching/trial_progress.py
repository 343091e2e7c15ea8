"""What was measured of one candidate so far: time slices, notes, warnings, an error, and the ``Trial`` they make."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from nws_sweep import errors, units
from nws_sweep.errors import TrialError
from nws_sweep.replay.known import left_by, queue_settings
from nws_sweep.results import Configuration, LoaderSettings, Measurement, TimeSlice, Trial, TrialState, Window
from nws_sweep.searching import batch_costs, counters, quantities, schedule
from nws_sweep.searching.schedule import Conditions

_PERIODS = 10  # of a CPU quota that a window has at least, where the quota throttles
_SLOW_FORK_S = 0.01  # an empty process takes less than 1 ms, one of 1 GB 20 ms
_STATES: dict[type[TrialError], TrialState] = {
    errors.TrialTimeout: TrialState.TIMEOUT,
    errors.TrialOutOfMemory: TrialState.OUT_OF_MEMORY,
    errors.TrialInterrupted: TrialState.INTERRUPTED,
    errors.TrialSkipped: TrialState.SKIPPED,
    errors.TrialMismeasured: TrialState.MISMEASURED,
    errors.WrongSamples: TrialState.WRONG_SAMPLES,
}


Figures = tuple[Trial, Mapping[int, float]]


def _figures_of(slices: Sequence[TimeSlice], conditions: Conditions, fork_s: float, ranks: int) -> Figures:
    """The trial with the figures alone, without a measurement before the first batch; the times by round."""
    settings = conditions.settings
    records = batch_costs.batch_records(slices)
    loop = batch_costs.loop_costs(slices, conditions)
    noise = counters.noise_of(slices, conditions.cores)
    # As in predictions, each rank has its share of the CPUs.
    queue = queue_settings(settings, left_by(noise.other_cpus if noise else 0.0, conditions.cores / ranks))
    found = quantities.measurement_of(slices, conditions)
    by_round = quantities.costs_by_round(slices, conditions)
    spans = batch_costs.spans_of(slices, records, loop, queue) if loop else ()
    starts = 0 if settings.persistent_workers else settings.num_workers
    if found and loop and (more_s := starts * (fork_s - loop.fork_s)) > 0:
        loop = replace(loop, fork_s=fork_s)
        epoch_s = found.epoch_s and found.epoch_s + more_s
        found = replace(found, startup_s=found.startup_s + more_s, epoch_s=epoch_s)
        by_round = {number: cost_s + (more_s if epoch_s else 0.0) for number, cost_s in by_round.items()}
    trial = Trial(
        settings=settings, state=TrialState.OK, measurement=found, noise=noise if found else None,
        batches=conditions.length or None, records=records, loop=loop, spans=spans,
    )  # fmt: skip
    return trial, by_round


@dataclass(eq=False)
class TrialProgress:
    """The state of one trial."""

    settings: LoaderSettings  # canonical
    configuration: Configuration  # what is held fixed
    cores: float  # CPUs that the trial can use
    batches_per_epoch: int | None = None  # length of an epoch; None if it is unknown or was found wrong
    seen_batches: int | None = None  # of an epoch of a stream without a length, once any candidate's has ended
    fork_s: float = 0.0  # in which the program, which may be larger than the trial process, forks a worker
    quota_period_s: float = 0.0  # at whose end a CPU quota is granted again
    has_own_batches: bool = False  # no other candidate has read the batches of its trial process
    window_s: float = math.inf  # least length of a window in this time slice, if below ``measure.window_s``
    slices: list[TimeSlice] = field(default_factory=list)  # of the current trial process
    discarded: list[TimeSlice] = field(default_factory=list)  # of earlier trial processes, not counted
    notes: tuple[str, ...] = ()
    process_warnings: tuple[str, ...] = ()  # issued in the trial process
    warnings: tuple[str, ...] = ()  # about the candidate
    error: TrialError | None = None  # why the trial failed
    done: bool = False  # the state of the trial is final; later time slices only make it more precise
    must_restart: bool = False  # the next time slice needs a new trial process
    exhausted: bool = False  # the data can be read only once, and were
    violations: int = 0  # times that the trial was found impossible
    cost_s: float = 0.0
    _latest: tuple[tuple[Any, ...], Figures] | None = None

    def __post_init__(self) -> None:
        """Notes configured settings that have no meaning without workers."""
        asked = replace(self.configuration.loader, num_workers=self.settings.num_workers)
        used = asked.canonical()
        names = [each.name for each in fields(asked) if getattr(asked, each.name) != getattr(used, each.name)]
        if names:
            self.note(f"num_workers=0 has no {', '.join(names)}")
        if self.fork_s > _SLOW_FORK_S and self.settings.num_workers:
            self.note(f"the program takes {units.seconds(self.fork_s)} to fork a worker, since it is large")

    @property
    def windows(self) -> list[Window]:
        """All windows of the current trial process."""
        return counters.all_windows(self.slices)

    @property
    def conditions(self) -> Conditions:
        """The conditions of the latest time slice."""
        rules = self.configuration.measure
        # A window that is shorter than the start of the workers would save little time.
        started_s = max((window.startup_s or 0.0 for window in self.windows), default=0.0)
        is_throttled = any(time_slice.machine.throttled_s for time_slice in self.slices)
        least_s = _PERIODS * self.quota_period_s if is_throttled else 0.0
        return Conditions(
            settings=self.settings,
            rules=replace(rules, window_s=max(least_s, min(rules.window_s, max(self.window_s, started_s)))),
            batches_per_epoch=self.batches_per_epoch,
            seen_batches=self.seen_batches,
            cores=self.cores,
        )

    @property
    def measurement(self) -> Measurement | None:
        """The quantities so far; None before the first batch and for trials that failed."""
        has_figures = self.error is None or isinstance(self.error, errors.TrialMismeasured)
        return self._figures[0].measurement if has_figures else None

    @property
    def _figures(self) -> Figures:
        """Computed once for the same time slices: it replays them."""
        known_by = tuple(self.slices), self.conditions
        if self._latest is None or known_by != self._latest[0]:
            self._latest = known_by, _figures_of(*known_by, self.fork_s, self.configuration.ranks)
        return self._latest[1]

    @property
    def trial(self) -> Trial:
        """The trial, finished or not."""
        found = self.measurement
        uncounted = counters.all_windows([*map(counters.as_warm_up, self.discarded)])
        return replace(
            self._figures[0],
            state=TrialState.OK if self.error is None else _STATES.get(type(self.error), TrialState.FAILED),
            reason="" if self.error is None else str(self.error),
            notes=self.notes,
            warnings=(*self.process_warnings, *self.warnings),
            measurement=found,
            noise=self._figures[0].noise if found else None,
            finished=self.done,
            windows=(*uncounted, *self.windows),
            cost_s=self.cost_s,
        )

    @property
    def by_round(self) -> Mapping[int, float]:
        """Seconds that candidates are ranked by, an epoch or a batch, from each round alone; empty if untimed."""
        return self._figures[1] if self.measurement else {}

    @property
    def epoch_batches(self) -> int | None:
        """Batches of the latest epoch that has ended; None if none has."""
        windows = self.windows
        while windows and not windows[-1].ended_epoch:
            windows.pop()
        return schedule.taken_in_epoch(windows) if windows else None

    @property
    def wrong_length(self) -> str:
        """An epoch that ended after another number of batches than its length, in words; else empty."""
        seen = self.epoch_batches
        if self.batches_per_epoch is None or seen in (None, self.batches_per_epoch):
            return ""
        return f"an epoch ended after {seen} batches, but its length is {self.batches_per_epoch}"

    @property
    def limit(self) -> str:
        """The limit that ends the trial before it is precise; empty if none is reached."""
        if self.exhausted:
            return "the end of the data, which can be read only once,"
        rules, windows = self.configuration.measure, self.windows
        # In mode epoch, epochs are counted, not timed; otherwise at least one window or epoch is taken.
        if rules.mode == "epoch" or not (schedule.steady_windows(windows) or schedule.epoch_windows(windows)):
            return ""
        is_spent = sum(window.elapsed_s for window in windows) >= rules.trial_limit_s
        return f"measure.trial_limit_s={rules.trial_limit_s:g}" if is_spent else ""

    def note(self, line: str) -> None:
        """Adds a note, once."""
        if line not in self.notes:
            self.notes += (line,)

    def forget_length(self, reason: str) -> None:
        """Treats the length of an epoch as unknown from now on."""
        if self.batches_per_epoch is not None:
            self.note(f"{reason}: candidates are ranked by seconds per batch")
        self.batches_per_epoch = None

    def discard_slices(self) -> None:
        """Excludes what was measured so far; the next trial process starts from nothing."""
        self.discarded, self.slices, self.must_restart = [*self.discarded, *self.slices], [], False

    def judge(self) -> None:
        """Finishes the trial if it is precise or at a limit.

        A first time slice that read from storage does not count: only the first candidate would meet a cold page
        cache. Nor does the first short epoch, in which a process imports modules and fills caches. Persistent workers
        start in the first epoch only, so their trial restarts, once.
        """
        persists = self.settings.persistent_workers
        is_first = len(self.slices) == 1 and not (persists and self.discarded)
        is_cold = self.configuration.measure.cache == "cold" or self.has_own_batches
        is_short = schedule.is_short_epoch(self.windows, self.conditions)
        if is_first and not is_cold and (is_short or counters.came_from_storage(self.slices[0])):
            self.slices[0], self.must_restart = counters.as_warm_up(self.slices[0]), persists
        elif quantities.converged(self.slices, self.conditions):
            self.finish()
        elif limit := self.limit:
            precision = self.configuration.measure.precision
            self.finish(f"stopped at {limit} before the interval was within measure.precision={precision:g}")

    def finish(self, note: str = "") -> None:
        """Makes the state of the trial final; an impossible trial is measured once more, then TrialMismeasured."""
        impossible = quantities.violation(self.slices, self.conditions)
        if impossible and self.violations:
            raise errors.TrialMismeasured(f"{impossible}; measured twice" if self.discarded else impossible)
        if impossible:
            self.violations += 1
            self.must_restart = True
            self.note(f"measured again because {impossible}")
            return
        self.done = True
        if note:
            self.note(note)
