"""A trial in a child process of its own: a crash, a hang or the out-of-memory killer takes down the arm only.

Arms are forked from the standard library's fork server, which has imported torch once: a clean process in milliseconds
instead of seconds, and never a fork of a process that has run torch operations (with GNU OpenMP such a child hangs at
its first parallel operation). Where there is no fork server, arms are spawned.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nws_sweep.errors import TrialError, TrialOutOfMemory, TrialTimeout
from nws_sweep.records import ArmSpec, Burst, BurstRequest, DatasetFacts, LoaderSettings

if TYPE_CHECKING:
    import psutil

# Modules whose import is slow and known to be harmless; a user's own are imported in the arm.
_PRELOADABLE = ("torchvision", "nws_sweep.datasets")
_KILLED_PROCESSES_GONE_S = 5.0
_ORDERLY_END_S = 3.0
_POLL_S = 0.002


class Arm:
    """The parent's handle of an arm. ``start`` makes it and ends it with its whole process group.

    Attributes:
        facts: What the dataset said of itself.
        batches_per_epoch: Length of an epoch, once a loader is open; None if unknown.
    """

    facts: DatasetFacts

    def __init__(
        self,
        process: BaseProcess,
        connection: Connection,
        timeout_s: float | None = None,
        on_progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._process = process
        self._connection = connection
        self._timeout_s = timeout_s
        self._on_progress = on_progress
        self._kernel_kills = _out_of_memory_kills()
        self._leaves_semaphores = False
        self.batches_per_epoch: int | None = None

    def prepare(self) -> DatasetFacts:
        """Makes the dataset, however long that takes (a download, say).

        Raises:
            DatasetError: If it cannot be made.
            ConfigurationError: If the consumer or the collate_fn cannot be made.
            TrialError: If the process died on it.
        """
        self.facts = self._request(None, "prepare")
        return self.facts

    def open(self, settings: LoaderSettings) -> None:
        """Makes the DataLoader."""
        self._leaves_semaphores = settings.num_workers > 0 and settings.multiprocessing_context not in (None, "fork")
        self.batches_per_epoch = self._request(self._timeout_s, "open", settings)

    def burst(self, request: BurstRequest) -> Burst:
        """Takes a burst.

        Raises:
            TrialError: If loading failed, the process died, or no answer came within the time limit.
        """
        burst: Burst = self._request(self._timeout_s, "burst", request)
        return burst

    def warned(self) -> tuple[str, ...]:
        """The distinct warnings that were issued in the arm."""
        messages: tuple[str, ...] = self._request(self._timeout_s, "warned")
        return messages

    def _request(self, timeout_s: float | None, *command: Any) -> Any:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            self._connection.send(command)
            while True:
                kind, value = self._receive(deadline, timeout_s)
                if kind == "progress":
                    self._on_progress(value)
                    continue
                break
        except (EOFError, ConnectionError):
            raise self._death() from None
        if kind == "refused":
            raise value
        if kind == "error":
            raise self._failure(value)
        return value

    def _receive(self, deadline: float | None, timeout_s: float | None) -> tuple[str, Any]:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = wait([self._connection, self._process.sentinel], remaining)
        if self._connection in ready:
            message: tuple[str, Any] = self._connection.recv()
            return message
        if ready:
            raise EOFError
        raise TrialTimeout(f"no answer within measure.timeout_s={timeout_s:g} s; the candidate was killed")

    def _death(self) -> TrialError:
        self._process.join(_KILLED_PROCESSES_GONE_S)
        code = self._process.exitcode
        if code is None or code >= 0:
            return TrialError(f"the loading process ended with exit status {code}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return self._failure(f"the loading process was killed by {name}")

    def _failure(self, reason: str) -> TrialError:
        if _out_of_memory_kills() > self._kernel_kills:
            return TrialOutOfMemory(f"{reason} (the kernel killed a process for want of memory)")
        if "Bus error" in reason or "SIGBUS" in reason:
            return TrialError(f"{reason} (shared memory, /dev/shm, is too small for the batches in flight)")
        return TrialError(reason)

    def close(self) -> None:
        """Lets the arm end by itself if that is worth waiting for, then kills it and all that descends from it.

        Forked workers leave nothing behind when they are killed. Spawned ones share named semaphores, which the arm
        must give back.
        """
        if self._process.pid is None:  # interrupted before it began
            return
        if self._leaves_semaphores:
            with contextlib.suppress(OSError):
                self._connection.send(None)
                wait([self._process.sentinel], _ORDERLY_END_S)
        with _uninterrupted():
            self._kill(self._process.pid)

    def _kill(self, pid: int) -> None:
        family = _descendants(pid)
        self._connection.close()
        with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
            os.killpg(pid, signal.SIGKILL)
        self._process.kill()
        self._process.join(_KILLED_PROCESSES_GONE_S)
        _end(family)
        _remove_shared_memory([pid, *(process.pid for process in family)])


@contextlib.contextmanager
def start(
    spec: ArmSpec, timeout_s: float | None = None, on_progress: Callable[[str], None] = lambda text: None
) -> Iterator[Arm]:
    """Starts an arm with its dataset made, and kills it in the end.

    Args:
        spec: What it is made of.
        timeout_s: Seconds that each later command may take, None for no limit.
        on_progress: Called with a line of text while a dataset is being made.

    Raises:
        DatasetError: If the dataset cannot be made.
        ConfigurationError: If the consumer or the collate_fn cannot be made.
        TrialError: If the process died while making them.
    """
    context = _context(spec.dataset)
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, spec), name="nws_sweep-arm")
    arm = Arm(process, ours, timeout_s, on_progress)
    try:
        # Ctrl-C in the middle of a start would leave the fork server with half a message, on which it dies loudly.
        with _uninterrupted(), _without_main():
            process.start()
        theirs.close()
        arm.prepare()
        yield arm
    finally:
        arm.close()


def _run(connection: Connection, spec: ArmSpec) -> None:
    from nws_sweep.arm_process import main

    main(connection, spec)


def _context(dataset: Mapping[str, Any]) -> Any:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    modules = {target.rpartition(".")[0] for target in _targets(dataset) if target.startswith(_PRELOADABLE)}
    context.set_forkserver_preload(["nws_sweep.arm_process", "hydra.utils", *sorted(modules)])
    _start_fork_server()
    return context


def _start_fork_server() -> None:
    """Starts it deaf to Ctrl-C, unless it runs: by itself it is so only after importing torch, and would die before."""
    from multiprocessing import forkserver  # not on every platform

    if threading.current_thread() is not threading.main_thread():
        forkserver.ensure_running()
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _targets(node: Any) -> Iterator[str]:
    """Every ``_target_`` in a dataset's configuration, its transforms' too."""
    if isinstance(node, Mapping):
        yield from (str(value) for key, value in node.items() if key == "_target_")
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from _targets(value)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hides the main module while a process starts, which would otherwise run the main script again in the child.

    A script without a ``if __name__ == "__main__"`` guard would train twice.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Holds back Ctrl-C until the block is done. Only the main thread is ever interrupted by it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if received:
            raise KeyboardInterrupt


def _descendants(pid: int) -> list[psutil.Process]:
    import psutil

    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _end(family: Sequence[psutil.Process]) -> None:
    """Kills those that left the arm's process group, and waits until all are dead.

    A dead process whose parent is gone stays a zombie until init takes notice, which takes seconds in some containers:
    it holds no memory and runs no more, so that is not waited for.
    """
    import psutil

    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + _KILLED_PROCESSES_GONE_S
    while any(_is_alive(process) for process in family) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _is_alive(process: psutil.Process) -> bool:
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _remove_shared_memory(pids: Sequence[int]) -> None:
    """Removes the segments that killed processes had no time to unlink; torch names them after the process."""
    for pid in pids:
        for segment in Path("/dev/shm").glob(f"torch_{pid}_*"):
            segment.unlink(missing_ok=True)


def _out_of_memory_kills() -> int:
    """How often the kernel has killed a process for want of memory since it started, 0 where it does not say."""
    try:
        counters = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in counters if line.startswith("oom_kill ")), 0)
