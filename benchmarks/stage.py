"""What every benchmark needs around itself: the lock, the fork server, a voice."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time

from benchmarks import leftovers
from nws_sweep import processes

LOCK_FILE = os.environ.get("NWS_SWEEP_LOCK_FILE", "/tmp/nws_sweep.lock")  # conf/paths has the same
_PRELOAD = (
    "torch", "torchvision.transforms", "hydra.utils", "nws_sweep.arm_process", "nws_sweep.consumers",
    "benchmarks.workloads", "benchmarks.bias", "benchmarks.contest", "nws_sweep.preloaded",
)  # fmt: skip


def start_fork_server() -> None:
    """One server for all sides: their processes begin alike."""
    leftovers.mark()
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(_PRELOAD))
    processes.start_fork_server()


def say(line: str) -> None:
    """Tells what is going on, on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
