"""The inside of a trial process: a child process that makes the dataset, owns one DataLoader and answers commands over a pipe.

Runs in a child that was forked from a server with torch preloaded (see trial processes.py), or from another trial process that has made the
dataset. Ends its own process group, to which its workers belong, when the process that started it is gone.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from hydra.errors import HydraException
from hydra.utils import instantiate
from torch.utils.data import IterableDataset

from nws_sweep.dataloading import loaders, objects
from nws_sweep.dataloading.counting import Counter, WorkerStart
from nws_sweep.dataloading.digests import SampleLog, identify, identify_one, load_in_process, load_one_by_one
from nws_sweep.dataloading.loaders import Source
from nws_sweep.errors import ConfigurationError, DatasetError, NwsSweepError, TrialError, one_line
from nws_sweep.executor import forking, lockstep
from nws_sweep.executor.lockstep import Lockstep
from nws_sweep.measurement.timing import LoaderSession
from nws_sweep.results import (
    DatasetFacts,
    LoaderSettings,
    ProcessSpec,
    PythonObjects,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
    Window,
    WindowRequest,
)
from nws_sweep.system import accelerator, page_cache, processes, temporary

# torch says these once a DataLoader; nws_sweep tries many on purpose and says what matters itself.
_EXPECTED_WARNINGS = (
    r"This DataLoader will create \d+ worker processes",
    r"'pin_memory' argument is set as true but no accelerator is found",
    r"This process .* is multi-threaded, use of fork\(\) may lead to deadlocks",  # Python 3.12; our own watching thread
)
_MOST_WARNINGS = 5
_SOONER_KILLED = "300"  # of 1000: as if it held 30 % more of the machine's memory
_IDLE_WITHIN_S, _DEAD_WITHIN_S, _POLL_S = 5.0, 1.0, 0.005


class _ChildCommands:
    """What a trial process answers to ``trial processes.Commanded``; every public method is a command."""

    spec: ProcessSpec
    folder: str  # for temporary files
    listener: (
        socket.socket | None
    )  # of a template process: where trial processes can be asked for that are forked from it

    def __init__(self) -> None:
        self._source: Any = None
        self._objects: tuple[PythonObjects, ...] = ()
        self._handles: tuple[str, ...] = ()
        self._warnings: dict[str, None] = {}
        self._files: dict[int, str] = {}
        self._positions: dict[int, int] = {}
        self._session: Any = None
        self._others: Lockstep | None = None
        self._counter: Counter | None = None
        self._log: SampleLog | None = None

    def keep(self) -> tuple[str, str]:
        """What stands against forking trial processes from here, and else the address at which they can be asked for."""
        before = forking.footprint()
        self._make_source()
        if obstacle := forking.obstacle_since(before):
            return obstacle, ""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(Path(self.folder, "template")))
        self.listener.listen()
        return "", self.listener.getsockname()

    def prepare(self) -> DatasetFacts:
        if self.spec.rank is not None:  # datasets may ask which rank they are made in
            self._others = lockstep.join(self.spec.rank)
        if self._source is None:
            self._make_source()
        torch.manual_seed(self.spec.seed)
        self._consumer = _make_consumer(self.spec.consumer)
        self._collate_fn = _make("loader.collate_fn", self.spec.collate_fn, ConfigurationError)
        dataset = self._source.dataset
        return DatasetFacts(
            type=f"{type(dataset).__module__}.{type(dataset).__qualname__}",
            iterable=isinstance(dataset, IterableDataset),
            samples=self._source.samples,
            accelerator=accelerator.available(),
            objects=self._objects,
            handles=self._handles,
            loader=self._source.settings,
            project=self._source.project,
        )

    def _make_source(self) -> None:
        torch.manual_seed(self.spec.seed)
        before = objects.open_files()
        made, target = _make("dataset", self.spec.dataset, DatasetError), self.spec.dataset.get("_target_")
        self._source = Source(made, self.spec.seed, self.spec.rank)
        dataset = self._source.dataset
        if not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
            raise DatasetError(
                f"dataset {target}: got {type(dataset).__name__}, which has neither __getitem__ nor __iter__"
            )
        if self._source.samples == 0:
            raise DatasetError(f"dataset {target} is empty: 0 samples, at least 1 is needed")
        self._objects = _found_in(dataset, objects.python_objects)
        if multiprocessing.get_start_method() == "fork":
            self._files = {number: path for number, path in objects.open_files().items() if number not in before}
            self._handles = _found_in(dataset, lambda dataset: objects.handles(self._files.values(), dataset))

    def open(self, settings: LoaderSettings) -> int | None:
        self._counter = counter = Counter(settings.num_workers) if settings.num_workers else None
        self._log = SampleLog(self.folder) if self.spec.logs_samples else None
        start = WorkerStart(counter, threads=settings.threads_per_worker, log=self._log) if counter else None
        loader = self._source.loader(settings, self._collate_fn, start)
        self._session = LoaderSession(
            loader,
            self._consumer,
            default_batch_length=settings.batch_size or 1,
            # Samples can be told from batches only where the DataLoader makes the batches.
            produced=counter if counter and settings.batch_size is not None else (lambda: None),
            drain=settings.persistent_workers,
            others=self._others,
            consumer_synchronizes=self._others is not None and lockstep.synchronizes_itself(self._consumer),
        )
        self._settings, self._batches = settings, loaders.length(loader)
        self._positions = objects.positions(self._files)
        return self._batches

    def window(self, request: WindowRequest) -> Window:
        window: Window = self._session.window(request)
        counter = self._counter
        iterable = isinstance(self._source.dataset, IterableDataset)
        if window.ended_epoch and counter and iterable and (idle := counter.idle()):
            reason = "fewer shards than workers, or shards that are not shared out"
            self._warnings[f"{idle} of {len(counter.slots)} workers got no samples in an epoch: {reason}"] = None
        return window

    def wait_until_idle(self) -> None:
        give_up_at = time.monotonic() + _IDLE_WITHIN_S
        while not self._session.is_idle(self._settings.queued_batches, self._batches):
            if time.monotonic() >= give_up_at:
                return
            time.sleep(_POLL_S)

    def files(self) -> tuple[str, ...]:
        return tuple(os.path.abspath(path) for path in page_cache.paths_in(self._source.dataset))  # noqa: PTH100 - a million

    def logged(self) -> SamplesLogged:
        moved = dict(objects.positions(self._files).items() - self._positions.items())
        return SamplesLogged(
            samples=self._log.read() if self._log else (),
            moved_files=tuple(self._files[number] for number in moved),
        )

    def load(self, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
        return load_in_process(self._source.dataset, keys, limit_s)

    def load_one_by_one(self, samples: Sequence[SampleMade], settings: LoaderSettings) -> tuple[SampleMade, ...]:
        start = WorkerStart(Counter(settings.num_workers))
        self._source.loader(settings, None, start)  # gives it the user's own worker_init_fn
        return load_one_by_one(self._source.dataset, samples, start, settings.multiprocessing_context)

    def samples(self, settings: LoaderSettings, most: int, limit_s: float = math.inf) -> SamplesSeen:
        start = WorkerStart(Counter(settings.num_workers)) if settings.num_workers else None
        loader = self._source.loader(settings, identify_one if settings.batch_size is None else identify, start)
        began = time.monotonic()
        digests: list[bytes | None] = []
        workers: set[int] = set()
        is_complete = True
        for delivered in loader:
            workers.add(delivered.worker)
            digests += delivered.digests
            is_complete = len(digests) < most and time.monotonic() - began <= limit_s
            if not is_complete:
                break
        return SamplesSeen(digests=tuple(digests), workers=frozenset(workers), complete=is_complete)

    def warned(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def note_warning(self, message: Warning | str, *_: Any) -> None:
        """Takes the place of ``warnings.showwarning``."""
        if len(self._warnings) < _MOST_WARNINGS:
            self._warnings[one_line(message)] = None
        else:  # each sample may have its own
            self._warnings["further warnings are left out"] = None


_kept: _ChildCommands | None = None  # in what is forked from a template process: what it was there, with its dataset


def main(connection: Connection, spec: ProcessSpec, temporary_folder: str) -> None:
    """Answers commands until told to stop, or until the other end is gone."""
    processes.let_fork_server_go()
    # A child of the fork server would hand down "forkserver" to the DataLoader's workers; they get what the user's own
    # program would give them.
    multiprocessing.set_start_method(spec.start_method, force=True)
    if spec.environment is not None:
        os.environ.clear()
        os.environ.update(spec.environment)
    if spec.import_path is not None:
        sys.path[:] = spec.import_path
    for pattern in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message=pattern)
    processes.keep_sockets_in(temporary_folder)
    temporary.note_process(temporary_folder)
    if spec.rank is None:
        os.setpgid(0, 0)  # to be stopped and killed by
    else:
        # As torchrun does: Linux shares the CPUs among sessions first (sched(7), autogroup).
        os.setsid()
    if _kept is not None:  # if memory runs out this process is killed sooner than the template process
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_SOONER_KILLED)
    processes.die_with_parent()
    os.chdir(spec.working_folder)
    threading.Thread(target=_end_group_with_parent, name="end-group-with-parent", daemon=True).start()
    processes.hear_signals()
    _redirect_output(spec.log_path)
    server = _kept or _ChildCommands()
    server.spec, server.folder, server.listener = spec, temporary_folder, None
    warnings.showwarning = server.note_warning  # type: ignore[assignment]
    _forward_progress(connection)
    # A parent that is gone ends the pipe; the thread above then ends the workers too.
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(connection, server)


def _end_group_with_parent() -> None:
    """For what the dataset has started besides, which the kernel does not end."""
    parent: Any = parent_process()
    wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _serve(connection: Connection, server: _ChildCommands) -> None:
    deaths = _WorkerDeaths()
    while (command := connection.recv()) is not None:
        try:
            answer = _answer(server, deaths, *command)
        except RuntimeError as error:  # a second worker died when the answer to the first one's death was made
            answer = "error", TrialError(describe_exception(error))
        deaths.mute()
        connection.send(answer)
        if server.listener is not None:
            global _kept  # noqa: PLW0603 - what is forked from here finds it there
            _kept = server
            forkserver.main(server.listener.detach(), connection.fileno(), [])


def _answer(server: _ChildCommands, deaths: _WorkerDeaths, name: str, *arguments: Any) -> tuple[str, Any]:
    """The command's result, or why there is none; whatever a dataset raises must not end the search."""
    try:
        deaths.hear()
        return "result", getattr(server, name)(*arguments)
    except NwsSweepError as error:
        return "error", error
    except Exception as error:
        deaths.mute()
        traceback.print_exc()
        return "error", TrialError(describe_exception(deaths.behind(error)))


class _WorkerDeaths:
    """Confines torch's own signal handler, which raises wherever the process happens to be, to the time of a command.

    Between two bytes of an answer the exception would end the trial process.
    """

    _handler: Any = None

    def mute(self) -> None:
        """Puts the handler off."""
        while signal.getsignal(signal.SIGCHLD) is not _do_nothing:
            with contextlib.suppress(RuntimeError):  # its last word; the death is known to the loader all the same
                self._handler = signal.signal(signal.SIGCHLD, _do_nothing)

    def hear(self) -> None:
        """Puts it in its place again, and asks it for what has died meanwhile."""
        if callable(self._handler):
            signal.signal(signal.SIGCHLD, self._handler)
            self._handler(signal.SIGCHLD, None)

    def behind(self, error: Exception) -> Exception:
        """The death of a worker, if that is why a connection was lost; else the error."""
        give_up_at = time.monotonic() + _DEAD_WITHIN_S
        lost = isinstance(error, ConnectionError | EOFError) and callable(self._handler)
        while lost and time.monotonic() < give_up_at:
            try:
                self._handler(signal.SIGCHLD, None)
            except RuntimeError as death:
                return death
            time.sleep(_POLL_S)
        return error


def _do_nothing(signal_number: int, frame: types.FrameType | None) -> None:
    pass


def describe_exception(error: BaseException) -> str:
    """One line: the exception's class and message; for one out of a worker, the original's."""
    text = str(error)
    if text.startswith("Caught ") and "in DataLoader worker process" in text:
        # What follows the frames of its traceback: the class and the message, which may have several lines.
        *_, original = re.split(r'^  File ".*\n(?: .*\n)*', text, flags=re.MULTILINE)
        return one_line(f"{original} (in a worker)")
    return one_line(f"{type(error).__name__}: {text}" if text.strip() else type(error).__name__)


def _make(key: str, config: Mapping[str, Any] | None, error_type: type[NwsSweepError]) -> Any:
    """What Hydra instantiates from the node of that key, None for none."""
    if config is None:
        return None
    try:
        return instantiate(dict(config), _convert_="all")
    except HydraException as error:
        cause = error.__cause__ or error
        if isinstance(cause, NwsSweepError):
            raise cause from None
        traceback.print_exc()
        raise error_type(f"{key} {config.get('_target_')}: {describe_exception(cause)}") from error


def _found_in(dataset: Any, look: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    """What a look into a dataset finds; one that cannot be looked into loses this hint only."""
    try:
        return look(dataset)
    except Exception:
        traceback.print_exc()
        return ()


def _make_consumer(config: Mapping[str, Any]) -> Any:
    hint = "a function that takes a batch needs ++consumer._partial_=true"
    try:
        consumer = _make("consumer", config, ConfigurationError)
    except ConfigurationError as error:
        if "missing" in str(error) and "argument" in str(error) and not config.get("_partial_"):
            raise ConfigurationError(f"{error}; {hint}") from None
        raise
    if not callable(consumer):
        raise ConfigurationError(
            f"consumer {config.get('_target_')}: got {type(consumer).__name__}, which cannot be called with a batch; "
            f"{hint}"
        )
    return consumer


def _redirect_output(log_path: str | None) -> None:
    """Sends what the dataset and its workers print to the log."""
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = log = os.open(os.devnull, os.O_RDWR)
    if log_path:
        with contextlib.suppress(OSError):  # the folder is gone or full; what writes the results says so
            log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    for descriptor in {nothing, log}:
        os.close(descriptor)


def _forward_progress(connection: Connection) -> None:
    """Sends what this package logs at INFO to the parent, which shows it; workers stay silent."""
    pid = os.getpid()

    def send(record: logging.LogRecord) -> None:
        if os.getpid() == pid:
            connection.send(("progress", record.getMessage()))

    handler = logging.Handler(logging.INFO)
    handler.emit = send  # type: ignore[method-assign]
    logger = logging.getLogger("nws_sweep")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
