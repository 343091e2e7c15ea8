"""Ranks in an arm: a process group of torch.distributed, as a training has one, and the meetings of its steps.

Ranks find each other by a file in a folder and talk over the loopback interface: neither a network nor a free port is
needed, and other trainings of this host are not met.
"""

from __future__ import annotations

import functools
import os
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from nws_sweep.attendance import Attendance
from nws_sweep.errors import ConfigurationError, RankLost, TrialError, one_line
from nws_sweep.records import Rank

# Ranks stand still while other candidates are measured; whoever started them knows how long a meeting may take.
_FOR_EVER = timedelta(days=30)
_STORE = "store"
_MOST_LEVELS = 3
_LATE_S, _POLL_S = 60.0, 0.0005


class Lockstep:
    """One of several ranks that go step by step; see ``measure.Others``.

    A meeting is a small all-reduce: about what the steps of a training do at least.

    Args:
        rank: Which one this is.
        group: The process group of those who meet; no other messages go there.
    """

    def __init__(self, rank: Rank, group: Any) -> None:
        self._number = torch.zeros(1, dtype=torch.int64)
        self._group = group
        self._attendance = Attendance(rank.folder, rank.number)

    def meet(self, number: int) -> int:
        """Waits until all ranks have called it, and answers the largest of their numbers.

        Raises:
            RankLost: If one of them is gone.
        """
        self._attendance.come()
        self._number[0] = number
        try:
            distributed.all_reduce(self._number, distributed.ReduceOp.MAX, self._group)
        except RuntimeError as error:
            raise _lost(error) from error
        return int(self._number[0])

    def told(self) -> int:
        """The largest number of those that all told when this one told its latest.

        Raises:
            TrialError: If another one does not come to that: in a training all would wait for ever.
        """
        give_up_at = time.monotonic() + _LATE_S
        while not self._attendance.all_came():  # they have mostly, since the consumer has met them
            if time.monotonic() > give_up_at:
                raise TrialError(
                    f"no other step of another rank within {_LATE_S:g} s: epochs of different lengths, or it hangs"
                )
            time.sleep(_POLL_S)
        return self._attendance.largest()

    def tell(self, number: int) -> None:
        """Tells the others a number, without waiting."""
        self._attendance.come(number)


def join(rank: Rank) -> Lockstep:
    """Makes torch.distributed ready (gloo), and waits for the others.

    Raises:
        ConfigurationError: If this torch cannot do that.
        RankLost: If another rank is gone.
    """
    if not distributed.is_available():
        raise ConfigurationError(f"ranks={rank.ranks}: this torch has no torch.distributed; allowed is 1")
    _take_threads()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    store = (Path(rank.folder) / _STORE).as_uri()
    try:
        distributed.init_process_group(
            "gloo", init_method=store, rank=rank.number, world_size=rank.ranks, timeout=_FOR_EVER
        )
        group = distributed.new_group(timeout=_FOR_EVER)
    except RuntimeError as error:
        raise _lost(error) from error
    return Lockstep(rank, group)


def _lost(error: RuntimeError) -> RankLost:
    return RankLost(one_line(f"the other ranks could not be met: {error}"))


def meets_by_itself(consumer: Any) -> bool:
    """Whether a consumer makes the ranks wait for each other: it holds a model in DistributedDataParallel."""
    if not distributed.is_initialized():
        return False
    from torch.nn.parallel import DistributedDataParallel

    return _holds(consumer, DistributedDataParallel, _MOST_LEVELS)


def _holds(value: Any, kind: type, levels: int) -> bool:
    """Whether it is one, or has one in its attributes, or in what a partial function is given."""
    if isinstance(value, kind):
        return True
    held = list(getattr(value, "__dict__", {}).values())
    if isinstance(value, functools.partial):
        held += [value.func, *value.args, *value.keywords.values()]
    return levels > 0 and any(_holds(each, kind, levels - 1) for each in held)


def _take_threads() -> None:
    """Those that torchrun gives a rank; torch has read the variable long ago, in the server that arms come from."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > 0:
        torch.set_num_threads(int(threads))


def _loopback() -> str:
    """The name of the loopback interface: by the host's name gloo might look for it in a network."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), "lo")
