"""One rank in its trial process: joins a process group of torch.distributed and waits for the other ranks at barriers.

Ranks connect through a file in a shared folder and the loopback interface: no free port is needed.
"""

from __future__ import annotations

import functools
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed

from nws_sweep.errors import ConfigurationError, RankLost, TrialError, one_line
from nws_sweep.results import Rank

_STEP_COUNTERS = "step_counters"  # written by ``ranks``
_NO_TIMEOUT = timedelta(days=30)  # ranks are paused while other candidates are measured
_MAX_DEPTH = 3
_LATE_S, _POLL_S = 60.0, 0.0005


class Lockstep:
    """The other ranks as one rank sees them; implements ``timing.OtherRanks``.

    A barrier is a small all-reduce, about the least that the steps of a training do. A memory-mapped file has a row per
    rank: its step counter, by which ``ranks`` finds a rank that hangs, and its latest two numbers. Two are enough: a
    rank publishes a number after all ranks have read the one before.
    """

    def __init__(self, rank: Rank, group: Any) -> None:
        self._number = torch.zeros(1, dtype=torch.int64)
        self._group = group
        self._rows = np.memmap(Path(rank.folder, _STEP_COUNTERS), np.int64, "r+", shape=(rank.ranks, 3))
        self._own = self._rows[rank.number]
        self._steps = 0

    def barrier(self, number: int) -> int:
        """Waits until all ranks have called it; returns the largest number. Raises RankLost if a rank has exited."""
        self.publish(number)
        self._number[0] = number
        try:
            distributed.all_reduce(self._number, distributed.ReduceOp.MAX, self._group)
        except RuntimeError as error:
            raise _lost(error) from error
        return int(self._number[0])

    def agreed(self) -> int:
        """The largest of the numbers that the ranks published in this rank's latest step.

        Raises TrialError if another rank takes no such step: in a training all ranks would wait forever.
        """
        deadline = time.monotonic() + _LATE_S
        while self._rows[:, 0].min() < self._steps:  # rarely: the training step's barrier has just passed
            if time.monotonic() > deadline:
                raise TrialError(f"another rank made no step for {_LATE_S:g} s: its epoch is shorter, or it hangs")
            time.sleep(_POLL_S)
        return int(self._rows[:, 1 + self._steps % 2].max())

    def publish(self, number: int) -> None:
        """Counts a step and writes its number for the other ranks, without waiting."""
        self._steps += 1
        self._own[1 + self._steps % 2] = number
        self._own[0] = self._steps


def join(rank: Rank) -> Lockstep:
    """Initialises torch.distributed (gloo) and waits for the other ranks; raises RankLost if one has exited."""
    if not distributed.is_available():
        raise ConfigurationError(f"ranks={rank.ranks}: this torch has no torch.distributed; allowed is 1")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > 0:  # torch has read the variable in the fork server
        torch.set_num_threads(int(threads))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # else gloo may resolve the host's name in a network
    path = str(Path(rank.folder, "store"))  # a URL takes no path with a space
    store = distributed.FileStore(path, rank.ranks)  # type: ignore[attr-defined]
    try:
        distributed.init_process_group(
            "gloo", store=store, timeout=_NO_TIMEOUT, world_size=rank.ranks, rank=rank.number
        )
        group = distributed.new_group(timeout=_NO_TIMEOUT)
    except RuntimeError as error:
        raise _lost(error) from error
    return Lockstep(rank, group)


def _lost(error: RuntimeError) -> RankLost:
    return RankLost(one_line(f"no connection to the other ranks: {error}"))


def synchronizes_itself(training_step: Any) -> bool:
    """Whether a training step contains a DistributedDataParallel model, whose steps are barriers."""
    from torch.nn.parallel import DistributedDataParallel

    held = [training_step]
    for _ in range(_MAX_DEPTH):  # in attributes and arguments of partial functions
        held += [each for value in held for each in getattr(value, "__dict__", {}).values()]
        partials = [value for value in held if isinstance(value, functools.partial)]
        held += [each for value in partials for each in (value.func, *value.args, *value.keywords.values())]
    return any(isinstance(value, DistributedDataParallel) for value in held)
