"""Several trial processes as one: the ranks of a host, which load in lockstep as in DistributedDataParallel.

Each rank is a trial process with a dataset, a DataLoader and torchrun's environment. Measuring sees one process
whose batch is a step of all ranks, timed from barrier to barrier. Where the barrier is in the training step, its own
time is that of the rank that waits least.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import os
import socket
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from nws_sweep.errors import NwsSweepError, RankLost, TrialTimeout
from nws_sweep.executor import trial_process
from nws_sweep.executor.trial_process import STALL_S, UNLIMITED, ChildProcess, CommandSender, Supervision
from nws_sweep.results import ProcessSpec, Rank, Usage, Window
from nws_sweep.system import processes, temporary

_WATCH_EVERY_S = 0.5
# After the first failure, other ranks may report the same one, or the cause of a lost connection.
_SAME_WITHIN_S, _CAUSE_WITHIN_S = 0.3, 5.0
_ADDRESS = "127.0.0.1"
_USUAL_PORT = 29500  # of torchrun
_STEP_COUNTERS = "step_counters"  # of ``lockstep``, which imports torch
_RANK0_ONLY = ("logged", "load", "load_one_by_one", "samples")


class RankedProcesses(CommandSender):
    """The trial processes of one candidate's ranks. If one fails, exits or hangs, all are killed."""

    def __init__(self, ranks: Sequence[ChildProcess], folder: str, supervision: Supervision, threads: Executor) -> None:
        super().__init__(supervision)
        self._ranks, self._folder, self._threads = ranks, folder, threads

    def pause(self) -> None:
        """Stops all ranks, none of which is at a barrier."""
        for process in self._ranks:
            process.pause()

    def resume(self) -> None:
        """Continues all ranks."""
        for process in self._ranks:
            process.resume()

    def usage(self) -> Usage:
        """Resources that all ranks have used together."""
        return merged_usage([process.usage() for process in self._ranks])

    def request(self, command: str, *arguments: Any) -> Any:
        """Sends a command to all ranks and merges their answers; raises ``root_cause`` if a rank fails."""
        ranks = self._ranks[:1] if command in _RANK0_ONLY else self._ranks
        answers = [self._threads.submit(process.request, command, *arguments) for process in ranks]
        try:
            self._wait(answers, time.monotonic() + STALL_S if command == "window" else math.inf)
        except BaseException:
            for process in self._ranks:  # the others wait at a barrier for the failed rank
                process.kill()
            wait(answers, processes.GONE_WITHIN_S)
            raise
        results = [answer.result() for answer in answers]
        return _MERGED[command](results) if command in _MERGED else results[0]

    def _wait(self, answers: Sequence[Future[Any]], stall_at: float) -> None:
        while wait(answers, _WATCH_EVERY_S, FIRST_EXCEPTION).not_done and not _failures(answers):
            trial_process.check_memory([process.pid for process in self._ranks], self.memory_limit_bytes)
            if time.monotonic() >= stall_at:
                stall_at = math.inf
                self.on_stall()
        if _failures(answers):
            wait(answers, _SAME_WITHIN_S)
            if all(isinstance(error, RankLost) for error in _failures(answers).values()):
                wait(answers, _CAUSE_WITHIN_S)
            raise root_cause(_failures(answers), len(self._ranks), _missing(self._folder))


def _failures(answers: Sequence[Future[Any]]) -> dict[int, BaseException]:
    ended = ((number, answer.exception()) for number, answer in enumerate(answers) if answer.done())
    return {number: error for number, error in ended if error is not None}


def root_cause(failures: Mapping[int, BaseException], ranks: int, missing: Sequence[int] = ()) -> BaseException:
    """The error to report for all ranks, with the number of the failed rank unless all failed alike.

    A failure makes other ranks lose their connection. If a rank hangs, all time out; the ``missing`` ranks are named.
    """
    own = {number: error for number, error in failures.items() if not isinstance(error, RankLost)} or failures
    number, error = min(own.items())
    if not isinstance(error, NwsSweepError):
        return error
    if isinstance(error, TrialTimeout) and missing:
        return type(error)(f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}: {error}")
    if len(own) == ranks and len({str(each) for each in own.values()}) == 1:
        return error
    return type(error)(f"rank {number}: {error}")


def _missing(folder: str) -> list[int]:
    """The ranks behind the others in their step counter (see ``lockstep``)."""
    steps = array("q", Path(folder, _STEP_COUNTERS).read_bytes())[::3]
    return [number for number, count in enumerate(steps) if count < max(steps)]


def merged_window(ranks: Sequence[Window]) -> Window:
    """A window of steps from the windows of all ranks, equal in batches; times are means over the ranks."""
    if not all(rank.barrier_s for rank in ranks):  # the training step's least time of all ranks is its own
        own_s = tuple(map(min, zip(*(rank.step_s for rank in ranks), strict=True)))
        beside_s = [tuple(map(operator.sub, rank.step_s, own_s)) for rank in ranks]
        ranks = [replace(rank, step_s=own_s, barrier_s=s) for rank, s in zip(ranks, beside_s, strict=True)]
    waits_s = [map(sum, zip(rank.wait_s, rank.barrier_s, strict=True)) for rank in ranks]
    return Window(
        kind=ranks[0].kind,
        startup_s=_combined(max, (rank.startup_s for rank in ranks)),
        wait_s=_means(waits_s),
        step_s=_means(rank.step_s for rank in ranks),
        samples=sum(rank.samples for rank in ranks),
        end_s=_combined(max, (rank.end_s for rank in ranks)),
        produced=_combined(sum, (rank.produced for rank in ranks), needs_all=True),
        batch_bytes=_combined(max, (rank.batch_bytes for rank in ranks)),
        batch_tensors=_combined(max, (rank.batch_tensors for rank in ranks)),
        ranks=tuple(ranks),
    )


def _means(ranks: Iterable[Iterable[float]]) -> tuple[float, ...]:
    return tuple(sum(values) / len(values) for values in zip(*ranks, strict=True))


def _combined(combine: Callable[[list[Any]], Any], values: Iterable[Any], needs_all: bool = False) -> Any:
    """Combines the known values; None if no value is known, or if ``needs_all`` and one is unknown."""
    each = list(values)
    known = [value for value in each if value is not None]
    return combine(known) if known and (not needs_all or len(known) == len(each)) else None


def merged_usage(ranks: Sequence[Usage]) -> Usage:
    """Resources that all ranks have used together."""
    return Usage(**{each.name: _combined(sum, (getattr(rank, each.name) for rank in ranks)) for each in fields(Usage)})


def _lines(ranks: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Each line once, in order."""
    return tuple(dict.fromkeys(line for lines in ranks for line in lines))


_MERGED: Mapping[str, Callable[[list[Any]], Any]] = {
    "open": functools.partial(_combined, min, needs_all=True),  # the shortest epoch ends the epoch of all ranks
    "window": merged_window,
    "warned": _lines,
    "files": _lines,
}


@contextlib.contextmanager
def start(spec: ProcessSpec, ranks: int, supervision: Supervision = UNLIMITED) -> Iterator[RankedProcesses]:
    """Starts the ranks, each with its own dataset, and prepares them; kills them at the end.

    The limits of ``supervision`` hold for all ranks together; progress is that of rank 0. Raises the errors of
    ``DatasetServer.start``.
    """
    outside, port = os.environ if spec.environment is None else spec.environment, free_port()
    of_rank = replace(supervision, memory_budget_bytes=None)  # checked for all ranks together
    with contextlib.ExitStack() as stack:
        with processes.uninterrupted():
            folder = stack.enter_context(temporary.folder())
        Path(folder, _STEP_COUNTERS).write_bytes(bytes(3 * 8 * ranks))
        started = []
        for number in range(ranks):
            rank = Rank(number=number, ranks=ranks, folder=folder)
            each = replace(spec, rank=rank, environment=environment_of(rank, port, outside))
            started.append(stack.enter_context(trial_process.start(each, of_rank, prepare=False)))
            of_rank = replace(of_rank, on_progress=UNLIMITED.on_progress)
        threads = stack.enter_context(ThreadPoolExecutor(ranks, "nws_sweep-rank"))
        ranked = RankedProcesses(started, folder, supervision, threads)
        ranked.prepare()
        yield ranked


def environment_of(rank: Rank, port: int, outside: Mapping[str, str]) -> dict[str, str]:
    """The environment of a rank: ``outside`` with the variables that torchrun sets on one host.

    As with torchrun, ``OMP_NUM_THREADS`` is 1 unless it is set.
    """
    return {
        "OMP_NUM_THREADS": "1",
        **outside,
        **dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(rank.number)),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"), str(rank.ranks)),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "MASTER_ADDR": _ADDRESS,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "nws_sweep",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def free_port() -> int:
    """A free port, for programs that read ``MASTER_PORT``."""
    with contextlib.suppress(OSError), socket.create_server((_ADDRESS, 0)) as listener:
        return int(listener.getsockname()[1])
    return _USUAL_PORT  # without a network ``lockstep`` reports the error
