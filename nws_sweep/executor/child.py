"""The child side of a trial: the process that makes the dataset, owns one DataLoader and answers commands over a pipe.

It is forked from the fork server or from a template process (``trial_process``). It leads a process
group, which is paused, resumed and killed as one.
"""

import contextlib
import logging
import math
import multiprocessing
import os
import re
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from hydra.errors import HydraException
from torch.utils.data import IterableDataset

from nws_sweep.config.hydra_versions import instantiate
from nws_sweep.dataloading import device_clock, loaders, objects, sharing
from nws_sweep.dataloading.clocks import run_delay_clock
from nws_sweep.dataloading.digests import SampleLog, load_in_process, load_one_by_one
from nws_sweep.dataloading.fingerprints import fingerprint
from nws_sweep.dataloading.loaders import Source
from nws_sweep.dataloading.recording import BatchLog, BatchTimer, WorkerStart, position
from nws_sweep.dataloading.thread_times import thread_times
from nws_sweep.dataloading.whole_batches import MOST_SAMPLES, try_whole_batches
from nws_sweep.dataloading.windows import PROGRESS_EVERY_S, LoaderSession, made_without_workers
from nws_sweep.errors import ConfigurationError, DatasetError, NwsSweepError, TrialError, one_line
from nws_sweep.executor import forking, process_state
from nws_sweep.results import (
    DatasetFacts,
    LoaderSettings,
    ProcessSpec,
    PythonObjects,
    SampleMade,
    SamplesLogged,
    SamplesSeen,
    WholeBatches,
    Window,
    WindowKind,
    WindowRequest,
)
from nws_sweep.system import accelerator, fork_server, processes, streams, temporary

logger = logging.getLogger(__name__)
_report_progress = partial(logger.info, "")  # tells the parent that batches arrive

# torch issues these for each DataLoader that nws_sweep makes on purpose.
_EXPECTED_WARNINGS = (
    r"This DataLoader will create \d+ worker processes",
    r"'pin_memory' argument is set as true but no accelerator is found",
    r"This process .* is multi-threaded, use of fork\(\) may lead to deadlocks",  # Python 3.12; threads of libraries
)
_MAX_WARNINGS = 5
_IS_FUNCTION = "; a function needs ++{}._partial_=true"
# As if the process held all of the machine's memory, and nine tenths of it (proc(5)).
_OOM_SCORE_ADJ, _OOM_SCORE_ADJ_OF_TEMPLATE = "1000", "900"
_SHORT = WindowRequest(kind=WindowKind.WARM_UP, min_batches=1, min_seconds=0.005)
_IDLE_WITHIN_S, _EXITED_WITHIN_S, _POLL_S = 5.0, 1.0, 0.005
_IDLE_SOON_S = 0.2  # the end of workers that take longer is estimated


@dataclass(frozen=True, slots=True)
class _LoadedDataset:
    """A dataset with the hints found in it. ``files`` were opened with it and are shared by forked workers."""

    source: Source
    objects: tuple[PythonObjects, ...]
    files: Mapping[int, str]
    handles: tuple[str, ...]
    code: str


class _DatasetCommands:
    """Answers the commands that need the dataset alone, and ``make_template``."""

    def __init__(self, spec: ProcessSpec, folder: str) -> None:
        self._spec, self._folder = spec, folder
        self._warnings: dict[str, None] = {}
        self.is_iterating = False  # takes batches between commands, as a background loader
        self.is_template = False  # a process that forks trial processes on request

    @cached_property
    def _data(self) -> _LoadedDataset:
        # A fork of the program may read any file that the program has opened.
        chosen, before = self._spec.configuration, {} if fork_server.is_of_program else sharing.open_files()
        torch.manual_seed(chosen.seed)
        made = _make("dataset", chosen.dataset, DatasetError)
        source = Source(made, chosen.seed, self._spec.rank, chosen.ranks)
        dataset, target = source.dataset, chosen.dataset.get("_target_")
        if not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
            kind = type(dataset).__name__
            raise DatasetError(f"dataset {target}: got {kind}, which has neither __getitem__ nor __iter__")
        loaders.check_length(dataset)
        if source.samples == 0:
            raise DatasetError(f"dataset {target} is empty: 0 samples, at least 1 is needed")
        found = _found_in(dataset, objects.python_objects)
        is_shared = multiprocessing.get_start_method() == "fork"
        files = {number: path for number, path in sharing.open_files().items() if is_shared and number not in before}
        of_dataset = () if fork_server.is_of_program else files.values()
        handles = _found_in(dataset, partial(sharing.described, files=of_dataset)) if is_shared else ()
        return _LoadedDataset(source, found, files, handles, source.fingerprint())

    def make_template(self) -> str:
        """The obstacle to forking trial processes from this process; without one, "", and it becomes a fork server."""
        before = forking.footprint()
        _ = self._data
        obstacle = forking.obstacle_since(before)
        self.is_template = not obstacle
        return obstacle

    def load(self, keys: Sequence[Any], limit_s: float | None) -> tuple[SampleMade, ...]:
        return load_in_process(self._data.source.dataset, keys, limit_s)

    def load_one_by_one(self, samples: Sequence[SampleMade], settings: LoaderSettings) -> tuple[SampleMade, ...]:
        return load_one_by_one(self._data.source.loader(settings, None, WorkerStart(folder=self._folder)), samples)

    def samples(self, settings: LoaderSettings, most: int, limit_s: float = math.inf) -> SamplesSeen:
        began = reported = time.monotonic()
        count = 0
        counts, start = _one if settings.batch_size is None else len, WorkerStart(folder=self._folder)
        loader = self._data.source.loader(settings, counts, start)
        loaders.renew_iterators(loader)
        for made in loader:
            count, now = count + made, time.monotonic()
            if count >= most or now - began > limit_s:
                return SamplesSeen(count=count, complete=False)
            if now - reported >= PROGRESS_EVERY_S:
                _report_progress()
                reported = now
        return SamplesSeen(count=count, complete=True)

    def thread_times(self, counts: Sequence[int], limit_s: float) -> Mapping[int, float]:
        dataset, most = self._data.source.dataset, loaders.length(self._data.source.dataset)
        if isinstance(dataset, IterableDataset) or not most:
            return {}
        # The keys of samples may not be numbers.
        return dict(_found_in(dataset, lambda one: (*thread_times(one.__getitem__, most, counts, limit_s).items(),)))

    def warned(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def record_warning(self, message: Warning | str, *_: Any) -> None:
        """Replaces ``warnings.showwarning``."""
        has_room = len(self._warnings) < _MAX_WARNINGS  # each sample may issue its own
        self._warnings[one_line(message) if has_room else "further warnings omitted"] = None


class _ChildCommands(_DatasetCommands):
    """Answers the commands of ``TrialProcess`` and ``prepare``."""

    def forked(self, spec: ProcessSpec, folder: str) -> "_ChildCommands":
        """Those of a trial process forked from this template process, with its dataset and the warnings so far."""
        self._spec, self._folder, self.is_template = spec, folder, False
        self._data.source.rank = spec.rank
        return self

    def prepare(self) -> DatasetFacts:
        data, source, chosen = self._data, self._data.source, self._spec.configuration
        torch.manual_seed(chosen.seed + self._spec.rank)  # samplers of the user draw another order in each rank
        self._training_step = _make_step(chosen.training_step)
        self._collate_fn = _make("collate_fn", chosen.collate_fn, ConfigurationError)
        return DatasetFacts(
            type=f"{type(source.dataset).__module__}.{type(source.dataset).__qualname__}",
            iterable=isinstance(source.dataset, IterableDataset),
            samples=source.samples,
            accelerator=accelerator.available(),
            objects=data.objects,
            handles=data.handles,
            is_shuffled=source.is_shuffled(chosen.loader),
            generators=_found_in(source, Source.unseeded_generators),
            code=fingerprint(data.code, self._collate_fn),
            loader=source.settings,
        )

    def whole_batches(self, settings: LoaderSettings) -> WholeBatches | None:
        loader = self._data.source.loader(settings.with_workers(1), self._collate_fn, WorkerStart(folder=self._folder))
        return try_whole_batches(loader, min(settings.batch_size or 1, MOST_SAMPLES))

    def open(self, settings: LoaderSettings, place: float) -> int | None:
        is_checked = self._spec.configuration.check_samples is not False and self._spec.rank == 0
        self._log = SampleLog(self._folder) if is_checked else None
        loader = self._data.source.loader(settings, self._collate_fn, None)
        self._batches = loaders.length(loader)
        self._runs = loaders.in_runs(loader, settings.queued_batches, place)
        self._order = self._runs.order if self._runs else loaders.begin_at(loader, place)
        sampler_clock, workers = loaders.time_sampler(loader), settings.num_workers
        self._batch_log = log = BatchLog(workers, self._order, self._batches) if workers else None
        if log:
            own, timer = loader.worker_init_fn, BatchTimer(log)
            loader.worker_init_fn = WorkerStart(timer, own, self._log, self._folder, loader.collate_fn)
        # A kept iterator makes batches before their epoch begins. A DataLoader that does not make the batches has an
        # unknown number of samples in each.
        is_counted = not loaders.renew_iterators(loader) and settings.batch_size is not None
        self._session = LoaderSession(
            loader,
            self._training_step,
            default_batch_length=settings.batch_size or 1,
            gives_samples=loaders.gives_samples(loader),
            produced=log.produced if log and is_counted else (lambda: None),
            drain=settings.persistent_workers,
            queued_batches=settings.queued_batches,
            batches_per_epoch=self._batches,
            cpu_clock=time.process_time,
            delay_clock=run_delay_clock(),
            sampler_clocks=sampler_clock.read,
            on_epoch=log.begin_epoch if log else lambda: None,
            on_progress=_report_progress,
            find_device=device_clock.of_training,
        )
        self._positions = sharing.positions(self._data.files)
        return self._batches

    def window(self, request: WindowRequest) -> Window:
        if self._runs:
            self._runs.is_whole = request.kind is WindowKind.EPOCH
        log = self._batch_log
        if log is not None:
            log.stages.open(request.kind is WindowKind.WARM_UP)
        if request.fresh and self._session.stop_s is None:
            self._wait_until_idle(_IDLE_SOON_S)
        window = self._session.window(request)
        if log is None:
            numbers = range(self._session.taken - window.batches, self._session.taken)
            places = [position(number, self._order, self._batches) for number in numbers]
            return replace(window, records=tuple(made_without_workers(window, numbers.start, places)))
        if unfed := log.unfed():
            reason = "there are fewer shards than workers, or the dataset does not distribute its shards"
            self._warnings[f"{unfed} of {len(log.samples)} workers got no samples in an epoch: {reason}"] = None
        records = log.new(has_ended=window.ended_epoch)
        return replace(window, records=records, worker_start=log.times.start, unfed_workers=unfed)

    def iterate(self) -> None:
        self.is_iterating = True

    def take_batches(self, must_stop: Callable[[], bool]) -> None:
        """As a background loader: takes batches, epoch after epoch, until ``must_stop``, or an epoch without any."""
        while self.is_iterating and not must_stop():
            if self.window(_SHORT).ended_epoch:
                self.is_iterating = self.window(_SHORT).batches > 0

    def wait_until_idle(self) -> None:
        self.is_iterating = False
        self._wait_until_idle(_IDLE_WITHIN_S)

    def _wait_until_idle(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not self._session.is_idle and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def logged(self) -> SamplesLogged:
        files = self._data.files
        moved = dict(sharing.positions(files).items() - self._positions.items())
        samples = self._log.read() if self._log else ()
        return SamplesLogged(samples=samples, moved_files=tuple(files[number] for number in moved))


def _one(sample: Any) -> int:
    """A ``collate_fn`` that counts, where DataLoader calls it with one sample."""
    return 1


_template: _ChildCommands | None = None  # set in a template process, and so in the trial processes forked from it


def main(connection: Connection, spec: ProcessSpec, temporary_folder: str) -> None:
    """Answers commands until the command is None or the parent closes the pipe."""
    # The user's own; that of a forked process is "fork".
    multiprocessing.set_start_method(spec.start_method, force=True)
    process_state.restore(spec.state)
    for pattern in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message=pattern)
    processes.set_socket_folder(temporary_folder)
    temporary.register_process(temporary_folder)
    os.setpgid(0, 0)  # the parent stops and kills the whole group
    if spec.configuration.ranks > 1 and (threads := os.environ.get("OMP_NUM_THREADS", "")).isdecimal():
        torch.set_num_threads(max(1, int(threads)))  # torch has read the variable in the fork server
    # When memory runs out, the kernel kills a trial process before the template process, and the program last.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_ADJ if _template else _OOM_SCORE_ADJ_OF_TEMPLATE)
    os.chdir(spec.working_folder)
    processes.restore_ending_signals()
    streams.redirect(spec.log_path)
    if fork_server.is_of_program:
        sharing.reopen_files()
    commands = (_template.forked if _template else _ChildCommands)(spec, temporary_folder)
    warnings.showwarning = commands.record_warning  # type: ignore[assignment]
    _forward_progress(connection)
    # When the program has exited, the connection closes, and the fork server kills this process and its workers.
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(connection, commands)


def _serve(connection: Connection, commands: _ChildCommands) -> None:
    exits = _WorkerExits()
    while (command := connection.recv()) is not None:
        connection.send(_answer(commands, exits, *command))
        if commands.is_iterating:
            answer = _answer(commands, exits, "take_batches", connection.poll)
            if answer[0] == "error":  # sent without a request
                commands.is_iterating = False
                connection.send(answer)
        if commands.is_template:
            global _template  # noqa: PLW0603 - processes forked from this one read it
            _template = commands
            fork_server.serve(connection)
            return


def _answer(commands: _ChildCommands, exits: "_WorkerExits", name: str, *arguments: Any) -> tuple[str, Any]:
    try:
        answer = _result(commands, exits, name, *arguments)
    except RuntimeError as error:  # a second worker exited while the answer to the first exit was made
        answer = "error", _trial_error(error)
    exits.disable()
    return answer


def _result(commands: _ChildCommands, exits: "_WorkerExits", name: str, *arguments: Any) -> tuple[str, Any]:
    """``"result"`` with the command's result, or ``"error"`` with the exception and the signal that killed a worker."""
    try:
        exits.enable()
        return "result", getattr(commands, name)(*arguments)
    except NwsSweepError as error:
        return "error", (error, None)
    except Exception as error:
        exits.disable()
        traceback.print_exc()
        return "error", _trial_error(exits.cause_of(error))


def _trial_error(error: Exception) -> tuple[TrialError, int | None]:
    """The exception as a TrialError, with the number of the signal that killed a worker; torch gives only its name."""
    killed = re.search(r"DataLoader worker .* is killed by signal: ([^.]*)\.", str(error))
    numbers = {signal.strsignal(number): int(number) for number in signal.valid_signals()}
    return TrialError(_describe(error)), numbers.get(killed[1]) if killed else None


class _WorkerExits:
    """Enables torch's SIGCHLD handler only while a command runs.

    The handler raises an exception wherever the process is; between two bytes of an answer that would end the process.
    """

    _handler: Any = None

    def disable(self) -> None:
        while signal.getsignal(signal.SIGCHLD) is not fork_server.ignore:
            with contextlib.suppress(RuntimeError):  # raised by its last call; the DataLoader has noticed the exit too
                self._handler = signal.signal(signal.SIGCHLD, fork_server.ignore)

    def enable(self) -> None:
        """Installs the handler and calls it once for workers that exited while it was disabled."""
        if callable(self._handler):
            signal.signal(signal.SIGCHLD, self._handler)
            self._handler(signal.SIGCHLD, None)

    def cause_of(self, error: Exception) -> Exception:
        """The exit of a worker, if torch names its signal or it explains a lost connection; else the error."""
        if isinstance(error.__cause__, RuntimeError) and str(error.__cause__).startswith("DataLoader worker"):
            return error.__cause__
        deadline = time.monotonic() + _EXITED_WITHIN_S
        is_lost = isinstance(error, ConnectionError | EOFError) and callable(self._handler)
        while is_lost and time.monotonic() < deadline:
            try:
                self._handler(signal.SIGCHLD, None)
            except RuntimeError as worker_exit:
                return worker_exit
            time.sleep(_POLL_S)
        return error


def _describe(error: BaseException) -> str:
    """One line: the class and message of the exception, or of the original one raised in a worker."""
    text = str(error)
    if text.startswith("Caught ") and "in DataLoader worker process" in text:
        # The class and the message, which may have several lines, follow the frames of the traceback.
        *_, original = re.split(r'^  File ".*\n(?: .*\n)*', text, flags=re.MULTILINE)
        return one_line(f"{original} (in a worker)")
    return one_line(f"{type(error).__name__}: {text}" if text.strip() else type(error).__name__)


def _make(key: str, config: Mapping[str, Any] | None, error_type: type[NwsSweepError]) -> Any:
    """Instantiates the configuration node at that key; None for None."""
    if config is None:
        return None
    try:
        return instantiate(dict(config), _convert_="all")
    except Exception as error:  # Hydra 1.4 raises that of the target itself
        cause = error.__cause__ or error if isinstance(error, HydraException) else error
        if isinstance(cause, NwsSweepError):
            raise cause from None
        traceback.print_exc()
        lacks_argument = key != "dataset" and re.search("missing .* argument", str(cause))
        remedy = _IS_FUNCTION.format(key) if lacks_argument else _folder_of_files(config)
        raise error_type(f"{key} {config.get('_target_')}: {_describe(cause)}{remedy}") from error


def _folder_of_files(node: Mapping[str, Any]) -> str:
    """Where a dataset of torchvision reads its files, which its errors do not name; empty for others."""
    module, _, name = str(node.get("_target_")).rpartition(".")
    if module.startswith("torchvision.datasets") and "root" in node:
        inner = f"{name}/raw" if name.endswith("MNIST") else ""
        root = os.path.expanduser(node["root"])  # noqa: PTH111 - as torchvision, which keeps an unknown ~user
        return f"; put its files into {Path(root, inner).absolute()}"
    nested = (_folder_of_files(value) for value in node.values() if isinstance(value, Mapping))
    return next(filter(None, nested), "")


def _found_in(dataset: Any, look: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    """What ``look`` finds in the dataset; an exception there loses this hint only."""
    try:
        return look(dataset)
    except Exception:
        traceback.print_exc()
        return ()


def _make_step(config: Mapping[str, Any]) -> Any:
    training_step = _make("training_step", config, ConfigurationError)
    if not callable(training_step):
        got = f"got {type(training_step).__name__}, which cannot be called with a batch"
        raise ConfigurationError(f"training_step {config.get('_target_')}: {got}{_IS_FUNCTION.format('training_step')}")
    return training_step


def _forward_progress(connection: Connection) -> None:
    """Sends this package's INFO log lines to the parent; those of workers are dropped."""
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
