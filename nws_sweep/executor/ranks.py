"""Several trial processes as one: the ranks of a host, which load at once and step by step, as in DistributedDataParallel.

Each is a trial process with a dataset and a DataLoader of its own and torchrun's environment. To what measures they are one
trial process whose batches are steps of all, and a step takes as long as from meeting to meeting. Where the consumer makes them
wait for each other, its own time is that of the rank that waited least in it.
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
# After the first failure: others may tell the same, or why they are gone.
_SAME_WITHIN_S, _CAUSE_WITHIN_S = 0.3, 5.0
_ADDRESS, _USUAL_PORT = "127.0.0.1", 29500  # torchrun's
_STEP_COUNTER = "step_counters"
_OF_FIRST = ("logged", "load", "load_one_by_one", "samples")


class RankedProcesses(CommandSender):
    """The ranks of one candidate. ``start`` makes it and ends it; one that fails, dies or hangs ends them all."""

    def __init__(self, ranks: Sequence[ChildProcess], folder: str, supervision: Supervision, threads: Executor) -> None:
        super().__init__(supervision)
        self._ranks = ranks
        self._folder = folder
        self._threads = threads

    def pause(self) -> None:
        """Stops them where they are; none of them is on its way to a meeting."""
        for process in self._ranks:
            process.pause()

    def resume(self) -> None:
        """Lets them go on."""
        for process in self._ranks:
            process.resume()

    def usage(self) -> Usage:
        """What they have used together."""
        return merged_usage([process.usage() for process in self._ranks])

    def request(self, command: str, *arguments: Any) -> Any:
        """What their answers come to."""
        asked = self._ranks[:1] if command in _OF_FIRST else self._ranks
        answers = [self._threads.submit(process.request, command, *arguments) for process in asked]
        try:
            self._wait(answers, time.monotonic() + STALL_S if command == "window" else math.inf)
        except BaseException:
            for process in self._ranks:  # others wait for this one, in a meeting that will never be
                process.kill()
            wait(answers, processes.GONE_WITHIN_S)
            raise
        results = [answer.result() for answer in answers]
        return _MERGED[command](results) if command in _MERGED else results[0]

    def _wait(self, answers: Sequence[Future[Any]], stall_at: float) -> None:
        while wait(answers, _WATCH_EVERY_S, FIRST_EXCEPTION).not_done and not _failures(answers):
            trial_process.check_memory([process.pid for process in self._ranks], self._memory_budget_bytes)
            if time.monotonic() >= stall_at:
                stall_at = math.inf
                self._on_stall()
        if _failures(answers):
            raise root_cause(_all_failures(answers), len(self._ranks), _missing(self._folder))


def _failures(answers: Sequence[Future[Any]]) -> dict[int, BaseException]:
    ended = ((number, answer.exception()) for number, answer in enumerate(answers) if answer.done())
    return {number: error for number, error in ended if error is not None}


def _all_failures(answers: Sequence[Future[Any]]) -> dict[int, BaseException]:
    """Those of the moment: who was the first is not who was heard first."""
    wait(answers, _SAME_WITHIN_S)
    if all(isinstance(error, RankLost) for error in _failures(answers).values()):
        wait(answers, _CAUSE_WITHIN_S)
    return _failures(answers)


def root_cause(failures: Mapping[int, BaseException], ranks: int, missing: Sequence[int] = ()) -> BaseException:
    """The error of all ranks together, with the number of the one where it happened unless that was in all alike.

    One failure takes others along; if one hangs all are late, and the missing ones are those whom the others wait for.
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
    """The ranks that the others wait for: they have come less often to meet them (``lockstep``)."""
    times = array("q", Path(folder, _STEP_COUNTER).read_bytes())[::3]
    return [number for number, count in enumerate(times) if count < max(times)]


def merged_window(ranks: Sequence[Window]) -> Window:
    """A window of steps, of as many batches of each rank; times are means over the ranks, which meet at its end."""
    if not all(rank.barrier_s for rank in ranks):
        ranks = _with_barriers(ranks)
    waits_s = [map(sum, zip(rank.wait_s, rank.barrier_s, strict=True)) for rank in ranks]
    return Window(
        kind=ranks[0].kind,
        startup_s=_known(max, (rank.startup_s for rank in ranks)),
        wait_s=_means(waits_s),
        consume_s=_means(rank.consume_s for rank in ranks),
        samples=sum(rank.samples for rank in ranks),
        end_s=_known(max, (rank.end_s for rank in ranks)),
        produced=_if_all_known(sum, (rank.produced for rank in ranks)),
        batch_bytes=_known(max, (rank.batch_bytes for rank in ranks)),
        batch_tensors=_known(max, (rank.batch_tensors for rank in ranks)),
        ranks=tuple(ranks),
    )


def _with_barriers(ranks: Sequence[Window]) -> list[Window]:
    """The same with the time that each waited for the others in its consumer told apart."""
    own_s = tuple(min(times) for times in zip(*(rank.consume_s for rank in ranks), strict=True))
    barriers_s = [tuple(map(operator.sub, rank.consume_s, own_s)) for rank in ranks]
    return [
        replace(rank, consume_s=own_s, barrier_s=barrier_s) for rank, barrier_s in zip(ranks, barriers_s, strict=True)
    ]


def _means(ranks: Iterable[Iterable[float]]) -> tuple[float, ...]:
    return tuple(sum(values) / len(values) for values in zip(*ranks, strict=True))


def _known(combine: Callable[[list[Any]], Any], values: Iterable[Any]) -> Any:
    """What those values that are known come to; None if none is."""
    known = [value for value in values if value is not None]
    return combine(known) if known else None


def _if_all_known(combine: Callable[[list[Any]], Any], values: Iterable[Any]) -> Any:
    """What the values come to; None if one is not known."""
    each = list(values)
    return None if None in each else combine(each)


def merged_usage(ranks: Sequence[Usage]) -> Usage:
    """What all ranks have used together."""
    return Usage(**{each.name: _known(sum, (getattr(rank, each.name) for rank in ranks)) for each in fields(Usage)})


def _lines(ranks: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Each line once, in the order in which they came."""
    return tuple(dict.fromkeys(line for lines in ranks for line in lines))


_MERGED: Mapping[str, Callable[[list[Any]], Any]] = {
    "open": functools.partial(_if_all_known, min),  # an epoch ends with that of the first rank whose ends
    "window": merged_window,
    "warned": _lines,
    "files": _lines,
}


@contextlib.contextmanager
def start(spec: ProcessSpec, ranks: int, supervision: Supervision = UNLIMITED) -> Iterator[RankedProcesses]:
    """Starts the ranks, each with a dataset of its own, and kills them in the end.

    What is watched over holds for all together; progress is that of the first one. Raises what ``DatasetServer.start`` does.
    """
    outside, port = os.environ if spec.environment is None else spec.environment, free_port()
    alone = replace(supervision, memory_budget_bytes=None)  # which is watched over for all
    with contextlib.ExitStack() as stack:
        with processes.uninterrupted():
            folder = stack.enter_context(temporary.folder())
        Path(folder, _STEP_COUNTER).write_bytes(bytes(3 * 8 * ranks))
        started = []
        for number in range(ranks):
            rank = Rank(number=number, ranks=ranks, folder=folder)
            each = replace(spec, rank=rank, environment=environment_of(rank, port, outside))
            started.append(stack.enter_context(trial_process.launch(each, alone)))
            alone = replace(alone, on_progress=UNLIMITED.on_progress)  # one is enough to hear from
        threads = stack.enter_context(ThreadPoolExecutor(ranks, "nws_sweep-rank"))
        ranked = RankedProcesses(started, folder, supervision, threads)
        ranked.prepare()
        yield ranked


def environment_of(rank: Rank, port: int, outside: Mapping[str, str]) -> dict[str, str]:
    """The variables of a rank, as torchrun sets them on one host, in place of those of the program's own launcher.

    As with torchrun, each rank computes with one thread (``OMP_NUM_THREADS``) unless the program says otherwise.
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
    """A port that is free now, for programs that read ``MASTER_PORT``."""
    with contextlib.suppress(OSError), socket.socket() as listener:  # without a network any will do
        listener.bind((_ADDRESS, 0))
        port: int = listener.getsockname()[1]
        return port
    return _USUAL_PORT
