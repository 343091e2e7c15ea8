"""One candidate while it is measured: its trial process, its turns, and the trial that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from nws_sweep import errors, units
from nws_sweep.errors import TrialError
from nws_sweep.measurement import quantities, schedule
from nws_sweep.measurement.environment import Environment, TrialProcess
from nws_sweep.measurement.schedule import Conditions
from nws_sweep.results import (
    Configuration,
    DatasetFacts,
    LoaderSettings,
    Measurement,
    SamplesLogged,
    SearchCost,
    TimeSlice,
    Trial,
    TrialState,
    Usage,
    Window,
    WindowKind,
    WindowRequest,
)

Answer = TypeVar("Answer")

_STATES: dict[type[TrialError], TrialState] = {
    errors.TrialTimeout: TrialState.TIMEOUT,
    errors.TrialOutOfMemory: TrialState.OUT_OF_MEMORY,
    errors.TrialSkipped: TrialState.SKIPPED,
    errors.TrialMismeasured: TrialState.MISMEASURED,
    errors.WrongSamples: TrialState.WRONG_SAMPLES,
}

# A cache that is still cold after so many turns does not hold the data: then that is what is measured.
_MOST_COLD_SLICES = 3
_QUICKER_WHEN_WARM = 8
# By the end of its second turn a process has touched what it needs of its libraries.
_FIRST_SLICES = 2

_STALLED = "it did not come forward while others stood still: they may have held a lock that it needed"


@dataclass(eq=False)
class Candidate:
    """One setting of the loader under a configuration, from the start of its trial process to its trial.

    Attributes:
        settings: The candidate, canonical.
        configuration: What is held fixed.
        environment: Trial processes, clock and machine.
        is_late: Whether the search must end, so that no window begins.
        on_stall: Called when a window does not come forward, with the candidate.
        facts: What the dataset said of itself; None before it was made.
        batches_per_epoch: Length of an epoch; None if it is unknown, or was found wrong.
        usage: What its processes had used when they were last looked at; nothing without a trial process.
        cost_s: Seconds that it has taken so far.
        done: Whether its trial has its state; turns that it takes after that only make it more precise.
        settles: Whether its workers must be idle before they are stopped, since they may hold a lock else.
        came_from_disk: Whether the files of its latest turn were not in the page cache.
        logged: Some of the samples that its workers made; None before their first window.
    """

    settings: LoaderSettings
    configuration: Configuration
    environment: Environment
    is_late: Callable[[], bool]
    on_stall: Callable[[Candidate], None]
    facts: DatasetFacts | None = None
    batches_per_epoch: int | None = None
    usage: Usage = Usage()
    cost_s: float = 0.0
    done: bool = False
    waits_until_idle: bool = False
    came_from_disk: bool = False
    logged: SamplesLogged | None = None
    _stalled: bool = False
    _has_stalled: bool = False
    _stack: ExitStack = field(default_factory=ExitStack)
    _process: TrialProcess | None = None
    _slices: list[TimeSlice] = field(default_factory=list)
    _earlier: list[TimeSlice] = field(default_factory=list)  # of trial processes that were restarted
    _warnings: tuple[str, ...] = ()
    _own_warnings: tuple[str, ...] = ()
    _window_s: float | None = None
    _starting_s: float = 0.0
    _error: TrialError | None = None
    _restarts: bool = False
    _cold_slices: int = 0
    _doubts: int = 0
    _exhausted: bool = False

    def __post_init__(self) -> None:
        """Notes what was asked for but has no meaning without workers."""
        asked = replace(self.configuration.loader, num_workers=self.num_workers)
        used = asked.canonical()
        names = [each.name for each in fields(asked) if getattr(asked, each.name) != getattr(used, each.name)]
        self._notes: tuple[str, ...] = (f"num_workers=0 has no {', '.join(names)}",) if names else ()

    @property
    def num_workers(self) -> int:
        """Its value."""
        return self.settings.num_workers

    @property
    def alive(self) -> bool:
        """Whether it has a trial process."""
        return self._process is not None

    @property
    def windows(self) -> list[Window]:
        """All windows so far."""
        return quantities.all_windows(self._slices)

    @property
    def position(self) -> int:
        """Batches into the data that it may have asked for by the end of its next turn, which may be much quicker."""
        taken = sum(window.batches for window in self.windows)
        latest = sum(window.batches for time_slice in self._slices[-1:] for window in time_slice.windows)
        quicker = _QUICKER_WHEN_WARM if self.came_from_disk else 2
        return taken + quicker * latest + 2 * self.settings.queued_batches

    @property
    def trial(self) -> Trial:
        """What it has come to, finished or not."""
        found = self._measurement()
        uncounted = [replace(window, kind=WindowKind.WARM_UP) for window in quantities.all_windows(self._earlier)]
        return Trial(
            settings=self.settings,
            state=TrialState.OK if self._error is None else _STATES.get(type(self._error), TrialState.FAILED),
            reason="" if self._error is None else str(self._error),
            notes=self._notes,
            warnings=(*self._warnings, *self._own_warnings),
            measurement=found,
            noise=quantities.noise_of(self._slices, self._conditions.cores, len(uncounted)) if found else None,
            finished=self.done,
            windows=(*uncounted, *self.windows),
            cost_s=self.cost_s,
        )

    @property
    def may_continue(self) -> bool:
        """Whether it can take further turns, within the limits of a trial."""
        return self.alive and not self._limit()

    @property
    def by_round(self) -> dict[int, float]:
        """What candidates are ranked by, as each round alone would have it, s."""
        return quantities.costs_by_round(self._slices, self._conditions) if self._measurement() else {}

    @property
    def costs(self) -> SearchCost:
        """Where its time went."""
        warm_up = [window for window in self.windows if window.kind is WindowKind.WARM_UP]
        thrown_away = [*quantities.all_windows(self._earlier), *warm_up]
        starts_s = sum(window.startup_s or 0.0 for window in thrown_away)
        return SearchCost(
            startup_s=self._starting_s + starts_s,
            warm_up_s=sum(window.elapsed_s for window in thrown_away) - starts_s,
            measuring_s=sum(window.elapsed_s for window in self.windows if window.kind is not WindowKind.WARM_UP),
        )

    @property
    def wrong_length(self) -> str:
        """What was seen of an epoch that is not as long as its length says; empty if that was not seen."""
        seen = schedule.ended_epoch_batches(self.windows)
        if self.batches_per_epoch is None or seen in (None, self.batches_per_epoch):
            return ""
        return f"an epoch ended after {seen} batches, though its length says {self.batches_per_epoch}"

    @property
    def _conditions(self) -> Conditions:
        rules = self.configuration.measure
        return Conditions(
            settings=self.settings,
            rules=rules if self._window_s is None else replace(rules, window_s=self._window_s),
            batches_per_epoch=self.batches_per_epoch,
            cores=self.environment.enforced_cores(),
            ranks=self.configuration.ranks,
        )

    def time_slice(self, memory_bytes: int | None, number: int, window_s: float | None = None) -> None:
        """Starts its trial process if it has none, throws away what must be, takes one window or epoch, and is paused.

        One that is done goes along with others; what fails then costs it its trial process and that turn, not its trial. Its
        processes may hold so many bytes from now on. The window lasts ``window_s`` at least, else as configured.
        """
        self._window_s, self._stalled = window_s, False
        with self._paid_for():
            if self._restarts:
                self._earlier, self._slices = [*self._earlier, *self._slices], []
                self.close()
            kept = list(self._slices)
            try:
                process = self._process or self._open(memory_bytes)
                process.allow(memory_bytes)
                process.resume()
                self._take_slice(process, number)
                self._check_memory(memory_bytes)
            except TrialError:
                if not self.done:
                    raise
                self._slices = kept
                self.close()
                return
            if self._stalled and not self._has_stalled:  # a second time it is its own pace
                self._has_stalled, self._slices = True, kept
            elif not self.done:
                self._judge()

    def resume(self) -> None:
        """Lets its processes go on though it is not its turn."""
        if self._process is not None:
            self._process.resume()

    def pause(self) -> None:
        """Stops them again, when they have nothing left to do."""
        if self._process is not None:
            with suppress(TrialError):  # its next turn says what has become of it
                self._process.wait_until_idle()
            self._process.pause()

    def ask(self, question: Callable[[TrialProcess], Answer]) -> Answer | None:
        """What its process answers between two turns; None if it has no process, or the process fails at that."""
        if self._process is None:
            return None
        self._process.resume()
        try:
            return question(self._process)
        except TrialError:  # its next turn says what has become of it
            return None
        finally:
            self._process.pause()

    def warn(self, line: str) -> None:
        """Adds a warning to its trial, unless the line is empty."""
        self._own_warnings += (line,) if line else ()

    def fail(self, error: TrialError) -> None:
        """Ends it with this reason, whatever was measured of it."""
        self._error, self.done = error, True
        self.close()

    def restart(self) -> None:
        """Lets its next turn start with a new trial process; what was measured so far does not count."""
        self._restarts = True

    def forget_length(self, reason: str) -> None:
        """Takes the length of an epoch for unknown from now on."""
        if self.batches_per_epoch is not None:
            self._notes += (f"{reason}: candidates are ranked by seconds per batch",)
        self.batches_per_epoch = None

    def conclude(self, note: str = "") -> None:
        """Ends the trial with what there is of it, and a note why it has no more.

        One that cannot be true restarts, the first time; one that has nothing stays unfinished, if it still could.
        """
        if self.done:
            return
        with self._paid_for():
            if self._measurement() is not None:
                self._conclude("")
            elif not self.may_continue:
                raise TrialError("it was ended, to make room or by a limit, before it was measured")
        if self.done and note:
            self._notes += (note,)

    def retire(self, note: str) -> None:
        """Ends its trial process, and its trial if there is anything of it; no process needs it measured again."""
        self._doubts += 1
        if self._measurement() is not None:
            self.conclude(note)
        self.close()

    def close(self) -> None:
        """Ends its trial process; what was measured stays."""
        self._process, self.usage = None, Usage()
        self._stack.close()

    @contextmanager
    def _paid_for(self) -> Iterator[None]:
        """Counts the time, and makes of whatever goes wrong in the trial process the trial's state and reason."""
        began = self.environment.clock()
        try:
            yield
        except TrialError as error:
            self.environment.check_interrupts()  # who ends the program may have ended its trial processes too
            self.fail(error)
        finally:
            self.cost_s += self.environment.clock() - began

    def _open(self, memory_bytes: int | None) -> TrialProcess:
        self._restarts = False
        began = self.environment.clock()
        process = self._process = self._stack.enter_context(
            self.environment.start_process(self.configuration, memory_bytes)
        )
        self.facts = process.facts
        process.watch(self._notice_stall)
        process.open(self.settings)
        self.batches_per_epoch = process.batches_per_epoch
        self.usage = process.usage()
        self._starting_s += self.environment.clock() - began
        return process

    def _notice_stall(self) -> None:
        self._stalled = True
        if _STALLED not in self._notes:
            self._notes += (_STALLED,)
        self.on_stall(self)

    def _take_slice(self, process: TrialProcess, number: int | None = None, *, last_look: bool = False) -> None:
        rested = bool(self._slices)
        machine_before, began = self.environment.machine_time(), self.environment.clock()
        windows: list[Window] = []
        request = None
        try:
            while request is None or (request.kind is WindowKind.WARM_UP and not self._exhausted):
                if self.is_late():
                    raise errors.TimeBudgetSpent
                taken = [*self.windows, *windows]
                if last_look and schedule.whole_epochs(taken, self._conditions):  # only the first batch of another one
                    request = WindowRequest(kind=WindowKind.STEADY, fresh=True)
                else:
                    request = schedule.next_request(taken, self._conditions, rested=rested and not windows)
                windows.append(process.window(replace(request, kind=WindowKind.LOADING) if last_look else request))
                self._notice_end(request, windows[-1])
            self._warnings = process.warned()
            if self.num_workers and self.logged is None:
                self.logged = process.logged()
        finally:
            if self.waits_until_idle:
                with suppress(TrialError):  # the next turn says what has become of it
                    process.wait_until_idle()
            process.pause()
            elapsed_s = self.environment.clock() - began
            machine = self.environment.machine_time().since(machine_before)
            time_slice = TimeSlice(
                windows=tuple(windows), before=self.usage, elapsed_s=elapsed_s, machine=machine, round=number
            )
            self.usage = process.usage()
            self._slices.append(replace(time_slice, after=self.usage))

    def _notice_end(self, request: WindowRequest, window: Window) -> None:
        """A new epoch without a batch would be begun again for ever."""
        if window.batches or not window.ended_epoch or not (request.fresh or request.kind is WindowKind.EPOCH):
            return
        if not schedule.steady_windows(self.windows):
            of = "" if self.settings.batch_size is None else f" of {self.settings.batch_size}"
            raise TrialError(f"the loader gave no batch{of} (drop_last={self.settings.drop_last})")
        self._exhausted = True

    def _check_memory(self, memory_bytes: int | None) -> None:
        held = self.usage.memory_bytes
        if memory_bytes is not None and held is not None and held > memory_bytes:
            raise errors.TrialOutOfMemory(
                f"its processes held {units.memory(held)} of memory, and {units.memory(memory_bytes)} were left of "
                "measure.memory_budget_bytes"
            )

    def _judge(self) -> None:
        """Decides whether the latest turn counts, or came from a cold cache, and whether there is enough."""
        self.came_from_disk = quantities.came_from_disk(self._slices[-1], at_first=len(self._slices) <= _FIRST_SLICES)
        # What has read an epoch has read everything once.
        most = 1 if schedule.whole_epochs(self.windows, self._conditions) else _MOST_COLD_SLICES
        if self.came_from_disk and self.configuration.measure.cache == "warm" and self._cold_slices < most:
            self._cold_slices += 1
            self.restart()
            return
        enough, limit = quantities.converged(self._slices, self._conditions), self._limit()
        if enough or limit:
            self._conclude("" if enough else limit)

    def _limit(self) -> str:
        if self._exhausted:
            return "the end of the data, which can be read only once,"
        return quantities.out_of_limits(self.windows, self._conditions)

    def _conclude(self, limit: str) -> None:
        """Finishes the trial; what cannot be true is measured once more."""
        doubt = quantities.violation(self._slices, self._conditions)
        if doubt and self._doubts:
            raise errors.TrialMismeasured(f"{doubt}; measured twice" if self._earlier else doubt)
        if doubt:
            self._doubts += 1
            self._notes += (f"measured again, since {doubt}",)
            self.restart()
            return
        self.done = True
        self._look_once_more(quantities.summarise(self._slices, self._conditions))
        if limit:
            precision = self.configuration.measure.precision
            self._notes += (f"stopped at {limit} before the interval was within measure.precision={precision:g}",)

    def _look_once_more(self, found: Measurement) -> None:
        """A window without the consumer; of whole epochs the beginning of another, to see the memory of workers."""
        consumes = found.batch_s and (found.consume_s or 0.0) >= quantities.LEAST_CONSUMER * found.batch_s.value
        unseen = schedule.whole_epochs(self.windows, self._conditions) and not self.settings.persistent_workers
        if (
            self._process is None
            or not self.num_workers
            or not (consumes or unseen)
            or self._exhausted
            or self.is_late()
        ):
            return
        kept = list(self._slices)
        try:
            self._process.resume()
            self._take_slice(self._process, last_look=True)
        except (TrialError, errors.TimeBudgetSpent):
            self._slices = kept
            self.close()

    def _measurement(self) -> Measurement | None:
        believed = self._error is None or isinstance(self._error, errors.TrialMismeasured)
        begun = any(window.startup_s is not None for window in self.windows)
        return quantities.summarise(self._slices, self._conditions) if believed and begun else None
