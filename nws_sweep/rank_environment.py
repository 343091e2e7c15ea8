"""The environment variables of a rank, as torchrun sets them for the processes of a training on one host."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

from nws_sweep.records import Rank

_ADDRESS = "127.0.0.1"
_USUAL_PORT = 29500  # torchrun's


def of_rank(rank: Rank, port: int, outside: Mapping[str, str]) -> dict[str, str]:
    """The variables of a rank on top of those of the program.

    torchrun's own variables replace whatever a launcher of the program has set: these ranks are others than its. As
    torchrun does, each rank computes with one thread (``OMP_NUM_THREADS``) unless the program says otherwise.

    Args:
        rank: Which one it is.
        port: ``MASTER_PORT``, the same for all ranks.
        outside: The program's variables.
    """
    number, ranks = str(rank.number), str(rank.ranks)
    own = {
        "RANK": number,
        "LOCAL_RANK": number,
        "GROUP_RANK": "0",
        "ROLE_RANK": number,
        "ROLE_NAME": "default",
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "GROUP_WORLD_SIZE": "1",
        "ROLE_WORLD_SIZE": ranks,
        "MASTER_ADDR": _ADDRESS,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "nws_sweep",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    return {"OMP_NUM_THREADS": "1", **outside, **own}


def free_port() -> int:
    """A port that is free now, for programs that read ``MASTER_PORT``: nothing here listens at it."""
    with contextlib.suppress(OSError), socket.socket() as listener:  # without a network any will do
        listener.bind((_ADDRESS, 0))
        port: int = listener.getsockname()[1]
        return port
    return _USUAL_PORT
