"""The inside of an arm: a child process that makes the dataset, owns one DataLoader and answers commands over a pipe.

Runs in a child that was forked from a server with torch preloaded (see arms.py), or from another arm that has made the
dataset and does nothing else. Leads its own process group, so that it and its workers can be killed together, and ends
that group itself when the process that started it is gone.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import parent_process, reduction
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

import torch
from hydra.errors import HydraException
from hydra.utils import instantiate
from torch.utils.data import IterableDataset

from nws_sweep import accelerator, loaders, lockstep, objects, pagecache, processes, sharing, temporary
from nws_sweep.counting import Counter, WorkerStart
from nws_sweep.errors import ConfigurationError, DatasetError, NwsSweepError, one_line
from nws_sweep.identities import SampleLog, identify, identify_one, load_alone, load_in_turn
from nws_sweep.loaders import Source
from nws_sweep.lockstep import Lockstep
from nws_sweep.measure import LoaderSession
from nws_sweep.records import (
    ArmSpec,
    Burst,
    BurstRequest,
    DatasetFacts,
    LoaderSettings,
    ObjectStore,
    Rank,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
)

Found = TypeVar("Found")

# torch says these once a DataLoader; nws_sweep tries many on purpose and says what matters itself.
_EXPECTED_WARNINGS = (
    r"This DataLoader will create \d+ worker processes",
    r"'pin_memory' argument is set as true but no accelerator is found",
    r"This process .* is multi-threaded, use of fork\(\) may lead to deadlocks",  # Python 3.12; our own watching thread
)
_MOST_WARNINGS = 5
_SETTLES_WITHIN_S, _DEAD_WITHIN_S, _POLL_S = 5.0, 1.0, 0.005


class ArmServer:
    """The commands that an arm answers; every public method is one.

    Args:
        spec: What the arm is made of.
        connection: Where commands come from, and the connections of arms that are forked from this one.
        kept: The arm that this one was forked from: its dataset is used. None to make one.
    """

    def __init__(self, spec: ArmSpec, connection: Connection, kept: ArmServer | None = None) -> None:
        self._spec = spec
        self._connection = connection
        self._source: Source | None = kept._source if kept else None
        self._shares_memory = kept is not None
        self._objects: tuple[ObjectStore, ...] = kept._objects if kept else ()
        self._handles: tuple[str, ...] = kept._handles if kept else ()
        self._files: dict[int, str] = {}
        self._positions: dict[int, int] = {}
        self._consumer: Any = None
        self._collate_fn: Any = None
        self._session: LoaderSession | None = None
        self._others: Lockstep | None = None
        self._counter: Counter | None = None
        self._log: SampleLog | None = None
        self._settings: LoaderSettings | None = None
        self._batches: int | None = None
        self._forked: dict[int, BaseProcess] = {}
        self._warnings: dict[str, None] = dict(kept._warnings) if kept else {}

    def keep(self) -> str:
        """Makes the dataset and nothing else; answers what stands against forking arms from here, empty if nothing.

        Raises:
            DatasetError: If the dataset cannot be made, is none, or is empty.
        """
        before = sharing.footprint()
        self._make_source()
        return sharing.obstacle_since(before)

    def fork(self, spec: ArmSpec, temporary_folder: str) -> int:
        """Forks an arm that has this one's dataset, and whose connection follows the command; its process ID."""
        connection = Connection(reduction.recv_handle(self._connection))
        main_process: Any = parent_process()
        process = multiprocessing.get_context("fork").Process(
            target=_main_of_forked, args=(self, connection, spec, temporary_folder, main_process.sentinel)
        )
        process.start()
        connection.close()
        self._forked[process.pid or 0] = process
        return process.pid or 0

    def exit_code(self, pid: int) -> int | None:
        """How an arm that was forked from here and is dead ended, as ``Process.exitcode`` has it; asked once."""
        process = self._forked.pop(pid)
        process.join()
        code = process.exitcode
        process.close()
        return code

    def prepare(self) -> DatasetFacts:
        """Makes the consumer, the collate_fn, and the dataset unless there is one; a rank finds the others before that.

        Raises:
            DatasetError: If the dataset cannot be made, is none, or is empty.
            ConfigurationError: If one of the others cannot be made.
        """
        if self._spec.rank is not None:  # datasets may ask which rank they are made in
            self._others = lockstep.join(self._spec.rank)
        source = self._source or self._make_source()
        torch.manual_seed(self._spec.seed)
        self._consumer = _make_consumer(self._spec.consumer)
        self._collate_fn = _make("loader.collate_fn", self._spec.collate_fn, ConfigurationError)
        return DatasetFacts(
            type=f"{type(source.dataset).__module__}.{type(source.dataset).__qualname__}",
            iterable=isinstance(source.dataset, IterableDataset),
            samples=source.samples,
            accelerator=accelerator.available(),
            objects=self._objects,
            handles=self._handles,
            loader=source.settings,
            project=source.project,
        )

    def _make_source(self) -> Source:
        torch.manual_seed(self._spec.seed)
        before = objects.open_files()
        self._source = source = _make_source(self._spec.dataset, self._spec.seed, self._spec.rank)
        self._objects = _found_in(source.dataset, objects.python_objects)
        if multiprocessing.get_start_method() == "fork":
            self._files = {number: path for number, path in objects.open_files().items() if number not in before}
            self._handles = _found_in(source.dataset, lambda dataset: objects.handles(self._files.values(), dataset))
        return source

    @property
    def _made(self) -> Source:
        if self._source is None:
            raise RuntimeError("open or files before prepare")
        return self._source

    def open(self, settings: LoaderSettings) -> int | None:
        """Makes the DataLoader; answers with the batches of an epoch, None if unknown."""
        if self._shares_memory and self._objects and not settings.num_workers:  # workers are forked in any case
            sharing.own_memory()
        counter = Counter(settings.num_workers) if settings.num_workers else None
        self._counter = counter
        folder = processes.sockets_folder()
        self._log = SampleLog(folder) if folder and self._spec.logs_samples else None
        start = WorkerStart(counter, threads=settings.threads_per_worker, log=self._log) if counter else None
        loader = self._made.loader(settings, self._collate_fn, start)
        self._session = LoaderSession(
            loader,
            self._consumer,
            default_batch_length=settings.batch_size or 1,
            # Samples can be told from batches only where the DataLoader makes the batches.
            produced=counter if counter and settings.batch_size is not None else (lambda: None),
            drain=settings.persistent_workers,
            others=self._others,
            consumer_meets=self._others is not None and lockstep.meets_by_itself(self._consumer),
        )
        self._settings, self._batches = settings, loaders.length(loader)
        self._positions = objects.positions(self._files)
        return self._batches

    def burst(self, request: BurstRequest) -> Burst:
        """Takes a burst from the opened loader."""
        if self._session is None:
            raise RuntimeError("burst before open")
        burst = self._session.burst(request)
        if burst.ended_epoch and self._counter is not None and isinstance(self._made.dataset, IterableDataset):
            self._note_idle(self._counter)
        return burst

    def _note_idle(self, counter: Counter) -> None:
        if idle := counter.idle():
            reason = "fewer shards than workers, or shards that are not shared out"
            self._warnings[f"{idle} of {len(counter.slots)} workers got no samples in an epoch: {reason}"] = None

    def settle(self) -> None:
        """Waits until the workers have nothing left to do, a few seconds at most."""
        give_up_at = time.monotonic() + _SETTLES_WITHIN_S
        session, settings = self._session, self._settings
        if session is None or settings is None:
            return
        while not session.is_settled(settings.queued_batches, self._batches) and time.monotonic() < give_up_at:
            time.sleep(_POLL_S)

    def files(self) -> tuple[str, ...]:
        """The files and folders that the dataset's attributes name, absolute."""
        return tuple(os.path.abspath(path) for path in pagecache.paths_in(self._made.dataset))  # noqa: PTH100 - a million

    def logged(self) -> SamplesLogged:
        """Some of the samples that the workers have made, and the files whose position they share and have moved."""
        moved = dict(objects.positions(self._files).items() - self._positions.items())
        return SamplesLogged(
            samples=self._log.read() if self._log else (),
            moved_files=tuple(self._files[number] for number in moved),
        )

    def load(self, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
        """Loads samples without workers, of an iterable dataset its first ones; those that raise are left out."""
        return load_alone(self._made.dataset, keys, limit_s)

    def load_in_turn(self, samples: Sequence[SampleMade], settings: LoaderSettings) -> tuple[SampleMade, ...]:
        """Loads samples in workers of the same numbers, one at a time."""
        start = WorkerStart(Counter(settings.num_workers))
        self._made.loader(settings, None, start)  # gives it the user's own worker_init_fn
        return load_in_turn(self._made.dataset, samples, start, settings.multiprocessing_context)

    def samples(self, settings: LoaderSettings, most: int, limit_s: float = math.inf) -> SamplesSeen:
        """The samples of an epoch of a DataLoader of its own, so many at most and for so many seconds."""
        start = WorkerStart(Counter(settings.num_workers)) if settings.num_workers else None
        loader = self._made.loader(settings, identify_one if settings.batch_size is None else identify, start)
        began = time.monotonic()
        digests: list[bytes | None] = []
        workers: set[int] = set()
        for delivered in loader:
            workers.add(delivered.worker)
            digests += delivered.digests
            if len(digests) >= most or time.monotonic() - began > limit_s:
                return SamplesSeen(digests=tuple(digests), workers=frozenset(workers), complete=False)
        return SamplesSeen(digests=tuple(digests), workers=frozenset(workers), complete=True)

    def let_go(self) -> None:
        """Closes what a fork of this arm has inherited and must not hold."""
        self._connection.close()

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
    if "forkserver" in multiprocessing.get_all_start_methods():
        processes.let_fork_server_go()
    # A child of the fork server would hand down "forkserver" to the DataLoader's workers; they get what the user's own
    # program would give them.
    multiprocessing.set_start_method(spec.start_method, force=True)
    _take_over_surroundings(spec)
    for pattern in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message=pattern)
    parent = parent_process()
    _live(connection, spec, temporary_folder, ArmServer(spec, connection), [parent.sentinel] if parent else [])


def _take_over_surroundings(spec: ArmSpec) -> None:
    """The environment and the import path of the program, as it has them now."""
    if spec.environment is not None:
        os.environ.clear()
        os.environ.update(spec.environment)
    if spec.import_path is not None:
        sys.path[:] = spec.import_path


def _main_of_forked(
    keeper: ArmServer, connection: Connection, spec: ArmSpec, temporary_folder: str, main_sentinel: int
) -> None:
    """As ``main``, in an arm that was forked from another. It is killed sooner than that one if memory runs out."""
    keeper.let_go()
    processes.offer_to_be_killed()
    parent: Any = parent_process()
    server = ArmServer(spec, connection, kept=keeper)
    _live(connection, spec, temporary_folder, server, [main_sentinel, parent.sentinel])


def _live(
    connection: Connection, spec: ArmSpec, temporary_folder: str, server: ArmServer, parents: Sequence[int]
) -> None:
    processes.keep_sockets_in(temporary_folder)
    temporary.note_process(temporary_folder)
    _lead_group(spec.rank)
    processes.die_with_parent()
    os.chdir(spec.working_folder)
    _end_group_with_one_of(parents)
    processes.hear_signals()
    _redirect_output(spec.log_path)
    warnings.showwarning = server.note_warning  # type: ignore[assignment]
    _forward_progress(connection)
    # A parent that is gone ends the pipe; the thread above then ends the workers too.
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(connection, server)


def _lead_group(rank: Rank | None) -> None:
    """Makes this process the leader of a group, to be stopped and killed by; a rank of a session too.

    torchrun gives each rank a session, and Linux shares the CPUs among sessions first (sched(7), autogroup): a rank's
    main process then competes with its own workers, not with those of all ranks.
    """
    if rank is not None and hasattr(os, "setsid"):
        os.setsid()
    elif hasattr(os, "setpgid"):
        os.setpgid(0, 0)


def _serve(connection: Connection, server: ArmServer) -> None:
    deaths = _WorkerDeaths()
    while (command := connection.recv()) is not None:
        try:
            answer = _answer(server, deaths, *command)
        except RuntimeError as error:  # a second worker died when the answer to the first one's death was made
            deaths.mute()
            answer = "error", describe_exception(error)
        deaths.mute()
        connection.send(answer)


def _answer(server: ArmServer, deaths: _WorkerDeaths, name: str, *arguments: Any) -> tuple[str, Any]:
    """The command's result, or why there is none. Whatever a user's dataset raises must not end the search."""
    try:
        deaths.hear()
        return "result", getattr(server, name)(*arguments)
    except NwsSweepError as error:
        return "refused", error
    except Exception as error:
        deaths.mute()
        traceback.print_exc()
        return "error", describe_exception(deaths.behind(error))


class _WorkerDeaths:
    """Confines torch's own signal handler, which raises wherever the process happens to be, to the time of a command.

    Between two bytes of an answer the exception would end the arm.
    """

    def __init__(self) -> None:
        self._handler: Any = None

    def mute(self) -> None:
        """Puts the handler off."""
        while hasattr(signal, "SIGCHLD"):
            try:
                current = signal.signal(signal.SIGCHLD, _do_nothing)
            except RuntimeError:  # its last word; the death is known to the loader all the same
                continue
            if current is not _do_nothing:
                self._handler = current
            return

    def behind(self, error: Exception) -> Exception:
        """The death of a worker, if that is why a connection to it was lost; else the error itself.

        Whoever is killed loses its connections a moment before it is dead.
        """
        give_up_at = time.monotonic() + _DEAD_WITHIN_S
        lost = isinstance(error, ConnectionError | EOFError) and callable(self._handler)
        while lost and time.monotonic() < give_up_at:
            try:
                self._handler(signal.SIGCHLD, None)
            except RuntimeError as death:
                return death
            time.sleep(_POLL_S)
        return error

    def hear(self) -> None:
        """Puts it in its place again, and asks it for whoever has died meanwhile."""
        if callable(self._handler):
            signal.signal(signal.SIGCHLD, self._handler)
            self._handler(signal.SIGCHLD, None)


def _do_nothing(signal_number: int, frame: types.FrameType | None) -> None:
    pass


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


def _make_source(config: Mapping[str, Any], seed: int, rank: Rank | None) -> Source:
    target = config.get("_target_")
    source = Source(_make("dataset", config, DatasetError), seed, rank)
    if not (hasattr(source.dataset, "__getitem__") or hasattr(source.dataset, "__iter__")):
        raise DatasetError(
            f"dataset {target}: got {type(source.dataset).__name__}, which has neither __getitem__ nor __iter__"
        )
    if source.samples == 0:
        raise DatasetError(f"dataset {target} is empty: 0 samples, at least 1 is needed")
    return source


def _found_in(dataset: Any, look: Callable[[Any], tuple[Found, ...]]) -> tuple[Found, ...]:
    """What a look into a dataset finds. A dataset that cannot be looked into loses this hint, nothing else."""
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


def _end_group_with_one_of(parents: Sequence[int]) -> None:
    """For what the dataset has started besides, and where the kernel does not end a process with its parent."""
    if not parents or not hasattr(os, "killpg"):
        return

    def watch() -> None:
        wait(parents)
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
