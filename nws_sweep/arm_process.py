"""The inside of an arm: a child process that makes the dataset, owns one DataLoader and answers commands over a pipe.

Runs in a child that was forked from a server with torch preloaded (see arms.py). Leads its own process group, so that
it and its workers can be killed together, and ends that group itself when the process that started it is gone.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from hydra.errors import HydraException
from hydra.utils import instantiate
from torch.utils.data import IterableDataset

from nws_sweep import accelerator, loaders, pagecache, processes
from nws_sweep.counting import Counter, WorkerStart
from nws_sweep.errors import ConfigurationError, DatasetError, NwsSweepError, one_line
from nws_sweep.measure import LoaderSession
from nws_sweep.objects import python_objects
from nws_sweep.records import ArmSpec, Burst, BurstRequest, DatasetFacts, LoaderSettings, ObjectStore

# torch says these once a DataLoader; nws_sweep tries many on purpose and says what matters itself.
_EXPECTED_WARNINGS = (
    r"This DataLoader will create \d+ worker processes",
    r"'pin_memory' argument is set as true but no accelerator is found",
)
_MOST_WARNINGS = 5


class ArmServer:
    """The commands that an arm answers; every public method is one."""

    def __init__(self, spec: ArmSpec) -> None:
        self._spec = spec
        self._dataset: Any = None
        self._consumer: Any = None
        self._collate_fn: Any = None
        self._session: LoaderSession | None = None
        self._warnings: dict[str, None] = {}

    def prepare(self) -> DatasetFacts:
        """Makes the dataset, the consumer and the collate_fn.

        Raises:
            DatasetError: If the dataset cannot be made, is none, or is empty.
            ConfigurationError: If one of the others cannot be made.
        """
        torch.manual_seed(self._spec.seed)
        self._consumer = _make_consumer(self._spec.consumer)
        self._collate_fn = _make("loader.collate_fn", self._spec.collate_fn, ConfigurationError)
        self._dataset = _make_dataset(self._spec.dataset)
        return DatasetFacts(
            type=f"{type(self._dataset).__module__}.{type(self._dataset).__qualname__}",
            iterable=isinstance(self._dataset, IterableDataset),
            samples=loaders.length(self._dataset),
            accelerator=accelerator.available(),
            objects=self._objects(),
        )

    def _objects(self) -> tuple[ObjectStore, ...]:
        """What forked workers come to copy. A dataset that cannot be looked into loses this hint, nothing else."""
        try:
            return python_objects(self._dataset)
        except Exception:
            traceback.print_exc()
            return ()

    def open(self, settings: LoaderSettings) -> int | None:
        """Makes the DataLoader; answers with the batches of an epoch, None if unknown."""
        counter = Counter(settings.num_workers) if settings.num_workers else None
        loader = loaders.build(
            self._dataset,
            settings,
            self._collate_fn,
            worker_init_fn=WorkerStart(counter, threads=settings.threads_per_worker) if counter else None,
            # Of its own, so that all candidates meet the same samples in the same order.
            generator=torch.Generator().manual_seed(self._spec.seed),
        )
        self._session = LoaderSession(
            loader,
            self._consumer,
            default_batch_length=settings.batch_size,
            produced=counter or (lambda: None),
            drain=settings.persistent_workers,
        )
        return loaders.length(loader)

    def burst(self, request: BurstRequest) -> Burst:
        """Takes a burst from the opened loader."""
        if self._session is None:
            raise RuntimeError("burst before open")
        return self._session.burst(request)

    def files(self) -> tuple[str, ...]:
        """The files and folders that the dataset's attributes name, absolute."""
        return tuple(os.path.abspath(path) for path in pagecache.paths_in(self._dataset))  # noqa: PTH100 - a million

    def warned(self) -> tuple[str, ...]:
        """The distinct warnings that were issued in the arm itself, less those that are expected."""
        return tuple(self._warnings)

    def note_warning(self, message: Warning | str, *_: Any) -> None:
        """Takes the place of ``warnings.showwarning``."""
        if len(self._warnings) < _MOST_WARNINGS:
            self._warnings[one_line(message)] = None
        else:  # each sample may have its own
            self._warnings["further warnings are left out"] = None


def main(connection: Connection, spec: ArmSpec, temporary_folder: str) -> None:
    """Answers commands until told to stop, or until the other end is gone.

    Args:
        connection: Where commands come from.
        spec: What the arm is made of.
        temporary_folder: Where it and its workers keep the sockets by which they hand over tensors.
    """
    processes.keep_sockets_in(temporary_folder)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    processes.die_with_parent()
    if "forkserver" in multiprocessing.get_all_start_methods():
        processes.let_fork_server_go()
    os.chdir(spec.working_folder)
    _end_group_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the fork server ignores it, a user's program does not
    # A child of the fork server would hand down "forkserver" to the DataLoader's workers; they get what the user's own
    # program would give them.
    multiprocessing.set_start_method(spec.start_method, force=True)
    _redirect_output(spec.log_path)
    server = ArmServer(spec)
    for pattern in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message=pattern)
    warnings.showwarning = server.note_warning  # type: ignore[assignment]
    _forward_progress(connection)
    # A parent that is gone ends the pipe; the thread above then ends the workers too.
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(connection, server)


def _serve(connection: Connection, server: ArmServer) -> None:
    trouble: RuntimeError | None = None
    while True:
        try:
            command = connection.recv()
        except RuntimeError as error:  # torch's own signal handler: a worker died while nothing was asked
            trouble = error
            continue
        if command is None:
            return
        connection.send(("error", describe_exception(trouble)) if trouble else _answer(server, *command))


def _answer(server: ArmServer, name: str, *arguments: Any) -> tuple[str, Any]:
    """The command's result, or why there is none. Whatever a user's dataset raises must not end the search."""
    try:
        return "result", getattr(server, name)(*arguments)
    except NwsSweepError as error:
        return "refused", error
    except Exception as error:
        traceback.print_exc()
        return "error", describe_exception(error)


def describe_exception(error: BaseException) -> str:
    """One line: the exception's class and message; for one out of a worker, the original's."""
    text = str(error)
    if text.startswith("Caught ") and "in DataLoader worker process" in text:
        return one_line(f"{_after_traceback(text)} (in a worker)")
    return one_line(f"{type(error).__name__}: {text}" if text.strip() else type(error).__name__)


def _after_traceback(text: str) -> str:
    """What follows the frames of a formatted traceback: the class and the message, which may have several lines."""
    lines = text.splitlines()
    last_frame = max((index for index, line in enumerate(lines) if line.startswith('  File "')), default=0)
    rest = lines[last_frame + 1 :]
    return "\n".join(rest[next((i for i, line in enumerate(rest) if not line.startswith(" ")), 0) :])


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


def _make_dataset(config: Mapping[str, Any]) -> Any:
    target = config.get("_target_")
    dataset = _make("dataset", config, DatasetError)
    if not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
        raise DatasetError(
            f"dataset {target}: got {type(dataset).__name__}, which has neither __getitem__ nor __iter__"
        )
    if loaders.length(dataset) == 0:
        raise DatasetError(f"dataset {target} is empty: 0 samples, at least 1 is needed")
    return dataset


def _make_consumer(config: Mapping[str, Any]) -> Any:
    consumer = _make("consumer", config, ConfigurationError)
    if not callable(consumer):
        raise ConfigurationError(
            f"consumer {config.get('_target_')}: got {type(consumer).__name__}, which cannot be called with a batch; "
            "a function needs ++consumer._partial_=true"
        )
    return consumer


def _end_group_with_parent() -> None:
    """For what the dataset has started besides, and where the kernel does not end a process with its parent."""
    parent = parent_process()
    if parent is None or not hasattr(os, "killpg"):
        return

    def watch() -> None:
        wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="end-group-with-parent", daemon=True).start()


def _redirect_output(log_path: str | None) -> None:
    """Sends what the dataset and its workers print to the log: the terminal belongs to the run's own progress."""
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        log = os.open(log_path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError:  # the folder is gone or full; whoever writes the results says so
        log = os.dup(nothing)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)


class _ProgressHandler(logging.Handler):
    """Sends what this package logs at INFO to the parent, which shows it; workers, which inherit it, stay silent."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(logging.INFO)
        self._connection = connection
        self._pid = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        if os.getpid() == self._pid:
            self._connection.send(("progress", record.getMessage()))


def _forward_progress(connection: Connection) -> None:
    logger = logging.getLogger("nws_sweep")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(_ProgressHandler(connection))
