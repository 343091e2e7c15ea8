"""One candidate while it is measured: its trial process, and the windows of a time slice into its trial."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from nws_sweep import units
from nws_sweep.errors import TimeLimitReached, TrialError, TrialInterrupted
from nws_sweep.executor.environment import Environment, TrialProcess
from nws_sweep.results import (
    Configuration,
    DatasetFacts,
    LoaderSettings,
    SamplesLogged,
    TimeSlice,
    Usage,
    Window,
    WindowKind,
    WindowRequest,
)
from nws_sweep.searching import schedule
from nws_sweep.searching.trial_progress import TrialProgress
from nws_sweep.system import processes, resources

_LONG_WITHOUT_BATCH_S = 10.0  # a candidate that has given none for as long is named, though its limit is longer
_STALLED = "it made no progress while the others were paused: a paused process may have held a lock that it needed"
Answer = TypeVar("Answer")


@dataclass(eq=False)
class CandidateProcess:
    """The trial process of one candidate, started on demand, paused between time slices, closed and started again."""

    settings: LoaderSettings  # canonical
    configuration: Configuration
    environment: Environment
    deadline_s: float  # moment on the environment's clock after which its commands raise TimeLimitReached
    waits_until_idle: Callable[[], bool]  # True if workers must be idle before a pause: a paused one may hold a lock
    running: TrialProcess | None = None  # None before the start and after ``close``
    facts: DatasetFacts | None = None  # what the dataset reported about itself; None before the first start
    usage: Usage = Usage()  # resources used up to the latest pause; nothing without a process
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def is_late(self) -> bool:
        """Whether the search must end."""
        return self.environment.clock() >= self.deadline_s

    def start(self, memory_bytes: int | None, place: float) -> TrialProcess:
        """Starts the trial process with a memory limit, and makes its DataLoader; TrialError if that fails.

        Its batches begin at ``place``, a share of the epoch.
        """
        starting = self.environment.start_process(self.configuration, memory_bytes, self.deadline_s)
        process = self._stack.enter_context(starting)
        self.running, self.facts = process, process.facts
        process.open(self.settings, place)
        self.read_usage()
        return process

    def pause(self) -> None:
        """Pauses its processes; if ``waits_until_idle``, not before the queue is full and the workers are idle."""
        if self.running is not None:
            if self.waits_until_idle():
                with suppress(TrialError, TimeLimitReached):  # the next time slice raises it again
                    self.running.wait_until_idle()
            self.running.pause()

    def read_usage(self) -> None:
        """Reads the resources used so far; the next time slice counts what is used from now on."""
        if self.running is not None:
            self.usage = self.running.usage()

    def ask(self, question: Callable[[TrialProcess], Answer]) -> Answer | None:
        """The answer of the paused process; None without a process or if the process fails."""
        if self.running is None:
            return None
        self.running.resume()
        try:
            return question(self.running)
        except TrialError:  # the next time slice raises it again
            return None
        finally:
            self.running.pause()
            self.read_usage()

    def close(self) -> None:
        """Ends the trial process."""
        self.running, self.usage = None, Usage()
        self._stack.close()


@dataclass(eq=False)
class Candidate:
    """One setting of the DataLoader under a configuration, with its trial process and its trial."""

    process: CandidateProcess
    on_stall: Callable[["Candidate"], bool]  # called without progress for 10 s; resumes others, False if none is paused
    next_place: Callable[[], float | None] = lambda: None  # where its batches begin; see SearchProgress
    progress: TrialProgress = field(init=False)
    logged: SamplesLogged | None = None  # some of the samples that its workers made; None before their first window
    eliminated: bool = False  # ended because others are better
    _stalled: bool = False
    _stall_counted: bool = False
    _begins_epoch: bool = False  # a time slice was discarded: its windows do not say where the loader is

    def __post_init__(self) -> None:
        """Begins the trial without starting a process."""
        environment = self.process.environment
        method = self.process.settings.multiprocessing_context or processes.start_method()
        self.progress = TrialProgress(
            self.process.settings,
            self.process.configuration,
            environment.enforced_cores(),
            fork_s=environment.fork_s if method == "fork" else 0.0,
            quota_period_s=environment.quota_period_s(),
        )

    @property
    def alive(self) -> bool:
        """Whether it has a trial process."""
        return self.process.running is not None

    @property
    def may_continue(self) -> bool:
        """Whether further time slices are possible within the limits of a trial."""
        return self.alive and not self.progress.limit

    def time_slice(self, memory_left: int | None, number: int, window_s: float) -> None:
        """Resumes or starts its trial process, takes warm-up and one window or epoch, pauses the process.

        An error ends the trial. If the trial is done, it ends the trial process and discards this time slice only.

        Args:
            memory_left: Memory that its processes may hold in addition to what they hold, B; None for no limit.
            number: The round.
            window_s: Least length of the window, s, if below ``measure.window_s``.
        """
        memory_bytes = None if memory_left is None else memory_left + (self.process.usage.added_bytes or 0)
        self.progress.window_s, self._stalled = window_s, False
        with self._errors_recorded():
            if self.progress.must_restart:
                self.progress.discard_slices()
                self.process.close()
            earlier = list(self.progress.slices)
            try:
                process = self.process.running or self._start(memory_bytes)
                process.memory_limit_bytes = memory_bytes
                process.resume()
                self._take_windows(process, number)
                resources.check_budget(self.process.usage.added_bytes, memory_bytes)
            except TrialInterrupted as interruption:
                self.progress.slices = earlier  # what was measured before stays
                if not self.progress.by_round:
                    raise
                self.process.environment.check_interrupts()  # an interrupt may have ended the trial process too
                self.retire(f"ended early: {interruption}")
                return
            except TrialError:
                if not self.progress.done:
                    raise
                self.progress.slices = earlier
                self.process.close()
                return
            if self._stalled and not self._stall_counted:  # later stalls are caused by the candidate
                persists = self.process.settings.persistent_workers  # they would first make the rest of their epoch
                self._stall_counted, self.progress.slices = True, earlier
                self.progress.must_restart, self._begins_epoch = persists, not persists
            elif not self.progress.done:
                self.progress.judge()
                self._take_last_look()

    def fail(self, error: TrialError) -> None:
        """Ends the trial as failed, and its trial process."""
        self.progress.error, self.progress.done = error, True
        self.process.close()

    def conclude(self, note: str = "") -> None:
        """Finishes the trial with what was measured, and adds a note.

        An impossible trial is restarted the first time. A trial without figures stays unfinished if it may continue.
        """
        if self.progress.done:
            return
        with self._errors_recorded():
            if self.progress.by_round:
                self.progress.finish()
                self._take_last_look()
            elif not self.may_continue:
                raise TrialError("it was stopped, by a limit or to free resources, before it was timed")
        if self.progress.done and note:
            self.progress.note(note)

    def retire(self, note: str, *, eliminated: bool = False) -> None:
        """Finishes the trial if it has figures, without repetition, and ends its trial process.

        ``eliminated`` if it ends because others are better.
        """
        self.eliminated = self.eliminated or eliminated
        self.progress.violations += 1
        if self.progress.by_round:
            self.conclude(note)
        self.process.close()

    @contextmanager
    def _errors_recorded(self) -> Iterator[None]:
        """Counts the time, and records errors as the trial's state and reason."""
        environment = self.process.environment
        began = environment.clock()
        try:
            yield
        except TrialError as error:
            environment.check_interrupts()  # an interrupt may have ended the trial process too
            self.fail(error)
        except TimeLimitReached:
            waited_s = environment.clock() - began
            if not self.progress.windows and waited_s >= _LONG_WITHOUT_BATCH_S:  # else the trial would have no row
                self.fail(TrialInterrupted(f"no batch within {units.seconds(waited_s)}, until the search's time limit"))
            raise
        finally:
            self.progress.cost_s += environment.clock() - began

    def _report_stall(self) -> None:
        if self.on_stall(self):
            self._stalled = True
            self.progress.note(_STALLED)

    def _start(self, memory_bytes: int | None) -> TrialProcess:
        place = self.next_place()
        self.progress.has_own_batches = place is not None
        process = self.process.start(memory_bytes, place or 0.0)
        process.on_stall, self.progress.batches_per_epoch = self._report_stall, process.batches_per_epoch
        return process

    def _take_windows(self, process: TrialProcess, number: int) -> None:
        """Takes windows up to the first that counts, pauses the process, and adds the time slice of a round."""
        was_paused, environment = bool(self.progress.slices), self.process.environment
        machine_before, began = environment.machine_time(), environment.clock()
        windows: list[Window] = []
        request = None
        try:
            while request is None or (request.kind is WindowKind.WARM_UP and not self.progress.exhausted):
                if self.process.is_late:
                    raise TimeLimitReached
                taken = [] if self._begins_epoch else [*self.progress.windows, *windows]
                is_after_pause, self._begins_epoch = was_paused and not windows, False
                request = schedule.next_request(taken, self.progress.conditions, was_paused=is_after_pause)
                windows.append(process.window(request))
                self._check_end(request, windows)
            self.progress.process_warnings = process.warned()
            if self.process.settings.num_workers and self.logged is None:
                self.logged = process.logged()
        finally:
            self.process.pause()
            time_slice = TimeSlice(
                windows=tuple(windows),
                elapsed_s=environment.clock() - began,
                machine=environment.machine_time().since(machine_before),
                before=self.process.usage,
                after=process.usage(),
                round=number,
            )
            self.process.usage = time_slice.after
            self.progress.slices.append(time_slice)

    def _check_end(self, request: WindowRequest, windows: list[Window]) -> None:
        """Drops the window of a new epoch without a batch: otherwise the loop would start epochs forever."""
        is_new = request.fresh or request.kind is WindowKind.EPOCH
        if windows[-1].batches or not windows[-1].ended_epoch or not is_new:
            return
        windows.pop()
        taken = [*self.progress.windows, *windows]
        if not (schedule.steady_windows(taken) or schedule.epoch_windows(taken)):
            batch = "further batch" if taken else "batch"
            of = "" if self.process.settings.batch_size is None else f" of {self.process.settings.batch_size}"
            raise TrialError(f"the loader returned no {batch}{of} (drop_last={self.process.settings.drop_last})")
        self.progress.exhausted = True

    def _take_last_look(self) -> None:
        """After whole epochs, starts another one: for the memory of its workers, which end with each epoch, and for a
        second batch of each worker, whose calls are timed.
        """
        process, conditions = self.process.running, self.progress.conditions
        if not self.progress.done or process is None or not self.process.settings.num_workers:
            return
        is_whole = self.progress.measurement is not None and schedule.whole_epochs(self.progress.windows, conditions)
        if not is_whole or self.progress.exhausted or self.process.is_late:
            return
        try:
            process.resume()
            began = process.window(WindowRequest(kind=WindowKind.WARM_UP, fresh=True))
            process.wait_until_idle()
            ready = process.window(WindowRequest(kind=WindowKind.WARM_UP))
        except TrialError:
            self.process.close()
            return
        self.process.pause()
        self.process.read_usage()
        used, records = self.process.usage, (*began.records, *ready.records)
        self.progress.slices.append(TimeSlice(windows=(), before=used, after=used, records=records))
