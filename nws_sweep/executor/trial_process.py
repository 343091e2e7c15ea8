"""A trial in a child process of its own: a crash, a hang or the out-of-memory killer takes down the trial process only.

Trial processes are forked from the standard library's fork server, which has imported torch once, and never from a process that
has run torch operations: with GNU OpenMP such a child hangs at its first parallel operation. A trial process that has made its
dataset and done nothing else can become such a server itself, a template process: what is forked from it has the dataset.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from nws_sweep import units
from nws_sweep.errors import ConfigurationError, TrialError, TrialOutOfMemory, TrialTimeout, one_line
from nws_sweep.measurement.environment import TrialProcess
from nws_sweep.results import LoaderSettings, ProcessSpec, Usage
from nws_sweep.system import processes, temporary, usage

# What every trial process needs. Of the rest, modules whose import is slow and known to be harmless.
_PRELOADED, _FREEZE = ("nws_sweep.executor.child", "hydra.utils"), "nws_sweep.executor.preloaded"
_PRELOADABLE = ("torchvision", "nws_sweep.datasets", "nws_sweep.dataloading.training")
_ORDERLY_END_S = 3.0
# A window that takes longer may wait for a lock that another candidate held when it was stopped.
STALL_S = 10.0
_SIGNALLED_S = 0.1
_WATCH_EVERY_S = 0.5  # reading takes a part of a millisecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What the parent of a trial process watches over while a command runs.

    Attributes:
        timeout_s: Seconds that all commands may take together, making the dataset included; None for no limit.
        memory_budget_bytes: What its processes may hold; None for no limit.
        on_progress: Called with a line of text while a dataset is being made.
    """

    timeout_s: float | None = None
    memory_budget_bytes: int | None = None
    on_progress: Callable[[str], None] = lambda text: None


UNLIMITED = Supervision()


def _sent(command: str) -> Any:
    """A method that sends the command to the processes."""
    return lambda process, *arguments: process.request(command, *arguments)


class CommandSender(TrialProcess):
    """A trial process, or several as one: what ``TrialProcess`` can be asked is sent to processes (``arm_process`` answers)."""

    def __init__(self, supervision: Supervision) -> None:
        self._memory_budget_bytes = supervision.memory_budget_bytes
        self._on_stall: Callable[[], None] = lambda: None
        self.batches_per_epoch = None

    window = _sent("window")
    wait_until_idle = _sent("wait_until_idle")
    warned = _sent("warned")
    files = _sent("files")
    logged = _sent("logged")
    load = _sent("load")
    load_one_by_one = _sent("load_one_by_one")
    samples = _sent("samples")

    def request(self, command: str, *arguments: Any) -> Any:
        """What the processes answer to a command."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Makes the consumer and the collate_fn, and the dataset if there is none yet."""
        self.facts = self.request("prepare")

    def open(self, settings: LoaderSettings) -> None:
        """Makes the DataLoader."""
        self.batches_per_epoch = self.request("open", settings)

    def watch(self, on_stall: Callable[[], None]) -> None:
        """Sets what is called when a window, or loading, takes longer than ``STALL_S``."""
        self._on_stall = on_stall

    def allow(self, memory_bytes: int | None) -> None:
        """Sets what the processes may hold together from now on; None for no limit."""
        self._memory_budget_bytes = memory_bytes


class ChildProcess(CommandSender):
    """The parent's handle of a trial process. ``launch`` makes it and ends it with its whole process group."""

    def __init__(
        self,
        child: BaseProcess,
        connection: Connection,
        supervision: Supervision = UNLIMITED,
        template: ChildProcess | None = None,
    ) -> None:
        super().__init__(supervision)
        self._child = child
        self._connection = connection
        self._supervision = supervision
        self._template = template
        self._left_s = supervision.timeout_s
        self._kernel_kills = processes.out_of_memory_kills()
        self._settings: LoaderSettings | None = None
        self._stall_at = math.inf
        self._unanswered: TrialError | None = None
        self.template_server: _TemplateServer | None = None

    def make_template(self) -> str:
        """Makes the dataset only, to fork trial processes from here; what stands against that, if so."""
        obstacle, address = self.request("make_template")
        if not obstacle:  # from now on it only waits
            self._left_s = self._memory_budget_bytes = None
            self.template_server = _TemplateServer(address, self._connection.fileno())
        return str(obstacle)

    @property
    def pid(self) -> int:
        """The process ID of the trial process."""
        assert self._child.pid is not None
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return not wait([self._child.sentinel], 0)

    def pause(self) -> None:
        """Stops the trial process and its workers where they are."""
        processes.signal_group(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets them go on."""
        processes.signal_group(self.pid, signal.SIGCONT)

    def usage(self) -> Usage:
        """What the trial process and its workers have used so far."""
        return usage.of_tree(self.pid)

    def request(self, command: str, *arguments: Any) -> Any:
        """What the process answers to a command."""
        if self._unanswered is not None:  # what comes now would be the answer to something else
            raise self._unanswered
        if command == "open":
            self._settings = arguments[0]
        began = time.monotonic()
        deadline = math.inf if self._left_s is None else began + self._left_s
        self._stall_at = began + STALL_S if command in ("window", "load") else math.inf
        try:
            self._connection.send((command, *arguments))
            while (answer := self._receive(deadline))[0] == "progress":
                self._supervision.on_progress(answer[1])
        except (EOFError, OSError):  # its end, or half a message
            raise self._death() from None
        except TrialError as error:
            self._unanswered = error
            raise
        finally:
            if self._left_s is not None:
                self._left_s = max(0.0, self._left_s - (time.monotonic() - began))
        if answer[0] == "error":
            raise self._explained(answer[1])
        return answer[1]

    def _receive(self, deadline: float) -> Any:
        while True:
            remaining = max(0.0, deadline - time.monotonic())
            ready = wait([self._connection, self._child.sentinel], min(remaining, _WATCH_EVERY_S))
            if self._connection in ready:
                return self._connection.recv()
            if ready:
                raise EOFError
            if remaining == 0:
                limit = f"measure.timeout_s={self._supervision.timeout_s:g} s"
                raise TrialTimeout(f"not done within {limit}; the candidate was killed")
            check_memory([self.pid], self._memory_budget_bytes)
            if time.monotonic() >= self._stall_at:
                self._stall_at = math.inf
                self._on_stall()

    def _death(self) -> Exception:
        time.sleep(_SIGNALLED_S)
        self._child.join(processes.GONE_WITHIN_S)
        code = self._child.exitcode
        if self._template is not None and not self._template.alive:
            return TrialError("the loading process was killed with the one that held the dataset")
        if code is None or code >= 0:
            return TrialError(f"the loading process ended with exit status {code}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return self._explained(TrialError(f"the loading process was killed by {name}"))

    def _explained(self, error: Exception) -> Exception:
        """The error, or what the kernel and the size of shared memory say of a process that was killed."""
        reason = str(error) if type(error) is TrialError else ""
        # The kernel's counter is of the whole machine: it explains a killed process, not an exception.
        if "killed by" in reason and processes.out_of_memory_kills() > self._kernel_kills:
            return TrialOutOfMemory(f"{reason} (the kernel killed a process for want of memory)")
        if "Bus error" in reason or "SIGBUS" in reason:
            return TrialError(f"{reason} (shared memory, /dev/shm, is too small for the batches in flight)")
        return error

    def kill(self) -> None:
        """Kills it and its workers at once; it is to be closed all the same."""
        processes.signal_group(self.pid, signal.SIGKILL)
        self._child.kill()  # it may not lead its group yet

    def close(self) -> None:
        """Lets the trial process end by itself if that is worth waiting for, then kills it and all that descends from it."""
        settings = self._settings
        try:  # forked workers leave nothing when they are killed, spawned ones share semaphores, to be given back
            if settings and settings.num_workers and settings.multiprocessing_context not in (None, "fork"):
                self.resume()
                with contextlib.suppress(OSError):
                    self._connection.send(None)
                    wait([self._child.sentinel], _ORDERLY_END_S)
        finally:
            with processes.uninterrupted():
                self._connection.close()
                processes.kill_tree(self._child)


class _TemplateServer(forkserver.ForkServer):
    """A template process, as multiprocessing asks its fork server for processes."""

    def __init__(self, address: str, connection: int) -> None:
        super().__init__()
        self._forkserver_address, self._forkserver_alive_fd = address, connection

    def ensure_running(self) -> None:
        """It runs: no process but ``Trial process.keep`` starts one."""


def check_memory(pids: Sequence[int], budget_bytes: int | None) -> None:
    """Refuses trial processes that hold more together than they may, before the kernel kills someone."""
    # Quick to read and hardly ever too low; the exact figure takes longer and is asked for only then.
    if budget_bytes is None or sum(map(usage.resident_bytes, pids)) <= budget_bytes:
        return
    held = sum(map(usage.memory_bytes, pids))
    if held > budget_bytes:
        raise TrialOutOfMemory(
            f"its processes held {units.memory(held)} of memory, and {units.memory(budget_bytes)} were left of "
            "measure.memory_budget_bytes; the candidate was killed"
        )


@contextlib.contextmanager
def start(
    spec: ProcessSpec, supervision: Supervision = UNLIMITED, template: ChildProcess | None = None
) -> Iterator[ChildProcess]:
    """Starts a trial process, and kills it in the end; with a template process it gets the template process's dataset, else one of its own.

    Raises what ``DatasetServer.start`` does.
    """
    with launch(spec, supervision, template) as process:
        process.prepare()
        yield process


@contextlib.contextmanager
def launch(
    spec: ProcessSpec, supervision: Supervision = UNLIMITED, template: ChildProcess | None = None
) -> Iterator[ChildProcess]:
    """As ``start``, but nothing is made yet."""
    if multiprocessing.current_process().daemon:
        raise ConfigurationError("a daemonic process may have no children: measure in the program's main process")
    if template is None:
        preload([spec.dataset, spec.consumer])
    with contextlib.ExitStack() as stack:
        # Ctrl-C in the middle of a start would leave the server with half a message, on which it dies loudly.
        with processes.uninterrupted():
            folder = stack.enter_context(temporary.folder())
            ours, theirs = multiprocessing.Pipe()
            stack.callback(ours.close)
            child = multiprocessing.get_context("forkserver").Process(
                target=_run, args=(theirs, spec, folder), name="nws_sweep-trial"
            )
            try:
                with theirs, _starting(template):
                    child.start()
            except (EOFError, ConnectionError) as error:
                raise TrialError(
                    f"the server that loading processes are forked from has ended ({one_line(error)}): it was killed, "
                    "or did not come through the import of torch"
                ) from error
            process = ChildProcess(child, ours, supervision, template)
            stack.callback(process.close)
        yield process


def _run(*arguments: Any) -> None:
    from nws_sweep.executor.child import main

    main(*arguments)


@contextlib.contextmanager
def _starting(template: ChildProcess | None) -> Iterator[None]:
    """Hides the main module meanwhile, or a script without a main guard would train twice in the child."""
    main, connect = sys.modules["__main__"], forkserver.connect_to_new_process
    sys.modules["__main__"] = types.ModuleType("__main__")
    if template is not None and template.template_server is not None:
        forkserver.connect_to_new_process = template.template_server.connect_to_new_process
    try:
        yield
    finally:
        sys.modules["__main__"], forkserver.connect_to_new_process = main, connect


def preload(nodes: Iterable[Mapping[str, Any]]) -> None:
    """Starts the server that trial processes are forked from, once, with what these nodes import."""
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
