"""Counts the samples that workers have finished, before their batches enter the queue.

Batches reach the consumer in multiples of the workers; samples are finished one by one. The dataset in each worker
gets a subclass of its own class that counts. User code that reads ``get_worker_info().dataset`` sees the same object.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from nws_sweep.dataloading.digests import STREAM_SAMPLES, SampleLog
from nws_sweep.dataloading.recording import UNCOUNTED, BatchRecorder, Slots
from nws_sweep.system import processes, temporary

# Faster samples are counted per batch; those of an iterable dataset are counted until enough of them are logged.
_CHEAP_SAMPLE_S = 20e-6
# Other metaclasses change subclasses: samples of torch.Tensor become unpicklable, iterators of DataPipes invalid.
_PLAIN_METACLASSES = (type, abc.ABCMeta)


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """A ``worker_init_fn`` that ends the worker with its parent; with a recorder its dataset counts samples."""

    recorder: BatchRecorder | None = None  # the loader's collate_fn
    user_function: Callable[[int], Any] | None = None  # the user's own, called first
    threads: int | None = None  # of torch's operations; None for the number that DataLoader sets
    log: SampleLog | None = None  # receives some samples of the worker's first epoch

    def __call__(self, worker_id: int) -> None:
        """Runs in the worker before its first sample."""
        processes.die_with_parent()
        if folder := processes.socket_folder():
            temporary.register_process(folder)
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        if self.user_function is not None:
            self.user_function(worker_id)
        if self.recorder and (worker := get_worker_info()):
            self.recorder.start(worker_id)
            count_samples(worker.dataset, self.recorder.log.samples, worker_id, self.log, self.recorder.begin)


def count_samples(
    dataset: Any, slots: Slots, slot: int, log: SampleLog | None = None, begin: Callable[[], None] = lambda: None
) -> None:
    """Makes a dataset count its samples in a slot; marks the slot as uncounted if the class cannot be subclassed.

    Counting continues from the slot's value. Samples are logged only if that value is 0, in the worker's first epoch.
    """
    if slots[slot] == UNCOUNTED:  # since an earlier epoch
        return
    kind = type(dataset)
    methods = _iterable_methods if isinstance(dataset, IterableDataset) else _map_methods
    own = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    try:
        if type(kind) not in _PLAIN_METACLASSES:
            raise TypeError(kind)
        own |= methods(kind, slots, slot, None if slots[slot] else log, begin)
        dataset.__class__ = type(kind.__name__, (kind,), own)
    except Exception:  # built-in types, extension types and classes that restrict their subclasses
        slots[slot] = UNCOUNTED


def _map_methods(
    kind: Any, slots: Slots, slot: int, log: SampleLog | None, begin: Callable[[], None]
) -> dict[str, Any]:
    """``__getitems__``, which DataLoader calls instead of ``__getitem__`` for each sample."""
    clock, get_item, get_items = time.perf_counter, kind.__getitem__, getattr(kind, "__getitems__", None)
    cheap, batches = False, 0

    def counted(self: Any, indices: Sequence[int]) -> list[Any]:
        nonlocal cheap, batches
        begin()
        began = clock()
        if cheap or get_items is not None:
            samples = get_items(self, indices) if get_items else [get_item(self, index) for index in indices]
            slots[slot] += len(indices)
        else:
            samples = []
            for index in indices:
                samples.append(get_item(self, index))
                slots[slot] += 1
        cheap = clock() - began < _CHEAP_SAMPLE_S * len(indices)
        if log is not None:
            log.note_batch(slot, batches, indices, samples)
            batches += 1
        return samples

    def begun(self: Any, index: Any) -> Any:
        begin()
        return get_item(self, index)

    return {"__getitems__": counted, "__getitem__": begun}


def _iterable_methods(
    kind: Any, slots: Slots, slot: int, log: SampleLog | None, begin: Callable[[], None]
) -> dict[str, Any]:
    """``__iter__``, which counts all samples unless the first ``STREAM_SAMPLES`` are cheap, and logs those."""
    clock, iterate = time.perf_counter, kind.__iter__

    def counted(self: Any) -> Iterator[Any]:
        samples = iterate(self)
        seen, making_s = 0, 0.0
        while slots[slot] != UNCOUNTED:  # an earlier epoch of the same worker may have set it
            begin()
            began = clock()
            try:
                sample = next(samples)
            except StopIteration:
                return
            making_s += clock() - began
            if log is not None and seen < STREAM_SAMPLES:
                log.note(slot, seen, sample)
            seen += 1
            slots[slot] += 1
            yield sample
            if seen == STREAM_SAMPLES and making_s < _CHEAP_SAMPLE_S * seen:
                slots[slot] = UNCOUNTED
        begin()
        for sample in samples:
            yield sample
            begin()

    return {"__iter__": counted}
