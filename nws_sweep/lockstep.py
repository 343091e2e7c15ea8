"""Ranks in an arm: a process group of torch.distributed, as a training has one, and the meeting after each step.

Ranks find each other by files in a folder and talk over the loopback interface: neither a network nor a free port is
needed, and other trainings of this host are not met.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from nws_sweep.attendance import Attendance
from nws_sweep.errors import ConfigurationError, RankLost, one_line
from nws_sweep.records import Rank

# Ranks stand still while other candidates are measured; whoever started them knows how long a meeting may take.
_FOR_EVER = timedelta(days=30)
_STORE = "store"


class Meeting:
    """Where all ranks wait for each other; each calls it as often as the others.

    Args:
        rank: Which one this is.
        group: The process group of those who meet; no other messages go there.
    """

    def __init__(self, rank: Rank, group: Any) -> None:
        self._number = torch.zeros(1, dtype=torch.int64)
        self._group = group
        self._attendance = Attendance(rank.folder, rank.number)

    def __call__(self, number: int) -> int:
        """Waits until all ranks have called it, and answers the largest of their numbers.

        Raises:
            RankLost: If one of them is gone.
        """
        self._attendance.come()
        self._number[0] = number
        try:
            distributed.all_reduce(self._number, distributed.ReduceOp.MAX, self._group)
        except RuntimeError as error:
            raise RankLost(one_line(f"the other ranks could not be met: {error}")) from error
        return int(self._number[0])


def join(rank: Rank) -> Meeting:
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
        raise RankLost(one_line(f"the other ranks could not be met: {error}")) from error
    return Meeting(rank, group)


def _take_threads() -> None:
    """Those that torchrun gives a rank; torch has read the variable long ago, in the server that arms come from."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > 0:
        torch.set_num_threads(int(threads))


def _loopback() -> str:
    """The name of the loopback interface: by the host's name gloo might look for it in a network."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), "lo")
