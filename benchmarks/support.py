"""The machine's lock, the fork server, progress lines and processes left behind, for
all benchmarks."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import date

import psutil

from nws_sweep.system import fork_server, host, host_lock, processes
from nws_sweep.system.fork_server import ForkServer

LOCK_FILE = host_lock.usual()
_PRELOAD = (
    "torch", "torchvision.transforms", "hydra.utils", "nws_sweep.trials.child",
    "nws_sweep.dataloading.training_steps", "benchmarks.workloads", "benchmarks.search",
)  # fmt: skip
_MARK = "NWS_SWEEP_BENCHMARK"
_GRACE_S = 2.0  # for killed processes to exit
# counting takes CPU time of a timed search, up to 1 ms where hundreds of processes run
_COUNT_EVERY_S = 0.2


def start_fork_server() -> ForkServer:
    """Starts one fork server for all processes, with an environment variable by which
    ``descendants`` finds orphans."""
    os.environ[_MARK] = str(os.getpid())
    return fork_server.ensure_running(_PRELOAD)


def print_line(line: str) -> None:
    """Prints a line with the time on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def origin(command: str, count: int, unit: str) -> str:
    """One sentence about the origin of figures; the unit is ``round`` or
    ``repeat``."""
    here = host.describe()
    return (
        f"Made on {date.today().isoformat()} by `{command}`, {count} {unit}{'s' * (count != 1)}, on {here.cpu_model}, "
        f"{here.usable_cpus} usable of {here.cpu_count} cores, torch {here.torch}, Python {here.python}, "
        f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}."
    )


def descendants() -> set[psutil.Process]:
    """Descendants of this process that are alive, orphans included."""
    found = set(psutil.Process().children(recursive=True))
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(_MARK) == str(os.getpid()):
                found.add(process)
    return {process for process in found if processes.is_alive(process)}


@contextlib.contextmanager
def counting_processes() -> Iterator[list[int]]:
    """Counts the machine's processes now and then, the first time at once; a process of
    another program counts too."""
    counts, has_ended = [_processes()], threading.Event()

    def count() -> None:
        while not has_ended.wait(_COUNT_EVERY_S):
            counts.append(_processes())

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        has_ended.set()
        thread.join()


def _processes() -> int:
    return sum(name.isdecimal() for name in os.listdir("/proc"))  # noqa: PTH208 - as fast as possible


def kill_leftovers(
    before: set[psutil.Process], grace_s: float = _GRACE_S
) -> tuple[str, ...]:
    """Kills descendants that are not in ``before`` and have not exited within
    ``grace_s``; returns a line for each."""
    deadline = time.monotonic() + grace_s
    while (left := descendants() - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    lines = []
    for process in sorted(left, key=lambda process: process.pid):
        with contextlib.suppress(psutil.Error):
            lines.append(
                f"process {process.pid} ({process.status()}), child of {process.ppid()}"
            )
            process.kill()
    return tuple(lines)
