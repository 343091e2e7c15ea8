"""Neighbours: processes that compute beside a search or a bare loop, as programs of
other users of a machine do.

Each is a Python process that runs this module, and dies with the benchmark, also after
SIGKILL.
"""

import contextlib
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.journal import QUIET
from nws_sweep.system import host, processes

ONE, BOTH, ALTERNATING = "one", "both", "alternating"
KINDS = {
    QUIET: "no neighbour",
    ONE: "a neighbour that computes on one CPU",
    BOTH: "a neighbour that computes on each CPU",
    ALTERNATING: "a neighbour on each CPU that computes for 4 s and rests for 4 s",
}
_PHASE_S = 4.0
_READY = "ready\n"


@contextlib.contextmanager
def beside(kind: str) -> Iterator[None]:
    """Runs a neighbour of one of ``KINDS`` meanwhile; RuntimeError if it does not
    start."""
    count = {QUIET: 0, ONE: 1}.get(kind, host.usable_cpus())
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(_started(kind)) for _ in range(count)]
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline() != _READY:
                raise RuntimeError(
                    f"the neighbour {kind} exited with status {process.wait()}"
                )
        yield


@contextlib.contextmanager
def _started(kind: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", __name__, kind]
    root = Path(__file__).parent.parent
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def compute(is_busy: Callable[[float], bool], end_s: float = math.inf) -> None:
    """Computes while ``is_busy`` of the monotonic clock, and sleeps otherwise."""
    value = 0
    while (now_s := time.monotonic()) < end_s:
        if not is_busy(now_s):
            time.sleep(0.05)
            continue
        for number in range(20_000):
            value = (value * 31 + number) % 1_000_003


def is_busy_phase(now_s: float) -> bool:
    """Whether the neighbours that come and go compute, all at the same time."""
    return now_s // _PHASE_S % 2 == 0


def _main(kind: str) -> None:
    processes.die_with_parent()
    print(_READY, end="", flush=True)
    compute(is_busy_phase if kind == ALTERNATING else lambda _: True)


if __name__ == "__main__":
    _main(sys.argv[1])
