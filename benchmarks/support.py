"""What every benchmark needs around itself: the lock, the fork server, a voice, an eye on processes left behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
from datetime import date

import psutil

from nws_sweep.system import host, processes

LOCK_FILE = os.environ.get("NWS_SWEEP_LOCK_FILE", "/tmp/nws_sweep.lock")  # conf/paths has the same
_PRELOAD = (
    "torch", "torchvision.transforms", "hydra.utils", "nws_sweep.executor.child", "nws_sweep.dataloading.consumers",
    "benchmarks.workloads", "benchmarks.bias", "benchmarks.search", "nws_sweep.executor.preloaded",
)  # fmt: skip
_MARK = "NWS_SWEEP_BENCHMARK"
_GRACE_S = 2.0  # killed processes take a moment to die


def start_fork_server() -> None:
    """One server for all sides: their processes begin alike, and can be known as this process's, orphans too."""
    os.environ[_MARK] = str(os.getpid())
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(_PRELOAD))
    processes.start_fork_server()


def print_line(line: str) -> None:
    """Tells what is going on, on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def origin(command: str, count: int, unit: str) -> str:
    """One sentence where the figures of a page come from; the unit is what the page has several of."""
    here = host.describe()
    return (
        f"Made on {date.today().isoformat()} by `{command}`, {count} {unit}{'s' * (count != 1)}, on {here.cpu_model}, "
        f"{here.usable_cpus} usable of {here.cpu_count} cores, torch {here.torch}, Python {here.python}, "
        f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}."
    )


def descendants() -> set[psutil.Process]:
    """All living descendants of this process, and orphans of them."""
    found = set(psutil.Process().children(recursive=True))
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(_MARK) == str(os.getpid()):
                found.add(process)
    return {process for process in found if processes.is_alive(process)}


def kill_leftovers(before: set[psutil.Process], grace_s: float = _GRACE_S) -> tuple[str, ...]:
    """Ends processes that were not there before: they would disturb what is measured next.

    Args:
        before: The family at that time: fork server, resource tracker.
        grace_s: How long they may take to go by themselves, s.

    Returns:
        A line for each.
    """
    deadline = time.monotonic() + grace_s
    while (left := descendants() - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    lines = []
    for process in sorted(left, key=lambda process: process.pid):
        with contextlib.suppress(psutil.Error):
            lines.append(f"process {process.pid} ({process.status()}), a child of {process.ppid()}")
            process.kill()
    return tuple(lines)
