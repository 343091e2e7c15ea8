"""Starts a trial process on demand, pauses it between time slices, closes it and starts
it again.

Processes take turns: one runs while the others are paused.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from nws_sweep import units
from nws_sweep.errors import TimeLimitReached, TrialError, TrialTimeout
from nws_sweep.records import Configuration, DatasetFacts, LoaderSettings, Usage
from nws_sweep.trials.environment import Environment, TrialProcess

# in which a process imports torch and makes the dataset; the limit of a search does
# not count it
START_LIMIT_S = 600.0
Answer = TypeVar("Answer")


@dataclass(eq=False)
class Turns:
    """The processes of one search, of which one runs at a time.

    Attributes:
        processes: All processes of the search.
        began_s: Moment on the environment's clock at which the search began.
        deadline_s: Moment on this clock after which commands raise TimeLimitReached.
        waits_until_idle: Whether workers must be idle before a pause: a paused worker
            may hold a lock.
    """

    began_s: float
    deadline_s: float
    processes: list["OnDemandProcess"] = field(default_factory=list)
    waits_until_idle: bool = False
    _resumed: list["OnDemandProcess"] = field(default_factory=list)

    def resume_others(self, stalled: "OnDemandProcess | None" = None) -> bool:
        """Resumes all processes but the stalled one: a paused process may hold a lock.

        From then on processes are paused only when their workers are idle. Returns
        False if there are no others.
        """
        self._resumed = [
            process
            for process in self.processes
            if process.running and process is not stalled
        ]
        for process in self._resumed:
            assert process.running
            process.running.resume()
            self.waits_until_idle = True
        return bool(self._resumed)

    def pause_others(self) -> None:
        """Pauses the processes that were resumed."""
        while self._resumed:
            process = self._resumed.pop()
            process.pause()
            process.read_usage()

    def end(self) -> None:
        """Begins to end all processes at the same time: a busy machine takes seconds
        for each of them."""
        for process in self.processes:
            if process.running is not None:
                process.running.end()

    def close(self) -> None:
        """Ends all processes, and waits for their ends."""
        with ExitStack() as stack:  # closes all, even if one fails
            for process in self.processes:
                stack.callback(process.close)
            self.end()


@dataclass(eq=False)
class OnDemandProcess:
    """The trial process of one candidate.

    Attributes:
        settings: Of its DataLoader; canonical.
        configuration: What is held fixed.
        environment: Starts the process.
        turns: The processes of the search.
        running: None before the start and after ``close``.
        facts: What the dataset reported about itself; None before the first start.
        usage: Resources used up to the latest pause; nothing without a process.
        started_in_s: Seconds that its starts took.
    """

    settings: LoaderSettings
    configuration: Configuration
    environment: Environment
    turns: Turns
    running: TrialProcess | None = None
    facts: DatasetFacts | None = None
    usage: Usage = Usage()
    started_in_s: float = 0.0
    _stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        """Takes turns with the other processes."""
        self.turns.processes.append(self)

    @property
    def is_late(self) -> bool:
        """Whether the search must end."""
        return self.environment.clock() >= self.turns.deadline_s

    def start(self, memory_bytes: int | None, place: float) -> TrialProcess:
        """Starts the trial process with a memory limit, and makes its DataLoader;
        TrialError if that fails.

        Its batches begin at ``place``, a share of the epoch. The deadline of the search
        moves by the time of the start.
        """
        began_s = self.environment.clock()
        try:
            starting = self.environment.start_process(
                memory_bytes, began_s + START_LIMIT_S
            )
            process = self._stack.enter_context(starting)
            self.running, self.facts = process, process.facts
            process.open(self.settings, place)
        except TimeLimitReached:
            raise TrialTimeout(
                f"its process did not start within {units.seconds(START_LIMIT_S)}"
            ) from None
        finally:
            took_s = self.environment.clock() - began_s
            self.started_in_s += took_s
            self.turns.deadline_s += took_s
        process.memory_limit_bytes = memory_bytes
        process.deadline_s = self.turns.deadline_s
        self.read_usage()
        return process

    def resume(self, memory_bytes: int | None) -> TrialProcess | None:
        """Continues its processes, with a new memory limit; None without a process."""
        process = self.running
        if process is not None:
            process.memory_limit_bytes = memory_bytes
            process.deadline_s = self.turns.deadline_s
            process.resume()
        return process

    def pause(self) -> None:
        """Pauses its processes; if needed, not before the queue is full and the workers
        are idle."""
        if self.running is not None:
            if self.turns.waits_until_idle:
                # the next time slice raises it again
                with suppress(TrialError, TimeLimitReached):
                    self.running.wait_until_idle()
            self.running.pause()

    def read_usage(self) -> None:
        """Reads the resources used so far; the next time slice counts what is used from
        now on."""
        if self.running is not None:
            self.usage = self.running.usage()

    def ask(self, question: Callable[[TrialProcess], Answer]) -> Answer | None:
        """Returns the answer of the paused process; None without a process or if the
        process fails."""
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
