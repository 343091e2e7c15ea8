"""Counts the samples that workers have finished: batches reach the training step in
multiples of the workers.

The class of the dataset in each worker is replaced by a subclass. User code that reads
``get_worker_info().dataset`` sees the same object.
"""

import abc
import time
from collections.abc import Iterator, MutableSequence, Sequence
from typing import Any

from torch.utils.data import IterableDataset

from nws_sweep.dataloading.digests import STREAM_SAMPLES, SampleLog

Slots = MutableSequence[int]  # the samples of each worker
UNCOUNTED = -1  # in place of the samples of a worker
_END = object()
# Faster samples are counted per batch; samples of an iterable dataset until enough
# samples are logged.
_CHEAP_SAMPLE_S = 20e-6
# Other metaclasses change subclasses: samples of torch.Tensor become unpicklable,
# iterators of DataPipes invalid.
_PLAIN_METACLASSES = (type, abc.ABCMeta)


def count_samples(
    dataset: Any, slots: Slots, slot: int, log: SampleLog | None = None
) -> None:
    """Makes a dataset count its samples in a slot; marks the slot as uncounted if the
    class cannot be subclassed.

    Counting continues from the slot's value. Samples are logged only if that value is
    0, in the worker's first epoch.
    """
    if slots[slot] == UNCOUNTED:  # since an earlier epoch
        return
    kind = type(dataset)
    make_methods = (
        _iterable_methods if isinstance(dataset, IterableDataset) else _map_methods
    )
    members = {
        name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")
    }
    try:
        if type(kind) not in _PLAIN_METACLASSES:
            raise TypeError(kind)
        members |= make_methods(kind, slots, slot, None if slots[slot] else log)
        dataset.__class__ = type(kind.__name__, (kind,), {"__slots__": (), **members})
    except Exception:
        # built-in types, extension types and classes that restrict their subclasses
        slots[slot] = UNCOUNTED


def _map_methods(
    kind: Any, slots: Slots, slot: int, log: SampleLog | None
) -> dict[str, Any]:
    """Makes ``__getitems__``, which DataLoader calls instead of ``__getitem__`` for
    each sample."""
    clock, get_item, get_items = (
        time.perf_counter,
        kind.__getitem__,
        getattr(kind, "__getitems__", None),
    )
    is_cheap, batches = False, 0

    def counted(self: Any, indices: Sequence[int]) -> list[Any]:
        nonlocal is_cheap, batches
        began_s = clock()
        if get_items is not None:
            samples: list[Any] = get_items(self, indices)
            slots[slot] += len(indices)
        elif is_cheap:
            samples = [get_item(self, index) for index in indices]
            slots[slot] += len(indices)
        else:
            samples = []
            for index in indices:
                samples.append(get_item(self, index))
                slots[slot] += 1
        is_cheap = clock() - began_s < _CHEAP_SAMPLE_S * len(indices)
        if log is not None:
            log.note_batch(slot, batches, indices, samples)
            batches += 1
        return samples

    return {"__getitems__": counted}


def _iterable_methods(
    kind: Any, slots: Slots, slot: int, log: SampleLog | None
) -> dict[str, Any]:
    """Makes ``__iter__``, which counts samples and logs ``STREAM_SAMPLES``; if these
    are cheap, it counts no more."""
    clock, iterate = time.perf_counter, kind.__iter__

    def counted(self: Any) -> Iterator[Any]:
        samples = iterate(self)
        number, making_s = 0, 0.0
        # an earlier epoch of the same worker may have set it
        while slots[slot] != UNCOUNTED:
            began_s = clock()
            sample = next(samples, _END)
            if sample is _END:
                return
            making_s += clock() - began_s
            if log is not None and number < STREAM_SAMPLES:
                log.note(slot, number, sample)
            number += 1
            slots[slot] += 1
            yield sample
            if number == STREAM_SAMPLES and making_s < _CHEAP_SAMPLE_S * number:
                slots[slot] = UNCOUNTED
        # ``yield from samples`` calls iter(), which is this function for a dataset
        # whose ``__iter__`` returns itself.
        yield from iter(samples.__next__, _END)

    return {"__iter__": counted}
