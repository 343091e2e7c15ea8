"""One candidate while it is measured: its trial process, the windows of its time slices, and the trial they make."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace

from nws_sweep import errors, units
from nws_sweep.errors import TimeLimitReached, TrialError, TrialInterrupted
from nws_sweep.executor.environment import TrialProcess
from nws_sweep.executor.on_demand import OnDemandProcess
from nws_sweep.replay.known import Known
from nws_sweep.results import (
    LoaderSettings,
    SamplesLogged,
    TimeSlice,
    Trial,
    TrialState,
    Window,
    WindowKind,
    WindowRequest,
)
from nws_sweep.searching import counters, schedule
from nws_sweep.searching.observations import Observation
from nws_sweep.searching.rows import Figures
from nws_sweep.searching.schedule import Conditions
from nws_sweep.searching.timing import ALONE, Comparison
from nws_sweep.system import processes, resources

_LONG_WITHOUT_BATCH_S = 10.0  # a candidate that has given none for as long is named, though its limit is longer
_PERIODS = 10  # of a CPU quota that a window has at least, where the quota throttles
_SLOW_FORK_S = 0.01  # an empty process takes less than 1 ms, one of 1 GB 20 ms
_STALLED = "it made no progress while the others were paused: a paused process may have held a lock that it needed"
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
        was_ended: Whether it was ended because others are better.
        batches_per_epoch: Length of an epoch; None if it is unknown or was found wrong.
        seen_batches: Of an epoch of a stream without a length, once an epoch of any candidate has ended.
        place: Where its batches begin, a share of the epoch; None if all candidates take the same batches.
        logged: Some of the samples that its workers made; None before their first window.
        is_exhausted: Whether the data can be read only once, and were.
        must_restart: Whether the next time slice needs a new trial process.
        cost_s: Seconds from its start on, without those of other candidates.
    """

    process: OnDemandProcess
    slices: list[TimeSlice] = field(default_factory=list)
    discarded: list[TimeSlice] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    error: TrialError | None = None
    is_finished: bool = False
    was_ended: bool = False
    batches_per_epoch: int | None = None
    seen_batches: int | None = None
    place: float | None = None
    logged: SamplesLogged | None = None
    is_exhausted: bool = False
    must_restart: bool = False
    cost_s: float = 0.0
    _least_window_s: float = math.inf  # of this time slice, if below ``measure.window_s``
    _was_impossible: bool = False
    _process_warnings: tuple[str, ...] = ()
    _stalls: int = 0
    _begins_epoch: bool = False  # a time slice was discarded: its windows do not say where the loader is
    _figures: Figures | None = None  # of the latest time slices and conditions

    def __post_init__(self) -> None:
        """Notes configured settings that have no meaning without workers, and slow forks."""
        asked = replace(self.process.configuration.loader, num_workers=self.settings.num_workers)
        used = asked.canonical()
        if names := [item.name for item in fields(asked) if getattr(asked, item.name) != getattr(used, item.name)]:
            self.note(f"num_workers=0 has no {', '.join(names)}")
        if self._fork_s > _SLOW_FORK_S and self.settings.num_workers:
            self.note(f"the program takes {units.seconds(self._fork_s)} to fork a worker, since it is large")

    @property
    def settings(self) -> LoaderSettings:
        """Its settings; canonical."""
        return self.process.settings

    @property
    def _fork_s(self) -> float:
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
        # A window that is shorter than the start of the workers would save little time.
        started_s = max((window.startup_s or 0.0 for window in self.windows), default=0.0)
        is_throttled = any(time_slice.machine.throttled_s for time_slice in self.slices)
        least_s = _PERIODS * self.process.environment.quota_period_s() if is_throttled else 0.0
        window_s = max(least_s, min(rules.window_s, max(self._least_window_s, started_s)))
        return Conditions(
            settings=self.settings,
            rules=replace(rules, window_s=window_s),
            batches_per_epoch=self.batches_per_epoch,
            seen_batches=self.seen_batches,
            cores=self.process.environment.enforced_cores(),
        )

    @property
    def figures(self) -> Figures:
        """What its time slices show; computed once for the same time slices, since it replays them."""
        ranks = self.process.configuration.ranks
        latest = Figures(tuple(self.slices), self.conditions, ranks, self._fork_s)
        if self._figures != latest:
            self._figures = latest
        return self._figures

    @property
    def has_pace(self) -> bool:
        """Whether windows that count have a pace."""
        return self.error is None and self.figures.timing.batch_s is not None

    def observation(self, costs: Known | None) -> Observation:
        """What a strategy sees of it; ``costs`` are those of its batches."""
        timing = self.figures.timing
        return Observation(
            settings=self.settings,
            cost_s=timing.cost_s if self.has_pace else None,
            paces_s=timing.paces_s if self.has_pace else {},
            paced_share=timing.paced_share,
            bias_bound=timing.bias_bound if self.has_pace else 0.0,
            batches=self.conditions.length or None,
            spent_s=self.cost_s,
            timed_s=timing.timed_s,
            may_continue=self.may_continue,
            was_ended=self.was_ended,
            known=costs,
        )

    def trial(self, compared: Comparison = ALONE) -> Trial:
        """Its trial, finished or not, as compared with other candidates."""
        figures = self.figures.trial(compared)
        has_figures = self.error is None or isinstance(self.error, errors.TrialMismeasured)
        uncounted = counters.all_windows([*map(counters.as_warm_up, self.discarded)])
        return replace(
            figures,
            state=TrialState.OK if self.error is None else _STATES.get(type(self.error), TrialState.FAILED),
            reason="" if self.error is None else str(self.error),
            notes=self.notes,
            warnings=(*self._process_warnings, *self.warnings),
            measurement=figures.measurement if has_figures else None,
            noise=figures.noise if has_figures else None,
            finished=self.is_finished,
            windows=(*uncounted, *self.windows),
            cost_s=self.cost_s,
        )

    @property
    def epoch_batches(self) -> int | None:
        """Batches of the latest epoch that has ended; None if none has."""
        windows = list(self.windows)
        while windows and not windows[-1].ended_epoch:
            windows.pop()
        return schedule.taken_in_epoch(windows) if windows else None

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

    def take_slice(self, number: int, window_s: float, memory_left: int | None) -> None:
        """Resumes or starts its trial process, takes warm-up and one window or epoch, and pauses the process.

        An error ends the trial.

        Args:
            number: The round.
            window_s: Least length of the window, s, if below ``measure.window_s``.
            memory_left: Memory that its processes may hold in addition to what they hold, B; None for no limit.
        """
        memory_bytes = None if memory_left is None else memory_left + (self.process.usage.added_bytes or 0)
        self._least_window_s = window_s
        with self._errors_recorded():
            if self.must_restart:
                self._discard_slices()
            stalls, before = self._stalls, list(self.slices)
            try:
                process = self.process.resume(memory_bytes) or self._start(memory_bytes)
                self._take_windows(process, number)
                resources.check_budget(self.process.usage.added_bytes, memory_bytes)
            except TrialInterrupted as interruption:
                self.slices = before  # what was measured before stays
                if not self.has_pace:
                    raise
                self.process.environment.check_interrupts()  # an interrupt may have ended the trial process too
                self.note(f"ended early: {interruption}")
                self.process.close()
                return
            if self._stalls > stalls == 0:  # later stalls are caused by the candidate
                persists = self.settings.persistent_workers  # they would first make the rest of their epoch
                self.slices, self.must_restart, self._begins_epoch = before, persists, not persists
            else:
                self._leave_out_first_slice()

    def restart(self, reason: str) -> None:
        """Measures it once more, since its pace is impossible for this reason; TrialMismeasured the second time."""
        if self._was_impossible:
            self.fail(errors.TrialMismeasured(f"{reason}; measured twice"))
            return
        self._was_impossible = True
        self.note(f"measured again because {reason}")
        self._discard_slices()

    def fail(self, error: TrialError) -> None:
        """Ends its trial as failed, and its trial process."""
        self.error, self.is_finished = error, True
        self.process.close()

    def finish(self, note: str = "", half_width: float | None = None) -> None:
        """Makes its row final, with a note; a row with an impossible pace has a reason instead of a time.

        Args:
            note: For the row; empty for none.
            half_width: Of the interval of its pace, as of ``Figures.impossible``.
        """
        if self.is_finished:
            return
        if not self.has_pace:
            self.fail(TrialError("it was stopped, by a limit or to free resources, before it was timed"))
            return
        if note:
            self.note(note)
        if reason := self.figures.impossible(half_width):
            self.fail(errors.TrialMismeasured(reason))
            return
        with self._errors_recorded():
            self._take_last_look()
        self.is_finished = True

    @contextmanager
    def _errors_recorded(self) -> Iterator[None]:
        """Counts the time, and records errors as the trial's state and reason."""
        environment = self.process.environment
        began_s, started_in_s = environment.clock(), self.process.started_in_s
        try:
            yield
        except TrialError as error:
            environment.check_interrupts()  # an interrupt may have ended the trial process too
            self.fail(error)
        except TimeLimitReached:
            waited_s = environment.clock() - began_s - (self.process.started_in_s - started_in_s)
            if not self.windows and waited_s >= _LONG_WITHOUT_BATCH_S:  # else the trial would have no row
                self.fail(TrialInterrupted(f"no batch within {units.seconds(waited_s)}, until the search's time limit"))
            raise
        finally:
            self.cost_s += environment.clock() - began_s

    def _discard_slices(self) -> None:
        """Excludes what was measured so far; the next trial process starts from nothing."""
        self.discarded, self.slices, self.must_restart = [*self.discarded, *self.slices], [], False
        self.process.close()

    def _report_stall(self) -> None:
        if self.process.turns.resume_others(self.process):
            self._stalls += 1
            self.note(_STALLED)

    def _start(self, memory_bytes: int | None) -> TrialProcess:
        process = self.process.start(memory_bytes, self.place or 0.0)
        process.on_stall, self.batches_per_epoch = self._report_stall, process.batches_per_epoch
        return process

    def _take_windows(self, process: TrialProcess, number: int) -> None:
        """Takes windows up to the first that counts, pauses the process, and adds the time slice of a round."""
        was_paused, environment = bool(self.slices), self.process.environment
        machine_before, began_s = environment.machine_time(), environment.clock()
        windows: list[Window] = []
        request = None
        try:
            while request is None or (request.kind is WindowKind.WARM_UP and not self.is_exhausted):
                if self.process.is_late:
                    raise TimeLimitReached
                taken = [] if self._begins_epoch else [*self.windows, *windows]
                is_after_pause, self._begins_epoch = was_paused and not windows, False
                request = schedule.next_request(taken, self.conditions, was_paused=is_after_pause)
                windows.append(process.window(request))
                self._check_end(request, windows)
            self._process_warnings = process.warned()
            if self.settings.num_workers and self.logged is None:
                self.logged = process.logged()
        finally:
            self.process.pause()
            time_slice = TimeSlice(
                windows=tuple(windows),
                elapsed_s=environment.clock() - began_s,
                machine=environment.machine_time().since(machine_before),
                before=self.process.usage,
                after=process.usage(),
                round=number,
            )
            self.process.usage = time_slice.after
            self.slices.append(time_slice)

    def _check_end(self, request: WindowRequest, windows: list[Window]) -> None:
        """Drops the window of a new epoch without a batch: otherwise the loop would start epochs forever."""
        is_new = request.fresh or request.kind is WindowKind.EPOCH
        if windows[-1].batches or not windows[-1].ended_epoch or not is_new:
            return
        windows.pop()
        taken = [*self.windows, *windows]
        if not (schedule.steady_windows(taken) or schedule.epoch_windows(taken)):
            batch = "further batch" if taken else "batch"
            of = "" if self.settings.batch_size is None else f" of {self.settings.batch_size}"
            raise TrialError(f"the loader returned no {batch}{of} (drop_last={self.settings.drop_last})")
        self.is_exhausted = True

    def _leave_out_first_slice(self) -> None:
        """Leaves out a first time slice that read from storage: only the first candidate would meet a cold page cache.

        Likewise the first short epoch, in which a process imports modules and fills caches. Persistent workers start in
        the first epoch only, so their trial restarts, once.
        """
        persists = self.settings.persistent_workers
        if len(self.slices) != 1 or (persists and self.discarded):
            return
        if self.process.configuration.measure.cache == "cold" or self.place is not None:
            return
        is_short = schedule.is_short_epoch(self.windows, self.conditions)
        if is_short or counters.came_from_storage(self.slices[0]):
            self.slices[0], self.must_restart = counters.as_warm_up(self.slices[0]), persists

    def _take_last_look(self) -> None:
        """After whole epochs, starts another one: for the memory of its workers, which end with each epoch, and for a
        second batch of each worker, whose calls are timed.
        """
        process = self.process.running
        if process is None or not self.settings.num_workers or self.is_exhausted or self.process.is_late:
            return
        if not schedule.whole_epochs(self.windows, self.conditions):
            return
        try:
            process.resume()
            began = process.window(WindowRequest(kind=WindowKind.WARM_UP, fresh=True))
            process.wait_until_idle()
            ready = process.window(WindowRequest(kind=WindowKind.WARM_UP))
        except (TrialError, TimeLimitReached):
            self.process.close()
            return
        self.process.pause()
        self.process.read_usage()
        used, records = self.process.usage, (*began.records, *ready.records)
        self.slices.append(TimeSlice(windows=(), before=used, after=used, records=records))
