"""The life of a candidate's trial process: start, resume, pause, memory, close."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from nws_sweep import errors, units
from nws_sweep.errors import TrialError
from nws_sweep.measurement.environment import Environment, TrialProcess
from nws_sweep.results import Configuration, DatasetFacts, LoaderSettings, Usage

Answer = TypeVar("Answer")


@dataclass(eq=False)
class CandidateProcess:
    """The trial process of one candidate, started on demand, paused between time slices, closed and started again."""

    settings: LoaderSettings  # canonical
    configuration: Configuration
    environment: Environment
    waits_until_idle: Callable[[], bool]  # True if workers must be idle before a pause: a paused one may hold a lock
    running: TrialProcess | None = None  # None before the start and after ``close``
    facts: DatasetFacts | None = None  # what the dataset reported about itself; None before the first start
    usage: Usage = Usage()  # resources used up to the latest pause; nothing without a process
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self, memory_bytes: int | None) -> TrialProcess:
        """Starts the trial process with a memory limit, and makes its DataLoader; TrialError if that fails."""
        process = self._stack.enter_context(self.environment.start_process(self.configuration, memory_bytes))
        self.running, self.facts = process, process.facts
        process.open(self.settings)
        self.read_usage()
        return process

    def pause(self) -> None:
        """Pauses its processes; if ``waits_until_idle``, not before the queue is full and the workers are idle."""
        if self.running is not None:
            if self.waits_until_idle():
                with suppress(TrialError):  # the next time slice raises it again
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

    def check_memory(self, memory_bytes: int | None) -> None:
        """Raises TrialOutOfMemory if its processes held more memory at the latest pause."""
        held = self.usage.memory_bytes
        if memory_bytes is not None and held is not None and held > memory_bytes:
            raise errors.TrialOutOfMemory(
                f"its processes held {units.memory(held)} of memory, and {units.memory(memory_bytes)} were left of "
                "measure.memory_budget_bytes"
            )

    def close(self) -> None:
        """Ends the trial process."""
        self.running, self.usage = None, Usage()
        self._stack.close()
