"""The parent side of a trial: a child process per trial, so that a crash, a hang or
memory exhaustion ends only that.

Trial processes are forked from a fork server that has imported torch and run no torch
operation: with GNU OpenMP a process forked after one hangs at its first parallel
operation. A trial process that has only made its dataset can become a template process,
a fork server too: trial processes forked from it share its dataset.
"""

import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any, TypeVar, cast

from nws_sweep.errors import (
    NwsSweepError,
    TimeLimitReached,
    TrialError,
    TrialInterrupted,
    TrialTimeout,
    one_line,
)
from nws_sweep.records import (
    BatchRecord,
    LoaderSettings,
    ProcessSpec,
    Recipe,
    Usage,
    Window,
    WindowRequest,
)
from nws_sweep.system import fork_server, processes, resources, temporary, usage
from nws_sweep.system.fork_server import ForkedProcess, ForkServer
from nws_sweep.trials.environment import STALL_S, TrialProcess
from nws_sweep.trials.recipes import needs_hydra

# Imported by the fork server: what each trial process needs, and modules whose import
# is slow and has no side effects.
_PRELOADED = ("nws_sweep.trials.child",)
_PRELOADABLE = (
    "torchvision",
    "nws_sweep.datasets",
    "nws_sweep.dataloading.training_steps",
)
_ORDERLY_EXIT_S = 3.0
_SIGNALLED_S = 0.1
# How often memory is read while a command runs, and the most CPU time for that, as a
# share: what is measured lacks it. One reading takes less than a millisecond, with a
# hundred workers or a dataset of gigabytes a tenth of a second.
_WATCH_EVERY_S, _MOST_WATCHING = 0.5, 0.02
# The commands of background loaders before a command to the measured process.
_IN_BACKGROUND = {"window": "iterate", "wait_until_idle": "wait_until_idle"}
# Signals by which others end a process; a process that crashes gets other signals.
# not on Windows
_SIGNALS_OF_OTHERS = (
    *processes.ENDING_SIGNALS,
    *filter(None, [getattr(signal, "SIGKILL", None)]),
)
_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What the parent checks while a command runs."""

    # for all commands together, making the dataset included
    kill_after_s: float = math.inf
    memory_budget_bytes: int | None = None  # of all its processes; None for no limit
    # moment on the clock time.perf_counter after which no command is answered
    deadline_s: float = math.inf
    # called with a line of text while a dataset is made
    on_progress: Callable[[str], None] = lambda text: None


UNLIMITED = Supervision()


def _sent(method: _Method) -> _Method:
    """Makes a method with the same signature that sends a command of its name and
    returns the answer."""

    def send(process: "ChildProcess", *arguments: Any) -> Any:
        return process.request(method.__name__, *arguments)

    return cast(_Method, send)


_NO_ROOM_FOR_THE_DATASET = (
    " while it made the dataset; nws_sweep.autotune(DataLoader(...)) "
    "measures during training and does not copy it"
)


class _Pauses:
    """The pauses of a process, on the clock of ``BatchRecord``."""

    def __init__(self) -> None:
        self._ended_s: list[tuple[float, float]] = []  # begin and end of each
        self._began_s: float | None = None

    def begin(self) -> None:
        self._began_s = time.perf_counter()

    def end(self) -> None:
        if self._began_s is not None:
            self._ended_s.append((self._began_s, time.perf_counter()))
            self._began_s = None

    def taken_off(self, record: BatchRecord) -> BatchRecord:
        """Returns the record without waiting that was a pause; storage and timers
        continue in a pause."""
        paused_s = 0.0
        for begin_s, end_s in self._ended_s:
            paused_s += max(
                0.0, min(end_s, record.ended_s) - max(begin_s, record.began_s)
            )
        if not paused_s:
            return record
        wait_s = max(0.0, record.cost.wait_s - paused_s)
        return replace(
            record, cost=replace(record.cost, wait_s=wait_s), was_stopped=True
        )


class _End:
    """The end of a trial process and its descendants, by the parent or by others.

    Attributes:
        by_s: Until when an orderly exit may take; None before the end has begun.
    """

    def __init__(self, child: ForkedProcess) -> None:
        self._child, self._kernel_kills = child, processes.out_of_memory_kills()
        self.by_s: float | None = None
        # IDs of the descendants; None before they are killed
        self._killed: Sequence[int] | None = None

    def kill(self) -> Sequence[int]:
        """Kills the processes, once: their IDs may be IDs of others later. Returns the
        IDs of the descendants."""
        if self._killed is None:
            with processes.uninterrupted():
                self._killed = processes.kill_family(self._child)
        return self._killed

    def error(self) -> tuple[TrialError, int | None]:
        """Returns the error of a process that has exited, and the number of the signal
        that killed it, if one did."""
        time.sleep(_SIGNALLED_S)
        self._child.join(processes.GONE_WITHIN_S)
        code = self._child.exitcode
        if code is None and wait([self._child.sentinel], 0):
            text = "the process that it was forked from was killed, and the trial process with it"
            return TrialInterrupted(text), None
        if code is None or code >= 0:
            return TrialError(f"the trial process ended with exit status {code}"), None
        is_named = -code in set(signal.Signals)
        name = signal.Signals(-code).name if is_named else str(-code)
        return TrialError(f"the trial process was killed by {name}"), -code

    def explained(
        self, error: Exception, killed_by: int | None, *, has_dataset: bool
    ) -> Exception:
        """Returns the error, with the cause added if a signal, ``killed_by``, killed
        the trial process or a worker.

        Which process the kernel kills for want of memory depends on other programs,
        too: such a candidate was interrupted, as by any signal of others. Only the
        memory budget, which is checked before, is a limit of its own.
        """
        if killed_by == signal.SIGBUS:
            return TrialError(
                f"{error} (shared memory, /dev/shm, is too small for the batches in flight)"
            )
        if killed_by not in _SIGNALS_OF_OTHERS:
            return error
        # The kernel's counter covers the whole machine: it explains a killed process,
        # not an exception.
        if processes.out_of_memory_kills() == self._kernel_kills:
            return TrialInterrupted(str(error))
        while_making = "" if has_dataset else _NO_ROOM_FOR_THE_DATASET
        return TrialInterrupted(
            f"{error} (the kernel ran out of memory and killed a process){while_making}"
        )


class ChildProcess(TrialProcess):
    """The parent's handle of a trial process, in which ``child`` answers; ``start``
    starts and ends it."""

    beside: Sequence[int] = ()  # processes whose memory counts with that of this one

    def __init__(
        self,
        child: ForkedProcess,
        start_method: str,
        supervision: Supervision,
        template: "ChildProcess | None",
    ) -> None:
        self.pid, self.connection, self._child = child.pid, child.connection, child
        self._start_method, self._supervision = start_method, supervision
        self._shares_dataset = template is not None
        self._left_s = supervision.kill_after_s
        self.memory_limit_bytes, self.deadline_s = (
            supervision.memory_budget_bytes,
            supervision.deadline_s,
        )
        self.on_stall = lambda: None
        self.batches_per_epoch = None
        # of the DataLoader; None before ``open``
        self.settings: LoaderSettings | None = None
        # of a command without an answer
        self._failure: TrialError | TimeLimitReached | None = None
        self._pauses = _Pauses()
        self._end = _End(child)

    wait_until_idle = _sent(TrialProcess.wait_until_idle)
    warned = _sent(TrialProcess.warned)
    logged = _sent(TrialProcess.logged)
    load = _sent(TrialProcess.load)
    load_one_by_one = _sent(TrialProcess.load_one_by_one)
    samples = _sent(TrialProcess.samples)
    thread_times = _sent(TrialProcess.thread_times)
    whole_batches = _sent(TrialProcess.whole_batches)

    @property
    def alive(self) -> bool:
        """Whether the trial process runs."""
        return not wait([self._child.sentinel], 0)

    def prepare(self) -> None:
        """Makes the dataset, unless the process has it, the training step and the
        collate_fn."""
        self.facts = self.request("prepare")

    def open(self, settings: LoaderSettings, place: float = 0.0) -> None:
        """Makes the DataLoader."""
        self.settings = settings
        self.batches_per_epoch = self.request("open", settings, place)

    def pause(self) -> None:
        """Stops the trial process and its workers."""
        self._pauses.begin()
        processes.signal_group(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continues the trial process and its workers."""
        processes.signal_group(self.pid, signal.SIGCONT)
        self._pauses.end()

    def window(self, request: WindowRequest) -> Window:
        """Takes a window; its records do not contain the time in which the process was
        paused."""
        window: Window = self.request("window", request)
        return replace(
            window, records=tuple(map(self._pauses.taken_off, window.records))
        )

    def usage(self) -> Usage:
        """Returns the resources that the trial process and its workers have used so
        far."""
        return usage.of_tree(self.pid, shares_dataset=self._shares_dataset)

    def request(self, name: str, *arguments: Any) -> Any:
        """Sends a command, which the method of ``TrialCommands`` with this name
        answers, and returns the answer.

        Raises the reported error, TrialError on exit, or the error of a limit.
        """
        # the next answer would be the answer to the earlier command
        if self._failure is not None:
            raise self._failure
        began_s = time.perf_counter()
        try:
            self.connection.send((name, *arguments))
            kind, answer = self._answer(began_s + self._left_s)
        except (EOFError, OSError):
            # the process exited, perhaps in the middle of an answer
            kind, answer = "error", self._end.error()
        except (TrialError, TimeLimitReached) as error:
            self._failure = error
            raise
        finally:
            self._left_s -= time.perf_counter() - began_s
        if kind == "error":
            raise self._end.explained(*answer, has_dataset=self.settings is not None)
        return answer

    def _answer(self, kill_at_s: float) -> tuple[str, Any]:
        """Waits for the answer to a command, and passes on lines of progress."""
        while True:
            kind, answer = self._receive(kill_at_s)
            if kind != "progress":
                return kind, answer
            if answer:
                self._supervision.on_progress(answer)

    def _receive(self, kill_at_s: float) -> Any:
        """Waits for a message of the process, and checks its limits meanwhile."""
        stall_at_s = time.perf_counter() + STALL_S
        pause_s = _WATCH_EVERY_S
        while True:
            remaining_s = max(
                0.0, min(kill_at_s, self.deadline_s) - time.perf_counter()
            )
            ready = wait(
                [self.connection, self._child.sentinel], min(remaining_s, pause_s)
            )
            if self.connection in ready:
                return self.connection.recv()
            if ready:
                raise EOFError
            if remaining_s == 0 and self.deadline_s <= kill_at_s:
                raise TimeLimitReached
            if remaining_s == 0:
                limit = f"measure.kill_after_s={self._supervision.kill_after_s:g} s"
                raise TrialTimeout(f"not finished within {limit}; it was killed")
            began_s = time.perf_counter()
            check_memory(
                [self.pid, *self.beside],
                self.memory_limit_bytes,
                shares_dataset=self._shares_dataset,
            )
            pause_s = max(
                _WATCH_EVERY_S, (time.perf_counter() - began_s) / _MOST_WATCHING
            )
            if time.perf_counter() >= stall_at_s:
                stall_at_s = math.inf
                self.on_stall()

    def end(self) -> None:
        """Begins to end the trial process and its descendants, so that several end at
        the same time."""
        if self._end.by_s is not None:
            return
        self._end.by_s = time.perf_counter()
        method, num_workers = self._start_method, 0
        if self.settings is not None:
            method = self.settings.multiprocessing_context or method
            num_workers = self.settings.num_workers
        # Killed forked workers leave nothing behind; others must release their
        # semaphores.
        if num_workers == 0 or method == "fork":
            self._end.kill()
            return
        processes.signal_group(self.pid, signal.SIGCONT)
        with contextlib.suppress(OSError):
            self.connection.send(None)
            self._end.by_s += _ORDERLY_EXIT_S

    def close(self) -> None:
        """Kills the trial process and its descendants, after an orderly exit of workers
        that share semaphores."""
        try:
            self.end()
            wait(
                [self._child.sentinel],
                max(0.0, (self._end.by_s or 0.0) - time.perf_counter()),
            )
        finally:
            with processes.uninterrupted():
                self.connection.close()
                processes.await_exit(self._child, self._end.kill())


def check_memory(
    pids: Sequence[int], budget_bytes: int | None, *, shares_dataset: bool
) -> None:
    """Raises TrialOutOfMemory if the trial processes together exceed the budget, before
    the kernel kills a process."""
    if budget_bytes is None:
        return
    # Resident memory is quick to read and rarely too low; the exact figure takes
    # longer.
    resident_bytes = sum(usage.resident_bytes(usage.family(pid)) for pid in pids)
    if resident_bytes > budget_bytes:
        held_bytes = sum(
            usage.memory(usage.family(pid), shares_dataset=shares_dataset)[1] or 0
            for pid in pids
        )
        resources.check_budget(held_bytes, budget_bytes, "; it was killed")


class ProcessWithBackground(ChildProcess):
    """The trial process of a candidate, with background loaders from ``open`` on; its
    answers are the candidate's.

    Background loaders are the other ranks of a host, which share CPUs, memory bandwidth
    and storage. Each is a trial process with the settings of the candidate and the
    samples of its rank. It takes batches, epoch after epoch, and is paused and killed
    with the candidate. It does not wait for the other ranks, and only its CPU time and
    memory are read.

    Attributes:
        unstarted: Starts the processes of the other ranks.
    """

    unstarted: Iterator[ChildProcess]
    _background: Sequence[ChildProcess] = ()
    _in_background = ""  # the latest command of the background loaders

    def open(self, settings: LoaderSettings, place: float = 0.0) -> None:
        """Makes the DataLoader of each rank."""
        super().open(settings, place)
        with _failures_named():
            self._background = [*self.unstarted]
            for process in self._background:
                # it may be paused while it waits for a batch
                process.open(replace(settings, timeout=0.0), place)
        self.beside = [process.pid for process in self._background]

    def request(self, name: str, *arguments: Any) -> Any:
        """Sends a command to the measured process; raises the error of a background
        loader that has failed.

        The background loaders go on with their latest command until there is another
        one for them (``_IN_BACKGROUND``).
        """
        command = _IN_BACKGROUND.get(name, self._in_background)
        if command != self._in_background:
            with _failures_named():
                for process in self._background:
                    process.deadline_s = self.deadline_s
                    process.request(command)
        self._in_background = command
        answer = super().request(name, *arguments)
        with _failures_named():
            for process in self._background:
                # a failure, or a line of progress
                if wait([process.connection, process._child.sentinel], 0):
                    process.warned()
        return answer

    def pause(self) -> None:
        """Stops the processes of all ranks."""
        super().pause()
        for process in self._background:
            process.pause()

    def resume(self) -> None:
        """Continues the processes of all ranks."""
        for process in self._background:
            process.resume()
        super().resume()

    def end(self) -> None:
        """Begins to end the processes of all ranks."""
        super().end()
        for process in self._background:
            process.end()

    def usage(self) -> Usage:
        """Returns the resources of the measured process; memory and shared memory are
        those of all ranks."""
        measured = super().usage()
        background = [process.usage() for process in self._background]
        sums: dict[str, Any] = {}
        for name in ("memory_bytes", "added_bytes", "shm_bytes"):
            sums[name] = usage.known_sum(
                getattr(of_rank, name) for of_rank in (measured, *background)
            )
        return replace(
            measured,
            **sums,
            background_cpu_s=sum(of_rank.cpu_s for of_rank in background),
        )


@contextlib.contextmanager
def _failures_named() -> Iterator[None]:
    try:
        yield
    except NwsSweepError as error:
        raise type(error)(f"a background loader failed: {error}") from error


@contextlib.contextmanager
def start(
    spec: ProcessSpec,
    supervision: Supervision = UNLIMITED,
    template: ChildProcess | None = None,
    *,
    prepare: bool = True,
) -> Iterator[ChildProcess]:
    """Starts a trial process, with the template process's dataset if there is one, and
    kills it at the end.

    Raises the errors of ``DatasetServer.start``.
    """
    configuration = spec.configuration
    with contextlib.ExitStack() as stack:
        try:
            server = template or preload(
                [configuration.dataset, configuration.training_step]
            )
            if isinstance(server, ForkServer) and not server.is_ready(
                supervision.deadline_s - time.perf_counter()
            ):
                raise TimeLimitReached  # while it imported torch
            with processes.uninterrupted():
                folder = stack.enter_context(temporary.folder())
                child = fork_server.fork(
                    server.connection, "nws_sweep.trials.child:main", spec, folder
                )
                kind = (
                    ProcessWithBackground
                    if configuration.ranks > 1 and spec.rank == 0
                    else ChildProcess
                )
                process = kind(
                    child,
                    spec.start_method or processes.start_method(),
                    supervision,
                    template,
                )
                stack.callback(process.close)
        except (EOFError, ConnectionError, RuntimeError) as error:
            raise TrialInterrupted(
                "the fork server has exited: something has ended it"
            ) from error
        except OSError as error:  # such as too many processes or open files
            raise TrialError(
                f"the trial process could not be started: {one_line(error)}"
            ) from error
        if prepare:
            process.prepare()
        yield process


def forked_program() -> contextlib.AbstractContextManager[None]:
    """A block in which trial processes are forked from this program, with what it has
    in memory."""
    return fork_server.forked_program(_PRELOADED)


def preload(recipes: Iterable[Recipe]) -> ForkServer:
    """Returns the fork server, which is started, once, with the modules that these
    recipes import."""
    modules = set()
    for recipe in recipes:
        target = str(recipe.get("_target_"))
        if target.startswith(_PRELOADABLE):
            modules.add(target.rpartition(".")[0])
        if needs_hydra(recipe):
            modules.add("hydra.utils")
    return fork_server.ensure_running([*_PRELOADED, *sorted(modules)])
