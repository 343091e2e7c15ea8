"""What measuring needs of the world outside, trial processes and clock and counters; tests put simulated ones in its place."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from nws_sweep.results import (
    Configuration,
    DatasetFacts,
    LoaderSettings,
    MachineTime,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
    Usage,
    Window,
    WindowRequest,
)
from nws_sweep.system import page_cache, resources, usage
from nws_sweep.system.cores import enforced_cores, shared_cores, usable_cores
from nws_sweep.system.resources import FreeResources


class TrialProcess(Protocol):
    """Where a trial is measured: a trial process in a process of its own, or a simulated one."""

    facts: DatasetFacts
    batches_per_epoch: int | None

    def open(self, settings: LoaderSettings) -> None:
        """Makes the DataLoader."""

    def window(self, request: WindowRequest) -> Window:
        """Takes a window of batches."""

    def warned(self) -> tuple[str, ...]:
        """The distinct warnings issued so far."""

    def files(self) -> tuple[str, ...]:
        """The files and folders that the dataset's attributes name."""

    def logged(self) -> SamplesLogged:
        """Some of the samples that the workers have made, and the open files that they share."""

    def load(self, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
        """Loads samples without workers, of an iterable dataset its first ones."""

    def load_one_by_one(self, samples: Sequence[SampleMade], settings: LoaderSettings) -> tuple[SampleMade, ...]:
        """Loads samples in workers of the same numbers, one at a time."""

    def samples(self, settings: LoaderSettings, most: int, limit_s: float = math.inf) -> SamplesSeen:
        """The samples of an epoch of a DataLoader of its own, so many at most and for so many seconds."""

    def allow(self, memory_bytes: int | None) -> None:
        """Sets what its processes may hold from now on; None for no limit."""

    def watch(self, on_stall: Callable[[], None]) -> None:
        """Sets what is called when a window does not come forward for long."""

    def wait_until_idle(self) -> None:
        """Waits until the workers have nothing left to do, since the queue is full."""

    def pause(self) -> None:
        """Stops its processes where they are; nothing may be asked of it until it is resumed."""

    def resume(self) -> None:
        """Lets them go on."""

    def usage(self) -> Usage:
        """What its processes have used so far."""


# Starts a trial process for a configuration, which may hold so many bytes (None for no limit), and ends it.
ProcessFactory = Callable[[Configuration, int | None], AbstractContextManager[TrialProcess]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What measuring needs; the defaults are this machine's own.

    Attributes:
        open_arm: Starts and ends trial processes.
        clock: Seconds from any fixed point.
        machine_time: What the machine's CPUs have done so far.
        memory_budget: Bytes for all candidates, given those asked for.
        room: What there is room for, given the bytes that are left of the memory budget.
        cores: CPUs that a trial may use.
        shared_cores: CPUs that several ranks may use together, which are measured at once.
        enforced_cores: CPUs that it can use at all: a batch system or a launcher may ask for less than that.
        drop_files: Drops files from the page cache.
        check_interrupts: Raises KeyboardInterrupt if the search shall end; called between turns.
    """

    start_process: ProcessFactory
    clock: Callable[[], float] = time.perf_counter
    machine_time: Callable[[], MachineTime] = usage.of_machine
    memory_budget: Callable[[int | None], int | None] = resources.memory_budget
    room: Callable[[int | None], FreeResources] = resources.now
    cores: Callable[[], float] = usable_cores
    enforced_cores: Callable[[], float] = enforced_cores
    shared_cores: Callable[[], float] = shared_cores
    drop_files: Callable[[Sequence[str]], object] = page_cache.drop
    check_interrupts: Callable[[], None] = lambda: None

    def cores_of_each(self, ranks: int) -> float:
        """CPUs that each of so many ranks may use."""
        return self.cores() if ranks == 1 else self.shared_cores() / ranks
