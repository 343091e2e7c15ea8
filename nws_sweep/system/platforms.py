"""What this operating system lacks: Windows cannot measure, and some facts are known on Linux only."""

from __future__ import annotations

import os
import sys

from nws_sweep.errors import NwsSweepError

IS_LINUX = sys.platform == "linux"  # which has /proc, /dev/shm and prctl, and limits the threads of a user


def reason_not(doing: str) -> str:
    """Why something that starts and pauses processes, such as ``searching``, is impossible here; empty if it is not."""
    return "" if hasattr(os, "fork") else f"{doing} needs Linux or macOS"


def require(doing: str) -> None:
    """Raises NwsSweepError where ``doing`` is impossible."""
    if reason := reason_not(doing):
        raise NwsSweepError(reason)
