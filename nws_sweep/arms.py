"""A trial in a child process of its own: a crash, a hang or the out-of-memory killer takes down the arm only.

Arms are forked from the standard library's fork server, which has imported torch once: a clean process in milliseconds
instead of seconds, and never a fork of a process that has run torch operations (with GNU OpenMP such a child hangs at
its first parallel operation). Where there is no fork server, arms are spawned. An arm that has made its dataset and
done nothing else can be a keeper: further arms are forked from it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from multiprocessing import reduction
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from nws_sweep import processes, temporary, units, usage
from nws_sweep.errors import ConfigurationError, TrialError, TrialOutOfMemory, TrialTimeout, one_line
from nws_sweep.processes import Child, Grandchild
from nws_sweep.records import (
    ArmSpec,
    Burst,
    BurstRequest,
    DatasetFacts,
    LoaderSettings,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
    Usage,
)

# What every arm needs. Of the rest, modules whose import is slow and known to be harmless; a user's own are imported in
# the arm.
_PRELOADED, _FREEZE = ("nws_sweep.arm_process", "hydra.utils"), "nws_sweep.preloaded"
_PRELOADABLE = ("torchvision", "nws_sweep.datasets", "nws_sweep.training")
HAS_FORK_SERVER = "forkserver" in multiprocessing.get_all_start_methods()
_ORDERLY_END_S = 3.0
# A burst that takes longer may wait for a lock that another candidate held when it was stopped.
STALL_S = 10.0
# Who ends all processes of a program at once has reached its main process by then, which asks for that.
_SIGNALLED_S = 0.1
_WATCH_EVERY_S = 0.5  # reading takes a part of a millisecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What the parent of an arm watches over while a command runs.

    Attributes:
        timeout_s: Seconds that all commands may take together, making the dataset included; None for no limit.
        memory_budget_bytes: What its processes may hold; None for no limit.
        on_progress: Called with a line of text while a dataset is being made.
    """

    timeout_s: float | None = None
    memory_budget_bytes: int | None = None
    on_progress: Callable[[str], None] = lambda text: None


UNLIMITED = Supervision()


class Arm:
    """The parent's handle of an arm. ``launch`` and ``fork`` make it and end it with its whole process group.

    Attributes:
        facts: What the dataset said of itself.
        batches_per_epoch: Length of an epoch, once a loader is open; None if unknown.
    """

    facts: DatasetFacts

    def __init__(
        self,
        process: Child,
        connection: Connection,
        supervision: Supervision = UNLIMITED,
    ) -> None:
        self._process = process
        self._connection = connection
        self._supervision = supervision
        self._left_s = supervision.timeout_s
        self._memory_budget_bytes = supervision.memory_budget_bytes
        self._kernel_kills = processes.out_of_memory_kills()
        self._leaves_semaphores = False
        self._on_stall: Callable[[], None] = lambda: None
        self._stall_at = math.inf
        self.batches_per_epoch: int | None = None

    def keep(self) -> str:
        """Makes the dataset and nothing else, so that arms can be forked from this one.

        Returns:
            What stands against that, such as "threads" or "open files"; empty if nothing does.

        Raises:
            DatasetError: If it cannot be made.
            TrialError: If the process died on it or took too long.
        """
        obstacle: str = self._timed("keep")
        if not obstacle:  # from now on it only waits
            self._left_s = self._memory_budget_bytes = None
        return obstacle

    def forked(self, spec: ArmSpec, theirs: Connection, temporary_folder: str) -> Grandchild:
        """Lets this arm, a keeper, fork another, whose end of its connection is handed over."""
        pid: int = self._request(None, "fork", spec, temporary_folder, handed_over=theirs)
        return Grandchild(pid, functools.partial(self._exit_code, pid))

    def _exit_code(self, pid: int) -> int | None:
        try:
            with processes.uninterrupted():  # half an answer would be taken for the next one's
                code: int | None = self._request(None, "exit_code", pid)
        except TrialError:  # it is dead itself
            return None
        return code

    @property
    def pid(self) -> int:
        """The process ID of the arm; 0 if it was never started."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return not wait([self._process.sentinel], 0)

    def prepare(self) -> DatasetFacts:
        """Makes the consumer and the collate_fn, and the dataset if there is none yet.

        Raises:
            DatasetError: If it cannot be made.
            ConfigurationError: If the consumer or the collate_fn cannot be made.
            TrialError: If the process died on it or took too long.
        """
        self.facts = self._timed("prepare")
        return self.facts

    def open(self, settings: LoaderSettings) -> None:
        """Makes the DataLoader."""
        self._leaves_semaphores = settings.num_workers > 0 and settings.multiprocessing_context not in (None, "fork")
        self.batches_per_epoch = self._timed("open", settings)

    def burst(self, request: BurstRequest) -> Burst:
        """Takes a burst.

        Raises:
            TrialError: If loading failed, the process died, or all commands together took longer than the time limit.
        """
        self._stall_at = time.monotonic() + STALL_S
        try:
            burst: Burst = self._timed("burst", request)
        finally:
            self._stall_at = math.inf
        return burst

    def watch(self, on_stall: Callable[[], None]) -> None:
        """Sets what is called when a burst takes longer than ``STALL_S``."""
        self._on_stall = on_stall

    def settle(self) -> None:
        """Waits until the workers have nothing left to do, since the queue is full; a few seconds at most."""
        self._timed("settle")

    def warned(self) -> tuple[str, ...]:
        """The distinct warnings that were issued in the arm."""
        messages: tuple[str, ...] = self._timed("warned")
        return messages

    def files(self) -> tuple[str, ...]:
        """The files and folders that the dataset's attributes name, absolute."""
        paths: tuple[str, ...] = self._timed("files")
        return paths

    def logged(self) -> SamplesLogged:
        """Some of the samples that the workers have made (see identities.py), and the files that they share."""
        logged: SamplesLogged = self._timed("logged")
        return logged

    def load(self, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
        """Loads samples in the process itself; those that raise are left out.

        Args:
            keys: Indices of the samples; of an iterable dataset as many of its first samples are loaded.
            limit_s: No sample is begun after this time, except the first, s; None for no limit.
        """
        samples: tuple[SampleMade, ...] = self._timed("load", keys, limit_s)
        return samples

    def load_in_turn(self, samples: Sequence[SampleMade], settings: LoaderSettings) -> tuple[SampleMade, ...]:
        """Loads samples in workers of the same numbers, of which one loads at a time."""
        loaded: tuple[SampleMade, ...] = self._timed("load_in_turn", samples, settings)
        return loaded

    def samples(self, settings: LoaderSettings, most: int, limit_s: float = math.inf) -> SamplesSeen:
        """The samples of an epoch of a DataLoader of its own, so many at most and for so many seconds."""
        seen: SamplesSeen = self._timed("samples", settings, most, limit_s)
        return seen

    def allow(self, memory_bytes: int | None) -> None:
        """Sets what the arm and its workers may hold from now on; None for no limit."""
        self._memory_budget_bytes = memory_bytes

    def pause(self) -> None:
        """Stops the arm and its workers where they are."""
        processes.pause(self._process)

    def resume(self) -> None:
        """Lets them go on."""
        processes.resume(self._process)

    def usage(self) -> Usage:
        """What the arm and its workers have used so far."""
        return usage.of_tree(self.pid)

    def _timed(self, *command: Any) -> Any:
        """A command whose time counts for the trial's limit."""
        began = time.monotonic()
        try:
            return self._request(self._left_s, *command)
        finally:
            if self._left_s is not None:
                self._left_s = max(0.0, self._left_s - (time.monotonic() - began))

    def _request(self, timeout_s: float | None, *command: Any, handed_over: Connection | None = None) -> Any:
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        try:
            self._connection.send(command)
            if handed_over is not None:
                reduction.send_handle(self._connection, handed_over.fileno(), self._process.pid)
            while True:
                kind, value = self._receive(deadline)
                if kind == "progress":
                    self._supervision.on_progress(value)
                    continue
                break
        except (EOFError, OSError):  # its end, or half a message
            raise self._death() from None
        if kind == "refused":
            raise value
        if kind == "error":
            raise self._failure(value)
        return value

    def _receive(self, deadline: float) -> tuple[str, Any]:
        while True:
            remaining = max(0.0, deadline - time.monotonic())
            ready = wait([self._connection, self._process.sentinel], min(remaining, _WATCH_EVERY_S))
            if self._connection in ready:
                message: tuple[str, Any] = self._connection.recv()
                return message
            if ready:
                raise EOFError
            if remaining == 0:
                limit = f"measure.timeout_s={self._supervision.timeout_s:g} s"
                raise TrialTimeout(f"not done within {limit}; the candidate was killed")
            self._check_memory()
            if time.monotonic() >= self._stall_at:
                self._stall_at = math.inf
                self._on_stall()

    def _check_memory(self) -> None:
        check_memory([self.pid], self._memory_budget_bytes)

    def _death(self) -> TrialError:
        time.sleep(_SIGNALLED_S)
        self._process.join(processes.GONE_WITHIN_S)
        code = self._process.exitcode
        if code is None:
            return TrialError("the loading process was killed with the one that held the dataset")
        if code >= 0:
            return TrialError(f"the loading process ended with exit status {code}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return self._failure(f"the loading process was killed by {name}")

    def _failure(self, reason: str) -> TrialError:
        # The kernel's counter is of the whole machine: it explains a killed process, not an exception.
        if "killed by" in reason and processes.out_of_memory_kills() > self._kernel_kills:
            return TrialOutOfMemory(f"{reason} (the kernel killed a process for want of memory)")
        if "Bus error" in reason or "SIGBUS" in reason:
            return TrialError(f"{reason} (shared memory, /dev/shm, is too small for the batches in flight)")
        return TrialError(reason)

    def kill(self) -> None:
        """Kills it and its workers at once; whoever waits for its answer hears of that. To be closed all the same."""
        processes.kill(self._process)

    def close(self) -> None:
        """Lets the arm end by itself if that is worth waiting for, then kills it and all that descends from it.

        Forked workers leave nothing behind when they are killed. Spawned ones share named semaphores, which the arm
        must give back.
        """
        try:
            if self._leaves_semaphores:
                self.resume()
                with contextlib.suppress(OSError):
                    self._connection.send(None)
                    wait([self._process.sentinel], _ORDERLY_END_S)
        finally:
            with processes.uninterrupted():
                self._connection.close()
                processes.end_tree(self._process)


def check_memory(pids: Sequence[int], budget_bytes: int | None) -> None:
    """Refuses a candidate that holds more than it may before the kernel chooses somebody to kill.

    Args:
        pids: Its arms.
        budget_bytes: What they and their workers may hold together; None for no limit.

    Raises:
        TrialOutOfMemory: If they hold more.
    """
    # Quick to read and hardly ever too low; the exact figure takes longer and is asked for only then.
    if budget_bytes is None or sum(map(usage.resident_bytes, pids)) <= budget_bytes:
        return
    held = sum(map(usage.of_memory, pids))
    if held > budget_bytes:
        raise TrialOutOfMemory(
            f"its processes held {units.memory(held)} of memory, and {units.memory(budget_bytes)} were left of "
            "measure.memory_budget_bytes; the candidate was killed"
        )


@contextlib.contextmanager
def start(spec: ArmSpec, supervision: Supervision = UNLIMITED) -> Iterator[Arm]:
    """Starts an arm with a dataset of its own, and kills it in the end.

    Args:
        spec: What it is made of.
        supervision: What it may take, and who is told how it comes on.

    Raises:
        DatasetError: If the dataset cannot be made.
        ConfigurationError: If the consumer or the collate_fn cannot be made.
        TrialError: If the process died while making them.
    """
    with launch(spec, supervision) as arm:
        arm.prepare()
        yield arm


@contextlib.contextmanager
def launch(spec: ArmSpec, supervision: Supervision = UNLIMITED) -> Iterator[Arm]:
    """As ``start``, but nothing is made yet."""
    if multiprocessing.current_process().daemon:
        raise ConfigurationError("a daemonic process may have no children: measure in the program's main process")
    preload([spec.dataset, spec.consumer])
    context: Any = multiprocessing.get_context("forkserver" if HAS_FORK_SERVER else "spawn")

    def begin(theirs: Connection, folder: str) -> Child:
        process: Child = context.Process(target=_run, args=(theirs, spec, folder), name="nws_sweep-arm")
        try:
            with _without_main():
                process.start()  # type: ignore[attr-defined]
        except (EOFError, ConnectionError) as error:
            raise TrialError(
                f"the server that loading processes are forked from has ended ({one_line(error)}): it was killed, "
                "or did not come through the import of torch"
            ) from error
        return process

    with _begun(begin, supervision) as arm:
        yield arm


@contextlib.contextmanager
def fork(keeper: Arm, spec: ArmSpec, supervision: Supervision = UNLIMITED) -> Iterator[Arm]:
    """As ``start``, with the dataset that another arm keeps."""
    with _begun(lambda theirs, folder: keeper.forked(spec, theirs, folder), supervision) as arm:
        arm.prepare()
        yield arm


@contextlib.contextmanager
def _begun(begin: Callable[[Connection, str], Child], supervision: Supervision) -> Iterator[Arm]:
    """An arm whose process is begun with its end of the connection, and its folder for temporary files."""
    with contextlib.ExitStack() as stack:
        # Ctrl-C in the middle of a start would leave the server with half a message, on which it dies loudly.
        with processes.uninterrupted():
            folder = stack.enter_context(temporary.folder())
            ours, theirs = multiprocessing.Pipe()
            stack.callback(ours.close)
            with theirs:
                arm = Arm(begin(theirs, folder), ours, supervision)
            stack.callback(arm.close)
        yield arm


def _run(connection: Connection, spec: ArmSpec, temporary_folder: str) -> None:
    from nws_sweep.arm_process import main

    main(connection, spec, temporary_folder)


def preload(nodes: Iterable[Mapping[str, Any]]) -> None:
    """Starts the server that arms are forked from, with what these nodes will import; later calls change nothing.

    Args:
        nodes: Datasets and consumers as Hydra instantiates them; all that are going to be measured.
    """
    if not HAS_FORK_SERVER:
        return
    targets = {target for node in nodes for target in _targets(node)}
    modules = {target.rpartition(".")[0] for target in targets if target.startswith(_PRELOADABLE)}
    if any(mentions(target.rpartition(".")[0], "torchvision") for target in targets):
        modules.add("torchvision")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_PRELOADED, *sorted(modules), _FREEZE])
    processes.start_fork_server()


def mentions(module: str, name: str) -> bool:
    """Whether the source of a module has that name in it; found without importing anything."""
    top, *rest = module.split(".")
    found = PathFinder.find_spec(top) if top else None
    if found is None:
        return False
    folders = found.submodule_search_locations
    paths = [Path(folder, *rest) for folder in folders] if folders else [Path(found.origin or "").with_suffix("")]
    sources = [source for path in paths for source in (path.with_suffix(".py"), path / "__init__.py")]
    return any(name in source.read_text("utf-8", errors="replace") for source in sources if source.is_file())


def _targets(node: Any) -> Iterator[str]:
    """Every ``_target_`` in a node of the configuration, those of its arguments too."""
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
