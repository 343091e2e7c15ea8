"""What the workers of a pool report to the main process: that they can make batches,
and what each batch costs."""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler
from multiprocessing.sharedctypes import RawArray
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from nws_sweep.dataloading import sharing
from nws_sweep.dataloading.recording import BatchLog, BatchTimer
from nws_sweep.errors import LONGEST_LINE, one_line
from nws_sweep.system import processes, torch_internals

STARTING, READY, FAILED = range(3)


class WorkerStates:
    """One state of each worker, in shared memory.

    A worker of a map-style dataset is ready after ``worker_init_fn``; one of an
    iterable dataset after its first batch, since only then it is known whether it has
    samples. It has failed if it has none, or if ``worker_init_fn`` or, with an iterable
    dataset, its first batch raised an exception, and the first one if the rehearsal
    did.
    """

    def __init__(self, num_workers: int) -> None:
        self._states = RawArray("b", num_workers)
        # 1 if the dataset has read ``get_worker_info().num_workers``; one that has
        # not cannot distribute its samples.
        self.number_asked = RawArray("b", 1)
        self._error = RawArray("c", LONGEST_LINE)

    def set(self, worker: int, state: int, error: BaseException | None = None) -> None:
        """Called in the worker. Its first state but ``STARTING`` stays."""
        if self._states[worker] != STARTING:
            return
        if error is not None and not isinstance(error, StopIteration):
            self._error.value = one_line(f"{type(error).__name__}: {error}").encode()[
                : LONGEST_LINE - 1
            ]
        self._states[worker] = state

    @property
    def error(self) -> str:
        """The exception of the worker that has failed last; empty if none has."""
        return str(self._error.value, errors="ignore")

    def count(self, state: int) -> int:
        """Workers in this state."""
        return list(self._states).count(state)


@dataclass(frozen=True)
class WorkerProbe:
    """A ``worker_init_fn`` that times the batches of the worker, and reports its state.

    In a program without workers, samples or ``collate_fn`` may use what a worker
    cannot, such as an accelerator, or make what cannot be sent, such as a tensor with a
    history. So the first worker first makes a batch that is not used.

    Attributes:
        timer: Of the pool.
        states: Of the pool.
        user_function: The program's ``worker_init_fn``.
        is_iterable: Whether the dataset is iterable.
        collate_fn: The program's.
        rehearse: Makes the batch of the first worker; None if the program has workers.
        is_first: Whether the program has no workers of its own.
        reopens_files: Whether forked workers get positions of their own in open files:
            with other workers than the program's they would share them.
    """

    timer: BatchTimer
    states: WorkerStates
    user_function: Callable[[int], Any] | None
    is_iterable: bool
    collate_fn: Callable[[Any], Any] | None
    rehearse: Callable[[], Any] | None
    is_first: bool
    reopens_files: bool

    def __call__(self, worker_id: int) -> None:
        """Runs in the worker before its first batch. The dataset, which user code sees,
        is not changed.

        If a part of this class fails, the worker still makes batches.
        """
        if self.is_iterable:
            with contextlib.suppress(Exception):
                _notice_number(self.states)
        if self.is_first:
            with contextlib.suppress(Exception):
                processes.drop_signal_handlers()
        if self.reopens_files:
            with contextlib.suppress(Exception):
                sharing.reopen_files()
        if self.user_function is not None:
            self.timer.initialise(
                self._telling(self.user_function, worker_id, STARTING), worker_id
            )
        if self.rehearse is not None and not worker_id:
            try:
                ForkingPickler.dumps(self.rehearse())  # as the queue does
                resource_sharer.stop()  # it waits for a receiver of the tensors
            except Exception as error:  # the pool is not used
                self.states.set(worker_id, FAILED, error)
        worker = get_worker_info()
        with contextlib.suppress(Exception):
            self.timer.start(worker_id, worker and worker.dataset, self.collate_fn)
        with contextlib.suppress(Exception):
            self._tell_state(worker_id)

    def _tell_state(self, worker_id: int) -> None:
        if not self.is_iterable:
            self.states.set(worker_id, READY)
            return
        _, fetcher = torch_internals.fetchers()
        # calls ``iter(dataset)``
        fetcher.__init__ = self._telling(fetcher.__init__, worker_id, STARTING)
        fetcher.fetch = self._telling(fetcher.fetch, worker_id, READY)

    def _telling(
        self, step: Callable[..., Any], worker_id: int, state: int
    ) -> Callable[..., Any]:
        """A step of the worker, which then reports the state, or its exception."""

        def telling(*arguments: Any) -> Any:
            try:
                result = step(*arguments)
            except BaseException as error:
                self.states.set(worker_id, FAILED, error)
                raise
            self.states.set(worker_id, state)
            return result

        return telling


def probe_of(
    loader: DataLoader[Any],
    log: BatchLog,
    states: WorkerStates,
    rehearsal: Any,
    *,
    is_first: bool,
    reopens_files: bool,
) -> WorkerProbe:
    """The probe of the workers of a pool.

    Args:
        loader: The pool's copy of the DataLoader, with the program's functions.
        log: Of the pool.
        states: Of the pool.
        rehearsal: Index list of a batch that the first worker makes; None for none.
        is_first: Whether the program has no workers of its own.
        reopens_files: See ``WorkerProbe``.
    """
    is_iterable, rehearse = isinstance(loader.dataset, IterableDataset), None
    if rehearsal is not None and not is_iterable:
        rehearse = functools.partial(torch_internals.fetch_of(loader), rehearsal)
    return WorkerProbe(
        timer=BatchTimer(log),
        states=states,
        user_function=loader.worker_init_fn,
        is_iterable=is_iterable,
        collate_fn=loader.collate_fn,
        rehearse=rehearse,
        is_first=is_first,
        reopens_files=reopens_files,
    )


def _notice_number(states: WorkerStates) -> None:
    """Gives the object of ``get_worker_info`` a class that notices reads of
    ``num_workers``."""
    info = get_worker_info()

    class Noticing(type(info)):  # type: ignore[misc]
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            if name == "num_workers":
                states.number_asked[0] = 1
            return super().__getattribute__(name)

    object.__setattr__(info, "__class__", Noticing)
