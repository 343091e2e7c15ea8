"""Times the stages of two batches of each of the first workers, outside of the windows
that count.

The first batch of a worker includes one-time work, such as imports, and soon after the
start memory that is shared with the main process is copied. So an early batch is timed,
and a later one if there is time.
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.sharedctypes import RawArray
from typing import Any

import msgspec
import threadpoolctl
import torch

from nws_sweep.dataloading.clocks import Clocks
from nws_sweep.dataloading.stages.clock import StageClock
from nws_sweep.dataloading.stages.functions import StageFunctions
from nws_sweep.records import StageTime

MOST_WORKERS = 4  # that time stages
_LATER = 5  # number of the first batch of a worker that is a later batch
_NONE = -1  # in place of the number of a batch
_SLOT_BYTES = 32_768
# ratio of the CPU time of all threads and of this one from which on libraries are asked
_OTHER_THREADS = 1.25


class StageSlots:
    """The stages of an early and a later batch of each of the first workers, in shared
    memory."""

    def __init__(self, num_workers: int) -> None:
        self._workers = min(num_workers, MOST_WORKERS)
        self._text = RawArray("c", 2 * self._workers * _SLOT_BYTES)
        self._batches = RawArray("q", [_NONE] * (2 * self._workers))
        self._is_open = RawArray("b", 1)

    def open(self, is_open: bool) -> None:
        """Called in the main process: whether batches may be slower from now on."""
        self._is_open[0] = is_open

    def is_due(self, worker: int, batch: int) -> bool:
        """Called in a worker before its batch of this number: whether its calls are to
        be timed."""
        return (
            bool(self._is_open[0])
            and worker < self._workers
            and self._batches[_slot(worker, batch)] == _NONE
        )

    def write(self, worker: int, batch: int, stages: tuple[StageTime, ...]) -> None:
        """Called in a worker after its batch of this number; of too many stages the
        first are kept."""
        text = msgspec.json.encode(stages)
        while len(text) >= _SLOT_BYTES:
            stages = stages[: len(stages) // 2]
            text = msgspec.json.encode(stages)
        slot = _slot(worker, batch)
        begin = slot * _SLOT_BYTES
        self._text[begin : begin + len(text)] = text
        self._batches[slot] = batch

    def read(self, worker: int, batch: int) -> tuple[StageTime, ...]:
        """Returns the stages of a worker's batch; empty if its calls were not timed."""
        slot = _slot(worker, batch)
        if worker >= self._workers or self._batches[slot] != batch:
            return ()
        begin = slot * _SLOT_BYTES
        text = self._text[begin : begin + _SLOT_BYTES].rstrip(b"\0")
        return msgspec.json.decode(text, type=tuple[StageTime, ...])


def _slot(worker: int, batch: int) -> int:
    return 2 * worker + (batch >= _LATER)


class StageTimer:
    """Times the stages of one batch, in the thread that makes it.

    Args:
        dataset, collate_fn: Of the loader.
        read: Reads the clocks of this thread.
    """

    def __init__(
        self, dataset: Any, collate_fn: Any, read: Callable[[], Clocks]
    ) -> None:
        functions = StageFunctions(dataset, collate_fn)
        self._clock = StageClock(functions.root, read)
        name = "monitoring" if sys.version_info >= (3, 12) else "exchanging"
        noticing: Any = importlib.import_module(f"{__package__}.{name}")
        # Ends the noticing of calls; None if another tool profiles this program.
        self._end: Callable[[], None] | None = noticing.begin(self._clock, functions)
        self._clock.begin()

    def stop(self) -> tuple[StageTime, ...]:
        """Returns the stages of the batch, which is finished; empty if another tool
        profiles this program."""
        self._clock.end()
        if self._end is None:
            return ()
        self._end()
        batch, *others = self._clock.times()
        if batch.all_cpu_s > _OTHER_THREADS * batch.cpu_s:
            batch = replace(batch, pools=_pools())
        return (batch, *others)


def _pools() -> str:
    """Names the libraries that have several threads in this process, with their
    number."""
    counts = {"torch": torch.get_num_threads()}
    for name, count in (("cv2", "getNumThreads"), ("pyarrow", "cpu_count")):
        if name in sys.modules:
            counts[name] = getattr(sys.modules[name], count)()
    for pool in threadpoolctl.threadpool_info():
        if pool["user_api"] == "blas":
            counts[pool["internal_api"]] = pool["num_threads"]
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count > 1)
