"""Ranks in a trial process: a process group of torch.distributed, as a training has one, and the meetings of its steps.

Ranks find each other by a file in a folder and talk over the loopback interface: no free port is needed.
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

# Ranks stand still while other candidates are measured.
_FOR_EVER = timedelta(days=30)
_MOST_LEVELS = 3
_LATE_S, _POLL_S = 60.0, 0.0005


class Lockstep:
    """One of several ranks that go step by step; see ``measure.OtherRanks``.

    A meeting is a small all-reduce: about what the steps of a training do at least. Beside that, a file that all have
    mapped has a row of each rank: how often it has come, which tells who is missing when all wait (``ranks``), and the
    number that it brought, in turn in two places: no process comes again before all have come and read the one before.
    """

    def __init__(self, rank: Rank, group: Any) -> None:
        self._number = torch.zeros(1, dtype=torch.int64)
        self._group = group
        self._rows = np.memmap(Path(rank.folder, "step_counters"), np.int64, "r+", shape=(rank.ranks, 3))
        self._own = self._rows[rank.number]
        self._times = 0

    def barrier(self, number: int) -> int:
        """Waits until all ranks have called it: the largest number; RankLost if one is gone."""
        self.publish(number)
        self._number[0] = number
        try:
            distributed.all_reduce(self._number, distributed.ReduceOp.MAX, self._group)
        except RuntimeError as error:
            raise _lost(error) from error
        return int(self._number[0])

    def agreed(self) -> int:
        """The largest number of those that all told when this one told its latest.

        TrialError if another one does not come to that: in a training all would wait for ever.
        """
        give_up_at = time.monotonic() + _LATE_S
        while self._rows[:, 0].min() < self._times:  # mostly they have come, since the consumer has met them
            if time.monotonic() > give_up_at:
                raise TrialError(
                    f"no other step of another rank within {_LATE_S:g} s: epochs of different lengths, or it hangs"
                )
            time.sleep(_POLL_S)
        return int(self._rows[:, 1 + self._times % 2].max())

    def publish(self, number: int) -> None:
        """Tells the others a number, without waiting."""
        self._times += 1
        self._own[1 + self._times % 2] = number
        self._own[0] = self._times


def join(rank: Rank) -> Lockstep:
    """Makes torch.distributed ready (gloo), and waits for the others; RankLost if one is gone."""
    if not distributed.is_available():
        raise ConfigurationError(f"ranks={rank.ranks}: this torch has no torch.distributed; allowed is 1")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > 0:  # torch read the variable in the fork server, long ago
        torch.set_num_threads(int(threads))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # by the host's name gloo might look for it in a network
    path = str(Path(rank.folder, "store"))  # a URL takes no path with a space
    store = distributed.FileStore(path, rank.ranks)  # type: ignore[attr-defined]
    try:
        distributed.init_process_group("gloo", store=store, timeout=_FOR_EVER, world_size=rank.ranks, rank=rank.number)
        group = distributed.new_group(timeout=_FOR_EVER)
    except RuntimeError as error:
        raise _lost(error) from error
    return Lockstep(rank, group)


def _lost(error: RuntimeError) -> RankLost:
    return RankLost(one_line(f"the other ranks could not be met: {error}"))


def synchronizes_itself(consumer: Any) -> bool:
    """Whether a consumer holds a model in DistributedDataParallel, which makes the ranks wait for each other."""
    from torch.nn.parallel import DistributedDataParallel

    held = [consumer]
    for _ in range(_MOST_LEVELS):  # in its attributes, or in what a partial function is given
        held += [each for value in held for each in getattr(value, "__dict__", {}).values()]
        partials = [value for value in held if isinstance(value, functools.partial)]
        held += [each for value in partials for each in (value.func, *value.args, *value.keywords.values())]
    return any(isinstance(value, DistributedDataParallel) for value in held)
