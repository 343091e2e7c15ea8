"""Background loaders: the other ranks of a host, which load at the same time as the measured one.

Ranks of a training share CPUs, memory bandwidth and storage. A background loader is a trial process with the settings
of the candidate and the samples of its rank. It takes batches, epoch after epoch, and is paused and killed with the
candidate. It does not wait for the other ranks, and only its CPU time and memory are read.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from nws_sweep.errors import NwsSweepError
from nws_sweep.executor import process_state
from nws_sweep.executor.trial_process import UNLIMITED, ChildProcess, Command, CommandSender, Supervision
from nws_sweep.results import LoaderSettings, ProcessSpec, Usage
from nws_sweep.system import usage

Start = Callable[[ProcessSpec, Supervision], AbstractContextManager[ChildProcess]]


class ProcessWithBackground(CommandSender):
    """The trial process of a candidate, with background loaders from ``open`` on; its answers are the candidate's."""

    def __init__(self, measured: ChildProcess, background: Iterator[ChildProcess], supervision: Supervision) -> None:
        """``background`` starts the processes of the other ranks."""
        super().__init__(supervision)
        self.facts = measured.facts
        self._measured, self._unstarted = measured, background
        self._background: list[ChildProcess] = []
        self._in_background = ""  # the latest command of the background loaders

    def open(self, settings: LoaderSettings, place: float = 0.0) -> None:
        """Makes the DataLoader of each rank."""
        self._measured.open(settings, place)
        self.batches_per_epoch = self._measured.batches_per_epoch
        with _failures_named():
            self._background += self._unstarted
            for process in self._background:
                process.open(replace(settings, timeout=0.0), place)  # it may be paused while it waits for a batch
        self._measured.beside = [process.pid for process in self._background]

    def request(self, command: Command) -> Any:
        """Sends a command to the measured process; raises the error of a background loader that has failed."""
        if command.background and command.background != self._in_background:
            with _failures_named():
                for process in self._background:
                    process.request(Command(command.background))
            self._in_background = command.background
        self._measured.memory_limit_bytes, self._measured.on_stall = self.memory_limit_bytes, self.on_stall
        answer = getattr(self._measured, command.name)(*command.arguments)
        with _failures_named():
            for process in self._background:
                if process.has_answer:  # an unasked one is a failure, or a line of progress
                    process.warned()
        return answer

    def pause(self) -> None:
        """Stops the processes of all ranks."""
        for process in (self._measured, *self._background):
            process.pause()

    def resume(self) -> None:
        """Continues the processes of all ranks."""
        for process in (*self._background, self._measured):
            process.resume()

    def usage(self) -> Usage:
        """Resources of the measured process; memory and shared memory are those of all ranks."""
        own, others = self._measured.usage(), [process.usage() for process in self._background]
        return replace(
            own,
            memory_bytes=usage.known_sum(one.memory_bytes for one in (own, *others)),
            added_bytes=usage.known_sum(one.added_bytes for one in (own, *others)),
            shm_bytes=usage.known_sum(one.shm_bytes for one in (own, *others)),
            background_cpu_s=sum(one.cpu_s for one in others),
        )


@contextlib.contextmanager
def _failures_named() -> Iterator[None]:
    try:
        yield
    except NwsSweepError as error:
        raise type(error)(f"a background loader failed: {error}") from error


@contextlib.contextmanager
def start(start_one: Start, spec: ProcessSpec, supervision: Supervision) -> Iterator[ProcessWithBackground]:
    """Starts the trial process of rank 0, to which ``open`` adds those of the other ranks; kills all at the end.

    The memory budget holds for all ranks together. Raises the errors of ``start_one``.
    """
    quiet = replace(supervision, memory_budget_bytes=None, on_progress=UNLIMITED.on_progress)
    with contextlib.ExitStack() as stack:
        measured = stack.enter_context(start_one(spec, supervision))
        others = (stack.enter_context(start_one(of_rank(spec, rank), quiet)) for rank in range(1, spec.ranks))
        yield ProcessWithBackground(measured, others, supervision)


def of_rank(spec: ProcessSpec, rank: int) -> ProcessSpec:
    """The specification of a rank's process, with the variables of torchrun that tell a process its rank.

    As with torchrun, ``OMP_NUM_THREADS`` is 1 unless it is set.
    """
    state = spec.state or process_state.of_this_process()
    of_all = {"WORLD_SIZE": str(spec.ranks), "LOCAL_WORLD_SIZE": str(spec.ranks)}
    environment = {"OMP_NUM_THREADS": "1", **state.environment, **of_all, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    return replace(
        spec, rank=rank, state=replace(state, environment=environment), logs_samples=spec.logs_samples and rank == 0
    )
