"""What this operating system lacks: Windows cannot measure, and some facts are known on
Linux only."""

import os
import sys

from nws_sweep.errors import NwsSweepError
from nws_sweep.system import torch_internals

# which has /proc, /dev/shm and prctl, and limits the threads of a user
IS_LINUX = sys.platform == "linux"


def reason_not(doing: str) -> str:
    """Why something that starts and pauses processes, such as ``searching``, is
    impossible here; empty if it is not."""
    return "" if hasattr(os, "fork") else f"{doing} needs Linux or macOS"


def reason_not_autotuning() -> str:
    """Why a running program cannot be tuned here, or with this torch, which is
    imported; empty if it can.

    On macOS a worker takes seconds to start and, as torch shares memory there, up to 5
    s to end; its memory is unknown.
    """
    if not IS_LINUX:
        return "autotuning needs Linux"
    missing = torch_internals.missing_names()
    return f"this torch has no {', '.join(missing)}" if missing else ""


def require(doing: str) -> None:
    """Raises NwsSweepError where ``doing`` is impossible."""
    if reason := reason_not(doing):
        raise NwsSweepError(reason)
