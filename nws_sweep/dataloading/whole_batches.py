"""Tries whether a dataset gives whole batches, ``dataset[indices]``, that equal its
samples collated, and how fast.

Tried in a worker that makes one batch and ends: whatever the dataset does there, no
later sample is another one.
"""

import contextlib
import functools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, get_worker_info

from nws_sweep.dataloading import loaders
from nws_sweep.records import WholeBatches
from nws_sweep.system import torch_internals

_FEWEST, _MOST, _TRIED_S = 3, 64, 0.1  # batches that are timed, both ways
_HUNG_S = 5.0
# of a batch that is tried: larger batches have the same ratio, and three take long
MOST_SAMPLES = 256


def try_whole_batches(loader: "DataLoader[Any]", samples: int) -> WholeBatches | None:
    """Times batches of this size; None if whole batches are not equal, if anything
    fails, and without fork.

    Args:
        loader: Of a map-style dataset, with a worker.
        samples: Of a batch.
    """
    if loaders.start_method(loader) != "fork":  # a worker starts in seconds
        return None
    with torch.random.fork_rng(devices=[]):
        trial: DataLoader[Any] = DataLoader(
            loader.dataset,
            batch_sampler=[[0]],
            collate_fn=functools.partial(_try, loader.collate_fn, samples),
            num_workers=1,
            worker_init_fn=loader.worker_init_fn,
            timeout=_HUNG_S,
            multiprocessing_context=loader.multiprocessing_context,
        )
        iterator = iter(trial)
        times: WholeBatches | None = None
        with contextlib.suppress(Exception):  # code of the user may raise anything
            times = next(iterator)
        _end(iterator)
    return times


def _end(iterator: Any) -> None:
    """Kills the worker: an orderly end may take 5 s, in a window if the garbage
    collector ends the worker."""
    torch_internals.raise_at_exit(iterator, is_wanted=False)
    for worker in torch_internals.workers(iterator):
        worker.kill()
    torch_internals.end_workers(iterator)


def _try(
    collate_fn: Callable[[list[Any]], Any], samples: int, _: Sequence[Any]
) -> WholeBatches | None:
    """Runs in the worker, as its ``collate_fn``."""
    worker = get_worker_info()
    assert worker is not None
    dataset: Any = worker.dataset
    length = len(dataset)
    order = random.Random(0).sample(range(length), min(length, _MOST * samples))
    # The other way takes the batches in another order: no batch is in the caches
    # since it was read the first way.
    other_order = [*order[:samples], *order[:samples:-1]]
    drop_last = length > samples
    batches = BatchSampler(order, samples, drop_last)
    collated = iter(DataLoader(dataset, batch_sampler=batches, collate_fn=collate_fn))
    indexed = iter(
        DataLoader(
            dataset,
            batch_size=None,
            sampler=BatchSampler(other_order, samples, drop_last),
        )
    )
    if not _are_equal(next(indexed), next(collated)):
        return None
    return _time_both(collated, indexed, len(order) // samples - 2)


def _time_both(
    collated: Iterator[Any], indexed: Iterator[Any], most: int
) -> WholeBatches:
    collated_s: list[float] = []
    indexed_s: list[float] = []
    until_s = time.perf_counter() + _TRIED_S
    while len(indexed_s) < _FEWEST or (
        len(indexed_s) < most and time.perf_counter() < until_s
    ):
        collated_s.append(_seconds(collated))
        indexed_s.append(_seconds(indexed))
    return WholeBatches(statistics.median(collated_s), statistics.median(indexed_s))


def _seconds(batches: Iterator[Any]) -> float:
    began_s = time.perf_counter()
    next(batches)
    return time.perf_counter() - began_s


def _are_equal(batch: Any, expected: Any) -> bool:
    """Whether two batches are equal, a tuple and a list of the same parts included."""
    if isinstance(batch, Mapping):
        return batch.keys() == expected.keys() and all(
            _are_equal(batch[key], expected[key]) for key in batch
        )
    if isinstance(batch, list | tuple):
        return len(batch) == len(expected) and all(map(_are_equal, batch, expected))
    if isinstance(batch, torch.Tensor):
        if batch.dtype != expected.dtype or batch.shape != expected.shape:
            return False
        are_nan = (batch != batch) & (expected != expected)  # noqa: PLR0124
        return bool(((batch == expected) | are_nan).all())
    return type(batch) is type(expected) and bool(batch == expected)
