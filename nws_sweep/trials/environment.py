"""Declares the interfaces of a search: trial processes, clock, machine, observer. Tests
replace them."""

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from nws_sweep.records import (
    DatasetFacts,
    LoaderSettings,
    MachineTime,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
    SearchRecord,
    Trial,
    Usage,
    WholeBatches,
    Window,
    WindowRequest,
)
from nws_sweep.system import page_cache, resources, usage
from nws_sweep.system.host import enforced_cores, quota_period_s, usable_cores
from nws_sweep.system.resources import FreeResources

# without progress for longer, a command may wait for a lock of a paused candidate,
# and users are told
STALL_S = 10.0


class TrialProcess(Protocol):
    """The commands of a trial process: a child process, alone or beside background
    loaders, or a simulated process."""

    facts: DatasetFacts
    batches_per_epoch: int | None
    memory_limit_bytes: int | None  # of all its processes; None for no limit
    # moment on the environment's clock after which its commands raise TimeLimitReached
    deadline_s: float
    on_stall: Callable[[], object]  # called when a command makes no progress for 10 s

    def open(self, settings: LoaderSettings, place: float = 0.0) -> None:
        """Makes the DataLoader; its epochs begin with the batch at ``place``, a share
        of the epoch."""

    def window(self, request: WindowRequest) -> Window:
        """Takes a window of batches."""

    def warned(self) -> tuple[str, ...]:
        """The distinct warnings issued so far."""

    def logged(self) -> SamplesLogged:
        """Some of the samples that the workers have made, and the open files that the
        workers share."""

    def load(
        self, keys: Sequence[Any], limit_s: float | None
    ) -> tuple[SampleMade, ...]:
        """Loads samples of a map-style dataset without workers."""

    def load_one_by_one(
        self, samples: Sequence[SampleMade], settings: LoaderSettings
    ) -> tuple[SampleMade, ...]:
        """Loads samples in the workers that made them before, one sample at a time."""

    def samples(
        self, settings: LoaderSettings, most: int, limit_s: float = math.inf
    ) -> SamplesSeen:
        """The samples of an epoch of a separate DataLoader: at most ``most``, for at
        most ``limit_s`` seconds."""

    def thread_times(
        self, counts: Sequence[int], limit_s: float
    ) -> Mapping[int, float]:
        """Seconds per sample without workers by number of torch's threads; empty if the
        number makes no difference."""

    def whole_batches(self, settings: LoaderSettings) -> WholeBatches | None:
        """What whole batches of a map-style dataset take; None if they are not those of
        its samples."""

    def wait_until_idle(self) -> None:
        """Waits until the queue is full and all workers are idle."""

    def pause(self) -> None:
        """Stops all its processes (SIGSTOP). A paused process accepts ``resume``
        only."""

    def resume(self) -> None:
        """Continues all its processes (SIGCONT)."""

    def usage(self) -> Usage:
        """Resources used so far by all its processes."""

    def end(self) -> None:
        """Begins to end all its processes, without waiting; the end of the context that
        started it waits."""


# Starts a trial process of a search, and ends it: with a memory limit (bytes, None
# for no limit) and with its first ``deadline_s``, infinite for none.
ProcessFactory = Callable[[int | None, float], AbstractContextManager[TrialProcess]]


class Observer(Protocol):
    """Receives the events of a search as they happen: for files, the terminal, a
    program."""

    def slice_started(self, num_workers: int) -> None:
        """A time slice of a candidate starts."""

    def trial_finished(self, result: SearchRecord, trial: Trial) -> None:
        """A trial is finished; ``result`` holds this trial and all others, unfinished
        ones included."""

    def round_finished(self, result_so_far: Callable[[], SearchRecord]) -> None:
        """Every active candidate had a time slice; ``result_so_far`` makes the result
        on demand."""

    def note(self, line: str) -> None:
        """A warning that the user should see before the search ends."""

    def interrupted(self, result: SearchRecord) -> None:
        """The search was interrupted by the user; ``result`` is what was measured."""

    def search_finished(self, result: SearchRecord) -> None:
        """The search has its verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Trial processes, clock and machine of a search; the defaults are those of this
    machine."""

    start_process: ProcessFactory
    clock: Callable[[], float] = time.perf_counter  # seconds from any fixed point
    # CPU time of the machine so far
    machine_time: Callable[[], MachineTime] = usage.of_machine
    # Memory limit of all candidates together, bytes, given
    # ``measure.memory_budget_bytes``.
    memory_budget: Callable[[int | None], int | None] = resources.memory_budget
    # given the bytes left of the memory budget
    free_resources: Callable[[int | None], FreeResources] = resources.now
    # CPUs assigned to one of this many ranks of the host
    cores: Callable[[int], float] = usable_cores
    # CPUs that a trial can use; a launcher may assign fewer
    enforced_cores: Callable[[], float] = enforced_cores
    quota_period_s: Callable[[], float] = quota_period_s  # of the CPU quota; 0 without
    # from the page cache
    drop_files: Callable[[Sequence[str]], object] = page_cache.drop
    # From 0 to 1; the random numbers of the program do not change.
    random_place: Callable[[], float] = random.SystemRandom().random
    # CPU seconds in which the program forks a process; 0 if it is no larger than a
    # trial process
    fork_s: float = 0.0
    # raises KeyboardInterrupt after an interrupt
    check_interrupts: Callable[[], None] = lambda: None
